"""Blocks, messages and usage: what a thread keeps, and its JSON form.

Pure: no I/O, no clock. It does not stream (see `chunks`) and is not shown to watchers (see `events`). What is opaque here (signatures,
provider state) is kept byte for byte and never interpreted.
Source: looprig/core content (ThinkingBlock and its replay rules).
"""

import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic_core import ValidationError

from agentkit.deferred import Deferred, JsonValue
from agentkit.errors import WireError, quote

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "Block",
    "DocumentBlock",
    "ImageBlock",
    "JsonValue",
    "Message",
    "Origin",
    "ProviderBlock",
    "RefusalBlock",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "dump_messages",
    "load_messages",
    "valid_text",
]


def valid_text(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD, so that it encodes as UTF-8. Pairs of halves are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made a block. Opaque state goes back only to an equal origin."""

    dialect: str
    provider: str
    model: str
    endpoint: str = ""
    """The base URL where it matters who stands behind it; "" for the provider's own."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text that the user sees or wrote."""

    text: str
    signature: str = ""
    """Some dialects sign text (Gemini); opaque, sent back only in place."""
    signature_format: str = ""
    provider_state: str | None = None
    """JSON text, opaque (an item's id, a phase), or None."""
    provider_state_format: str = ""
    origin: Origin | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """What the model thought, with what the provider needs to get it back.

    The text may be empty: redacted and signature-only blocks are real and must be kept.
    """

    thinking: str = ""
    signature: str = ""
    """Empty while streaming, or where the dialect does not sign."""
    provider_state: str | None = None
    """JSON text as the decoder first saw it, or None. Never interpreted here."""
    provider_state_format: str = ""
    """The dialect label that owns `provider_state`."""
    signature_format: str = ""
    """The dialect label that owns `signature`."""
    summary: bool = False
    """True where the text is what the provider wrote about its reasoning, not the reasoning itself."""
    origin: Origin | None = None
    type: Literal["thinking"] = "thinking"

    def replayable_as(self, format: str) -> bool:  # noqa: A002 - the seed's word
        """Tell whether the provider state may be sent in dialect `format`.

        False for no state, an empty format, or another format: the codec then treats the state as absent.
        """
        return bool(self.provider_state) and bool(format) and self.provider_state_format == format

    def signature_replayable_as(self, format: str) -> str | None:  # noqa: A002 - as above
        """Return the signature if it may be sent in dialect `format`, else None."""
        return self.signature if self.signature and format and self.signature_format == format else None


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call that the model asks for."""

    id: str
    name: str
    input: str = ""
    """The arguments: raw JSON text as it came, not interpreted. Blank means no arguments."""
    complete: bool = True
    """False where the stream broke off before the call's end was seen: such a call is never run."""
    signature: str = ""
    signature_format: str = ""
    provider_state: str | None = None
    provider_state_format: str = ""
    origin: Origin | None = None
    type: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True, slots=True)
class RefusalBlock:
    """The model's words for why it will not answer."""

    refusal: str
    origin: Origin | None = None
    type: Literal["refusal"] = "refusal"


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image: base64 `data` of `media_type`, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    origin: Origin | None = None
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A document: base64 `data` of `media_type`, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    name: str = ""
    type: Literal["document"] = "document"


@dataclass(frozen=True, slots=True)
class ProviderBlock:
    """A block of the provider's own (server tool, its result, an unknown kind), kept whole and in place. Never text."""

    kind: str
    """The provider's word for it."""
    provider_state: str
    """The whole block as JSON text."""
    provider_state_format: str
    origin: Origin | None = None
    type: Literal["provider"] = "provider"


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """What a call gave."""

    tool_use_id: str
    name: str = ""
    content: tuple[TextBlock | ImageBlock | DocumentBlock, ...] = ()
    status: Literal["ok", "error", "denied", "interrupted"] = "ok"
    type: Literal["tool_result"] = "tool_result"

    @property
    def is_error(self) -> bool:
        """True for everything but `ok`."""
        return self.status != "ok"

    @property
    def text(self) -> str:
        """The text of the content, joined with nothing between."""
        return "".join(part.text for part in self.content if isinstance(part, TextBlock))


Block: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ToolUseBlock
    | RefusalBlock
    | ImageBlock
    | DocumentBlock
    | ProviderBlock
    | ToolResultBlock
)


def _by_type(block: Any) -> Any:
    from pydantic import Field

    return Annotated[block, Field(discriminator="type")]


TaggedBlock: TypeAlias = Annotated[Block, Deferred(_by_type)]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or of several added up. What a provider did not tell is 0."""

    input_tokens: int = 0
    """All input tokens, cached ones too."""
    output_tokens: int = 0
    """All output tokens, reasoning too."""
    reasoning_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Usage)))


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a thread: blocks in their order."""

    role: Role
    content: tuple[TaggedBlock, ...]
    status: Literal["complete", "partial"] = "complete"
    """`partial`: the run failed or was cancelled while this was being made; it stays readable."""
    run: str = ""
    """The run that made it, or "". One of the user's role that has a run is no user's: the run has told its model something."""

    @staticmethod
    def user(text: str | Iterable[Block]) -> "Message":
        """Return a user message of text, or of blocks."""
        content = (TextBlock(valid_text(text)),) if isinstance(text, str) else tuple(text)
        return Message("user", content)

    @staticmethod
    def system(text: str) -> "Message":
        """Return a system message."""
        return Message("system", (TextBlock(valid_text(text)),))

    @staticmethod
    def assistant(text: str | Iterable[Block]) -> "Message":
        """Return an assistant message of text, or of blocks."""
        content = (TextBlock(valid_text(text)),) if isinstance(text, str) else tuple(text)
        return Message("assistant", content)

    @property
    def text(self) -> str:
        """The visible text, joined with nothing between: never reasoning, never a refusal."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def refusal(self) -> str | None:
        """The refusal's words, or None where there is none."""
        parts = [block.refusal for block in self.content if isinstance(block, RefusalBlock)]
        return "".join(parts) if parts else None

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def thinking(self) -> tuple[ThinkingBlock, ...]:
        """The thinking blocks, in order."""
        return tuple(block for block in self.content if isinstance(block, ThinkingBlock))


@cache
def _messages() -> "TypeAdapter[list[Message]]":
    """Return what validates messages; made when some are first loaded, for it takes longer than importing all the rooms."""
    from pydantic import TypeAdapter

    return TypeAdapter(list[Message])


def plain(value: Any) -> Any:
    """Return a dataclass value as plain JSON data; members that equal their default are left out, but for `type`."""
    if is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {}
        for field in fields(value):
            member = getattr(value, field.name)
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            if field.name == "type" or member != default:
                out[field.name] = plain(member)
        return out
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, (dict, types.MappingProxyType)):
        return {key: plain(member) for key, member in value.items()}
    return valid_text(value) if isinstance(value, str) else value


def dump_messages(messages: Sequence[Message]) -> bytes:
    """Return the messages as one JSON array, UTF-8. Saving and loading changes no byte of thinking, signature or state."""
    return json.dumps(
        plain(list(messages)), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


def load_messages(data: bytes | str | Sequence[Mapping[str, Any] | Message]) -> list[Message]:
    """Return the messages that `data` holds: JSON text of an array, or its parsed members.

    Raises:
        WireError: it is not such an array; the message names the first member that does not fit.
    """
    try:
        if isinstance(data, (bytes, str)):
            return _messages().validate_python(json.loads(data))
        return _messages().validate_python([m if isinstance(m, Message) else dict(m) for m in data])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise WireError(f"messages[{place}]: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise WireError(f"messages are not JSON: {quote(str(error))}") from None
