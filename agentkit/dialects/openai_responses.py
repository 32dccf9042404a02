"""OpenAI Responses: the wire of `/v1/responses`, of OpenAI and of the many servers that speak it too.

Pure. This file reads; `openai_responses_request` writes. An answer is a list of items (reasoning, messages, calls, the provider's own
tools); `openai_responses_items` knows what they are. What is unknown is kept (items) or counted (events), never shown as text.
Source: the OpenAI API reference, "Responses: streaming events" (from public references, not re-read), and recorded streams.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal

from agentkit.chunks import (
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
from agentkit.dialects import openai_responses_request
from agentkit.dialects.base import HTTPParts, StatusFault, Target, parse_payload, says_nothing
from agentkit.dialects.fault_words import classify, read_fault, status_fault
from agentkit.dialects.openai_responses_items import (
    NAME,
    Items,
    arguments_of,
    kind_of,
    object_of,
    release,
    text_of,
)
from agentkit.dialects.second_try import without_replay_state
from agentkit.errors import MAX_QUOTED, WireError, quote
from agentkit.model import ModelRequest

INCOMPLETE: Final[dict[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""Reasons of an incomplete response. Other words are `other`; no word is `length`."""


MAX_UNKNOWN: Final = 64
"""Different unknown kinds that are counted by name: a server can invent more than our memory should hold."""


