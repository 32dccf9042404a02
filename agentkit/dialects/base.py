"""What a dialect is: a provider's wire format, both ways, without any wire.

Pure: no I/O, no event loop, no HTTP. A dialect turns a `ModelRequest` into the parts of an HTTP request, and the payloads of the
answer into chunks. One file a dialect; what differs between providers of one dialect is a `Profile`, never a subclass.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from agentkit.chunks import Chunk
from agentkit.content import (
    JsonValue,
    Origin,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    valid_text,
)
from agentkit.errors import ForeignSignatureError, WireError, quote
from agentkit.model import ModelRequest, Notice
from agentkit.payload_json import REFUSALS, parser
from agentkit.reasoning import Effort


@dataclass(frozen=True, slots=True)
class Profile:
    """What a provider (or one of its models) does differently within its dialect. A row of data, no code."""

    think_tags: bool = False
    """Reasoning comes inside the text, as `<think>…</think>`."""
    replay_reasoning: Literal["always", "within_turn", "never"] | None = None
    """Chat: which assistant messages carry `reasoning_content` back. None: not sent."""
    missing_reasoning: Literal["", "empty", "space"] = ""
    """Chat: what stands in `reasoning_content` where a message that would carry it had none; "" leaves the member out."""
    reasoning_field: Literal[
        "reasoning_effort",
        "reasoning",
        "thinking",
        "enable_thinking",
        "reasoning_budget_tokens",
        "chat_template_kwargs",
        "",
    ] = "reasoning_effort"
    """Chat: the member that says how much to reason. `reasoning`: an object of effort or max_tokens. `thinking`: on or off, with
    `reasoning_effort` beside it where `efforts` are told. `enable_thinking`: on or off with `thinking_budget`. `chat_template_kwargs`:
    `enable_thinking` in it. "": the endpoint has none, and a reasoning setting is refused."""
    efforts: tuple[Effort, ...] = ()
    """Chat: the efforts that the endpoint takes, ascending; another one becomes the next above, or the last. () is all of them."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Chat: the member that limits the output."""
    json_schema: bool = True
    """Chat: the endpoint takes a JSON schema for its answer."""
    stream_usage: bool = True
    """Chat: the endpoint takes `stream_options`, to be asked for usage; False where it refuses that or tells usage unasked."""
    document_urls: bool = False
    """Chat: file parts may hold a URL; everywhere they may hold data."""
    short_call_ids: bool = False
    """Chat: ids of calls must be nine letters or digits (Mistral)."""
    adaptive_thinking: bool = False
    """Anthropic: the model decides how much to think and takes no budget; `efforts` are those that it takes."""
    unsigned_thinking: bool = False
    """Anthropic: the endpoint wants thinking back although it does not sign it."""
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Members that every request of the provider carries."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    provider: str
    """The row's name; also the key of `provider_options`."""
    model: str
    profile: Profile = field(default_factory=Profile)
    endpoint: str = ""
    """The base URL where it is not the provider's own."""


