"""Read the stream of a chat-completions endpoint, OpenAI's or one of the many that say they are like it.

Pure. The rules, in short: the first choice only; in one delta reasoning, then text, then calls; what is empty or null says nothing; a
finish reason does not end the reading; the end is told by a finish reason or `[DONE]`; an error may stand anywhere.
Source: platform.openai.com/docs/api-reference/chat-streaming (from public references, not re-read); the recorded streams of 25 endpoints.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    FinishReason,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from agentkit.content import valid_text
from agentkit.dialects.base import parse_payload
from agentkit.dialects.blocks import TEXT, THINKING, Blocks
from agentkit.dialects.fault_words import base_failed, classify, looks_like_error, read_fault, real_error
from agentkit.dialects.openai_chat_calls import ToolCalls
from agentkit.dialects.openai_chat_content import image_chunk, joined_text
from agentkit.dialects.openai_chat_details import ReasoningDetails
from agentkit.dialects.openai_chat_finish import finish_of
from agentkit.dialects.openai_chat_thinking import add_thinking_blocks
from agentkit.dialects.openai_chat_usage import read_usage
from agentkit.dialects.think_tags import ThinkTags
from agentkit.errors import WireError, quote

NAME: Final = "openai-chat"

_FIRST: Final = (0, None, "0")
"""What the first choice is called."""

_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thought")
"""Names for one thing; where a delta has several, it says it several times, and the first counts."""

_SEED: Final = 1000
"""Characters of the first payload, in which the answer's id and time stand."""

_Reader: TypeAlias = Callable[["ChatDecoder", Any, list[Chunk]], None]


