"""Anthropic Messages: the wire of api.anthropic.com and of the many servers that speak it too.

Pure. This file reads; `anthropic_request` writes. What is unknown is kept (blocks) or counted (events and deltas), never shown as text;
what is broken raises. The shape of a model's answer is the provider's: blocks have an index of their own, may overlap, and may come
without a start from servers that only resemble Anthropic's.
Source: docs.claude.com "Streaming Messages", "Extended thinking" (from public references, not re-read), and recorded streams.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    FinishReason,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import Usage, valid_text
from agentkit.dialects.anthropic_blocks import (
    NAME,
    OpenBlock,
    OwnBlock,
    list_member,
    object_member,
    text_member,
    wire_index,
    word_member,
)
from agentkit.dialects.anthropic_request import encode_request
from agentkit.dialects.anthropic_second_try import without_refused_thinking
from agentkit.dialects.base import (
    Decoder,
    HTTPParts,
    StatusFault,
    Target,
    made_id,
    parse_payload,
    says_nothing,
    state_text,
)
from agentkit.dialects.fault_words import status_fault
from agentkit.dialects.places import Places
from agentkit.errors import MAX_QUOTED, WireError, quote
from agentkit.model import ModelRequest

STOP_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
}
"""Other words are `other`."""

RETRYABLE: Final = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
"""Error types that the provider calls transient; a number counts as an HTTP status."""


MAX_MESSAGE: Final = 2048
"""Characters of an error message that are kept."""

MAX_UNKNOWN: Final = 64
"""Different unknown kinds that are counted by name: a server can invent more than our memory should hold."""


_KNOWN_BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_CALL_MEMBERS: Final = frozenset({"type", "id", "name", "input"})
_USAGE_MEMBERS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "thinking_tokens",
)
_PIECES: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""The kinds of delta that answers are made of, and the member that holds their text."""
_IMPLIED: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}


def _implied_kind(payload: dict[str, Any], kind: object) -> str:
    """Return the kind of block that a delta belongs to where its start was not sent."""
    if not isinstance(kind, str) or kind not in _IMPLIED:
        raise WireError(f"{NAME} delta {quote(kind)} for block {wire_index(payload)}, which has not begun")
    return _IMPLIED[kind]


