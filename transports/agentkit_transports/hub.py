"""Tails → readers: everything that is live in one event loop of one process.

Asyncio only. It finds places in logs, gives readers to their topics' fan-outs, keeps the one timer for signs of life, and says farewell.
It knows neither HTTP nor sockets: a connection is what can be told to go.
Grounds: design.md §6, §7.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from agentkit.log import EARLIEST, NOW, Cursor, EventLog, Gap, Tail, Topic
from agentkit_transports.encoder import View
from agentkit_transports.fanout import Fanout
from agentkit_transports.frames import before
from agentkit_transports.outlet import Outlet
from agentkit_transports.reader import EndReason, Reader, Shared
from agentkit_transports.settings import HubSettings, HubStats
from agentkit_transports.wheel import Wheel

__all__ = ["Census", "Connection", "EndReason", "Hub", "HubSettings", "HubStats", "Reader", "Start"]


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader begins, found by `Hub.locate`: all that a hello needs to know."""

    topic: Topic
    tail: Tail
    after: Cursor
    """The place that the reader asked for, or the one that takes its place (other epoch, beyond the end)."""
    head: int
    """The log's last number at this moment."""
    gap: Gap | None
    """Told before the first record."""
    cursor: Cursor
    """Behind the gap: the first record that is sent follows it."""
    resumed: bool
    """True where an id was given and everything after it can be had."""
    is_beginning: bool = False
    """True where nothing of the view's run stands before the place: a protocol that folds begins there, and reads nothing again."""


@dataclass(slots=True)
class Census:
    """Who reads, at one moment."""

    connections: Counter[str]
    """By transport."""
    readers: Counter[str] = field(default_factory=Counter)
    """By protocol: a socket may have several."""
    lags: list[int] = field(default_factory=list)
    """Records between each reader's place and the end of its log."""


class Connection(Protocol):
    """What a drain speaks to: one SSE stream or one socket."""

    transport: ClassVar[str]
    """`sse` or `websocket`."""

    def farewell(self) -> None:
        """Begin to say goodbye and to close; returns at once. The client comes back with its cursor."""
        ...

    def abort(self) -> None:
        """Drop the connection at once."""
        ...


