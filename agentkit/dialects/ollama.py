"""Ollama: the wire of `/api/chat`, lines of JSON.

Pure. This file reads; `ollama_request` writes. Each line holds a piece of the message; calls come whole, their arguments as an object,
often without an id; the last line says `done`.
Source: Ollama's API documentation, "Generate a chat completion" and "Thinking" (from public references, not re-read), and recorded streams.
"""

import re
from typing import Any, Final, Literal

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    FinishReason,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import Usage, valid_text
from agentkit.dialects import ollama_request
from agentkit.dialects.base import HTTPParts, StatusFault, Target, made_id, parse_payload
from agentkit.dialects.blocks import Blocks
from agentkit.dialects.fault_words import classify, read_fault, status_fault
from agentkit.dialects.ollama_request import NAME
from agentkit.dialects.think_tags import ThinkTags
from agentkit.errors import WireError, quote
from agentkit.model import ModelRequest

FINISH: Final[dict[str, FinishReason]] = {
    "": "stop",
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
}
"""Words of `done_reason`, in any case, with those of servers that resemble Ollama; older ones have none. Others (`load`, `unload`) are `other`."""

_TRANSIENT: Final = re.compile(
    r"server busy|unexpectedly stopped|while running the model|unexpected EOF|loading model", re.IGNORECASE
)
"""Ollama's words for what may go well the next time; its errors have no codes."""

_THINKING: Final = ("thinking", "reasoning_content", "reasoning")
"""Ollama's own name first; the others are those of servers that resemble it."""


class OllamaDecoder:
    """Fold the lines of one answer into chunks."""

    __slots__ = ("_blocks", "_calls", "_done", "_failed", "_ids", "_last", "_tags")

    def __init__(self, *, think_tags: bool) -> None:
        self._blocks = Blocks()
        self._tags = ThinkTags() if think_tags else None
        self._calls = 0
        self._ids: dict[str, tuple[str, str]] = {}  # of calls: name and arguments
        self._done = False
        self._failed = False
        self._last = 0  # lines that came

    def feed(self, event: str, data: str) -> list[Chunk]:  # noqa: ARG002 - lines have no names
        """Return the chunks of one line; see `Decoder.feed`."""
        if not data:
            return []
        self._last += 1
        payload = parse_payload(NAME, data)
        if type(payload) is not dict:
            raise WireError(f"{NAME} line is not an object: {quote(data)}")
        out: list[Chunk] = []
        message = payload.get("message")
        if type(message) is dict:
            thinking = next((t for name in _THINKING if type(t := message.get(name)) is str and t), "")
            if thinking:
                self._blocks.thinking(thinking, out)
            text = message.get("content")
            if type(text) is str and text:
                if self._tags is None:
                    self._blocks.text(text, out)
                else:
                    self._tagged(self._tags.feed(text), out)
            if calls := message.get("tool_calls"):
                self._take_calls(calls, data, out)
        if payload.get("error"):
            self._fail(payload, out)
        elif payload.get("done") is True:
            self._finish(payload, out)
        return out

    def close(self) -> list[Chunk]:
        """The body has ended; see `Decoder.close`."""
        out: list[Chunk] = []
        if self._tags is not None:
            self._tagged(self._tags.release(), out)
        if self._done and not self._failed:
            self._blocks.end(out)
            return out
        self._blocks.release(out)
        if not self._failed:
            after = f"after {self._last} lines, before `done`" if self._last else "without a line"
            out.append(ErrorChunk("truncated", f"{NAME} stream ended {after}", retryable=True))
        return out

    def _tagged(self, pieces: list[tuple[bool, str]], out: list[Chunk]) -> None:
        for inside, piece in pieces:
            if inside:
                self._blocks.thinking(piece, out)
            else:
                self._blocks.text(piece, out)

    def _take_calls(self, calls: object, data: str, out: list[Chunk]) -> None:
        if type(calls) is not list:
            raise WireError(f"{NAME} tool_calls is not a list: {quote(calls)}")
        if self._tags is not None:
            self._tagged(self._tags.release(), out)
        self._blocks.end(out)
        for call in calls:
            function = call.get("function") if type(call) is dict else None
            if type(function) is not dict or type(name := function.get("name")) is not str:
                raise WireError(f"{NAME} call names no function: {quote(call)}")
            call_id = call.get("id")
            arguments = ollama_request.arguments_text(function.get("arguments"))
            if (
                type(call_id) is not str
                or not call_id
                or self._ids.setdefault(call_id, (name, arguments)) != (name, arguments)
            ):  # two calls cannot share an id: results would be told apart by nothing
                call_id = made_id("call_", data, self._calls)
            index = self._blocks.new()
            self._calls += 1
            out += [
                ToolUseChunk(valid_text(call_id), valid_text(name), arguments, index),
                BlockEndChunk(index),
            ]

    def _finish(self, payload: dict[str, Any], out: list[Chunk]) -> None:
        self._done = True
        made = _count(payload, "eval_count")
        out.append(UsageChunk(Usage(_count(payload, "prompt_eval_count"), made)))
        if self._failed:
            return
        reason = payload.get("done_reason")
        raw = valid_text(reason) if type(reason) is str else ""
        finish = FINISH.get(raw.lower(), "other")
        if finish == "stop" and self._calls:
            finish = "tool_calls"
        out.append(FinishChunk(finish, raw))

    def _fail(self, payload: object, out: list[Chunk]) -> None:
        if self._failed:
            return
        self._failed = True
        fault = read_fault(payload)
        code = valid_text(fault.code)
        message = fault.message or "an error without a message"
        again = bool(classify(fault, None)[1] or _TRANSIENT.search(message))
        out += [ErrorChunk("provider", message, code, again), FinishChunk("error", code)]


def _count(payload: dict[str, Any], name: str) -> int:
    count = payload.get(name)
    return count if type(count) is int and count >= 0 else 0


class Ollama:
    """The dialect; see `Dialect`."""

    name = NAME
    framing: Literal["sse", "ndjson"] = "ndjson"

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        """Return the HTTP request; see `Dialect.encode`."""
        return ollama_request.encode_request(request, target)

    def decoder(self, target: Target) -> OllamaDecoder:
        """Return a fresh decoder."""
        return OllamaDecoder(think_tags=target.profile.think_tags)

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key; a server of one's own needs none."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def status_fault(self, status: int, body: str) -> StatusFault:
        """Read an error body; see `Dialect.status_fault`."""
        return status_fault(status, body)


DIALECT: Final = Ollama()
