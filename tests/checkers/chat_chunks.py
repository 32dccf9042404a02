"""A strict reader of chat completion streams, written from OpenAI's reference and from what its clients' helpers demand.

It refuses more than they do: one shape for each frame, nothing null that may be left out, one end, nothing behind it.
Source: platform.openai.com/docs/api-reference/chat/streaming (read 2026-11-30).
"""

import json
from dataclasses import dataclass, field
from typing import Any

DONE = "[DONE]"
HEAD = ("id", "object", "created", "model")
TEXTS = ("content", "reasoning_content", "refusal")
FINISHES = {"stop", "length", "tool_calls", "content_filter"}


class ChatStreamError(AssertionError):
    """The stream is not what the reference allows."""


@dataclass
class Answer:
    """What a client would show."""

    content: str = ""
    reasoning_content: str = ""
    refusal: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    """Of each its id, its function's name and arguments, read."""
    images: list[str] = field(default_factory=list)
    finish: str | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


def frames_of(body: bytes) -> list[str]:
    """Return the data of each frame; comments are passed over.

    Raises:
        ChatStreamError: it is framed in another way.
    """
    if b"\r" in body:
        raise ChatStreamError("frames end with LF")
    out: list[str] = []
    *frames, rest = body.decode().split("\n\n")
    if rest:
        raise ChatStreamError(f"the last frame is cut: {rest[:80]!r}")
    for frame in frames:
        if frame.startswith(":"):
            continue
        if not frame.startswith("data: ") or "\n" in frame:
            raise ChatStreamError(f"one data line a frame, got {frame[:80]!r}")
        out.append(frame.removeprefix("data: "))
    return out


def check_answer(body: bytes, *, usage: bool = False, whole: bool = True) -> Answer:
    """Read a stream, and return the answer.

    Args:
        body: all of it.
        usage: whether the client asked for it.
        whole: False where the stream need not have ended.

    Raises:
        ChatStreamError: it breaks a rule.
    """
    frames = frames_of(body)
    reader = _Reader(usage=usage)
    for place, frame in enumerate(frames):
        if frame == DONE:
            _demand(place == len(frames) - 1, "nothing follows [DONE]")
            _demand(reader.is_over, "[DONE] came before an end")
        else:
            reader.take(json.loads(frame))
    if whole:
        _demand(bool(frames) and frames[-1] == DONE, "the stream ends with [DONE]")
    return reader.answer


class _Reader:
    def __init__(self, *, usage: bool) -> None:
        self.answer = Answer()
        self._wants_usage = usage
        self._head: tuple[Any, ...] | None = None

    @property
    def is_over(self) -> bool:
        told = self.answer.usage is not None or not self._wants_usage
        return self.answer.error is not None or (self.answer.finish is not None and told)

    def take(self, chunk: dict[str, Any]) -> None:
        _demand(not self.is_over, f"came after the end: {chunk}")
        if "error" in chunk:
            self._error(chunk)
            return
        head = tuple(chunk[name] for name in HEAD)
        _demand(self._head in (None, head), "every chunk has the same head")
        _demand(chunk["object"] == "chat.completion.chunk", "the object is a chunk")
        _demand(isinstance(chunk["created"], int) and chunk["created"] >= 0, "created is in seconds")
        if self.answer.finish is not None:
            self._usage(chunk)
            return
        _demand(set(chunk) == {*HEAD, "choices"}, f"members of a chunk: {sorted(chunk)}")
        [choice] = chunk["choices"]
        _demand(set(choice) == {"index", "delta", "logprobs", "finish_reason"}, f"members: {sorted(choice)}")
        _demand((choice["index"], choice["logprobs"]) == (0, None), "one choice, without logprobs")
        finish, delta = choice["finish_reason"], choice["delta"]
        if finish is not None:
            _demand(finish in FINISHES and delta == {}, f"an end: {choice}")
            _demand(finish != "tool_calls" or bool(self.answer.calls), "tool_calls without calls")
            self.answer.finish = finish
        elif self._head is None:
            _demand(delta == {"role": "assistant", "content": ""}, f"the first delta names the role: {delta}")
        else:
            self._delta(delta)
        self._head = head

    def _delta(self, delta: dict[str, Any]) -> None:
        [(name, value)] = delta.items()
        if name in TEXTS:
            _demand(isinstance(value, str) and value != "", f"{name} holds text: {value!r}")
            setattr(self.answer, name, getattr(self.answer, name) + value)
        elif name == "images":
            for image in value:
                _demand(
                    image["type"] == "image_url" and isinstance(image["index"], int), f"an image: {image}"
                )
                self.answer.images.append(image["image_url"]["url"])
        else:
            _demand(name == "tool_calls", f"unknown member of a delta: {name}")
            for call in value:
                _demand(set(call) == {"index", "id", "type", "function"}, f"members of a call: {call}")
                _demand(call["index"] == len(self.answer.calls) and call["type"] == "function", f"{call}")
                _demand(call["id"] not in [known for known, _, _ in self.answer.calls], "an id comes twice")
                arguments = json.loads(call["function"]["arguments"])
                _demand(isinstance(arguments, dict) and bool(call["function"]["name"]), f"{call}")
                self.answer.calls.append((call["id"], call["function"]["name"], arguments))

    def _usage(self, chunk: dict[str, Any]) -> None:
        _demand(self._wants_usage and chunk["choices"] == [], "only the usage follows the end, if wanted")
        usage = chunk["usage"]
        _demand(
            usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], f"sums: {usage}"
        )
        self.answer.usage = usage

    def _error(self, chunk: dict[str, Any]) -> None:
        _demand(set(chunk) == {"error"}, "an error stands alone")
        error = chunk["error"]
        _demand(set(error) == {"message", "type", "param", "code"}, f"members of an error: {sorted(error)}")
        _demand(isinstance(error["message"], str) and bool(error["message"]), "an error has words")
        self.answer.error = error


def _demand(holds: bool, said: str) -> None:
    if not holds:
        raise ChatStreamError(said)
