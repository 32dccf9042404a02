"""Give deltas their blocks in dialects whose wire has no block borders.

Pure; for chat, Gemini and Ollama. A run of deltas of one kind is one block, another kind ends it, and indexes are dense by first
sight over all kinds. Text leaves here as valid Unicode: surrogate halves that a provider split over deltas are joined.
"""

from typing import Final

from agentkit.chunks import BlockEndChunk, Chunk, RefusalChunk, TextChunk, ThinkingChunk
from agentkit.dialects.base import SurrogateJoiner

TEXT: Final = "text"
THINKING: Final = "thinking"
SUMMARY: Final = "summary"
REFUSAL: Final = "refusal"
PLACED: Final = "placed"  # reasoning that the wire gives a place of its own


class Blocks:
    """The order of blocks in one answer, and the one that is being written."""

    __slots__ = ("_count", "_half", "_index", "_joiner", "_kind")

    def __init__(self) -> None:
        self._count = 0
        self._kind = ""  # "" where no run is open
        self._index = 0
        self._joiner = SurrogateJoiner()
        self._half = False  # the joiner holds something back

    @property
    def empty(self) -> bool:
        """True until a block has begun."""
        return not self._count

    def new(self) -> int:
        """Return the index of a block that begins now."""
        index = self._count
        self._count += 1
        return index

    def text(self, text: str, out: list[Chunk]) -> None:
        """Add visible text."""
        if self._kind != TEXT:
            self._open(TEXT, out)
        if self._half or not text.isascii():
            text = self._joined(text)
            if not text:
                return
        out.append(TextChunk(text, self._index))

    def thinking(self, text: str, out: list[Chunk]) -> None:
        """Add reasoning that came without a place of its own."""
        if self._kind != THINKING:
            self._open(THINKING, out)
        if self._half or not text.isascii():
            text = self._joined(text)
            if not text:
                return
        out.append(ThinkingChunk(text, "", "", None, "", self._index))

    def summary(self, text: str, out: list[Chunk]) -> None:
        """Add text that the provider wrote about its reasoning."""
        if self._kind != SUMMARY:
            self._open(SUMMARY, out)
        if text := self._joined(text):
            out.append(ThinkingChunk(text, "", "", None, "", self._index, True))

    def refusal(self, text: str, out: list[Chunk]) -> None:
        """Add words of a refusal."""
        if self._kind != REFUSAL:
            self._open(REFUSAL, out)
        if text := self._joined(text):
            out.append(RefusalChunk(text, self._index))

    def enter(self, index: int, out: list[Chunk]) -> None:
        """Go on with the block at `index`, which has a place of its own on the wire; another open run ends."""
        if self._kind != PLACED or self._index != index:
            self.end(out)
            self._kind = PLACED
            self._index = index

    def end(self, out: list[Chunk]) -> None:
        """End the open run, if there is one: something else comes, or the answer is over."""
        if self._kind:
            self.release(out)
            out.append(BlockEndChunk(self._index))
            self._kind = ""

    def release(self, out: list[Chunk]) -> None:
        """Give out what the open run held back: a surrogate half that never got its other half becomes U+FFFD."""
        if not self._half:
            return
        self._half = False
        half = self._joiner.flush()
        match self._kind:
            case "text":
                out.append(TextChunk(half, self._index))
            case "refusal":
                out.append(RefusalChunk(half, self._index))
            case _:
                out.append(ThinkingChunk(half, "", "", None, "", self._index, self._kind == SUMMARY))

    def _joined(self, text: str) -> str:
        text = self._joiner.feed(text)
        self._half = self._joiner.pending
        return text

    def _open(self, kind: str, out: list[Chunk]) -> None:
        self.end(out)
        self._kind = kind
        self._index = self.new()
