"""A view's bytes of one topic: each record encoded once, and joined once for all who stand at the same place.

Pure, but for counting: it reads a `Tail`, it does not wait and it does not send.
"""

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
"""Joined batches that are remembered until the next append: nearly all readers stand at one place."""


class Frames:
    """What readers of one view of one topic share."""

    __slots__ = (
        "_batches",
        "_cache",
        "_cached",
        "_limit",
        "_memo",
        "_room",
        "_settings",
        "_stats",
        "_tail",
        "beat",
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
        self._tail = tail
        self._settings = settings
        self._stats = stats
        self._limit = settings.cache_size if is_cached else 0
        self._room = settings.batch_size - len(encoder.join(()))
        self._cache: dict[int, tuple[object, bytes]] = {}
        self._cached = 0
        self._batches: dict[int, Batch] = {}
        self._memo = ("", 0)

    def batch(self, seq: int, state: object) -> Batch | None:
        """Return what comes next for readers behind `seq`, from the ring, or None at its end.

        At most `batch_size` bytes (or one frame) of one page of records. The ring must hold what follows `seq`.
        """
        tail = self._tail
        if seq >= tail.head:
            return None
        memo = (tail.epoch, tail.head)
        if memo != self._memo:
            if tail.epoch != self._memo[0]:
                self._cache.clear()
                self._cached = 0
            self._batches.clear()
            self._memo = memo
        batch = self._batches.get(seq)
        if batch is None:
            if len(self._batches) >= _MEMOS:
                self._batches.clear()
            behind = tail.head - seq
            records = tail.after(Cursor(tail.epoch, seq), self.page_size(behind)).records
            batch = self._batches[seq] = self.join(records, state, is_kept=True, behind=behind)
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
        view, room = self.view, self._room
        frames: list[bytes] = []
        size = told = seq = 0
        is_last = False
        for record in records:
            following, frame = self._encode(record, state, is_kept=is_kept)
            if size and size + len(frame) > room:
                break
            is_last = following is not state and self.encoder.is_over(following)
            state, seq = following, record.seq
            if frame:
                frames.append(frame)
                size += len(frame) + 1  # what may stand between two
                told = seq
            is_last = is_last or (record.terminal and bool(view.run) and record.run == view.run)
            if is_last:
                break
        return Batch(self.encoder.join(frames) if frames else b"", seq, told, state, is_last=is_last)

    def _encode(self, record: Record, state: object, *, is_kept: bool) -> tuple[object, bytes]:
        """Return the state behind a record and its bytes, b"" where the view does not admit it."""
        found = self._cache.get(record.seq) if is_kept else None
        if found is not None:
            return found
        if self.view.admits(record):
            found = self.encoder.step(state, record)
            self._stats.encoded += 1
        else:
            found = (state, b"")
        if is_kept and self._limit:
            self._keep(record.seq, found)
        return found

    def _keep(self, seq: int, found: tuple[object, bytes]) -> None:
        cache, first = self._cache, self._tail.first
        cache[seq] = found
        self._cached += len(found[1])
        while cache:
            oldest = next(iter(cache))
            if self._cached <= self._limit and oldest >= first:
                break
            self._cached -= len(cache.pop(oldest)[1])


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
