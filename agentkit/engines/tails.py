"""A process's rings of the topics that somebody watches.

Pure, and of one event loop. It reads no store: an engine feeds it what was appended, and brings it up to date where it missed something.
"""

from collections.abc import Sequence
from weakref import WeakValueDictionary

from agentkit.log import Cursor, Page, Record, Tail, Topic

RING_RECORDS = 2048
"""Records of a ring: what readers share without asking the store. Who is further behind reads pages."""
RING_BYTES = 1024 * 1024
"""Bytes of a ring."""


class Tails:
    """Tails by topic, each kept as long as somebody holds it."""

    def __init__(self) -> None:
        self._tails: WeakValueDictionary[Topic, Tail] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._tails)

    def __contains__(self, topic: Topic) -> bool:
        return topic in self._tails

    @property
    def watched(self) -> list[tuple[Topic, Tail]]:
        """All that somebody holds."""
        return list(self._tails.items())

    def add(self, topic: Topic, epoch: str, head: int) -> Tail:
        """Return the topic's tail; a new one stands at the place given."""
        tail = self._tails.get(topic)
        if tail is None:
            tail = self._tails[topic] = Tail(epoch, head)
        return tail

    def place(self, topic: Topic) -> Cursor | None:
        """Return where a watched topic's ring ends, or None."""
        tail = self._tails.get(topic)
        return Cursor(tail.epoch, tail.head) if tail is not None else None

    def feed(self, topic: Topic, records: Sequence[Record]) -> bool:
        """Add what was appended. False where it does not follow: the ring has missed something and needs `catch_up`."""
        tail = self._tails.get(topic)
        if tail is None or not records:
            return True
        if records[0].epoch != tail.epoch or records[0].seq > tail.head + 1:
            return False
        new = records[max(tail.head + 1 - records[0].seq, 0) :]
        if new:
            tail.append(new)
            _bound(tail)
        return True

    def catch_up(self, topic: Topic, place: Cursor, page: Page) -> bool:
        """Add a page that was read after `place`. A gap empties the ring: readers ask the store, and are told.

        False where the page tells a gap to a ring that stands elsewhere by now: it needs a page of its own.
        """
        tail = self._tails.get(topic)
        if tail is None:
            return True
        start = page.cursor.seq - len(page.records)
        if page.gap is not None:
            if place != Cursor(tail.epoch, tail.head):
                return False
            erased = tail.epoch if page.gap.reason == "deleted" else ""
            tail.reset(page.cursor.epoch, start, erased=erased)
        return self.feed(topic, page.records)


def _bound(tail: Tail) -> None:
    """Forget the oldest, many at once: forgetting one by one would move the whole list each time."""
    if len(tail.records) <= RING_RECORDS * 9 // 8 and tail.size <= RING_BYTES * 2:
        return
    least, size, first = tail.head - RING_RECORDS + 1, tail.size, tail.first
    for record in tail.records:
        if size <= RING_BYTES and record.seq >= least:
            break
        size -= len(record.body)
        first = record.seq + 1
    tail.trim(first)
