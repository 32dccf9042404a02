"""A reader: a place in a topic's log and a way out.

Asyncio only. A reader holds a place, never a queue. While it is *live* the flush writes to it (`fanout`); whenever its connection would
make a writer wait, or its place is not at the ring's end, it has a task, a *pump*, that reads, sends and waits until it has caught up. A
connection that can never be written to without waiting keeps its pump.
Grounds: design.md §7 (slow readers).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentkit.background import Work, spawn
from agentkit.errors import EngineError
from agentkit.log import EARLIEST, Cursor, EventLog, Tail, Topic
from agentkit_transports.frames import Frames, before
from agentkit_transports.outlet import Batch, Outlet, SlowReader
from agentkit_transports.settings import HubSettings, HubStats
from agentkit_transports.standing import Lag, Place

logger = logging.getLogger("agentkit")

EndReason: TypeAlias = Literal["ended", "slow", "gone", "failed"]
"""Why a reader is over: its run ended, or its log was deleted; it did not keep up; its client left; the log cannot be read, or an encoder broke."""

_UNKNOWN: Final = object()
"""The state of a folding encoder before its run's records were read again."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What a hub lends to its fan-outs and readers."""

    log: EventLog
    settings: HubSettings
    stats: HubStats
    on_leave: Callable[["Reader"], None]
    """Called with each reader that is over."""


class Group:
    """The readers of one view of one topic, and what they share."""

    __slots__ = (
        "_on_empty",
        "_on_leave",
        "frames",
        "live",
        "log",
        "readers",
        "settings",
        "stats",
        "tail",
        "topic",
        "waiting",
    )

    def __init__(
        self, topic: Topic, tail: Tail, frames: Frames, shared: Shared, on_empty: Callable[["Group"], None]
    ) -> None:
        self.topic = topic
        self.tail = tail
        self.frames = frames
        self.log = shared.log
        self.settings = shared.settings
        self.stats = shared.stats
        self._on_leave = shared.on_leave
        self._on_empty = on_empty
        self.readers: set[Reader] = set()
        self.live: dict[Reader, None] = {}
        """Those that the flush writes to, in the order in which they came."""
        self.waiting: dict[Reader, asyncio.Future[None]] = {}
        """Those whose pump waits at the ring's end."""

    def enter(self, reader: "Reader") -> None:
        """Hold a reader."""
        self.readers.add(reader)
        self.frames.crowd = len(self.readers)

    def settle(self) -> None:
        """Let go of what was kept for readers that were behind, once there are none."""
        if len(self.live) + len(self.waiting) == len(self.readers):
            self.frames.settle()

    def leave(self, reader: "Reader") -> None:
        """Let go of a reader; the last one takes the group with it."""
        self.live.pop(reader, None)
        self.readers.discard(reader)
        self.frames.crowd = len(self.readers)
        self._on_leave(reader)
        if not self.readers:
            self._on_empty(self)