class AnthropicMessagesDecoder:
    """Fold the payloads of one answer into chunks."""

    __slots__ = (
        "_blocks",
        "_calls",
        "_failed",
        "_finished",
        "_last",
        "_places",
        "_seed",
        "_stopped",
        "_usage",
        "unknown",
    )

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        """Kinds of event, delta and block that have no meaning here, and how often they came."""
        self._blocks: dict[int, OpenBlock | OwnBlock] = {}  # by the wire's index; the latest that had it
        self._places = Places()
        self._seed = ""  # what tells this answer from others: ids of our making come from it
        self._usage: dict[str, int] = {}
        self._last = ""
        self._calls = False  # a whole call has come
        self._finished = False  # a stop reason has come
        self._stopped = False  # message_stop has come
        self._failed = False

    def feed(self, event: str, data: str) -> list[Chunk]:
        """Return the chunks of one payload; see `Decoder.feed`."""
        try:
            payload = parse_payload(NAME, data)
        except WireError:
            if says_nothing(data):
                return []
            if event != "error":
                raise
            payload = data
        return self.take(event, data, payload)

    def piece(self, payload: Any) -> Chunk | None:
        """Return the chunk of the next piece of an open block; see `QuickDecoder.piece`."""
        delta, index = payload["delta"], payload["index"]
        block, kind = self._blocks[index], delta["type"]
        text = delta[_PIECES[kind]]
        if type(text) is not str or not text or type(index) is not int:
            return None
        if type(block) is not OpenBlock or block.joiner.half or payload["type"] != "content_block_delta":
            return None
        self._last = "content_block_delta"
        if kind == "text_delta":
            return TextChunk(text, block.index)
        if kind == "thinking_delta":
            return ThinkingChunk(text, "", "", None, "", block.index)
        block.has_input = block.has_input or bool(text.strip())
        return ToolUseChunk("", "", text, block.index)

    def take(self, event: str, data: str, payload: Any) -> list[Chunk]:
        """Return the chunks of a payload; see `QuickDecoder.take`."""
        if type(payload) is not dict:
            if type(payload) is str:
                return self._error(payload)
            raise WireError(f"{NAME} payload is not an object: {quote(data)}")
        kind = payload.get("type") or event
        if type(kind) is not str:
            kind = str(kind)
        self._last = kind
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, payload)
        if event == "error" or payload.get("error"):
            return self._error(payload)
        self._count(kind)
        return []

    def close(self) -> list[Chunk]:
        """The body has ended; see `Decoder.close`."""
        out: list[Chunk] = []
        for block in self._blocks.values():
            if not block.ended:
                out += block.finish()
        if self._failed or self._finished:
            return out
        if self._stopped:
            out.append(FinishChunk("tool_calls" if self._calls else "stop"))
        else:
            after = f"after {quote(self._last)}, before message_stop" if self._last else "without any event"
            out.append(ErrorChunk("truncated", f"{NAME} stream ended {after}", retryable=True))
        return out

    def _count(self, kind: str) -> None:
        self.unknown[kind[:MAX_QUOTED] if len(self.unknown) < MAX_UNKNOWN else "…"] += 1

    # blocks

    def _start(self, payload: dict[str, Any]) -> list[Chunk]:
        start = object_member(payload, "content_block")
        kind = word_member(start, "type")
        if not kind:
            raise WireError(f"{NAME} content_block has no type: {quote(start)}")
        before = self._blocks.get(wire_index(payload))
        out = [] if before is None or before.ended else before.finish()
        if kind not in _KNOWN_BLOCKS:
            number = wire_index(payload)
            self._blocks[number] = OwnBlock(self._places.at(number), kind, start)
            self._count(f"content_block_start:{kind}")
            return out
        block = self._open(payload, kind, start)
        match kind:
            case "text":
                block.citations += list_member(start, "citations")
                if text := block.joiner.feed(text_member(start, "text")):
                    out.append(TextChunk(text, block.index))
            case "thinking":
                # An empty chunk too: watchers learn that the model thinks, also where the text is withheld.
                thinking, signature = (
                    block.joiner.feed(text_member(start, "thinking")),
                    word_member(start, "signature"),
                )
                out.append(ThinkingChunk(thinking, signature, NAME if signature else "", index=block.index))
            case "redacted_thinking":
                state = state_text(start)
                out.append(ThinkingChunk(provider_state=state, provider_state_format=NAME, index=block.index))
            case _:
                extra = {name: value for name, value in start.items() if name not in _CALL_MEMBERS}
                call_id = word_member(start, "id") or made_id("toolu_", self._seed, block.index)
                chunk = ToolUseChunk(call_id, word_member(start, "name"), index=block.index)
                if extra:
                    chunk.provider_state, chunk.provider_state_format = state_text(extra), NAME
                out.append(chunk)
        return out

    def _open(self, payload: dict[str, Any], kind: str, start: dict[str, Any]) -> OpenBlock:
        number = wire_index(payload)
        block = self._blocks[number] = OpenBlock(self._places.at(number), kind, start)
        return block

    def _delta(self, payload: dict[str, Any]) -> list[Chunk]:
        delta, index = object_member(payload, "delta"), wire_index(payload)
        kind = delta.get("type")
        block = self._blocks.get(index)
        if block is None:
            block = self._open(payload, _implied_kind(payload, kind), {})
        if isinstance(block, OwnBlock):
            block.fold(delta)
            return []
        match kind:
            case "text_delta":
                text = block.joiner.feed(text_member(delta, "text"))
                return [TextChunk(text, block.index)] if text else []
            case "thinking_delta":
                text = block.joiner.feed(text_member(delta, "thinking"))
                return [ThinkingChunk(text, "", "", None, "", block.index)] if text else []
            case "input_json_delta":
                text = block.joiner.feed(text_member(delta, "partial_json"))
                if not block.has_input:
                    block.has_input = bool(text.strip())
                return [ToolUseChunk("", "", text, block.index)] if text else []
            case "signature_delta":
                signature = word_member(delta, "signature")
                return [ThinkingChunk("", signature, NAME, index=block.index)] if signature else []
            case "citations_delta":
                block.citations.append(delta.get("citation"))
            case _:
                self._count(f"content_block_delta:{kind}")
        return []

    def _stop(self, payload: dict[str, Any]) -> list[Chunk]:
        block = self._blocks.get(wire_index(payload))
        if block is None or block.ended:
            self._count("content_block_stop")
            return []
        block.ended = True
        self._calls = self._calls or block.kind == "tool_use"
        return [*block.finish(), BlockEndChunk(block.index)]

    # the message

    def _message_start(self, payload: dict[str, Any]) -> list[Chunk]:
        message = payload.get("message")
        if not isinstance(message, dict):
            return []
        self._seed = str(message.get("id") or "")
        return self._take_usage(message.get("usage"))

    def _message_stop(self, payload: dict[str, Any]) -> list[Chunk]:  # noqa: ARG002 - one shape for all handlers
        self._stopped = True
        return []

    def _ping(self, payload: dict[str, Any]) -> list[Chunk]:  # noqa: ARG002 - as above
        return []

    def _message_delta(self, payload: dict[str, Any]) -> list[Chunk]:
        out = self._take_usage(payload.get("usage"))
        delta = payload.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if reason is not None:
            self._finished = True
            word = valid_text(str(reason))[:MAX_QUOTED]
            out.append(FinishChunk(STOP_REASONS.get(word, "other"), word))
        return out

    def _take_usage(self, usage: object) -> list[Chunk]:
        """Keep the last word on each member: `message_delta` repeats what `message_start` said, and may raise it."""
        if not isinstance(usage, dict):
            return []
        details = usage.get("output_tokens_details")
        thinking = {"thinking_tokens": details.get("thinking_tokens")} if isinstance(details, dict) else {}
        members = {**usage, **thinking}
        said = {name: members.get(name) for name in _USAGE_MEMBERS}
        self._usage |= {name: value for name, value in said.items() if type(value) is int and value >= 0}
        get = self._usage.get
        read, write = get("cache_read_input_tokens", 0), get("cache_creation_input_tokens", 0)
        total = get("input_tokens", 0) + read + write  # the wire counts uncached input apart
        return [UsageChunk(Usage(total, get("output_tokens", 0), get("thinking_tokens", 0), read, write))]

    def _error(self, payload: object) -> list[Chunk]:
        self._failed = True
        message, code = read_error(payload)
        return [ErrorChunk("provider", message, code, is_retryable(code)), FinishChunk("error", code)]


