"""Chunks: what a dialect decoder yields, in the order of the wire.

A chunk is an increment of one block, or a word about the whole response. `index` is its block's place in the response, over all kinds
of block; decoders give dense indexes by first sight, with gaps only where the wire left a number out. Chunks are slotted and unfrozen because freezing costs a microsecond a delta;
treat them as immutable.

Not events: what watchers see is made from chunks by `events`.
Source: looprig/core content/chunk.go (TextChunk, ThinkingChunk, ToolUseChunk).
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentkit.content import Usage

FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error", "other"
]


@dataclass(slots=True)
class TextChunk:
    """A piece of visible text."""

    text: str = ""
    index: int = 0
    signature: str = ""
    signature_format: str = ""
    provider_state: str | None = None
    provider_state_format: str = ""


@dataclass(slots=True)
class ThinkingChunk:
    """A piece of reasoning: text, a signature, an opaque state, or several at once."""

    thinking: str = ""
    signature: str = ""
    signature_format: str = ""
    provider_state: str | None = None
    """JSON text; replaces what the block had. Ignored without a format."""
    provider_state_format: str = ""
    index: int = 0
    summary: bool = False
    """True where the text is what the provider wrote about its reasoning."""
    part: int | None = None
    """Which part of the block the text belongs to, where the provider writes several, or None."""


@dataclass(slots=True)
class ToolUseChunk:
    """A piece of a call. Id and name are set, not appended; `input` is appended raw."""

    id: str = ""
    name: str = ""
    input: str = ""
    index: int = 0
    signature: str = ""
    signature_format: str = ""
    provider_state: str | None = None
    provider_state_format: str = ""


@dataclass(slots=True)
class RefusalChunk:
    """A piece of the model's words for why it will not answer."""

    refusal: str = ""
    index: int = 0


@dataclass(slots=True)
class ImageChunk:
    """A whole image that the model made: base64 `data`, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    index: int = 0


@dataclass(slots=True)
class ProviderChunk:
    """A whole block of the provider's own, opaque: kept in place, never text."""

    kind: str
    provider_state: str
    provider_state_format: str
    index: int = 0


@dataclass(slots=True)
class BlockEndChunk:
    """The provider said that this block is whole. A call without it is never run."""

    index: int = 0


@dataclass(slots=True)
class UsageChunk:
    """Usage so far; a later one replaces it."""

    usage: Usage


@dataclass(slots=True)
class FinishChunk:
    """Why the model stopped. It does not end the reading: usage, errors and even text may follow; a later one replaces it."""

    reason: FinishReason
    raw: str = ""
    """The provider's own word."""


@dataclass(slots=True)
class ErrorChunk:
    """The stream said error, or ended without its end. What came before it stays."""

    kind: Literal["provider", "truncated"]
    message: str
    code: str = ""
    """The provider's own word or number, as text."""
    retryable: bool = False
    """True where asking again can help."""


BlockChunk: TypeAlias = TextChunk | ThinkingChunk | ToolUseChunk | RefusalChunk | ImageChunk | ProviderChunk
Chunk: TypeAlias = BlockChunk | BlockEndChunk | UsageChunk | FinishChunk | ErrorChunk
