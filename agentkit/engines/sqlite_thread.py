"""A thread that owns a connection: work comes in from event loops, and results go back.

The writer commits all that has gathered in one transaction (group commit); the reader reads in one snapshot, and between looks whether
another connection has committed. It knows no table.
"""

import asyncio
import logging
import sqlite3
import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar

import anyio

from agentkit.engines.sqlite_schema import engine_error
from agentkit.errors import AgentKitError, EngineError

logger = logging.getLogger("agentkit")

T = TypeVar("T")
Call = Callable[[Callable[[], object]], object]

GROUP = 512
"""Pieces of work in one transaction: what waits longer waits for the next."""


def call_soon() -> Call:
    """Return the function by which a thread calls something in the running loop.

    Raises:
        RuntimeError: no loop is running.
    """
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        trio = sys.modules.get("trio")
        if trio is None:
            raise
        soon: Call = trio.lowlevel.current_trio_token().run_sync_soon
        return soon


class _Job:
    __slots__ = ("call", "error", "result", "wake", "work")

    def __init__(
        self, work: Callable[[sqlite3.Connection], Any], call: Call, wake: Callable[[], object]
    ) -> None:
        self.work = work
        self.call = call
        self.wake = wake
        """Wakes who waits, in its loop."""
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Do the work. A refusal is a result: whoever refuses does so before it writes."""
        self.error = None
        try:
            self.result = self.work(connection)
        except AgentKitError as error:
            self.error = error


class SQLiteThread:
    """One thread, one connection."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        *,
        kind: Literal["writer", "reader"],
        check: Callable[[], None],
        idle: Callable[[sqlite3.Connection], float | None],
    ) -> None:
        """Start the thread.

        Args:
            name: for debuggers.
            connect: opens the connection, here and now.
            kind: a writer commits; a reader only reads.
            check: called before work; raises `EngineError` where the file must not be used any more.
            idle: called in the thread after work, and when the seconds that it returned last have passed; None: only after work.

        Raises:
            sqlite3.Error: the connection cannot be opened.
        """
        self._connection = connect()
        self._begin = "BEGIN IMMEDIATE" if kind == "writer" else "BEGIN"
        self._check = check
        self._idle = idle
        self._queue: SimpleQueue[_Job | Literal["look", "end"]] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do a piece of work in the thread and return its result. It may be done twice, where others of its transaction failed.

        Cancelling stops the wait, not the work.

        Raises:
            EngineError: it failed; nothing of it was kept.
        """
        if self._is_closed:
            raise EngineError("the engine is closed")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            done = anyio.Event()
            job = _Job(work, call_soon(), done.set)
            self._queue.put(job)
            await done.wait()
        else:  # a bare future costs a fifth of an event, and this is done for every append
            future = loop.create_future()
            job = _Job(work, loop.call_soon_threadsafe, partial(_resolve, future))
            self._queue.put(job)
            await future
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def poke(self) -> None:
        """Have the thread look at its `idle` anew."""
        self._queue.put("look")

    async def aclose(self) -> None:
        """Do what waits, close the connection, and end the thread. Again changes nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put("end")
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _work(self) -> None:
        wait: float | None = 0.0
        try:
            while True:
                jobs, ends = self._gather(wait)
                if jobs:
                    self._transact(jobs)
                try:
                    wait = self._idle(self._connection)
                except Exception as error:  # whoever asks for something is told; this only looks around
                    if not isinstance(error, sqlite3.Error | EngineError):
                        logger.exception("%s could not look around", self._thread.name)
                    self._roll_back()
                    wait = 1.0
                if jobs:
                    _deliver(
                        jobs
                    )  # last: a thread that waits at once does not fight with the one that it woke
                if ends:
                    return
        finally:
            self._connection.close()

    def _gather(self, wait: float | None) -> tuple[list[_Job], bool]:
        """Return the work that waits, and whether it is the last."""
        jobs: list[_Job] = []
        try:
            job = self._queue.get(timeout=wait)
        except Empty:
            return jobs, False
        while True:
            if job == "end":
                return jobs, True
            if isinstance(job, _Job):
                jobs.append(job)
            if len(jobs) >= GROUP or self._queue.empty():
                return jobs, False
            job = self._queue.get_nowait()  # nobody else takes from it

    def _transact(self, jobs: list[_Job]) -> None:
        """Do the jobs in one transaction; where that fails, each in one of its own."""
        connection = self._connection
        try:
            self._check()
            connection.execute(self._begin)
        except (EngineError, sqlite3.Error) as error:
            for job in jobs:
                job.error = error if isinstance(error, EngineError) else engine_error(error)
            return
        try:
            for job in jobs:
                job.run(connection)
            connection.execute("COMMIT")
        except Exception as error:  # a thread must not die: whoever asked gets it
            self._roll_back()
            if len(jobs) > 1:
                for job in jobs:
                    self._transact([job])
            else:
                jobs[0].error = engine_error(error) if isinstance(error, sqlite3.Error) else error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass  # SQLite has done so itself


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():  # who waits may have been cancelled
        future.set_result(None)


def _deliver(jobs: list[_Job]) -> None:
    """Wake who waits, once per loop."""
    if len(jobs) == 1:
        try:
            jobs[0].call(jobs[0].wake)
        except RuntimeError:
            pass  # that loop is gone, and who waited in it
        return
    by_loop: dict[Call, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.call, []).append(job)
    for call, done in by_loop.items():
        try:
            call(partial(_wake, done))
        except RuntimeError:
            pass  # that loop is gone, and all who waited in it


def _wake(jobs: list[_Job]) -> None:
    for job in jobs:
        job.wake()
