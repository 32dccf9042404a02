"""An engine with a stopwatch: how long its log and its threads take.

Times go into plain lists, which `metrics` reads when it is asked: one append of a run's deltas must not pay for it. Whatever else an
engine does is handed on as it is.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from agentkit.content import JsonValue, Message
from agentkit.engine import Control, Engine, Leases
from agentkit.history import RunRecord, ThreadRecord, ThreadStore
from agentkit.log import Cursor, Draft, EventLog, Page, Record, Tail, Topic, instant, is_instant

BOUNDS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: from a memory engine's append to a store that hangs."""


class Timing:
    """A histogram of seconds."""

    __slots__ = ("counts", "errors", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """How many took at most each bound, and longer than the last; not cumulative."""
        self.total = 0.0
        self.errors = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Timings(dict[str, Timing]):
    """Timings by what was done."""

    def __missing__(self, name: str) -> Timing:
        self[name] = Timing()
        return self[name]

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        timing, began = self[name], time.perf_counter()
        try:
            yield
        except Exception:
            timing.errors += 1
            raise
        finally:
            timing.add(time.perf_counter() - began)


class MeasuredEngine:
    """An `Engine` that another one does the work of."""

    def __init__(self, engine: Engine) -> None:
        self.timings = Timings()
        """By `append`, `read`, `messages`, `extend`, `put_run`, …"""
        self.inner = engine
        self.log: EventLog = (_InstantLog if is_instant(engine.log) else _Log)(engine.log, self.timings)
        self.threads: ThreadStore = _Threads(engine.threads, self.timings)

    @property
    def leases(self) -> Leases:
        """The engine's own: waiting for a thread is no latency."""
        return self.inner.leases

    @property
    def control(self) -> Control:
        """The engine's own."""
        return self.inner.control

    async def aclose(self) -> None:
        """Close the engine."""
        await self.inner.aclose()


class _Log:
    def __init__(self, log: EventLog, timings: Timings) -> None:
        self._log = log
        self._append = timings["append"]
        self._timings = timings

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        began = time.perf_counter()  # no context manager: this is once for each burst of deltas
        try:
            return await self._log.append(topic, drafts, fence=fence)
        except Exception:
            self._append.errors += 1
            raise
        finally:
            self._append.add(time.perf_counter() - began)

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        with self._timings.of("read"):
            return await self._log.read(topic, after, limit)

    async def delete(self, topic: Topic) -> None:
        with self._timings.of("delete"):
            await self._log.delete(topic)

    async def tail(self, topic: Topic) -> Tail:
        with self._timings.of("tail"):
            return await self._log.tail(topic)


class _InstantLog(_Log):
    """One whose `append` never waits."""

    @instant
    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        return await super().append(topic, drafts, fence=fence)


class _Threads:
    def __init__(self, threads: ThreadStore, timings: Timings) -> None:
        self._threads = threads
        self._timings = timings

    async def messages(self, topic: Topic) -> list[Message]:
        with self._timings.of("messages"):
            return await self._threads.messages(topic)

    async def extend(self, topic: Topic, messages: Sequence[Message], *, fence: int | None = None) -> None:
        with self._timings.of("extend"):
            await self._threads.extend(topic, messages, fence=fence)

    async def put_run(self, topic: Topic, record: RunRecord, *, fence: int | None = None) -> None:
        with self._timings.of("put_run"):
            await self._threads.put_run(topic, record, fence=fence)

    async def swap_run(self, topic: Topic, old: RunRecord, new: RunRecord) -> bool:
        with self._timings.of("swap_run"):
            return await self._threads.swap_run(topic, old, new)

    async def claim(self, topic: Topic, key: str, record: RunRecord) -> str:
        with self._timings.of("claim"):
            return await self._threads.claim(topic, key, record)

    async def claimed(self, topic: Topic, key: str) -> str | None:
        with self._timings.of("claimed"):
            return await self._threads.claimed(topic, key)

    async def get_run(self, topic: Topic, run: str) -> RunRecord | None:
        with self._timings.of("get_run"):
            return await self._threads.get_run(topic, run)

    async def runs(self, topic: Topic, *, after: str = "", limit: int | None = None) -> list[RunRecord]:
        with self._timings.of("runs"):
            return await self._threads.runs(topic, after=after, limit=limit)

    async def describe(
        self, topic: Topic, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
    ) -> None:
        with self._timings.of("describe"):
            await self._threads.describe(topic, title=title, metadata=metadata)

    async def delete(self, topic: Topic) -> None:
        with self._timings.of("delete_thread"):
            await self._threads.delete(topic)

    async def threads(
        self, owner: str, agent: str, *, after: str = "", limit: int = 50
    ) -> list[ThreadRecord]:
        with self._timings.of("threads"):
            return await self._threads.threads(owner, agent, after=after, limit=limit)
