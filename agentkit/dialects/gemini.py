"""Gemini: the wire of `streamGenerateContent?alt=sse`, of Google's Gemini API and of Vertex AI.

Pure. This file reads; `gemini_request` writes. An answer is a list of parts, spread over payloads. Unsigned text and unsigned thoughts
run on until something else comes; a part that has a signature is a block of its own, because the signature goes back on that very part.
What is unknown is kept whole, never shown as text.
Source: ai.google.dev "Generate content", "Thinking", "Thought signatures" (from public references, not re-read), and recorded streams.
"""

from typing import Any, Final, Literal

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ImageChunk,
    ProviderChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import Usage, valid_text
from agentkit.dialects import gemini_request
from agentkit.dialects.base import (
    HTTPParts,
    StatusFault,
    Target,
    json_text,
    made_id,
    parse_payload,
    says_nothing,
    state_text,
)
from agentkit.dialects.blocks import TEXT, THINKING, Blocks
from agentkit.dialects.fault_words import classify, looks_like_error, read_fault, status_fault
from agentkit.dialects.gemini_arguments import PartialArguments
from agentkit.dialects.gemini_request import MADE_UP, NAME, SIGNATURE
from agentkit.dialects.gemini_words import FAILED, FAULTS, FINISH, REFUSED_STATE
from agentkit.dialects.second_try import without_replay_state
from agentkit.errors import WireError, quote
from agentkit.model import ModelRequest

_KNOWN: Final = frozenset({"candidates", "usageMetadata", "promptFeedback"})
"""Members of a payload that is no error."""
_ABOUT: Final = frozenset({"text", "thought", "thoughtSignature"})
_OPAQUE: Final[tuple[str, ...]] = (
    "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData",
)  # fmt: skip
"""Members that a part of the provider's own is known by, before any other that it has."""
_OWN: Final = frozenset(_OPAQUE)


