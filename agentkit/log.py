"""The log: drafts, records, cursors, gaps, and the ring that everything live reads from.

Pure, but for the `EventLog` protocol at the end, which engines implement. It does not know what an event means, and it never waits.

A topic's records are numbered from 1 without holes. `id` is `<epoch>-<seq>`; the epoch changes when continuity cannot be proven.
Grounds: design.md §6; the pair of offset and epoch is Centrifugo's lesson.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar
from weakref import WeakSet

from agentkit.errors import WireError, quote

AppendT = TypeVar("AppendT", bound=Callable[..., Any])

MAX_RECORD: Final = 64 * 1024
"""Bytes of one record's body: what one WebSocket frame or one slow reader's send may hold."""

_ID = re.compile(r"([A-Za-z0-9]{1,16})-(0|[1-9][0-9]{0,15})", re.ASCII)


class Topic(NamedTuple):
    """Whose log: one thread of one agent of one owner."""

    owner: str
    """The tenant; "" without authentication. It never shows in paths or ids."""
    agent: str
    thread: str

    @property
    def path(self) -> str:
        """The name on the wire: `agents/{agent}/threads/{thread}`."""
        return f"agents/{self.agent}/threads/{self.thread}"


@dataclass(slots=True)
class Draft:
    """An event on its way into a log: encoded, not yet numbered. Unfrozen, as freezing costs a microsecond a delta: treat it as immutable."""

    type: str
    """As on the wire: `reasoning`, `text.delta`, …"""
    kind: str
    """For `reasoning`: delta, summary, signature, state. Else ""."""
    run: str
    """The run of the thread that it belongs to; a sub-agent's records belong to its caller's. "" for none."""
    step: int
    block: str
    time: float
    """Seconds since the epoch."""
    body: bytes
    """The JSON object without `v`, `id` and `seq`; never empty."""
    terminal: bool = False
    """True for the record that ends its run."""


@dataclass(slots=True)
class Record:
    """One numbered entry of a log. Unfrozen, as freezing costs a microsecond a delta: treat it as immutable."""

    epoch: str
    seq: int
    type: str
    kind: str
    run: str
    block: str
    time: float
    body: bytes
    terminal: bool = False

    @property
    def id(self) -> str:
        """`<epoch>-<seq>`: ASCII, safe in a header."""
        return f"{self.epoch}-{self.seq}"

    @property
    def wire(self) -> bytes:
        """The envelope: one JSON object, UTF-8, without a line break."""
        return b'{"v":1,"id":"%s-%d","seq":%d,%s' % (self.epoch.encode(), self.seq, self.seq, self.body[1:])

    @staticmethod
    def of(draft: Draft, epoch: str, seq: int) -> "Record":
        """Number a draft."""
        return Record(
            epoch, seq, draft.type, draft.kind, draft.run, draft.block, draft.time, draft.body, draft.terminal
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a log: after the record `seq` of `epoch`. Compare `EARLIEST` and `NOW` by identity of value."""

    epoch: str
    seq: int

    @property
    def id(self) -> str:
        """`<epoch>-<seq>`."""
        return f"{self.epoch}-{self.seq}"

    @staticmethod
    def parse(text: str) -> "Cursor":
        """Return the cursor that `text` names: an id, `earliest` or `now`.

        Raises:
            WireError: it is none of these.
        """
        if text == "earliest":
            return EARLIEST
        if text == "now":
            return NOW
        match = _ID.fullmatch(text)
        if match is None:
            raise WireError(f"cursor {quote(text)} is not <epoch>-<seq>, earliest or now")
        return Cursor(match[1], int(match[2]))


EARLIEST: Final = Cursor("", 0)
"""Before the first record that there is."""
NOW: Final = Cursor("", -1)
"""After the last record that there is."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A told loss: records `first`…`last` of the reader's wish cannot be had."""

    reason: Literal["trimmed", "epoch", "future", "deleted"]
    """`deleted`: as `epoch`, where the log of the reader's epoch was erased on purpose."""
    first: int
    """0 stands for all that the other epoch held."""
    last: int


@dataclass(frozen=True, slots=True)
class Page:
    """What stands after a cursor."""

    records: Sequence[Record]
    cursor: Cursor
    """The place after the last of `records`: where the next read goes on."""
    head: int
    """The last sequence number of the topic when this was read; 0 for an empty topic."""
    gap: Gap | None = None
    """Told before the records."""


def new_epoch() -> str:
    """Return a random epoch: 8 letters and digits, from which nothing can be guessed."""
    return secrets.token_hex(4)


def locate(cursor: Cursor, epoch: str, first: int, head: int, *, erased: str = "") -> tuple[int, Gap | None]:
    """Return after which record a cursor stands in a log that holds `first`…`head` of `epoch`, and what it has lost.

    Any cursor has a place: every engine answers by this one rule. `erased` is the epoch that was deleted last, if any.
    """
    if cursor == NOW:
        return head, None
    gap: Gap | None = None
    seq = cursor.seq
    if cursor.epoch != epoch:
        seq = 0
        if cursor != EARLIEST:
            gap = Gap("deleted" if cursor.epoch == erased else "epoch", 0, first - 1)
    elif seq > head:
        gap = Gap("future", head + 1, seq)
        seq = head
    if seq + 1 < first:
        gap = gap or Gap("trimmed", seq + 1, first - 1)
        seq = first - 1
    return seq, gap