class ChatDecoder:
    """Fold the payloads of one answer into chunks."""

    __slots__ = (
        "_blocks",
        "_calls",
        "_details",
        "_done",
        "_failed",
        "_finish",
        "_payloads",
        "_raw_finish",
        "_strings",
        "_tags",
        "_usage",
    )

    def __init__(self, *, think_tags: bool = False) -> None:
        self._blocks = Blocks()
        self._calls = ToolCalls(self._blocks)
        self._details = ReasoningDetails(self._blocks)
        self._tags = ThinkTags() if think_tags else None
        # where one string goes without a second look; tags need that look
        self._strings: dict[str, Callable[[str, list[Chunk]], None]] = {}
        if not think_tags:
            self._strings = {**dict.fromkeys(_REASONING, self._blocks.thinking), "content": self._blocks.text}
        self._finish: FinishReason | None = None
        self._raw_finish = ""
        self._usage: object = None
        self._payloads = 0
        self._failed = False
        self._done = False

    def feed(self, event: str, data: str) -> list[Chunk]:
        """Return the chunks of one payload; see `Decoder.feed`."""
        if self._done or not data or data.isspace():
            return []  # after the end nothing counts; an empty payload is somebody's keep-alive
        if len(data) < 16 and data.strip() == "[DONE]":
            out: list[Chunk] = []
            self._end(out)
            return out
        payload = _error_payload(data) if event == "error" else parse_payload(NAME, data)
        return self.take(event, data, payload)

    def piece(self, payload: Any) -> Chunk | None:
        """Return the chunk of the next piece of the text or the reasoning that is being written; see `QuickDecoder.piece`."""
        (choice,) = payload["choices"]
        if "error" in payload or "x_groq" in payload or payload.get("usage"):
            return None
        if choice["index"] != 0 or choice.get("finish_reason") or "error" in choice or "usage" in choice:
            return None
        said = text = ""
        for name, value in choice["delta"].items():
            if value and name in _READERS:
                if said or type(value) is not str:
                    return None
                said, text = name, value
        blocks = self._blocks
        if blocks.half or self._tags is not None:
            return None
        if blocks.kind == TEXT and said == "content":
            self._payloads += 1
            return TextChunk(text, blocks.index)
        if blocks.kind == THINKING and said in _REASONING:
            self._payloads += 1
            return ThinkingChunk(text, "", "", None, "", blocks.index)
        return None

    def take(self, event: str, data: str, payload: Any) -> list[Chunk]:
        """Return the chunks of a payload; see `QuickDecoder.take`."""
        out: list[Chunk] = []
        if self._done:
            return out
        if not self._payloads:
            self._calls.seed = data[:_SEED]
        self._payloads += 1
        try:
            if event == "error":
                self._error(payload, out)
            elif type(payload) is dict:
                self._payload(payload, out)
            else:
                self._no_object(payload, out)
        except RecursionError:
            raise WireError(f"{NAME} payload is nested too deeply: {quote(data[:200])}") from None
        return out

    def close(self) -> list[Chunk]:
        """The body has ended; see `Decoder.close`."""
        out: list[Chunk] = []
        if self._done:
            return out
        if self._finish is not None or self._failed:
            self._end(out)
            return out
        self._done = True
        self._release(out)
        self._details.flush(out)
        message = f"{NAME} stream ended after {self._payloads} payloads, without a finish reason or [DONE]"
        out.append(ErrorChunk("truncated", message, "", True))
        return out

    def _payload(self, payload: dict[str, Any], out: list[Chunk]) -> None:
        get = payload.get
        choices = get("choices")
        error = get("error")
        if error:
            error = real_error(error)
        usage = get("usage")
        if "x_groq" in payload and type(groq := payload["x_groq"]) is dict:
            error = error or real_error(groq.get("error"))
            usage = usage or groq.get("usage")
        if choices:
            if type(choices) is not list:
                raise WireError(f"{NAME} choices must be a list, got {quote(choices)}")
            for choice in choices:
                self._choice(choice, out, broken=bool(error))
        if usage:
            self._take_usage(usage, out)
        if error:
            self._error(error, out)
        elif (not choices and not usage and looks_like_error(payload)) or base_failed(payload):
            self._error(payload, out)

    def _choice(self, choice: Any, out: list[Chunk], *, broken: bool) -> None:
        if type(choice) is not dict:
            raise WireError(f"{NAME} choice must be an object, got {quote(choice)}")
        get = choice.get
        if get("index") not in _FIRST:
            return  # several answers at once (n > 1): the first is the one
        delta = get("delta")
        if delta is None and self._blocks.empty:
            delta = get("message")  # a whole answer, sent as one payload
        if delta:
            if type(delta) is not dict:
                raise WireError(f"{NAME} delta must be an object, got {quote(delta)}")
            self._delta(delta, out)
        error = get("error")
        if error:
            error = real_error(error)
        if finish := get("finish_reason"):
            self._finished(finish, out, broken=broken or bool(error))
        if "usage" in choice:
            self._take_usage(choice["usage"], out)
        if error:
            self._error(error, out)

    def _delta(self, delta: dict[str, Any], out: list[Chunk]) -> None:
        said = ""
        text: Any = None
        for name, value in delta.items():
            if value and name in _READERS:
                if said:
                    self._several(delta, out)
                    return
                said, text = name, value
        if said:
            take = self._strings.get(said) if type(text) is str else None
            if take is None:
                self._say(said, text, out)
            else:
                take(text, out)

    def _say(self, name: str, value: Any, out: list[Chunk]) -> None:
        """Take one member of a delta. What was held back as half a tag is none if something else than text comes."""
        if self._tags is not None and name != "content":
            self._tagged(self._tags.release(), out)
        _READERS[name](self, value, out)

    def _several(self, delta: dict[str, Any], out: list[Chunk]) -> None:
        """Take a delta that says several things: reasoning, text, refusal, images, calls. The order of its keys means nothing."""
        details = delta.get("reasoning_details")
        heard = isinstance(details, list) and ReasoningDetails.speaks(details)
        for name in _READERS:
            value = delta.get(name)
            if not value:
                continue
            if name in _REASONING:
                if heard or not joined_text(value):
                    continue
                heard = True
            if heard and name == "thinking_blocks" and isinstance(value, list):
                value = [{**block, "thinking": ""} for block in value if isinstance(block, dict)]
            self._say(name, value, out)

    def _plain_reasoning(self, value: Any, out: list[Chunk]) -> None:
        if text := joined_text(value):
            self._blocks.thinking(text, out)

    def _summary(self, value: Any, out: list[Chunk]) -> None:
        if text := joined_text(value):
            self._blocks.summary(text, out)

    def _reasoning_details(self, value: Any, out: list[Chunk]) -> None:
        self._details.add(value if isinstance(value, list) else [value], out)

    def _thinking_blocks(self, value: Any, out: list[Chunk]) -> None:
        add_thinking_blocks(value, self._blocks, out)

    def _content(self, value: Any, out: list[Chunk]) -> None:
        if type(value) is str:
            if self._tags is None:
                self._blocks.text(value, out)
            else:
                self._tagged(self._tags.feed(value), out)
            return
        for part in value if isinstance(value, list) else [value]:
            self._part(part, out)

    def _part(self, part: Any, out: list[Chunk]) -> None:
        """Take a part of list-valued content; references and kinds that are not known are no text."""
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if not isinstance(part, dict):
            return
        match part.get("type"):
            case "thinking" | "reasoning" | "reasoning_text":
                self._plain_reasoning(part.get("thinking") or part.get("reasoning") or part, out)
            case "text" | "output_text":
                if (text := part.get("text")) and isinstance(text, str):
                    self._content(text, out)
            case "refusal":
                self._refusal(part.get("refusal"), out)
            case "image_url":
                self._images([part], out)

    def _tagged(self, pieces: list[tuple[bool, str]], out: list[Chunk]) -> None:
        for is_thinking, piece in pieces:
            if is_thinking:
                self._blocks.thinking(piece, out)
            else:
                self._blocks.text(piece, out)

    def _refusal(self, value: Any, out: list[Chunk]) -> None:
        if value and isinstance(value, str):
            self._blocks.refusal(value, out)

    def _images(self, value: Any, out: list[Chunk]) -> None:
        for part in value if isinstance(value, list) else [value]:
            image = part.get("image_url") if isinstance(part, dict) else None
            url = image.get("url") if isinstance(image, dict) else image
            if url and isinstance(url, str):
                self._blocks.end(out)
                index = self._blocks.new()
                out.append(image_chunk(url, index))
                out.append(BlockEndChunk(index))

    def _tool_calls(self, value: Any, out: list[Chunk]) -> None:
        self._calls.add(value if isinstance(value, list) else [value], out)

    def _function_call(self, value: Any, out: list[Chunk]) -> None:
        if isinstance(value, dict):
            self._calls.add_legacy(value, out)

    def _finished(self, finish: object, out: list[Chunk], *, broken: bool) -> None:
        raw = valid_text(finish if isinstance(finish, str) else str(finish)[:100])
        reason = finish_of(raw)
        if reason is None:
            return
        self._finish = reason
        if self._finish != "error" and not (self._failed or broken):
            self._calls.end(out, cut=self._finish == "length")
        if raw != self._raw_finish:  # some say it twice
            self._raw_finish = raw
            out.append(FinishChunk(reason, raw))

    def _take_usage(self, usage: object, out: list[Chunk]) -> None:
        if isinstance(usage, dict) and usage and usage != self._usage:
            self._usage = usage
            out.append(UsageChunk(read_usage(usage)))

    def _error(self, value: object, out: list[Chunk]) -> None:
        """Take an error of any shape. What was held back goes first: a reader may stop here."""
        if not self._failed:
            self._release(out)
            self._details.flush(out)
        self._failed = True
        fault = read_fault(value)
        again = classify(fault, None)[1]
        message = fault.message or f"{NAME} stream sent an error without a message"
        out.append(ErrorChunk("provider", message, fault.code, True if again is None else again))

    def _no_object(self, payload: object, out: list[Chunk]) -> None:
        """Take a payload that is no object: only an error is ever sent so, bare."""
        if payload is None or payload in ("", []):
            return
        if not isinstance(payload, str):
            first = payload[0] if isinstance(payload, list) else None
            if not isinstance(first, dict) or not first.get("error"):
                raise WireError(f"{NAME} payload must be an object, got {quote(payload)}")
        self._error(payload, out)

    def _end(self, out: list[Chunk]) -> None:
        """The answer is over, and its end was told."""
        self._done = True
        self._release(out)
        self._blocks.end(out)
        self._details.flush(out)
        if self._finish is None:
            if self._failed:
                return
            self._calls.end(out)
            self._finish = "stop" if self._calls.empty else "tool_calls"
            out.append(FinishChunk(self._finish, ""))
        elif self._finish == "error":
            if not self._failed:
                message = f"{NAME} stream finished with {self._raw_finish!r}"
                out.append(ErrorChunk("provider", message, self._raw_finish, True))
        elif not self._failed:
            self._calls.end(out, cut=self._finish == "length")

    def _release(self, out: list[Chunk]) -> None:
        if self._tags is not None:
            self._tagged(self._tags.release(), out)
        self._blocks.release(out)
        self._calls.release(out)


_READERS: Final[dict[str, _Reader]] = {
    "reasoning_content": ChatDecoder._plain_reasoning,
    "reasoning": ChatDecoder._plain_reasoning,
    "reasoning_text": ChatDecoder._plain_reasoning,
    "thinking": ChatDecoder._plain_reasoning,
    "thought": ChatDecoder._plain_reasoning,
    "reasoning_summary": ChatDecoder._summary,
    "reasoning_details": ChatDecoder._reasoning_details,
    "thinking_blocks": ChatDecoder._thinking_blocks,
    "content": ChatDecoder._content,
    "refusal": ChatDecoder._refusal,
    "images": ChatDecoder._images,
    "tool_calls": ChatDecoder._tool_calls,
    "function_call": ChatDecoder._function_call,
}
"""What a delta may say, in the order in which one delta says it. Sound, annotations and what servers add besides are not read."""


def _error_payload(data: str) -> object:
    """Return the data of an event named `error`: JSON mostly, plain words at times."""
    try:
        return parse_payload(NAME, data)
    except WireError:
        return data