class GeminiDecoder:
    """Fold the payloads of one answer into chunks."""

    __slots__ = (
        "_blocks",
        "_calls",
        "_data",
        "_failed",
        "_finish",
        "_ids",
        "_last",
        "_response",
        "_stream",
        "_usage",
    )

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._stream: _Streamed | None = None  # the call whose arguments are coming
        self._calls = 0
        self._ids: dict[str, tuple[str, str]] = {}  # of calls: name and arguments
        self._finish = ""
        self._failed = False
        self._usage: dict[str, Any] = {}  # the last counts, as they came
        self._response = ""
        self._data = ""
        self._last = 0  # payloads that came

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
        """Return the chunk of the next piece of the text or the thought that is being written; see `QuickDecoder.piece`."""
        (candidate,) = payload["candidates"]
        (part,) = candidate["content"]["parts"]
        text = part["text"]
        if candidate.get("index") or candidate.get("finishReason"):
            return None
        if "error" in payload or "promptFeedback" in payload:
            return None
        if type(text) is not str or not text or len(part) > 1 + ("thought" in part):
            return None
        if "usageMetadata" in payload and payload["usageMetadata"] != self._usage:
            return None
        blocks = self._blocks
        kind = THINKING if part.get("thought") is True else TEXT
        if blocks.kind != kind or blocks.half:
            return None
        self._last += 1
        if type(response := payload.get("responseId")) is str:
            self._response = response
        if kind == TEXT:
            return TextChunk(text, blocks.index)
        return ThinkingChunk(text, "", "", None, "", blocks.index)

    def take(self, event: str, data: str, payload: Any) -> list[Chunk]:
        """Return the chunks of a payload; see `QuickDecoder.take`."""
        self._last += 1
        self._data = data
        out: list[Chunk] = []
        for member in payload if type(payload) is list else (payload,):
            if type(member) is dict:
                self._payload(member, out, failed=event == "error")
            elif type(member) is str and event == "error":
                self._fail(member, out)
            else:
                raise WireError(f"{NAME} payload is not an object: {quote(data)}")
        return out

    def close(self) -> list[Chunk]:
        """The body has ended; see `Decoder.close`."""
        out: list[Chunk] = []
        self._cut(out)
        if self._finish and not self._failed:
            self._blocks.end(out)
        else:
            self._blocks.release(out)
        if not self._finish and not self._failed:
            after = (
                f"after {self._last} payloads, before a finishReason" if self._last else "without a payload"
            )
            out.append(ErrorChunk("truncated", f"{NAME} stream ended {after}", retryable=True))
        return out

    def _payload(self, payload: dict[str, Any], out: list[Chunk], *, failed: bool) -> None:
        if failed or payload.get("error") or (_KNOWN.isdisjoint(payload) and looks_like_error(payload)):
            self._fail(payload, out)
            return
        if type(response := payload.get("responseId")) is str:
            self._response = response
        candidate = _first(payload.get("candidates"))
        content = candidate.get("content")
        calls = self._calls
        if type(content) is dict and type(parts := content.get("parts")) is list:
            for part in parts:
                if type(part) is not dict:
                    raise WireError(f"{NAME} part is not an object: {quote(part)}")
                self._part(part, out)
        if type(usage := payload.get("usageMetadata")) is dict:
            self._take_usage(usage, out)
        feedback = payload.get("promptFeedback")
        if type(feedback) is dict and type(reason := feedback.get("blockReason")) is str:
            words = feedback.get("blockReasonMessage")
            message = words if type(words) is str and words else f"the prompt was blocked: {reason}"
            self._broke_off(reason, message, out, retryable=False)
        reason = candidate.get("finishReason")
        if type(reason) is str and reason:
            self._finished(reason, candidate, out)
        elif self._calls > calls and self._finish == "STOP" and not self._failed:
            out.append(
                FinishChunk("tool_calls", self._finish)
            )  # a call after the reason: the last word counts

    # parts

    def _part(self, part: dict[str, Any], out: list[Chunk]) -> None:
        signature = part.get("thoughtSignature") or ""
        if type(signature) is not str:
            raise WireError(f"{NAME} thoughtSignature is not text: {quote(signature)}")
        text = part.get("text")
        thought = part.get("thought") is True
        call = part.get("functionCall")
        if text and type(text) is str and type(call) is dict:  # one part should hold one of them
            self._said(text, "", out, thought=thought)
        if not text and not _OWN.isdisjoint(part):
            text = None
        if type(call) is dict:
            self._call(call, signature, out)
        elif type(text) is str and (text or signature):
            self._said(text, signature, out, thought=thought)
        elif type(data := part.get("inlineData")) is dict and _is_image(data) and not thought:
            index = self._start(out)
            image = ImageChunk(_text(data, "mimeType"), _text(data, "data"), "", index)
            out += [image, BlockEndChunk(index)]
            if signature:  # an image block has no place for it
                self._opaque(SIGNATURE, state_text({"thoughtSignature": signature}), out)
        elif type(text) is not str:
            known = (name for name in _OPAQUE if name in part)
            if kind := next(known, None) or next((name for name in part if name not in _ABOUT), ""):
                self._opaque(kind, state_text(part), out)
            elif signature:
                self._said("", signature, out, thought=thought)

    def _said(self, text: str, signature: str, out: list[Chunk], *, thought: bool) -> None:
        if not signature:
            if thought:
                self._blocks.thinking(text, out)
            else:
                self._blocks.text(text, out)
            return
        index = self._start(out)
        text, signature = valid_text(text), valid_text(signature)
        out.append(
            ThinkingChunk(text, signature, NAME, None, "", index)
            if thought
            else TextChunk(text, index, signature, NAME)
        )
        out.append(BlockEndChunk(index))

    def _start(self, out: list[Chunk]) -> int:
        """End the open run and return the index of a block that begins now."""
        self._blocks.end(out)
        return self._blocks.new()

    def _opaque(self, kind: str, state: str, out: list[Chunk]) -> None:
        index = self._start(out)
        out += [ProviderChunk(valid_text(kind), state, NAME, index), BlockEndChunk(index)]

    def _call(self, call: dict[str, Any], signature: str, out: list[Chunk]) -> None:
        """Take a whole call, or a piece of one whose arguments are streamed."""
        name = _text(call, "name")
        pieces = call.get("partialArgs")
        goes_on = call.get("willContinue") is True
        if name or self._stream is None:
            if not call:
                return  # the end of a call that has ended already
            self._cut(out)
            call_id = _text(call, "id")
            args = call.get("args")
            whole = "{}" if args is None else json_text(args)
            if call_id and self._ids.setdefault(call_id, (name, whole)) != (name, whole):
                call_id = ""  # two calls cannot share an id: results would be told apart by nothing
            index = self._start(out)
            if not call_id:
                call_id = made_id(MADE_UP, self._response or self._data, self._calls)
            self._calls += 1
            label = NAME if signature else ""
            chunk = ToolUseChunk(call_id, name, "", index, valid_text(signature), label)
            out.append(chunk)
            if not goes_on and type(pieces) is not list:
                chunk.input = whole
                out.append(BlockEndChunk(index))
                return
            self._stream = _Streamed(index)
        stream = self._stream
        assert stream is not None
        for piece in pieces if type(pieces) is list else ():
            if type(piece) is dict:
                stream.arguments.add(piece)
        if not goes_on:
            out += [
                ToolUseChunk(input=stream.arguments.text(), index=stream.index),
                BlockEndChunk(stream.index),
            ]
            self._stream = None

    def _cut(self, out: list[Chunk]) -> None:
        """Give out what came of a call that never ended; without its end it is never run."""
        if self._stream is not None:
            out.append(ToolUseChunk(input=self._stream.arguments.text(), index=self._stream.index))
            self._stream = None

    # the end

    def _take_usage(self, usage: dict[str, Any], out: list[Chunk]) -> None:
        """The counts grow from payload to payload; the last ones count, whatever they lack."""
        if usage == self._usage:
            return
        self._usage = usage
        thoughts = _count(usage, "thoughtsTokenCount")
        read = _count(usage, "promptTokenCount") + _count(usage, "toolUsePromptTokenCount")
        made = _count(usage, "candidatesTokenCount") + thoughts
        out.append(UsageChunk(Usage(read, made, thoughts, _count(usage, "cachedContentTokenCount"))))

    def _finished(self, reason: str, candidate: dict[str, Any], out: list[Chunk]) -> None:
        self._finish = reason
        if reason in FAILED:
            message = _text(candidate, "finishMessage") or f"the answer was broken off: {reason}"
            self._broke_off(reason, message, out, retryable=FAILED[reason])
        elif not self._failed:
            finish = FINISH.get(reason, "other")
            if finish == "stop" and self._calls:
                finish = "tool_calls"
            out.append(FinishChunk(finish, valid_text(reason)))

    def _fail(self, payload: object, out: list[Chunk]) -> None:
        fault = read_fault(payload)
        again = bool(classify(fault, None)[1])
        self._broke_off(fault.code, fault.message or "an error without a message", out, retryable=again)

    def _broke_off(self, code: str, message: str, out: list[Chunk], *, retryable: bool) -> None:
        if self._failed:
            return
        self._failed = True
        code = valid_text(code)
        out += [ErrorChunk("provider", valid_text(message), code, retryable), FinishChunk("error", code)]