class Tail:
    """The ring of a topic's latest records, in one process. Replay and live are the same read.

    Synchronous and single-threaded: it belongs to the event loop that appends. Readers keep a `Cursor`, never a queue.
    """

    __slots__ = ("__weakref__", "_bytes", "_records", "_wakers", "epoch", "erased", "first", "head")

    def __init__(self, epoch: str, head: int = 0) -> None:
        self.epoch = epoch
        self.erased = ""
        """The epoch before, where it was deleted."""
        self.head = head
        """The last number given; 0 before the first."""
        self.first = head + 1
        """The lowest number that the ring holds, or would hold next."""
        self._records: list[Record] = []
        self._bytes = 0
        self._wakers: dict[object, Callable[[], None]] = {}

    @property
    def size(self) -> int:
        """Bytes of all bodies held."""
        return self._bytes

    @property
    def records(self) -> Sequence[Record]:
        """What the ring holds, oldest first. Do not keep it over a wait."""
        return self._records

    def append(self, records: Sequence[Record]) -> None:
        """Add records that follow the head, and wake whoever waits.

        Raises:
            ValueError: they do not follow; the engine's feeder is at fault.
        """
        epoch, expected, size = self.epoch, self.head + 1, 0
        for record in records:
            if record.seq != expected or record.epoch != epoch:
                raise ValueError(f"record {record.id} does not follow {epoch}-{expected - 1}")
            expected += 1
            size += len(record.body)
        self._records.extend(records)
        self._bytes += size
        self.head = expected - 1
        self.wake()

    def reset(self, epoch: str, head: int = 0, *, erased: str = "") -> None:
        """Forget everything and begin a new epoch; readers learn it as a gap. `erased` is the epoch that was deleted, if any."""
        self.erased = erased
        self.epoch = epoch
        self.head = head
        self.first = head + 1
        self._records = []
        self._bytes = 0
        self.wake()

    def trim(self, first: int) -> None:
        """Forget the records before number `first`."""
        count = min(max(first - self.first, 0), len(self._records))
        if count:
            self._bytes -= sum(len(record.body) for record in self._records[:count])
            del self._records[:count]
            self.first += count

    def holds(self, cursor: Cursor) -> bool:
        """Tell whether all that stands after `cursor` is in the ring, so that `after` answers without a gap of its making."""
        return cursor == NOW or (cursor.epoch == self.epoch and self.first - 1 <= cursor.seq <= self.head)

    def after(self, cursor: Cursor, limit: int) -> Page:
        """Return at most `limit` records that stand after `cursor`; an empty page means: wait for a wake-up.

        Any cursor is answered: what cannot be had is told by `Page.gap`.
        """
        if cursor == NOW:
            return Page((), Cursor(self.epoch, self.head), self.head)
        seq, gap = locate(cursor, self.epoch, self.first, self.head, erased=self.erased)
        start = seq + 1 - self.first
        records = self._records[start : start + limit]
        return Page(records, Cursor(self.epoch, seq + len(records)), self.head, gap)

    def find_time(self, time: float) -> int:
        """Return the number of the first record that is not older than `time` (seconds since the epoch)."""
        return self.first + bisect_left(self._records, time, key=lambda record: record.time)

    def on_wake(self, waker: Callable[[], None]) -> Callable[[], None]:
        """Call `waker` after each append, until the returned function is called. It must not raise or wait."""
        key = object()
        self._wakers[key] = waker
        return lambda: self._wakers.pop(key, None) and None

    def wake(self) -> None:
        """Call all wakers."""
        for waker in tuple(self._wakers.values()):
            waker()


_INSTANT: Final[WeakSet[Callable[..., object]]] = WeakSet()


def instant(append: AppendT) -> AppendT:
    """Mark a log's `append` that never waits: whoever calls it needs no task of its own for that.

    The function is marked, not its class: what overrides or wraps it is another one, and may wait.
    """
    _INSTANT.add(append)
    return append


def is_instant(log: "EventLog") -> bool:
    """Tell whether the log's `append` never waits."""
    append = log.append
    return isinstance(append, MethodType) and append.__func__ in _INSTANT


class EventLog(Protocol):
    """What an engine keeps of all topics."""

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        """Number the drafts and keep them, all or none.

        Args:
            topic: whose log.
            drafts: in order; empty returns [].
            fence: the number of the lease under which a run writes, or None for what no run owns.

        Raises:
            AppendRejected: the lease was lost, or a draft belongs to a run that has already ended.
            EngineError: it could not be kept. Asking again may double it unless the engine says otherwise.
        """
        ...

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        """Return what stands after a cursor; never waits for new records.

        Raises:
            EngineError: the engine cannot be reached.
        """
        ...

    async def delete(self, topic: Topic) -> None:
        """Erase the topic's records; watchers learn it by a new epoch, and a cursor of the old one by a gap `deleted`.

        Raises:
            EngineError: the engine cannot be reached.
        """
        ...

    async def tail(self, topic: Topic) -> Tail:
        """Return this process's ring of the topic, fed as long as somebody holds it; its head and epoch are true on return.

        Raises:
            EngineError: the engine cannot be reached.
        """
        ...
