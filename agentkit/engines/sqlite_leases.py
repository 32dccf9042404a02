"""The SQLite engine's leases and signals. See `Leases` and `Control`.

Times of leases are the machine's monotonic clock, which all its processes share: a clock that somebody sets does not end a lease. What
lies further ahead than a lease can last is from before the machine was started, and has expired.
"""

import sqlite3
import time as clock
from collections.abc import Callable

import anyio

from agentkit.background import spawn
from agentkit.engine import Lease, Signal
from agentkit.engines.sqlite_follower import Follower, Handler, Wait
from agentkit.engines.sqlite_store import Store, forget_announced
from agentkit.engines.sqlite_thread import SQLiteThread
from agentkit.engines.stored import dump_data
from agentkit.errors import AppendRejected, EngineError
from agentkit.log import Topic

SIGNAL_AGE = 60.0
"""Seconds that a signal waits for a run that does not listen: one that is about to begin, or to go on."""
_EXPIRED = "(expires < :now OR expires > :now + ttl)"
_HOLDER = f"SELECT run FROM leases WHERE topic = :topic AND NOT {_EXPIRED}"  # noqa: S608 - our own words


class SQLiteLeases:
    """Leases in a SQLite file: first come, first served, over all its processes."""

    def __init__(
        self, store: Store, writer: SQLiteThread, reader: SQLiteThread, follower: Follower, ttl: float
    ) -> None:
        self._store = store
        self._writer = writer
        self._reader = reader
        self._follower = follower
        self._ttl = ttl
        self.heartbeat = ttl / 3

    async def acquire(self, topic: Topic, run: str, *, wait: bool) -> Lease | None:
        """See `Leases.acquire`."""
        with anyio.CancelScope(
            shield=True
        ):  # what was asked is answered: a lease that nobody knew of would last
            lease, number = await self._writer.do(
                lambda connection: self._try(connection, topic, run, 0, wait=wait)
            )
        if lease is not None:
            await self._give_back_if_cancelled(lease)
            return lease
        return await self._wait(Wait(topic, number, anyio.Event()), run) if wait else None

    async def holder(self, topic: Topic) -> str | None:
        """See `Leases.holder`."""

        def read(connection: sqlite3.Connection) -> str | None:
            row = self._store.find(connection, topic)
            found = connection.execute(_HOLDER, {"topic": row.id, "now": clock.monotonic()}).fetchone()
            return found[0] if found else None

        return await self._reader.do(read)

    async def renew(self, lease: Lease) -> None:
        """See `Leases.renew`."""

        def renew(connection: sqlite3.Connection) -> None:
            row = self._store.find(connection, lease.topic)
            changed = connection.execute(
                "UPDATE leases SET expires = ? WHERE topic = ? AND fence = ?",
                (clock.monotonic() + self._ttl, row.id, lease.fence),
            )
            if not changed.rowcount:
                raise AppendRejected(f"the lease {lease.fence} of {lease.topic.path} was lost")

        await self._writer.do(renew)

    async def release(self, lease: Lease) -> None:
        """See `Leases.release`."""

        def release(connection: sqlite3.Connection) -> None:
            row = self._store.find(connection, lease.topic)
            connection.execute("DELETE FROM leases WHERE topic = ? AND fence = ?", (row.id, lease.fence))

        await self._writer.do(release)
        self._follower.kick()

    async def _wait(self, wait: Wait, run: str) -> Lease:
        """Wait for the thread; the place in its line is kept alive as a lease is."""
        self._follower.waits.add(wait)
        lease: Lease | None = None
        try:
            self._follower.watch()
            self._follower.kick()
            while lease is None:
                with anyio.move_on_after(self.heartbeat):
                    await wait.may_try.wait()
                wait.may_try = anyio.Event()
                with anyio.CancelScope(shield=True):
                    lease, wait.id = await self._writer.do(
                        lambda connection: self._try(connection, wait.topic, run, wait.id, wait=True)
                    )
            await self._give_back_if_cancelled(lease)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._leave(wait)
            raise
        finally:
            self._follower.waits.discard(wait)
        return lease

    async def _leave(self, wait: Wait) -> None:
        def leave(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM waiters WHERE id = ?", (wait.id,))

        try:
            await self._writer.do(leave)
        except EngineError:
            return  # the place ends by itself, since nobody keeps it alive
        self._follower.kick()

    async def _give_back_if_cancelled(self, lease: Lease) -> None:
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.release(lease)
            raise

    def _try(
        self, connection: sqlite3.Connection, topic: Topic, run: str, number: int, *, wait: bool
    ) -> tuple[Lease | None, int]:
        """Return the lease, or None with a place in the line: work for the writer's thread."""
        row = self._store.require(connection, topic)
        expire(connection, self._store, row.id, spare=number)
        forget_announced(connection, row.id, run)
        taken = connection.execute("SELECT 1 FROM leases WHERE topic = ?", (row.id,)).fetchone()
        (first,) = connection.execute("SELECT min(id) FROM waiters WHERE topic = ?", (row.id,)).fetchone()
        now = clock.monotonic()
        if taken is None and first in (None, number):
            # Above all fences that were ever given, also where a file was put back from a copy.
            fence = max(self._store.find(connection, topic).fence + 1, int(clock.time() * 1000))
            connection.execute("UPDATE topics SET fence = ? WHERE id = ?", (fence, row.id))
            connection.execute("DELETE FROM waiters WHERE id = ?", (number,))
            connection.execute(
                "INSERT INTO leases (topic, run, fence, expires, ttl) VALUES (?, ?, ?, ?, ?)",
                (row.id, run, fence, now + self._ttl, self._ttl),
            )
            return Lease(topic, run, fence), 0
        if wait:
            kept = connection.execute(
                "UPDATE waiters SET expires = ? WHERE id = ?", (now + self._ttl, number)
            )
            if not kept.rowcount:
                number = (
                    connection.execute(
                        "INSERT INTO waiters (topic, run, expires, ttl) VALUES (?, ?, ?, ?)",
                        (row.id, run, now + self._ttl, self._ttl),
                    ).lastrowid
                    or 0
                )
        return None, number


def has_expired(connection: sqlite3.Connection) -> bool:
    """Tell whether any lease, place in a line or announcement has expired; it takes no lock."""
    values = {"now": clock.monotonic()}
    for table in ("leases", "waiters", "announced"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE {_EXPIRED} LIMIT 1", values).fetchone():  # noqa: S608
            return True
    return False


def expire(connection: sqlite3.Connection, store: Store, topic: int | None = None, *, spare: int = 0) -> None:
    """End the runs whose leases, places in the line or announcements have expired: of one topic, or of all."""
    values = {"now": clock.monotonic(), "topic": topic, "spare": spare}
    of_topic = "(:topic IS NULL OR topic = :topic)"
    lost = connection.execute(
        f"DELETE FROM leases WHERE {_EXPIRED} AND {of_topic} RETURNING topic, run",  # noqa: S608 - our own words
        values,
    ).fetchall()
    lost += connection.execute(
        f"DELETE FROM waiters WHERE {_EXPIRED} AND {of_topic} AND id <> :spare RETURNING topic, run",  # noqa: S608
        values,
    ).fetchall()
    for found, run in lost:
        store.lose(connection, found, run)
    unheard = connection.execute(
        f"DELETE FROM announced WHERE {_EXPIRED} AND {of_topic} RETURNING topic, run",  # noqa: S608 - our own words
        values,
    ).fetchall()
    for found, run in unheard:
        here = {"topic": found, "run": run}
        alive = connection.execute(
            "SELECT 1 FROM leases WHERE topic = :topic AND run = :run"
            " UNION ALL SELECT 1 FROM waiters WHERE topic = :topic AND run = :run",
            here,
        ).fetchone()
        if alive is None:
            store.end_lost(connection, found, run)


def drop_old_signals(connection: sqlite3.Connection) -> None:
    """Let go of signals that nobody took."""
    connection.execute("DELETE FROM signals WHERE time < ?", (clock.time() - SIGNAL_AGE,))


class SQLiteControl:
    """Signals through a SQLite file; within a process, a call."""

    def __init__(self, store: Store, writer: SQLiteThread, follower: Follower) -> None:
        self._store = store
        self._writer = writer
        self._follower = follower

    async def send(self, topic: Topic, run: str, signal: Signal) -> None:
        """See `Control.send`."""
        handler = self._follower.handlers.get((topic, run))
        if handler is not None:
            handler(signal)
            return
        text = dump_data(signal.data)

        def send(connection: sqlite3.Connection) -> None:
            row = self._store.require(connection, topic)
            connection.execute(
                "INSERT INTO signals (topic, run, kind, data, time) VALUES (?, ?, ?, ?, ?)",
                (row.id, run, signal.kind, text, clock.time()),
            )

        await self._writer.do(send)

    async def listen(self, topic: Topic, run: str, handler: Handler) -> Callable[[], None]:
        """See `Control.listen`. Signals that came shortly before are handed on too."""
        self._follower.handlers[topic, run] = handler
        self._follower.watch()
        self._follower.kick()
        return lambda: self._follower.handlers.pop((topic, run), None) and None

    def drop(self, numbers: list[int]) -> None:
        """Let signals go that were handed on."""

        def drop(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM signals WHERE id = ?", [(number,) for number in numbers])

        spawn(lambda: self._writer.do(drop), name="signals of an SQLite engine")