class ResponsesDecoder:
    """Fold the payloads of one answer into chunks."""

    __slots__ = ("_ended", "_failed", "_items", "_last", "unknown")

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        """Kinds of event that have no meaning here, and how often they came."""
        self._items = Items()
        self._last = ""
        self._ended = False
        self._failed = False

    def feed(self, event: str, data: str) -> list[Chunk]:
        """Return the chunks of one payload; see `Decoder.feed`."""
        if says_nothing(data):
            return []
        try:
            payload = parse_payload(NAME, data)
        except WireError:
            if event != "error":
                raise
            payload = data
        return self.take(event, data, payload)

    def piece(self, payload: Any) -> Chunk | None:
        """Return the chunk of the next piece of an open item; see `QuickDecoder.piece`."""
        kind, text, place = payload["type"], payload["delta"], payload["output_index"]
        item = self._items.by_index[place]
        if type(text) is not str or not text or item.joiner.half or type(place) is not int:
            return None
        chunk: Chunk
        if kind == "response.output_text.delta" and item.kind == "message":
            content = payload["content_index"]
            part = item.parts[content, False]
            if part.joiner.half or type(content) is not int:
                return None
            chunk = TextChunk(text, part.index)
        elif kind == "response.reasoning_summary_text.delta" and item.kind == "reasoning":
            number = payload["summary_index"]
            if item.says != "summary" or not item.part == item.shown == number or type(number) is not int:
                return None
            chunk = ThinkingChunk(text, "", "", None, "", item.index, True, number)
        elif kind == "response.function_call_arguments.delta" and item.kind == "function_call":
            item.streamed = True
            chunk = ToolUseChunk("", "", text, item.index)
        else:
            return None
        self._last = kind
        return chunk

    def take(self, event: str, data: str, payload: Any) -> list[Chunk]:
        """Return the chunks of a payload; see `QuickDecoder.take`."""
        if type(payload) is not dict:
            if type(payload) is str and event == "error":
                return self._fail(payload)
            raise WireError(f"{NAME} payload is not an object: {quote(data)}")
        kind = payload.get("type") or event
        if type(kind) is not str:
            raise WireError(f"{NAME} type is not text: {quote(kind)}")
        self._last = kind
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, payload)
        if event == "error" or payload.get("error"):
            return self._fail(payload)
        if kind not in _SILENT:
            self.unknown[kind[:MAX_QUOTED] if len(self.unknown) < MAX_UNKNOWN else "…"] += 1
        return []

    def close(self) -> list[Chunk]:
        """The body has ended; see `Decoder.close`."""
        out: list[Chunk] = []
        for item in self._items.all:
            if not item.done:
                release(item, out)
        if not self._ended and not self._failed:
            after = (
                f"after {quote(self._last)}, before a terminal event" if self._last else "without an event"
            )
            out.append(ErrorChunk("truncated", f"{NAME} stream ended {after}", retryable=True))
        return out

    # items

    def _added(self, event: dict[str, Any]) -> list[Chunk]:
        whole = object_of(event, "item")
        item = self._items.added(kind_of(whole), event.get("output_index"), whole.get("id"))
        if item.kind == "function_call":
            item.call_id = text_of(whole, "call_id")
            return [ToolUseChunk(item.call_id, text_of(whole, "name"), index=item.index)]
        return []

    def _done(self, event: dict[str, Any]) -> list[Chunk]:
        whole = object_of(event, "item")
        item = self._items.whole(kind_of(whole), event.get("output_index"), whole.get("id"))
        return [] if item.done else self._items.finish(item, whole)

    # deltas

    def _text_delta(self, event: dict[str, Any], *, refusal: bool = False) -> list[Chunk]:
        text = _delta(event)
        if not text:
            return []
        item = self._items.find(event, "message")
        content = event.get("content_index")
        if type(content) is not int:
            content = item.content
        part = self._items.part(item, content, refusal=refusal)
        text = part.joiner.feed(text)
        return [part.chunk(text)] if text else []

    def _refusal_delta(self, event: dict[str, Any]) -> list[Chunk]:
        return self._text_delta(event, refusal=True)

    def _content_part(self, event: dict[str, Any]) -> list[Chunk]:
        part = event.get("part")
        if type(part) is dict and part.get("type") in ("output_text", "refusal"):
            self._items.find(event, "message").content += 1
        return []

    def _arguments_delta(self, event: dict[str, Any]) -> list[Chunk]:
        item = self._items.find(event, "function_call")
        text = item.joiner.feed(_delta(event))
        item.streamed = item.streamed or bool(text)
        return [ToolUseChunk("", "", text, item.index)] if text else []

    def _arguments_done(self, event: dict[str, Any]) -> list[Chunk]:
        item = self._items.find(event, "function_call")
        text = arguments_of(event)
        if item.streamed or item.done or not text:
            return []
        item.streamed = True
        return [ToolUseChunk("", "", text, item.index)]

    def _text_done(self, event: dict[str, Any]) -> list[Chunk]:
        """Take text that was not streamed; what was is said again here."""
        refusal = self._last == "response.refusal.done"
        text = text_of(event, "refusal" if refusal else "text")
        item = self._items.silent(event, "message") if text else None
        if item is None or any(part.refusal is refusal for part in item.parts.values()):
            return []
        return self._text_delta({**event, "delta": text}, refusal=refusal)

    def _summary_done(self, event: dict[str, Any]) -> list[Chunk]:
        text, number = text_of(event, "text"), event.get("summary_index")
        item = self._items.silent(event, "reasoning") if text else None
        if item is None or (item.says and not (type(number) is int and number > item.shown)):
            return []
        return self._summary_delta({**event, "delta": text})

    def _reasoning_done(self, event: dict[str, Any]) -> list[Chunk]:
        text, number = text_of(event, "text"), event.get("content_index")
        item = self._items.silent(event, "reasoning") if text else None
        if item is None or (item.says and not (type(number) is int and number > item.content >= 0)):
            return []
        item.content = number if type(number) is int else 0
        return self._reasoning_delta({**event, "delta": text})

    def _summary_part(self, event: dict[str, Any]) -> list[Chunk]:
        item = self._items.find(event, "reasoning")
        number = event.get("summary_index")
        item.part = number if type(number) is int else item.part + 1
        return []

    def _summary_delta(self, event: dict[str, Any]) -> list[Chunk]:
        text = _delta(event)
        item = self._items.find(event, "reasoning")
        if not text or item.says == "text":  # one reasoning told in two forms counts once; its state has both
            return []
        item.says = "summary"
        number = event.get("summary_index")
        item.part = number if type(number) is int else max(item.part, 0)
        chunk = item.summary(text)
        return [chunk] if chunk.thinking else []

    def _reasoning_delta(self, event: dict[str, Any]) -> list[Chunk]:
        text = _delta(event)
        item = self._items.find(event, "reasoning")
        if not text or item.says == "summary":
            return []
        item.says = "text"
        text = item.joiner.feed(text)
        return [ThinkingChunk(text, "", "", None, "", item.index)] if text else []

    # the end

    def _terminal(self, event: dict[str, Any]) -> list[Chunk]:
        response = event.get("response")
        if type(response) is not dict:
            response = {}
        out = self._items.rest(response.get("output"))
        out += _usage(response.get("usage"))
        status = response.get("status")
        if type(status) is not str or status in ("in_progress", "queued"):
            status = self._last.removeprefix("response.")
        if status in ("failed", "cancelled") or response.get("error"):
            return out + self._fail(
                response if response.get("error") else f"the response was {status}", status
            )
        self._ended = True
        if self._failed:
            return out
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = text_of(details, "reason") if type(details) is dict else ""
            finish = INCOMPLETE.get(reason, "other") if reason else "length"
            return [*out, FinishChunk(finish, reason or status)]
        calls = any(item.runnable for item in self._items.all)
        return [*out, FinishChunk("tool_calls" if calls else "stop", valid_text(status))]

    def _fail(self, payload: object, code: str = "") -> list[Chunk]:
        if self._failed:
            return []  # the `error` event before `response.failed` has told it
        self._failed = True
        fault = read_fault(payload)
        message = fault.message or "the response failed without a message"
        code = valid_text(fault.code or code)
        return [
            ErrorChunk("provider", message, code, bool(classify(fault, None)[1])),
            FinishChunk("error", code),
        ]


