"""One topic's fan-out: the flush that serves its live readers.

Asyncio only. An append wakes the fan-out, which flushes once in the next turn of the loop: each reader that stands at the end of the ring
is written to right there, at most one write each, of bytes that were made once. Readers for whom a writer would wait have pumps of their
own (`reader`): nothing that one does, or fails to do, is felt by a run or by another.
Grounds: design.md §8.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator

from agentkit.log import Tail, Topic
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.frames import Frames
from agentkit_transports.outlet import Batch
from agentkit_transports.reader import Group, Reader, Shared

logger = logging.getLogger("agentkit")


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
        """Write what is next to the readers from `start` on, a slice in a turn of the loop."""
        stop = start + self._shared.settings.slice_size
        seq, epoch = -1, ""
        batch: Batch | None = None
        is_behind = is_more = False
        written = 0
        for reader in readers[start:stop]:
            if not reader.is_live:
                continue
            if reader.seq != seq or reader.epoch != epoch:
                seq, epoch = reader.seq, reader.epoch
                is_behind = not self.tail.holds(reader.cursor)
                batch = None if is_behind else self._next(group, reader)
                is_more = is_more or (batch is not None and batch.seq < self.tail.head)
            if is_behind:
                reader.pump()
            elif batch is not None and reader.take(batch):
                written += 1
        self._shared.stats.written += written
        if stop < len(readers):
            asyncio.get_running_loop().call_soon(self._serve, group, readers, stop)
        if is_more:
            self._wake()

    def _next(self, group: Group, reader: Reader) -> Batch | None:
        """Return what follows a reader's place; an encoder that breaks ends the readers of its view, and nobody else's."""
        try:
            return group.frames.batch(reader.seq, reader.state)
        except Exception:
            logger.exception("encoding %s for %s failed", group.frames.view.protocol, self.topic.path)
            for broken in tuple(group.live):
                broken.finish("failed")
            return None