class Reader:
    """A place in a topic's log and a way out."""

    __slots__ = (
        "_group", "_has_ended", "_is_erased", "_on_end", "_owes_beat", "_work",
        "due", "is_closed", "is_live", "is_past", "outlet", "place",
    )  # fmt: skip

    def __init__(
        self,
        group: Group,
        cursor: Cursor,
        outlet: Outlet,
        on_end: Callable[[EndReason], None],
        *,
        has_ended: bool,
        is_beginning: bool = False,
    ) -> None:
        """Begin to read.

        Args:
            group: its topic and view.
            cursor: a real place, not `NOW` or `EARLIEST`.
            outlet: where to.
            on_end: called once, unless `close` came first.
            has_ended: the view's run is known to be over: at the log's end, nothing more is awaited.
            is_beginning: nothing of the view's run stands before the place.
        """
        self._group = group
        self.outlet = outlet
        self._on_end = on_end
        encoder = group.frames.encoder
        state = _UNKNOWN if encoder.folds and not is_beginning else encoder.start()
        self.place = Place(cursor.epoch, cursor.seq, cursor.seq, state)
        """Where it stands: never changed, always replaced."""
        self.is_live = False
        """True while the flush writes to it."""
        self.is_closed = False
        self.due = 0
        self._has_ended = has_ended
        self.is_past = False
        """True once the terminal record of its view's run has passed."""
        self._is_erased = False
        """True once it was told that the log was deleted: nothing follows."""
        self._owes_beat = False
        """True where a sign of life is due that only its task can send."""
        self._work: Work | None = None
        group.enter(self)
        if outlet.is_direct and not has_ended and not encoder.folds and self._is_at_end():
            self._go_live()
        else:
            self.pump()

    @property
    def topic(self) -> Topic:
        """Whose log it reads."""
        return self._group.topic

    @property
    def frames(self) -> Frames:
        """What it shares with others of its view."""
        return self._group.frames

    @property
    def seq(self) -> int:
        """The last record that it has passed."""
        return self.place.seq

    def close(self) -> None:
        """Stop; nothing more is written. Closing again changes nothing."""
        if not self.is_closed:
            self.is_closed = True
            self.is_live = False
            self._group.leave(self)
            if self._work is not None:
                self._work.cancel()

    async def join(self) -> None:
        """Wait, after `close`, until its pump has let go of the outlet: at once, or as soon as a send is cancelled."""
        if self._work is not None:
            await self._work.join()

    def finish(self, reason: EndReason) -> None:
        """Stop, and say why."""
        if not self.is_closed:
            if reason == "slow":
                self._group.stats.cuts += 1
            self.close()
            self._on_end(reason)

    def take(self, batch: Batch, after: Place) -> bool:
        """Write a batch, or give the reader a task that will; then it stands at `after`. Returns whether bytes were written.

        The flush does this itself for a batch with which there is nothing else to tell.
        """
        if batch.data:
            try:
                if not self.outlet.offer(batch):
                    self.pump()
                    return False
            except Exception as error:
                self.fail(error)
                return False
        self.place = after
        if batch.is_last:
            self.is_past = True
            self.pump()  # it has the end to tell
        elif after.told != after.seq and self._owes_position():
            self._tell(self._position())
        return bool(batch.data)

    def beat(self) -> None:
        """Give a sign of life, unless bytes are on their way anyhow."""
        if self.is_live:
            self._tell(self._sign_of_life())
        else:
            waiter = self._group.waiting.get(self)
            if waiter is not None and not waiter.done():
                self._owes_beat = True
                waiter.set_result(None)

    def _tell(self, batch: Batch) -> None:
        """Write what can as well be left out."""
        try:
            if batch.data and self.outlet.offer(batch):
                self._note_told()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """End a reader whose connection does not take bytes any more."""
        if not isinstance(error, OSError):
            logger.error("writing to a reader of %s failed", self._group.topic.path, exc_info=error)
        self.finish("gone")

    def pump(self) -> None:
        """Give the reader a task until it has caught up."""
        self.is_live = False
        self._group.live.pop(self, None)
        self._group.stats.tasks += 1
        self._work = spawn(self._pump, name=f"reader of {self._group.topic.path}")

    def _go_live(self) -> None:
        self._work = None
        self.is_live = True
        self._group.live[self] = None
        self._group.settle()

    def _owes_position(self) -> bool:
        return self.place.seq - self.place.told >= self._group.settings.position_records

    def _sign_of_life(self) -> Batch:
        """Return its place, where it has passed records that it did not see, or a beat."""
        if self.place.told < self.place.seq:
            position = self._position()
            if position.data:
                return position
        return self.frames.beat

    def _position(self) -> Batch:
        return Batch(self.frames.encoder.position(self._cursor()))

    def _cursor(self) -> Cursor:
        return Cursor(self.place.epoch, self.place.seq)

    def _note_told(self) -> None:
        """Its client knows where it stands."""
        place = self.place
        if place.told != place.seq:
            self.place = Place(place.epoch, place.seq, place.seq, place.state)

    def _is_at_end(self) -> bool:
        tail, place = self._group.tail, self.place
        return place.seq == tail.head and place.epoch == tail.epoch

    async def _pump(self) -> None:
        reason: EndReason | None = "failed"
        try:
            reason = await self._catch_up()
        except SlowReader:
            reason = "slow"
        except OSError:
            reason = "gone"
        except EngineError as error:
            logger.warning("a reader of %s cannot read: %s", self._group.topic.path, error)
        finally:  # whatever else was raised is told to the client too, and goes into the log by way of `background`
            if reason is not None:
                self._work = None
                self.finish(reason)

    async def _catch_up(self) -> EndReason | None:
        """Send what is there until the run has ended (`ended`), or the flush can take over, or the reader is closed (None)."""
        lag = Lag(self._group.settings)
        if self.place.state is _UNKNOWN:
            place = self.place
            self.place = Place(place.epoch, place.seq, place.told, await self._fold())
        while not self.is_closed:
            batch = None if self.is_past else await self._next()
            if batch is not None:
                await self._pass_on(batch)
                if self._is_erased:
                    return "ended"
                lag.check(self._group.tail.head - self.seq)
                await asyncio.sleep(0)  # one that has left takes all at once: it must not hold the loop
            elif self.is_past or self._has_ended:
                await self._send(Batch(self.frames.encoder.end(self._cursor())))
                return "ended"
            elif self.outlet.is_direct and self._is_at_end():
                self._go_live()
                return None
            else:
                await self._wait()
        return None

    async def _pass_on(self, batch: Batch) -> None:
        if batch.data:
            await self.outlet.send(batch)
            self._group.stats.written += 1
        self.place = self.place.behind(batch)
        self.is_past = batch.is_last
        if self._owes_position():
            await self._send(self._position())

    async def _send(self, batch: Batch) -> None:
        """Send what is no record."""
        if batch.data:
            await self.outlet.send(batch)
            self._note_told()

    async def _next(self) -> Batch | None:
        """Return what follows, None at the end of the log."""
        group, tail = self._group, self._group.tail
        while True:
            cursor, place = self._cursor(), self.place
            if tail.holds(cursor):
                return self.frames.batch(place.seq, place.state)
            known = (tail.epoch, tail.head)
            size = self.frames.page_size(tail.head - place.seq)
            page = await group.log.read(group.topic, cursor, size)
            if page.gap is not None:
                start = before(page)
                group.stats.gaps += 1
                self.place = Place(start.epoch, place.seq, place.told, place.state)
                self._is_erased = page.gap.reason == "deleted"
                return Batch(self.frames.encoder.gap(page.gap, start), start.seq, start.seq, place.state)
            if page.records:
                return self.frames.join(
                    page.records, place.state, is_kept=False, behind=page.head - place.seq
                )
            if known == (tail.epoch, tail.head):
                return None

    async def _wait(self) -> None:
        """Wait for the next append, or for the moment of a sign of life."""
        waiter = self._group.waiting[self] = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            del self._group.waiting[self]
        if self._owes_beat:
            self._owes_beat = False
            await self._send(self._sign_of_life())

    async def _fold(self) -> object:
        """Fold the records up to the reader's place, from the earliest on."""
        group, encoder = self._group, self.frames.encoder
        state, cursor = encoder.start(), EARLIEST
        while True:
            page = await group.log.read(group.topic, cursor, group.settings.page_size)
            for record in page.records:
                if record.seq > self.seq:
                    return state
                if self.frames.view.admits(record):
                    state, _ = encoder.step(state, record)
            if not page.records or page.cursor.seq >= self.seq:
                return state
            cursor = page.cursor
            await asyncio.sleep(0)
