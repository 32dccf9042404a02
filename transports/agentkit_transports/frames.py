"""A view's bytes of one topic: each record encoded once, and joined once for all who stand at the same place.

Pure, but for counting: it reads a `Tail`, it does not wait and it does not send.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from agentkit.log import Cursor, Page, Record, Tail
from agentkit_transports.encoder import Encoder, View
from agentkit_transports.merging import merge
from agentkit_transports.outlet import Batch
from agentkit_transports.settings import HubSettings, HubStats

_MERGED_SIZE: Final = 256 * 1024
"""Bytes of bodies that are merged at once: a page of usual deltas."""
_MEMOS: Final = 4
"""Joined batches up to the log's end that are remembered until the next append: nearly all readers stand at one place."""


class Frames:
    """What readers of one view of one topic share."""

    __slots__ = (
        "_batches",
        "_cache",
        "_cached",
        "_full",
        "_full_size",
        "_limit",
        "_memo",
        "_most",
        "_room",
        "_settings",
        "_stats",
        "_tail",
        "beat",
        "crowd",
        "encoder",
        "view",
    )

    def __init__(
        self,
        view: View,
        encoder: Encoder,
        tail: Tail,
        settings: HubSettings,
        stats: HubStats,
        *,
        is_cached: bool,
    ) -> None:
        self.view = view
        self.encoder = encoder
        self.beat = Batch(encoder.beat())
        self.crowd = 1
        """How many readers share it: what is kept for them grows with them."""
        self._tail = tail
        self._settings = settings
        self._stats = stats
        self._limit = settings.cache_size if is_cached else 0
        self._most = settings.shared_size if is_cached else 0
        self._room = settings.batch_size - len(encoder.join(()))
        self._cache: OrderedDict[int, tuple[object, bytes]] = OrderedDict()  # whose oldest is found at once
        self._cached = 0
        self._batches: dict[int, Batch] = {}
        """Up to the log's end, by the place before them: an append makes them too short."""
        self._full: dict[int, Batch] = {}
        """Those that no append makes longer, while readers are behind: they go on with the same bytes, each at its own pace."""
        self._full_size = 0
        self._memo = ("", 0)

    def batch(self, seq: int, state: object) -> Batch | None:
        """Return what comes next for readers behind `seq`, from the ring, or None at its end.

        At most `batch_size` bytes (or one frame) of one page of records. The ring must hold what follows `seq`.
        """
        tail = self._tail
        head = tail.head
        if seq >= head:
            return None
        memo = (tail.epoch, head)
        if memo != self._memo:
            if memo[0] != self._memo[0]:
                self._cache.clear()
                self._full.clear()
                self._cached = self._full_size = 0
            self._batches.clear()
            self._memo = memo
        return self._full.get(seq) or self._batches.get(seq) or self._make(seq, head, state)

    def settle(self) -> None:
        """Let go of what is kept for readers that are behind: there are none."""
        if self._full:
            self._full.clear()
            self._full_size = 0

    def _make(self, seq: int, head: int, state: object) -> Batch:
        """Return a new batch from the ring, and keep it for who comes next."""
        behind = head - seq
        size = self.page_size(behind)
        if self._full:  # who is about to stand where others stood goes on as they did
            size = min([size, *(place - seq for place in self._full if place > seq)])
        start = seq + 1 - self._tail.first
        records = self._tail.records[start : start + size]
        batch = self.join(records, state, is_kept=True, behind=behind)
        if (batch.seq < head or batch.is_last) and not self._merges(behind):
            self._fill(seq, batch)
        else:
            if len(self._batches) >= _MEMOS:
                self._batches.clear()
            self._batches[seq] = batch
        return batch

    def page_size(self, behind: int) -> int:
        """Return how many records a reader that is so far behind should take at once."""
        return self._settings.merge_page_size if self._merges(behind) else self._settings.page_size

    def _merges(self, behind: int) -> bool:
        return self.view.merge and behind > self._settings.merge_behind

    def join(self, records: Sequence[Record], state: object, *, is_kept: bool, behind: int = 0) -> Batch:
        """Return one batch of the first of `records`, at least one.

        Args:
            records: as they follow each other in the log.
            state: the encoder's, before them.
            is_kept: they are in the ring, so others may want them too.
            behind: how many records there are from the reader's place to the log's end.
        """
        if self._merges(behind):
            records, is_kept = _some(records, _MERGED_SIZE), False
            whole = len(records)
            records = merge(records)
            self._stats.merged += whole - len(records)
        view, encoder, room = self.view, self.encoder, self._room
        known, keeps = self._cache.get, is_kept and self._limit > 0
        is_filtered, run, folds = view.is_filtered, view.run, encoder.folds
        frames: list[bytes] = []
        size = told = seq = 0
        is_last = False
        for record in records:
            found = known(record.seq) if is_kept else None
            if found is None:
                if not is_filtered or view.admits(record):
                    found = encoder.step(state, record)
                    self._stats.encoded += 1
                else:
                    found = (state, b"")
                if keeps:
                    self._cache[record.seq] = found
                    self._cached += len(found[1])
            following, frame = found
            if size and size + len(frame) > room:
                break
            is_last = folds and following is not state and encoder.is_over(following)
            state, seq = following, record.seq
            if frame:
                frames.append(frame)
                size += len(frame) + 1  # what may stand between two
                told = seq
            if is_last or (run and record.terminal and record.run == run):
                is_last = True
                break
        if keeps:
            self._shrink()
        return Batch(encoder.join(frames) if frames else b"", seq, told, state, is_last=is_last)

    def _shrink(self) -> None:
        """Forget the oldest frames past the bound, and what the ring has forgotten."""
        cache, first = self._cache, self._tail.first
        while cache:
            oldest = next(iter(cache))
            if self._cached <= self._limit and oldest >= first:
                break
            self._cached -= len(cache.pop(oldest)[1])

    def _fill(self, seq: int, batch: Batch) -> None:
        """Keep a batch that no append makes longer, within the bound, and as long as the ring holds it."""
        full, first = self._full, self._tail.first
        full[seq] = batch
        self._full_size += len(batch.data)
        most = min(self._most, self.crowd * self._settings.batch_size)
        while len(full) > 1:
            oldest = next(iter(full))
            if self._full_size <= most and oldest + 1 >= first:
                break
            self._full_size -= len(full.pop(oldest).data)


def _some(records: Sequence[Record], most: int) -> Sequence[Record]:
    """Return the first of `records`, at least one, with at most so many bytes: what is merged and does not fit would be merged again."""
    size = 0
    for at, record in enumerate(records):
        size += len(record.body)
        if at and size > most:
            return records[:at]
    return records


def before(page: Page) -> Cursor:
    """Return the place before a page's first record, behind its gap if it has one."""
    return Cursor(page.cursor.epoch, page.cursor.seq - len(page.records))
