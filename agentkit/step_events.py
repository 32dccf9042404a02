"""The one mapping chunk → event: what watchers see of a model's response.

Pure: no I/O, no clock (times are given). It keeps which blocks are open, and nothing of what they hold but a call's input.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ImageChunk,
    ProviderChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import JsonValue
from agentkit.deltas import Deltas, EventBatch, Part
from agentkit.events import (
    Event,
    Image,
    Reasoning,
    ReasoningBlockFinished,
    ReasoningBlockStarted,
    ReasoningEvent,
    ReasoningKind,
    RefusalDelta,
    RefusalFinished,
    RefusalStarted,
    TextDelta,
    TextFinished,
    TextStarted,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)


@dataclass(slots=True)
class _Open:
    """A block that watchers have seen begin."""

    kind: type
    id: str
    call: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


class StepEvents:
    """Map the chunks of one model response to events, and close what is open at its end.

    A block begins with its first chunk and ends with its `BlockEndChunk`, or with `close()`. An index that comes again after its end
    (a signature that a provider sends late) gives reasoning events of the same block, without a second start.
    """

    __slots__ = ("_open", "_seen", "first", "provider", "run", "step")

    def __init__(self, run: str, step: int, provider: str) -> None:
        self.run = run
        self.step = step
        self.provider = provider
        self._open: dict[tuple[int, type], _Open] = {}
        self._seen: set[str] = set()
        self.first: dict[type, float] = {}
        """When the first block of each kind of chunk began, in seconds since the epoch."""

    @property
    def blocks(self) -> list[str]:
        """The ids of all blocks that watchers have seen, sorted."""
        return sorted(self._seen)

    def map(self, chunks: Iterable[Chunk], time: float) -> EventBatch:
        """Return the events of `chunks`, in order.

        Nearly all chunks are pieces that their open block goes on with, hence the loop in one piece.
        """
        out: list[Part] = []
        texts: list[str] = []
        index, kind = -1, None
        for chunk in chunks:
            text, at = "", -1
            if type(chunk) is TextChunk:
                text, at = chunk.text, chunk.index
            elif type(chunk) is ThinkingChunk and not (
                chunk.signature or chunk.provider_state or chunk.summary
            ):
                text, at = chunk.thinking if chunk.part is None else "", chunk.index
            if text:
                if type(chunk) is kind and at == index:
                    texts.append(text)
                    continue
                opened = self._open.get((at, type(chunk)))
                if opened is not None:
                    index, kind, texts = at, type(chunk), [text]
                    provider = self.provider if kind is ThinkingChunk else None
                    out.append(Deltas(self.run, self.step, time, opened.id, provider, texts))
                    continue
            kind = None
            self._take(chunk, out, time)
        return EventBatch(out)

    def close(self, time: float) -> list[Event]:
        """Return the events that close every open block, in the order in which they began."""
        out: list[Part] = []
        for opened in self._open.values():
            self._finish(opened, out, time, whole=False)
        self._open.clear()
        return list(EventBatch(out))

    def _take(self, chunk: Chunk, out: list[Part], time: float) -> None:
        match chunk:
            case TextChunk():
                opened = self._begin(chunk.index, TextChunk, out, time)
                if chunk.text:
                    out.append(TextDelta(self.run, self.step, time, opened.id, chunk.text))
            case ThinkingChunk():
                self._thinking(chunk, out, time)
            case ToolUseChunk():
                self._tool_use(chunk, out, time)
            case RefusalChunk():
                opened = self._begin(chunk.index, RefusalChunk, out, time)
                if chunk.refusal:
                    out.append(RefusalDelta(self.run, self.step, time, opened.id, chunk.refusal))
            case ImageChunk():
                block = self._id(chunk.index)
                out.append(Image(self.run, self.step, time, block, chunk.media_type, chunk.data, chunk.url))
            case BlockEndChunk():
                self._end(chunk.index, out, time)
            case ProviderChunk() | UsageChunk() | FinishChunk() | ErrorChunk():
                pass  # kept in the thread or told by the step's and the run's own events

    def _id(self, index: int) -> str:
        return f"{self.run}.{self.step}.{index}"

    def _begin(self, index: int, kind: type, out: list[Part], time: float) -> _Open:
        opened = self._open.get((index, kind))
        if opened is None:
            opened = self._open[index, kind] = _Open(kind, self._id(index))
            self._seen.add(opened.id)
            self.first.setdefault(kind, time)
            if kind is TextChunk:
                out.append(TextStarted(self.run, self.step, time, opened.id))
            elif kind is ThinkingChunk:
                out.append(ReasoningBlockStarted(self.run, self.step, time, opened.id))
            elif kind is RefusalChunk:
                out.append(RefusalStarted(self.run, self.step, time, opened.id))
        return opened

    def _thinking(self, chunk: ThinkingChunk, out: list[Part], time: float) -> None:
        block = self._id(chunk.index)
        late = block in self._seen and (chunk.index, ThinkingChunk) not in self._open
        if not (late and not chunk.thinking):
            self._begin(chunk.index, ThinkingChunk, out, time)
        if chunk.thinking:
            kind: ReasoningKind = "summary" if chunk.summary else "delta"
            part: dict[str, JsonValue] = {} if chunk.part is None else {"part": chunk.part}
            event = ReasoningEvent(kind, self.provider, chunk.thinking, part)
            out.append(Reasoning(self.run, self.step, time, block, event))
        if chunk.signature:
            data: dict[str, JsonValue] = {"signature": chunk.signature, "format": chunk.signature_format}
            event = ReasoningEvent("signature", self.provider, None, data)
            out.append(Reasoning(self.run, self.step, time, block, event))
        if chunk.provider_state and chunk.provider_state_format:
            data = {"state": chunk.provider_state, "format": chunk.provider_state_format}
            event = ReasoningEvent("state", self.provider, None, data)
            out.append(Reasoning(self.run, self.step, time, block, event))

    def _tool_use(self, chunk: ToolUseChunk, out: list[Part], time: float) -> None:
        fresh = (chunk.index, ToolUseChunk) not in self._open
        opened = self._begin(chunk.index, ToolUseChunk, out, time)
        opened.call = chunk.id or opened.call
        opened.name = chunk.name or opened.name
        if fresh:
            out.append(ToolCallStarted(self.run, self.step, time, opened.id, opened.call, opened.name))
        if chunk.input:
            opened.pieces.append(chunk.input)
            out.append(ToolCallDelta(self.run, self.step, time, opened.id, opened.call, chunk.input))

    def _end(self, index: int, out: list[Part], time: float) -> None:
        for kind in (TextChunk, ThinkingChunk, ToolUseChunk, RefusalChunk):
            opened = self._open.pop((index, kind), None)
            if opened is not None:
                self._finish(opened, out, time, whole=True)

    def _finish(self, opened: _Open, out: list[Part], time: float, *, whole: bool) -> None:
        if opened.kind is TextChunk:
            out.append(TextFinished(self.run, self.step, time, opened.id))
        elif opened.kind is ThinkingChunk:
            out.append(ReasoningBlockFinished(self.run, self.step, time, opened.id))
        elif opened.kind is RefusalChunk:
            out.append(RefusalFinished(self.run, self.step, time, opened.id))
        elif whole:
            text = "".join(opened.pieces)
            out.append(ToolCallReady(self.run, self.step, time, opened.id, opened.call, opened.name, text))
