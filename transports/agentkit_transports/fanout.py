"""One topic's fan-out: the flush that serves its live readers.

Asyncio only. An append wakes the fan-out, which flushes once in the next turn of the loop: each reader that stands at the end of the ring
is written to right there, at most one write each, of bytes that were made once. Readers for whom a writer would wait have pumps of their
own (`reader`): nothing that one does, or fails to do, is felt by a run or by another.
Grounds: design.md §8.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final

from agentkit.log import Tail, Topic
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.frames import Frames
from agentkit_transports.outlet import Batch
from agentkit_transports.reader import Group, Reader, Shared
from agentkit_transports.standing import Place

logger = logging.getLogger("agentkit")

_NOTHING: Final = Batch(b"")
_NOWHERE: Final = Place("", -1, -1, None)


class _Turn:
    """What readers at one place get in a turn of the loop."""

    __slots__ = ("after", "batch", "is_behind", "is_plain")

    def __init__(self, batch: Batch, after: Place, *, is_behind: bool = False) -> None:
        self.batch = batch
        self.after = after
        """Where they stand then."""
        self.is_behind = is_behind
        """True where the ring does not hold what follows."""
        self.is_plain = bool(batch.data) and after.told == after.seq and not batch.is_last
        """True where there are bytes, and nothing to tell beside them."""


_IDLE: Final = _Turn(_NOTHING, _NOWHERE)


class Fanout:
    """One topic's readers. Made with the first, gone with the last."""

    __slots__ = ("_groups", "_is_flushing", "_on_empty", "_shared", "_unhook", "tail", "topic")

    def __init__(
        self, topic: Topic, tail: Tail, shared: Shared, on_empty: Callable[["Fanout"], None]
    ) -> None:
        self.topic = topic
        self.tail = tail
        self._shared = shared
        self._on_empty = on_empty
        self._groups: dict[View, Group] = {}
        self._is_flushing = False
        self._unhook = tail.on_wake(self._wake)

    def group(self, view: View) -> Group:
        """Return the group of a view; put a reader in at once, or it stays for ever.

        Raises:
            KeyError: nobody speaks the view's protocol.
        """
        group = self._groups.get(view)
        if group is None:
            shared = self._shared
            encoder = PROTOCOLS[view.protocol](self.topic, view)
            is_cached = len(self._groups) < shared.settings.cached_views
            frames = Frames(view, encoder, self.tail, shared.settings, shared.stats, is_cached=is_cached)
            group = self._groups[view] = Group(self.topic, self.tail, frames, shared, self._lose)
        return group

    def readers(self) -> Iterator[tuple[View, Collection[Reader]]]:
        """Yield the readers of each view."""
        for view, group in self._groups.items():
            yield view, group.readers

    def _lose(self, group: Group) -> None:
        del self._groups[group.frames.view]
        if not self._groups:
            self._unhook()
            self._on_empty(self)

    def _wake(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        for group in tuple(self._groups.values()):
            for waiter in group.waiting.values():
                if not waiter.done():
                    waiter.set_result(None)
            if group.live:
                self._serve(group, list(group.live), 0)

    def _serve(self, group: Group, readers: list[Reader], start: int) -> None:
        """Write what is next to the readers from `start` on, a slice in a turn of the loop.

        The hot path of every delivery, hence in one piece: nearly all stand at one place, and get the same bytes.
        """
        stop = start + self._shared.settings.slice_size
        least = self.tail.head
        turn, place, written = _IDLE, _NOWHERE, 0
        batch, after, is_plain = turn.batch, turn.after, turn.is_plain
        for reader in readers[start:stop]:
            if not reader.is_live:
                continue
            if reader.place is not place and not reader.place.is_that_of(place):
                place = reader.place
                turn = self._turn(group, place)
                batch, after, is_plain = turn.batch, turn.after, turn.is_plain
                least = min(least, after.seq)
            if is_plain:
                try:
                    if reader.outlet.offer(batch):
                        reader.place = after
                        written += 1
                    else:
                        reader.pump()
                except Exception as error:
                    reader.fail(error)
            elif turn.is_behind:
                reader.pump()
            elif batch.seq:
                written += reader.take(batch, after)
        self._shared.stats.written += written
        if stop < len(readers):
            asyncio.get_running_loop().call_soon(self._serve, group, readers, stop)
        if least < self.tail.head:
            self._wake()
        else:
            group.settle()

    def _turn(self, group: Group, place: Place) -> _Turn:
        """Return what readers at a place get; an encoder that breaks ends the readers of its view, and nobody else's."""
        tail = self.tail
        if place.epoch != tail.epoch or not tail.first - 1 <= place.seq <= tail.head:
            return _Turn(_NOTHING, place, is_behind=True)
        try:
            batch = group.frames.batch(place.seq, place.state)
        except Exception:
            logger.exception("encoding %s for %s failed", group.frames.view.protocol, self.topic.path)
            for broken in tuple(group.live):
                broken.finish("failed")
            batch = None
        return _Turn(_NOTHING, place) if batch is None else _Turn(batch, place.behind(batch))