class Hub:
    """One object for each event loop that serves readers. Not thread-safe.

    Make it anywhere (it touches no loop before its first reader) and give it to every route that streams.
    """

    def __init__(self, log: EventLog, *, settings: HubSettings | None = None) -> None:
        self.log = log
        self.settings = settings or HubSettings()
        self.stats = HubStats()
        self._fanouts: dict[Topic, Fanout] = {}
        self._wheel: Wheel[Reader] = Wheel(self.settings.heartbeat, self._beat)
        self._shared = Shared(log, self.settings, self.stats, self._wheel.remove)
        self._connections: dict[Connection, None] = {}
        self._is_draining = False
        self._all_gone = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        """True once `drain` was called: new streams are greeted and sent away."""
        return self._is_draining

    @property
    def connections(self) -> int:
        """How many streams and sockets are open."""
        return len(self._connections)

    @property
    def topics(self) -> int:
        """How many topics have readers."""
        return len(self._fanouts)

    def census(self) -> "Census":
        """Count connections and readers, and how far behind they are: a walk over all of them, for who looks now and then."""
        out = Census(Counter(one.transport for one in self._connections))
        for fanout in self._fanouts.values():
            for view, readers in fanout.readers():
                out.readers[view.protocol] += len(readers)
                out.lags += [max(0, fanout.tail.head - reader.seq) for reader in readers]
        return out

    @property
    def is_idle(self) -> bool:
        """True where nothing is left of any reader: no topic, no timer, no connection."""
        return not self._fanouts and not self._connections and self._wheel.is_idle

    def retry_ms(self) -> int:
        """Return how long a client should wait before it comes back, by chance, in milliseconds."""
        return random.randint(*self.settings.retry_ms)  # noqa: S311 - jitter, not a secret

    async def locate(self, topic: Topic, cursor: Cursor) -> Start:
        """Find the place that a cursor names, now. `NOW` becomes a number: what is appended later will be delivered.

        Raises:
            EngineError: the log cannot be reached.
        """
        fanout = self._fanouts.get(topic)
        tail = fanout.tail if fanout is not None else await self.log.tail(topic)
        if cursor == NOW:
            end = Cursor(tail.epoch, tail.head)
            return Start(topic, tail, end, tail.head, None, end, resumed=False)
        if tail.holds(cursor):
            self.stats.replays += 1
            return Start(topic, tail, cursor, tail.head, None, cursor, resumed=True)
        page = await self.log.read(topic, cursor, 1)
        if page.gap is not None and page.gap.reason == "deleted":  # who comes later begins anew
            page = replace(page, gap=replace(page.gap, reason="epoch"))
        place = before(page)
        if cursor == EARLIEST:
            after = Cursor(place.epoch, 0)
        elif page.gap is None or page.gap.reason == "trimmed":
            after = cursor
        else:  # a place that never was in this log, or is not yet: the reader stands where the records begin, or end
            after = Cursor(place.epoch, 0 if page.gap.reason == "epoch" else place.seq)
        if page.gap is not None:
            self.stats.gaps += 1
        resumed = page.gap is None and cursor != EARLIEST
        self.stats.replays += resumed
        return Start(topic, tail, after, page.head, page.gap, place, resumed=resumed)

    def attach(
        self,
        start: Start,
        view: View,
        outlet: Outlet,
        on_end: Callable[[EndReason], None],
        *,
        has_ended: bool = False,
    ) -> Reader:
        """Begin to send what follows a place to an outlet.

        Hello and gap are the caller's to send before.

        Args:
            start: from `locate`.
            view: what the reader sees.
            outlet: the connection's way out.
            on_end: called once when the hub is done with the reader; not if the caller closes it.
            has_ended: the view's run is known to be over: the reader ends where the log does, if not before.
        """
        fanout = self._fanouts.get(start.topic)
        if fanout is None:
            fanout = self._fanouts[start.topic] = Fanout(start.topic, start.tail, self._shared, self._forget)
        reader = Reader(
            fanout.group(view),
            start.cursor,
            outlet,
            on_end,
            has_ended=has_ended,
            is_beginning=start.is_beginning,
        )
        self._schedule(reader)
        return reader

    def add(self, connection: "Connection") -> None:
        """Hold a connection, so that a drain can speak to it."""
        self._connections[connection] = None

    def remove(self, connection: "Connection") -> None:
        """Let go of a connection that has ended."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._all_gone.set()

    async def drain(self, *, grace: float = 5.0, batch: int = 100, pause: float = 0.0) -> int:
        """Say farewell to every connection, wait at most `grace` seconds for them to go, and abort what is left.

        Call it before the server stops accepting sends (on the signal, not in the lifespan). Streams opened afterwards are sent away
        at once, with a clean close and a `retry:`. Calling it again says farewell to those that came since.

        Args:
            grace: seconds, from the last farewell.
            batch: connections to which farewell is said before the loop gets its turn.
            pause: seconds between two batches.

        Returns:
            How many had to be aborted.
        """
        self._is_draining = True
        for number, connection in enumerate(tuple(self._connections), 1):
            connection.farewell()
            if number % batch == 0:
                await asyncio.sleep(pause)
        self._all_gone.clear()
        if self._connections:
            try:
                async with asyncio.timeout(grace):
                    await self._all_gone.wait()
            except TimeoutError:
                pass  # those that are left are aborted
        left = tuple(self._connections)
        for connection in left:
            connection.abort()
        return len(left)

    def _schedule(self, reader: Reader) -> None:
        """Give a reader its next sign of life: after 15 s ± 20 %, where it has a place to tell after 15 s at the latest."""
        view = reader.frames.view
        if view.is_filtered or reader.frames.beat.data:
            self._wheel.add(reader, 0.8, 1.0 if view.is_filtered else 1.2)

    def _beat(self, reader: Reader) -> None:
        self._schedule(reader)
        reader.beat()

    def _forget(self, fanout: Fanout) -> None:
        del self._fanouts[fanout.topic]