@dataclass(frozen=True, slots=True)
class HTTPParts:
    """A request, but for the base URL and the key."""

    path: str
    """Joined to the base URL, with its query."""
    body: dict[str, JsonValue]
    headers: dict[str, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    """What was left out, and why."""


@dataclass(frozen=True, slots=True)
class StatusFault:
    """What an error body says, read by its dialect."""

    message: str
    code: str = ""
    retryable: bool | None = None
    """None: the HTTP status decides."""


class Decoder(Protocol):
    """Fold the payloads of one answer into chunks. Synchronous; one object an answer."""

    def feed(self, event: str, data: str) -> list[Chunk]:
        """Return the chunks of one payload.

        Args:
            event: the SSE event name, "" where there is none; `error` with a field named so (see `sse`).
            data: the payload, usually JSON.

        Raises:
            WireError: the payload is not what the dialect says. What came before it stays good.
        """
        ...

    def close(self) -> list[Chunk]:
        """The body has ended: return what was held back, and an `ErrorChunk("truncated")` where the end was never told."""
        ...


@runtime_checkable
class QuickDecoder(Decoder, Protocol):
    """A decoder with a short way for the payloads that answers are made of; a dialect may leave it out. See `feed_all`."""

    def piece(self, payload: Any) -> Chunk | None:
        """Return the chunk of a payload that is plainly the next piece of a block that is open; None for any other, unread.

        Args:
            payload: as a `payload_json.parser` gives it: no text in it holds half a character.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: it is something else.
        """
        ...

    def take(self, event: str, data: str, payload: Any) -> list[Chunk]:
        """Return the chunks of a payload that is parsed: what `feed` does behind the parser.

        Raises:
            WireError: as `feed`.
        """
        ...


def feed_all(decoder: QuickDecoder, event: str, payloads: Iterable[str], out: list[Chunk]) -> None:
    """Add to `out` the chunks of payloads that follow each other, none of them named `error`: those that `feed` gives for each in turn.

    The hot path of every answer. Nearly all payloads are one piece more of an open block, and what one of them costs here is its
    parsing, one call and its chunk.

    Raises:
        WireError: as `feed`; `out` holds what came before.
    """
    piece, parse = decoder.piece, parser()
    for data in payloads:
        try:
            payload = parse(data)
        except REFUSALS:
            out += decoder.feed(event, data)
            continue
        try:
            chunk = piece(payload)
        except (LookupError, TypeError, ValueError, AttributeError):
            chunk = None
        if chunk is None:
            out += decoder.take(event, data, payload)
        else:
            out.append(chunk)


class Dialect(Protocol):
    """A provider's wire format."""

    name: str
    """The label on signatures, states and origins: `anthropic-messages`."""
    framing: Literal["sse", "ndjson"]

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        """Return the HTTP request that says `request`.

        Raises:
            ConfigurationError: the dialect cannot say it.
        """
        ...

    def decoder(self, target: Target) -> Decoder:
        """Return a fresh decoder."""
        ...

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        ...

    def status_fault(self, status: int, body: str) -> StatusFault:
        """Read the body of an answer whose status is not 200; any text is read without raising."""
        ...


def origin(dialect: str, target: Target) -> Origin:
    """Return who the blocks of an answer are made by."""
    return Origin(dialect, target.provider, target.model, target.endpoint)


def check_foreign(request: ModelRequest, own: Origin) -> None:
    """Refuse replay state that another model made, where the request wants that (`foreign="raise"`): every encoder asks this first.

    Replay state is what a provider checks or deciphers: signatures, the opaque state of thinking, blocks of its own. Ids of items and words
    of thinking are none: leaving them out loses nothing that their maker would miss.

    Raises:
        ForeignSignatureError: there is some; the message names its place and its maker.
    """
    if request.foreign == "drop":
        return
    for position, message in enumerate(request.messages):
        for place, block in enumerate(message.content):
            match block:
                case ThinkingBlock():
                    carries = bool(block.signature or block.provider_state)
                case ProviderBlock():
                    carries = True
                case TextBlock() | ToolUseBlock():
                    carries = bool(block.signature)
                case _:
                    continue
            if carries and block.origin != own:
                raise ForeignSignatureError(
                    f"messages[{position}].content[{place}]: the state of a {block.type} block was made by {_named(block.origin)} and "
                    f"means nothing to {_named(own)}"
                )


def _named(maker: Origin | None) -> str:
    if maker is None:
        return "nobody that is known"
    at = f" at {maker.endpoint}" if maker.endpoint else ""
    return f"{maker.provider}:{maker.model} ({maker.dialect}){at}"


def parse_payload(dialect: str, data: str) -> Any:
    """Return the JSON value of a payload.

    The quick parser refuses half a surrogate pair, which real servers send: there the standard parser steps in. NaN and infinities, which
    some servers send too, are read by either.

    Raises:
        WireError: it is not JSON.
    """
    try:
        return parser()(data)
    except REFUSALS:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise WireError(f"{dialect} payload is not JSON: {quote(data)}") from None


def says_nothing(data: str) -> bool:
    """Tell whether a payload is a keep-alive or the end that the chat dialect has: others close with it too, and it ends nothing there."""
    return data.strip() in ("", "[DONE]")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the members of `over`: objects are merged, everything else is replaced. Neither is changed or shared."""
    out = {name: deepcopy(value) for name, value in base.items() if name not in over}
    for name, value in over.items():
        below = base.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            out[name] = merged(below, value)
        else:
            out[name] = deepcopy(value)
    return out


def made_id(prefix: str, source: str, number: int) -> str:
    """Return an id for a call to which its provider gave none.

    It is made of what came, so that one answer gets the same ids however often and in whatever pieces it is read.

    Args:
        prefix: how it begins.
        source: text that other answers do not have: the response's id, or the payload.
        number: the place of the call in the answer.
    """
    digest = hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{prefix}{digest}_{number}"


def json_text(value: object) -> str:
    """Return a value as JSON text that encodes as UTF-8."""
    return valid_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def state_text(value: object) -> str:
    """Return opaque provider state as JSON text: compact, ASCII, so that no byte is at the mercy of an encoding.

    Some servers write NaN or Infinity, which is no JSON and which no request can hold: null stands there.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        loose = json.dumps(value, separators=(",", ":"))
        return json.dumps(json.loads(loose, parse_constant=_null), separators=(",", ":"))


def state_value(state: str) -> Any:
    """Return the JSON value of a provider state, as a request can hold it.

    Halves of characters, which some providers send and no request can hold, are replaced; so are numbers that JSON has not.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    value = json.loads(state, parse_constant=_null)
    if "\\ud" in state.lower():
        value = json.loads(valid_text(json.dumps(value, ensure_ascii=False)))
    return value


def _null(_: str) -> None:
    """Stand for NaN and Infinity."""


class SurrogateJoiner:
    """Join surrogate halves that a provider split over deltas of one text (it counts in UTF-16 units).

    `feed` holds a trailing high half back; `flush` gives U+FFFD for a half that never got its other half.
    """

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""
        """What is held back, "" for nothing."""

    def feed(self, text: str) -> str:
        """Return what of `text` is certain."""
        if not self.half and text.isascii():
            return text
        text = self.half + text
        self.half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self.half = text[-1]
            text = text[:-1]
        return valid_text(text)

    def flush(self) -> str:
        """Return U+FFFD if a half was left over, else ""."""
        half, self.half = self.half, ""
        return "\ufffd" if half else ""
