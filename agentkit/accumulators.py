"""Fold chunks into complete blocks.

Pure: no I/O, no clock, no policy. It does not decide whether a run failed, and it does not emit.
Source: looprig/core content/streamaccumulator (semantics of index, signature, provider state).
"""

from collections.abc import Iterable
from types import NoneType
from typing import Any, Protocol, assert_never

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
from agentkit.content import (
    Block,
    ImageBlock,
    Message,
    Origin,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)


class _Builder(Protocol):
    def add(self, chunk: Any) -> None: ...

    def build(self, origin: Origin | None, *, complete: bool) -> Block: ...


def _joined(pieces: list[str]) -> str:
    """Return the text of pieces, which becomes their only one: asking again costs nothing."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""


class _Opaque:
    """Signature and provider state of one block: the last non-empty one wins, and travels with its format label."""

    __slots__ = ("signature", "signature_format", "state", "state_format")

    def __init__(self) -> None:
        self.signature = ""
        self.signature_format = ""
        self.state: str | None = None
        self.state_format = ""

    def take(self, chunk: TextChunk | ThinkingChunk | ToolUseChunk) -> None:
        if chunk.signature:
            self.signature = chunk.signature
            self.signature_format = chunk.signature_format
        if chunk.provider_state and chunk.provider_state_format:
            self.state = chunk.provider_state
            self.state_format = chunk.provider_state_format


class _TextBuilder:
    __slots__ = ("opaque", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.opaque = _Opaque()

    def add(self, chunk: TextChunk) -> None:
        if chunk.text:
            self.pieces.append(chunk.text)
        if chunk.signature or chunk.provider_state:
            self.opaque.take(chunk)

    def build(self, origin: Origin | None, *, complete: bool = True) -> TextBlock:  # noqa: ARG002 - one shape for all builders
        o = self.opaque
        return TextBlock(
            _joined(self.pieces), o.signature, o.signature_format, o.state, o.state_format, origin
        )


class _ThinkingBuilder:
    __slots__ = ("opaque", "pieces", "summary")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.opaque = _Opaque()
        self.summary = False

    def add(self, chunk: ThinkingChunk) -> None:
        if chunk.thinking:
            self.pieces.append(chunk.thinking)
        if chunk.summary:
            self.summary = True
        if chunk.signature or chunk.provider_state:
            self.opaque.take(chunk)

    def build(self, origin: Origin | None, *, complete: bool = True) -> ThinkingBlock:  # noqa: ARG002 - one shape for all builders
        o = self.opaque
        return ThinkingBlock(
            _joined(self.pieces),
            o.signature,
            o.state,
            o.state_format,
            o.signature_format,
            self.summary,
            origin,
        )


class _ToolUseBuilder:
    __slots__ = ("id", "name", "opaque", "pieces")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.opaque = _Opaque()

    def add(self, chunk: ToolUseChunk) -> None:
        self.id = chunk.id or self.id
        self.name = chunk.name or self.name
        if chunk.input:
            self.pieces.append(chunk.input)
        if chunk.signature or chunk.provider_state:
            self.opaque.take(chunk)

    def build(self, origin: Origin | None, *, complete: bool = True) -> ToolUseBlock:
        o = self.opaque
        return ToolUseBlock(
            self.id,
            self.name,
            _joined(self.pieces),
            complete,
            o.signature,
            o.signature_format,
            o.state,
            o.state_format,
            origin,
        )


class _RefusalBuilder:
    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def add(self, chunk: RefusalChunk) -> None:
        if chunk.refusal:
            self.pieces.append(chunk.refusal)

    def build(self, origin: Origin | None, *, complete: bool = True) -> RefusalBlock:  # noqa: ARG002 - one shape for all builders
        return RefusalBlock(_joined(self.pieces), origin)


class _ImageBuilder:
    __slots__ = ("chunk",)

    def __init__(self) -> None:
        self.chunk = ImageChunk()

    def add(self, chunk: ImageChunk) -> None:
        self.chunk = chunk

    def build(self, origin: Origin | None, *, complete: bool = True) -> ImageBlock:  # noqa: ARG002 - one shape for all builders
        return ImageBlock(self.chunk.media_type, self.chunk.data, self.chunk.url, origin)


class _ProviderBuilder:
    __slots__ = ("chunk",)

    def __init__(self) -> None:
        self.chunk = ProviderChunk("", "", "")

    def add(self, chunk: ProviderChunk) -> None:
        self.chunk = chunk

    def build(self, origin: Origin | None, *, complete: bool = True) -> ProviderBlock:  # noqa: ARG002 - one shape for all builders
        c = self.chunk
        return ProviderBlock(c.kind, c.provider_state, c.provider_state_format, origin)


class Text:
    """Fold `TextChunk`s, whatever their index, into one block."""

    __slots__ = ("_builder",)

    def __init__(self) -> None:
        self._builder: _TextBuilder | None = None

    @property
    def empty(self) -> bool:
        """True until a chunk was received; an empty string counts as received."""
        return self._builder is None

    def add(self, chunk: TextChunk) -> None:
        """Take one chunk."""
        self._builder = self._builder or _TextBuilder()
        self._builder.add(chunk)

    def block(self, origin: Origin | None = None) -> TextBlock | None:
        """Return what has come so far, or None before any chunk."""
        return self._builder.build(origin) if self._builder else None


class Thinking:
    """Fold `ThinkingChunk`s into one block per index. Any index will do: gaps make no filler."""

    __slots__ = ("_builders",)

    def __init__(self) -> None:
        self._builders: dict[int, _ThinkingBuilder] = {}

    @property
    def empty(self) -> bool:
        """True until a chunk was received; an empty string counts as received."""
        return not self._builders

    def add(self, chunk: ThinkingChunk) -> None:
        """Take one chunk."""
        self._builders.setdefault(chunk.index, _ThinkingBuilder()).add(chunk)

    def block(self, origin: Origin | None = None) -> ThinkingBlock | None:
        """Return the block of the lowest index, or None before any chunk."""
        return self._builders[min(self._builders)].build(origin) if self._builders else None

    def blocks(self, origin: Origin | None = None) -> list[ThinkingBlock]:
        """Return the blocks by ascending index, [] before any chunk."""
        return [self._builders[index].build(origin) for index in sorted(self._builders)]


class ToolUses:
    """Fold `ToolUseChunk`s into one block per index. Input stays the raw concatenated JSON."""

    __slots__ = ("_builders",)

    def __init__(self) -> None:
        self._builders: dict[int, _ToolUseBuilder] = {}

    @property
    def empty(self) -> bool:
        """True until a chunk was received."""
        return not self._builders

    def add(self, chunk: ToolUseChunk) -> None:
        """Take one chunk."""
        self._builders.setdefault(chunk.index, _ToolUseBuilder()).add(chunk)

    def blocks(self, origin: Origin | None = None) -> list[ToolUseBlock]:
        """Return the blocks by ascending index, [] before any chunk."""
        return [self._builders[index].build(origin) for index in sorted(self._builders)]


class Refusal:
    """Fold `RefusalChunk`s, whatever their index, into one block."""

    __slots__ = ("_builder",)

    def __init__(self) -> None:
        self._builder: _RefusalBuilder | None = None

    @property
    def empty(self) -> bool:
        """True until a chunk was received; an empty string counts as received."""
        return self._builder is None

    def add(self, chunk: RefusalChunk) -> None:
        """Take one chunk."""
        self._builder = self._builder or _RefusalBuilder()
        self._builder.add(chunk)

    def block(self, origin: Origin | None = None) -> RefusalBlock | None:
        """Return what has come so far, or None before any chunk."""
        return self._builder.build(origin) if self._builder else None


class Images:
    """Keep `ImageChunk`s, each a block of its own; the last of an index wins."""

    __slots__ = ("_builders",)

    def __init__(self) -> None:
        self._builders: dict[int, _ImageBuilder] = {}

    @property
    def empty(self) -> bool:
        """True until a chunk was received."""
        return not self._builders

    def add(self, chunk: ImageChunk) -> None:
        """Take one chunk."""
        self._builders.setdefault(chunk.index, _ImageBuilder()).add(chunk)

    def blocks(self, origin: Origin | None = None) -> list[ImageBlock]:
        """Return the blocks by ascending index, [] before any chunk."""
        return [self._builders[index].build(origin) for index in sorted(self._builders)]


_BUILDERS: dict[type, type[_Builder]] = {
    TextChunk: _TextBuilder,
    ThinkingChunk: _ThinkingBuilder,
    ToolUseChunk: _ToolUseBuilder,
    RefusalChunk: _RefusalBuilder,
    ImageChunk: _ImageBuilder,
    ProviderChunk: _ProviderBuilder,
}


class Response:
    """Fold all kinds of chunk, in order, into the blocks of one model response.

    One block per index; where one index is used for two kinds (a hand-made stream), each kind keeps its own block.
    """

    __slots__ = ("_builders", "_ended", "error", "finish", "origin", "usage")

    def __init__(self, origin: Origin | None = None) -> None:
        self.origin = origin
        self.usage = Usage()
        """The last usage that came."""
        self.finish: FinishChunk | None = None
        """The last finish that came."""
        self.error: ErrorChunk | None = None
        """The first error that came."""
        self._builders: dict[tuple[int, type], _Builder] = {}
        self._ended: set[int] = set()

    @property
    def empty(self) -> bool:
        """True until a block has begun."""
        return not self._builders

    def add(self, chunk: Chunk) -> None:
        """Take one chunk."""
        if type(chunk) is TextChunk or type(chunk) is ThinkingChunk or type(chunk) is ToolUseChunk:
            begun = self._builders.get((chunk.index, type(chunk)))  # nearly all there are
            if begun is not None:
                begun.add(chunk)
                return
        match chunk:
            case (
                TextChunk()
                | ThinkingChunk()
                | ToolUseChunk()
                | RefusalChunk()
                | ImageChunk()
                | ProviderChunk()
            ):
                key = (chunk.index, type(chunk))
                builder = self._builders.get(key)
                if builder is None:
                    builder = self._builders[key] = _BUILDERS[type(chunk)]()
                builder.add(chunk)
            case BlockEndChunk():
                self._ended.add(chunk.index)
            case UsageChunk():
                self.usage = chunk.usage
            case FinishChunk():
                self.finish = chunk
            case ErrorChunk():
                self.error = self.error or chunk
            case _:
                assert_never(chunk)

    def extend(self, chunks: Iterable[Chunk]) -> None:
        """Take chunks, in order: as `add` for each of them, with one look-up for all that go on with the same block."""
        kind: type = NoneType
        index = 0
        more = self.add
        for chunk in chunks:
            if type(chunk) is kind and chunk.index == index:  # type: ignore[union-attr]  # `kind` is one that has an index
                more(chunk)
                continue
            self.add(chunk)
            kind = NoneType
            if type(chunk) is TextChunk or type(chunk) is ThinkingChunk or type(chunk) is ToolUseChunk:
                kind, index = type(chunk), chunk.index
                more = self._builders[index, kind].add

    def blocks(self) -> list[Block]:
        """Return the blocks that have come so far, by ascending index."""
        by_index = sorted(self._builders.items(), key=lambda item: item[0][0])
        return [builder.build(self.origin, complete=index in self._ended) for (index, _), builder in by_index]

    def message(self, *, run: str = "", partial: bool = False) -> Message:
        """Return the blocks that have come so far as an assistant message."""
        return Message("assistant", tuple(self.blocks()), "partial" if partial else "complete", run)