_HANDLERS: Final[dict[str, Callable[[ResponsesDecoder, dict[str, Any]], list[Chunk]]]] = {
    "response.output_text.delta": ResponsesDecoder._text_delta,
    "response.reasoning_text.delta": ResponsesDecoder._reasoning_delta,
    "response.reasoning.delta": ResponsesDecoder._reasoning_delta,
    "response.reasoning.done": ResponsesDecoder._reasoning_done,
    "response.reasoning_summary_text.delta": ResponsesDecoder._summary_delta,
    "response.reasoning_summary.delta": ResponsesDecoder._summary_delta,
    "response.reasoning_summary.done": ResponsesDecoder._summary_done,
    "response.function_call_arguments.delta": ResponsesDecoder._arguments_delta,
    "response.function_call_arguments.done": ResponsesDecoder._arguments_done,
    "response.refusal.delta": ResponsesDecoder._refusal_delta,
    "response.output_text.done": ResponsesDecoder._text_done,
    "response.refusal.done": ResponsesDecoder._text_done,
    "response.reasoning_summary_text.done": ResponsesDecoder._summary_done,
    "response.reasoning_text.done": ResponsesDecoder._reasoning_done,
    "response.reasoning_summary_part.added": ResponsesDecoder._summary_part,
    "response.content_part.added": ResponsesDecoder._content_part,
    "response.output_item.added": ResponsesDecoder._added,
    "response.output_item.done": ResponsesDecoder._done,
    "response.completed": ResponsesDecoder._terminal,
    "response.done": ResponsesDecoder._terminal,
    "response.incomplete": ResponsesDecoder._terminal,
    "response.failed": ResponsesDecoder._terminal,
    "response.cancelled": ResponsesDecoder._terminal,
    "error": ResponsesDecoder._fail,
}

_SILENT: Final = frozenset(
    f"response.{kind}"
    for kind in (
        "created", "in_progress", "queued", "content_part.done", "reasoning_summary_part.done", "reasoning_part.added",
        "reasoning_part.done", "output_text.annotation.added",
    )
) | {"keepalive"}  # fmt: skip
"""Events that say nothing that another one does not say."""


def _delta(event: dict[str, Any]) -> str:
    """Return an event's delta; surrogate halves are left to a joiner."""
    text = event.get("delta")
    if type(text) is dict:  # `reasoning.delta` had an object once
        text = text.get("text")
    if type(text) is str:
        return text
    if text is None:
        return ""
    raise WireError(f"{NAME} delta is not text: {quote(text)}")


def _usage(usage: object) -> list[Chunk]:
    if type(usage) is not dict:
        return []
    read, made = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return [
        UsageChunk(
            Usage(
                _count(usage, "input_tokens"),
                _count(usage, "output_tokens"),
                _count(made, "reasoning_tokens"),
                _count(read, "cached_tokens"),
                _count(read, "cache_write_tokens"),
            )
        )
    ]


def _count(value: object, name: str) -> int:
    count = value.get(name) if isinstance(value, dict) else None
    return count if type(count) is int and count >= 0 else 0


_REFUSED_STATE: Final = re.compile(
    r"invalid_encrypted_content|encrypted content .{0,200}could not be", re.IGNORECASE
)
"""How a server says that it cannot read reasoning which it encrypted: it was another account's, or its key is gone."""


class OpenAIResponses:
    """The dialect; see `Dialect`."""

    name = NAME
    framing: Literal["sse", "ndjson"] = "sse"

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        """Return the HTTP request; see `Dialect.encode`."""
        return openai_responses_request.encode_request(request, target)

    def decoder(self, target: Target) -> ResponsesDecoder:  # noqa: ARG002 - no profile changes how this dialect is read
        """Return a fresh decoder."""
        return ResponsesDecoder()

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"Authorization": f"Bearer {key}"}

    def second_try(self, request: ModelRequest, target: Target, status: int, body: str) -> HTTPParts | None:
        """Return the request without encrypted reasoning that was refused, or None where the answer is about something else."""
        return without_replay_state(self.encode, request, target, _REFUSED_STATE, status, body)

    def status_fault(self, status: int, body: str) -> StatusFault:
        """Read an error body; see `Dialect.status_fault`."""
        return status_fault(status, body)


DIALECT: Final = OpenAIResponses()