_HANDLERS: Final[dict[str, Callable[[AnthropicMessagesDecoder, dict[str, Any]], list[Chunk]]]] = {
    "content_block_delta": AnthropicMessagesDecoder._delta,
    "content_block_start": AnthropicMessagesDecoder._start,
    "content_block_stop": AnthropicMessagesDecoder._stop,
    "message_start": AnthropicMessagesDecoder._message_start,
    "message_delta": AnthropicMessagesDecoder._message_delta,
    "message_stop": AnthropicMessagesDecoder._message_stop,
    "ping": AnthropicMessagesDecoder._ping,
    "error": AnthropicMessagesDecoder._error,
}


def read_error(payload: object) -> tuple[str, str]:
    """Return message and code of an error in any of the shapes that servers send: Anthropic's, OpenAI's, a bare word."""
    error = payload.get("error") or payload if isinstance(payload, dict) else payload
    if not isinstance(error, dict):
        return (valid_text(error) if isinstance(error, str) else quote(error))[:MAX_MESSAGE], ""
    message = next((error[name] for name in ("message", "detail", "details") if error.get(name)), None)
    code = error.get("code")
    if code is None and error is not payload:
        code = error.get("type")
    text = valid_text(message) if isinstance(message, str) else quote(message or error)
    return text[:MAX_MESSAGE], "" if code is None else valid_text(str(code))[:MAX_QUOTED]


def is_retryable(code: str) -> bool:
    """Tell whether asking again can help, by an error's type, or by its number where that is an HTTP status."""
    if len(code) == 3 and code.isascii() and code.isdigit():
        return code >= "500" or code in ("408", "409", "425", "429")
    return code in RETRYABLE


class AnthropicMessages:
    """The dialect; see `Dialect`."""

    name = NAME
    framing: Literal["sse", "ndjson"] = "sse"

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        """Return the HTTP request; see `Dialect.encode`."""
        return encode_request(request, target)

    def decoder(self, target: Target) -> Decoder:  # noqa: ARG002 - no profile changes how this dialect is read
        """Return a fresh decoder."""
        return AnthropicMessagesDecoder()

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"x-api-key": key}

    def second_try(self, request: ModelRequest, target: Target, status: int, body: str) -> HTTPParts | None:
        """Return the request without thinking that was refused, or None where the answer is about something else."""
        return without_refused_thinking(encode_request(request, target), status, body)

    def status_fault(self, status: int, body: str) -> StatusFault:
        """Read an error body; see `Dialect.status_fault`."""
        return status_fault(status, body)


DIALECT: Final = AnthropicMessages()
