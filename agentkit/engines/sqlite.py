"""The SQLite engine: logs, threads, leases and signals in one file, for all processes of one machine.

Durable: what was acknowledged outlives any process, and with `full_sync` a power cut. One thread writes, and commits all that has
gathered at once; one reads. The loop never waits for the disk. A failure is an `EngineError` without a path, and nothing of the failed
call was kept. A file that is damaged, deleted or another program's is refused, never made anew.
"""

import os
import sqlite3
import time as clock
from functools import partial
from pathlib import Path

from agentkit.engines.retention import Retention
from agentkit.engines.sqlite_follower import Follower
from agentkit.engines.sqlite_leases import (
    SQLiteControl,
    SQLiteLeases,
    drop_old_signals,
    expire,
    has_expired,
)
from agentkit.engines.sqlite_log import SQLiteLog
from agentkit.engines.sqlite_schema import connect, engine_error, set_patience, set_up
from agentkit.engines.sqlite_store import Store
from agentkit.engines.sqlite_thread import SQLiteThread
from agentkit.engines.sqlite_threads import SQLiteThreads
from agentkit.errors import EngineError

HOUSEKEEPING = 60.0
"""Seconds between two looks for signals that nobody took and logs that nobody writes to."""
WAL_SIZE = 16 * 1024 * 1024
"""Bytes of the write-ahead log from which on we empty it: where somebody always reads, SQLite never comes to do so by itself."""
WAL_PATIENCE = 0.1
"""Seconds that emptying waits for readers: nobody writes meanwhile. The next sweep tries again."""


class SQLiteEngine:
    """Everything in one file. Any number of processes may open it; in each, it belongs to one event loop at a time."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        retention: Retention | None = None,
        lease: float = 15.0,
        poll: float = 0.005,
        busy_timeout: float = 5.0,
        full_sync: bool = False,
    ) -> None:
        """Open a file; it is made where there is none.

        Args:
            path: the file, on a disk of this machine.
            retention: how much of each log is kept.
            lease: seconds after which a run whose process is silent counts as lost.
            poll: seconds between two looks for what other processes have committed, while somebody watches.
            busy_timeout: seconds to wait for other processes' locks.
            full_sync: flush to the disk at each commit. Without it a power cut may take the last moments, never more.

        Raises:
            EngineError: the file cannot be used.
        """
        self._path = Path(path)
        store = Store(set_up(self._path, busy_timeout=busy_timeout), retention or Retention())
        open_connection = partial(connect, self._path, busy_timeout=busy_timeout, full=full_sync)
        self._store = store
        self._busy_timeout = busy_timeout
        self._sweep_every = lease / 5
        self._next_sweep = self._next_cleaning = 0.0
        self._follower = Follower(store, poll)
        try:
            self._file = self._identity()
            self._writer = SQLiteThread(
                "agentkit sqlite writer", open_connection, kind="writer", check=self._check, idle=self._sweep
            )
            self._reader = SQLiteThread(
                "agentkit sqlite reader",
                open_connection,
                kind="reader",
                check=self._check,
                idle=self._follower.look,
            )
        except sqlite3.Error as error:
            raise engine_error(error) from None
        self.log = SQLiteLog(store, self._writer, self._reader, self._follower)
        self.threads = SQLiteThreads(store, self._writer, self._reader, lease)
        self.leases = SQLiteLeases(store, self._writer, self._reader, self._follower, lease)
        self.control = SQLiteControl(store, self._writer, self._follower)
        self._follower.begin(self._reader, self.control.drop)

    async def aclose(self) -> None:
        """Write what waits, and let go of the file."""
        await self._follower.aclose()
        await self._writer.aclose()
        await self._reader.aclose()

    def _identity(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise EngineError(
                f"the engine's SQLite file is gone: {error.strerror or type(error).__name__}"
            ) from None
        return found.st_dev, found.st_ino

    def _check(self) -> None:
        """Refuse a file that was deleted or put in the place of ours: SQLite would go on with what nobody can find again."""
        if self._identity() != self._file:
            raise EngineError("the engine's SQLite file was replaced by another")

    def _sweep(self, connection: sqlite3.Connection) -> float:
        """End the runs of dead owners, now and then: the writer's idle call, in its thread."""
        now = clock.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + self._sweep_every
            cleans = now >= self._next_cleaning
            if cleans:
                self._next_cleaning = now + HOUSEKEEPING
            if cleans or has_expired(connection):
                self._check()
                connection.execute("BEGIN IMMEDIATE")
                expire(connection, self._store)
                if cleans:
                    drop_old_signals(connection)
                    self._store.trim_old(connection)
                connection.execute("COMMIT")
            self._empty_wal(connection)
        return max(self._next_sweep - clock.monotonic(), 0.0)

    def _empty_wal(self, connection: sqlite3.Connection) -> None:
        """Bring a write-ahead log that has grown large into the file."""
        try:
            size = os.stat(f"{self._path}-wal").st_size
        except OSError:
            return
        if size > WAL_SIZE:
            set_patience(connection, WAL_PATIENCE)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                set_patience(connection, self._busy_timeout)
