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

    __slots__ = ("_count", "_joiner", "half", "index", "kind")

    def __init__(self) -> None:
        self._count = 0
        self._joiner = SurrogateJoiner()
        self.kind = ""
        """What is being written, "" where no run is open."""
        self.index = 0
        """The block that is being written, or was last."""
        self.half = False
        """True where half a character is held back."""

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
        if self.kind != TEXT:
            self._open(TEXT, out)
        if self.half or not text.isascii():
            text = self._joined(text)
            if not text:
                return
        out.append(TextChunk(text, self.index))

    def thinking(self, text: str, out: list[Chunk]) -> None:
        """Add reasoning that came without a place of its own."""
        if self.kind != THINKING:
            self._open(THINKING, out)
        if self.half or not text.isascii():
            text = self._joined(text)
            if not text:
                return
        out.append(ThinkingChunk(text, "", "", None, "", self.index))

    def summary(self, text: str, out: list[Chunk]) -> None:
        """Add text that the provider wrote about its reasoning."""
        if self.kind != SUMMARY:
            self._open(SUMMARY, out)
        if text := self._joined(text):
            out.append(ThinkingChunk(text, "", "", None, "", self.index, True))

    def refusal(self, text: str, out: list[Chunk]) -> None:
        """Add words of a refusal."""
        if self.kind != REFUSAL:
            self._open(REFUSAL, out)
        if text := self._joined(text):
            out.append(RefusalChunk(text, self.index))

    def enter(self, index: int, out: list[Chunk]) -> None:
        """Go on with the block at `index`, which has a place of its own on the wire; another open run ends."""
        if self.kind != PLACED or self.index != index:
            self.end(out)
            self.kind = PLACED
            self.index = index

    def end(self, out: list[Chunk]) -> None:
        """End the open run, if there is one: something else comes, or the answer is over."""
        if self.kind:
            self.release(out)
            out.append(BlockEndChunk(self.index))
            self.kind = ""

    def release(self, out: list[Chunk]) -> None:
        """Give out what the open run held back: a surrogate half that never got its other half becomes U+FFFD."""
        if not self.half:
            return
        self.half = False
        half = self._joiner.flush()
        match self.kind:
            case "text":
                out.append(TextChunk(half, self.index))
            case "refusal":
                out.append(RefusalChunk(half, self.index))
            case _:
                out.append(ThinkingChunk(half, "", "", None, "", self.index, self.kind == SUMMARY))

    def _joined(self, text: str) -> str:
        text = self._joiner.feed(text)
        self.half = bool(self._joiner.half)
        return text

    def _open(self, kind: str, out: list[Chunk]) -> None:
        self.end(out)
        self.kind = kind
        self.index = self.new()