class _Streamed:
    """A call whose arguments come in pieces."""

    __slots__ = ("arguments", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.arguments = PartialArguments()


def _first(candidates: object) -> dict[str, Any]:
    """Return the first candidate of a payload; others, where a request asked for several, are not read."""
    for candidate in candidates if type(candidates) is list else ():
        if type(candidate) is dict and not candidate.get("index"):
            return candidate
    return {}


def _is_image(data: dict[str, Any]) -> bool:
    """Tell whether inline data is an image; sounds, and images of a thought, are kept as they are."""
    return _text(data, "mimeType").startswith("image/")


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    if text is None:
        return ""
    if type(text) is not str:
        raise WireError(f"{NAME} {name} is not text: {quote(text)}")
    return valid_text(text)


def _count(usage: dict[str, Any], name: str) -> int:
    count = usage.get(name)
    return count if type(count) is int and count >= 0 else 0


class Gemini:
    """The dialect; see `Dialect`."""

    name = NAME
    framing: Literal["sse", "ndjson"] = "sse"

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        """Return the HTTP request; see `Dialect.encode`."""
        return gemini_request.encode_request(request, target)

    def decoder(self, target: Target) -> GeminiDecoder:  # noqa: ARG002 - no profile changes how this dialect is read
        """Return a fresh decoder."""
        return GeminiDecoder()

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"x-goog-api-key": key}

    def second_try(self, request: ModelRequest, target: Target, status: int, body: str) -> HTTPParts | None:
        """Return the request without signatures that were refused, or None where the answer is about something else."""
        return without_replay_state(self.encode, request, target, REFUSED_STATE, status, body)

    def status_fault(self, status: int, body: str) -> StatusFault:
        """Read an error body; see `Dialect.status_fault`."""
        fault = status_fault(status, body)
        code = next((code for code, words in FAULTS if words.search(body)), "")
        return StatusFault(fault.message, code, False) if code else fault


DIALECT: Final = Gemini()
