"""What a conformance check of an engine works on, and the words it is written in. The table is `engines`."""

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from agentkit.content import JsonValue, Usage
from agentkit.engine import Engine, Lease
from agentkit.envelope import draft_all
from agentkit.errors import AppendRejected
from agentkit.events import CustomEvent, Event, RunFinished, RunStarted
from agentkit.log import EARLIEST, Cursor, Page, Record, Tail, Topic

OpenEngine: TypeAlias = Callable[[], Engine]
"""Opens an engine over the store under test; called again for a second process or after a restart."""

PATIENCE = 30.0
"""Seconds that a check waits for what should come soon."""


class Stand:
    """What one check works on: engines over one store, a topic of its own."""

    def __init__(self, open_engine: OpenEngine, stack: AsyncExitStack) -> None:
        self._open = open_engine
        self._stack = stack
        self.engine = self.open()
        self.topic = Topic("", "conformance", f"t{secrets.token_hex(6)}")

    def open(self) -> Engine:
        """Open one more engine over the store; it is closed with the check."""
        engine = self._open()
        self._stack.push_async_callback(engine.aclose)
        return engine

    def other_topic(self) -> Topic:
        """Return one more topic that nobody else uses."""
        return self.topic._replace(thread=f"t{secrets.token_hex(6)}")

    async def say(self, *words: JsonValue, engine: Engine | None = None, run: str = "") -> list[Record]:
        """Append one record per word, in one call."""
        return await self.tell([said(word, run) for word in words], engine=engine)

    async def tell(
        self, events: Sequence[Event], *, engine: Engine | None = None, fence: int | None = None
    ) -> list[Record]:
        """Append events in one call."""
        log = (engine or self.engine).log
        return await log.append(self.topic, draft_all(self.topic, events), fence=fence)

    async def all(self, after: Cursor = EARLIEST, *, engine: Engine | None = None, page: int = 1000) -> Page:
        """Read to the end in pages, and return it as one page."""
        log = (engine or self.engine).log
        first = current = await log.read(self.topic, after, page)
        records = list(first.records)
        while current.records:
            current = await log.read(self.topic, current.cursor, page)
            assert current.gap is None, f"a gap {current.gap} within what was just read"
            records += current.records
        return Page(records, current.cursor, current.head, first.gap)


def said(word: JsonValue, run: str = "") -> CustomEvent:
    """Return an application's event that carries a word."""
    return CustomEvent(run, 0, time.time(), "said", word)


def started(run: str) -> RunStarted:
    """Return a run's first event."""
    return RunStarted(run, 0, time.time(), "conformance", "t")


def finished(run: str) -> RunFinished:
    """Return a run's end."""
    return RunFinished(run, 0, time.time(), "text", "stop", Usage())


async def follow(log_tail: Tail, cursor: Cursor, count: int) -> list[Record]:
    """Return the next `count` records of a tail.

    Raises:
        AssertionError: they did not come in time, or with a gap.
    """
    woken = anyio.Event()

    def wake() -> None:
        woken.set()

    stop = log_tail.on_wake(wake)
    records: list[Record] = []
    try:
        with anyio.move_on_after(PATIENCE):
            while len(records) < count:
                page = log_tail.after(cursor, count - len(records))
                assert page.gap is None, f"the tail tells a gap {page.gap}"
                records += page.records
                cursor = page.cursor
                if not page.records:
                    await woken.wait()
                    woken = anyio.Event()
            return records
    finally:
        stop()
    raise AssertionError(f"{len(records)} of {count} records came within {PATIENCE} s")


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is so.

    Raises:
        AssertionError: it was not, in time.
    """
    with anyio.move_on_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 - an engine of a user's own tells nobody
            await anyio.sleep(0.005)
        return
    raise AssertionError(f"{what} within {PATIENCE} s")


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """One row of the table."""

    name: str
    """A sentence of behaviour."""
    check: Callable[[Stand], Awaitable[None]]
    shared: bool = False
    """True where two engines over one store must see each other."""
    durable: bool = False
    """True where the store must outlive its engine."""

    def __str__(self) -> str:
        return self.name

    async def run(self, open_engine: OpenEngine) -> None:
        """Check an engine.

        Raises:
            AssertionError: it does not do what it must.
        """
        async with AsyncExitStack() as stack:
            await self.check(Stand(open_engine, stack))


Body: TypeAlias = Callable[[Stand], Awaitable[None]]


class Table(list[EngineCheck]):
    """Rows of the table, added by decorating their functions."""

    def row(self, name: str, *, shared: bool = False, durable: bool = False) -> Callable[[Body], Body]:
        """Add a check."""

        def add(check: Body) -> Body:
            self.append(EngineCheck(name, check, shared, durable))
            return check

        return add


class Refused:
    """`with refused():` what is inside must raise."""

    def __init__(self, error: type[Exception] = AppendRejected) -> None:
        self._error = error

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> bool:
        assert kind is not None, f"it was taken; expected {self._error.__name__}"
        return issubclass(kind, self._error)


async def take(stand: Stand, run: str) -> Lease:
    """Return the lease of the free thread."""
    lease = await stand.engine.leases.acquire(stand.topic, run, wait=False)
    assert lease is not None, "the thread is free, and its lease was not given"
    return lease
