"""OpenAI's chat completions: a run's records → `chat.completion.chunk` frames, and the one object that says the same.

Pure: a fold from the run's first record. Reasoning is `reasoning_content` and nothing else: clients that read several fields would show it
twice. Calls of the agent's own tools are not told: a client would try to run them. Calls that the run leaves to its caller are told whole,
one delta a call, once they are known to be its: a piece of one that the run then takes back could not be unsaid. There is no resume.
Grounds: platform.openai.com/docs/api-reference/chat (read 2026-11-30), and what `openai` for Python and Node, Open WebUI, LibreChat and
`@ai-sdk/openai-compatible` do with it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from agentkit.content import JsonValue, valid_text
from agentkit.log import Cursor, Gap, Record
from agentkit.sse import encode_comment

Payload = dict[str, JsonValue]
"""One frame's JSON object: a chunk, or `{"error": …}`."""

BEAT: Final = encode_comment("keep-alive")
DONE: Final = b"data: [DONE]\n\n"

FINISH: Final[Mapping[str, str]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
"""Our word for why a model stopped → OpenAI's; any other is `stop`: the run has ended, and the client has nothing to do."""
STOPPED: Final = "the server stops"
"""Why a server that drains cancels its runs: nobody's wish, so the cut answer must not look like a whole one."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that is being made: its record may be too large for its arguments, the pieces never are."""

    block: str
    id: str
    name: str
    said: Any = None
    """The pieces so far, each as `(pieces before, piece)`: shared by all states, and never copied."""

    @property
    def input(self) -> str:
        """The arguments so far."""
        pieces, said = [], self.said
        while said is not None:
            said, piece = said
            pieces.append(piece)
        return "".join(reversed(pieces))


@dataclass(frozen=True, slots=True)
class State:
    """What the fold knows of the run so far. Never changed: readers share it."""

    run: str = ""
    created: int = 0
    """Seconds since the epoch."""
    client_tools: frozenset[str] = frozenset()
    call: _Call | None = None
    """The call that was begun last."""
    calls: tuple[str, ...] = ()
    """Ids of the calls that were told, in order."""
    thought: tuple[str, JsonValue] | None = None
    """Block and summary part of the reasoning that was told last: clients join all of it, whatever stood between."""
    images: int = 0
    """How many were told."""
    has_begun: bool = False
    has_refused: bool = False
    is_over: bool = False


class Fold:
    """Records of one run → payloads.

    Args:
        model: what the client calls the agent.
        with_usage: whether the client wants a last chunk with the usage (`stream_options.include_usage`).
    """

    __slots__ = ("_model", "_with_usage")

    def __init__(self, model: str, *, with_usage: bool = False) -> None:
        self._model = model
        self._with_usage = with_usage

    def step(self, state: State, record: Record) -> tuple[State, list[Payload]]:
        """Return the next state, and what to say of a record."""
        tell = _TELLING.get(record.type)
        if tell is None or state.is_over:
            return state, []
        body: Any = json.loads(record.body)
        if "parent" in body and record.type != "tool_approval.requested":
            return state, []  # a sub-agent's words are its caller's to use, not the answer
        if not state.run:
            state = replace(state, run=record.run, created=int(record.time))
        return tell(self, state, body)

    def _run_started(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        theirs = frozenset(body["data"].get("client_tools", ()))
        return replace(state, client_tools=theirs, has_begun=True), [self._beginning(state)]

    def _reasoning(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        data = body["data"]
        text = data.get("text")
        if not text:
            return state, []
        thought = (body["block"], data["data"].get("part"))
        if state.thought is not None and state.thought != thought:
            text = f"\n\n{text}"  # another block, or another part of a summary
        if state.thought != thought:
            state = replace(state, thought=thought)
        return state, [self._chunk(state, {"reasoning_content": text})]

    def _text(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        return state, [self._chunk(state, {"content": body["data"]["text"]})]

    def _refusal(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        state = replace(state, has_refused=True)
        return state, [self._chunk(state, {"refusal": body["data"]["text"]})]

    def _image(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        data = body["data"]
        url = data.get("url") or (
            f"data:{data['media_type']};base64,{data['data']}" if data.get("data") else ""
        )
        if not url:  # too large for a record
            return state, []
        image: JsonValue = {"index": state.images, "type": "image_url", "image_url": {"url": url}}
        return replace(state, images=state.images + 1), [self._chunk(state, {"images": [image]})]

    def _call_started(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        if not state.client_tools:
            return state, []
        data = body["data"]
        return replace(state, call=_Call(body["block"], data["call"], data["name"])), []

    def _call_delta(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        call = state.call
        if call is None or call.block != body["block"]:
            return state, []
        return replace(state, call=replace(call, said=(call.said, body["data"]["text"]))), []

    def _call(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        data = body["data"]
        if data.get("truncated") and state.call is not None and state.call.block == body["block"]:
            data = {"call": state.call.id, "name": state.call.name, "input": state.call.input}
        call, name, given = data.get("call", ""), data.get("name", ""), data.get("input", "")
        if name not in state.client_tools or not call or call in state.calls or not _is_object(given):
            return state, []
        function: JsonValue = {"name": name, "arguments": given if given.strip() else "{}"}
        told: JsonValue = {"index": len(state.calls), "id": call, "type": "function", "function": function}
        state = replace(state, calls=(*state.calls, call))
        return state, [self._chunk(state, {"tool_calls": [told]})]

    def _approval(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        said = f"the call of {body['data'].get('name', 'a tool')} needs a person's approval, which this protocol cannot ask for"
        return self._fail(state, said, "invalid_request_error", "approval_required")

    def _finished(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        data = body["data"]
        finish = "stop" if state.has_refused else FINISH.get(data["finish"], "stop")
        if data.get("termination") == "client_tools":
            finish = "tool_calls"
        return self._end(state, finish, data["usage"])

    def _cancelled(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        if body["data"]["reason"] == STOPPED:
            return replace(state, is_over=True), [_CLOSING]
        return self._end(state, "stop", body["data"]["usage"])

    def _failed(self, state: State, body: Any) -> tuple[State, list[Payload]]:
        data = body["data"]
        return self._fail(state, data["message"], "server_error", data["code"])

    def _end(self, state: State, finish: str, usage: Any) -> tuple[State, list[Payload]]:
        out = (
            [] if state.has_begun else [self._beginning(state)]
        )  # a run may be stopped while it waits for its thread
        out.append(self._chunk(state, {}, finish))
        if self._with_usage:
            out.append({**self._head(state), "choices": [], "usage": usage_of(usage)})
        return replace(state, is_over=True), out

    def _fail(self, state: State, message: str, kind: str, code: str) -> tuple[State, list[Payload]]:
        return replace(state, is_over=True), [error_of(message, kind, code)]

    def _beginning(self, state: State) -> Payload:
        return self._chunk(state, {"role": "assistant", "content": ""})

    def _chunk(self, state: State, delta: dict[str, JsonValue], finish: str | None = None) -> Payload:
        choice: JsonValue = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head(state), "choices": [choice]}

    def _head(self, state: State) -> Payload:
        return {
            "id": f"chatcmpl-{state.run}",
            "object": "chat.completion.chunk",
            "created": state.created,
            "model": self._model,
        }


_Tell = Callable[[Fold, State, Any], tuple[State, list[Payload]]]
_TELLING: Final[dict[str, _Tell]] = {
    "run.started": Fold._run_started,
    "reasoning": Fold._reasoning,
    "text.delta": Fold._text,
    "refusal.delta": Fold._refusal,
    "image": Fold._image,
    "tool_call.started": Fold._call_started,
    "tool_call.delta": Fold._call_delta,
    "tool_call.ready": Fold._call,
    "tool_approval.requested": Fold._approval,
    "run.finished": Fold._finished,
    "run.failed": Fold._failed,
    "run.cancelled": Fold._cancelled,
}


class ChatCompletions:
    """Records of one run as SSE frames; `[DONE]` stands last, also behind an error."""

    __slots__ = ("_fold",)

    folds: Final = True

    def __init__(self, model: str, options: Sequence[tuple[str, str]] = ()) -> None:
        """Make an encoder.

        Args:
            model: what the client calls the agent.
            options: a view's: `usage`, 1 where a last chunk shall tell it.
        """
        self._fold = Fold(model, with_usage=dict(options).get("usage") == "1")

    def start(self) -> object:
        """Return the state before the run's first record."""
        return State()

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        """Return the next state and the frames of one record."""
        assert isinstance(state, State)
        following, payloads = self._fold.step(state, record)
        frames = [_frame(payload) for payload in payloads]
        if following.is_over and not state.is_over:
            frames.append(DONE)
        return following, b"".join(frames)

    def is_over(self, state: object) -> bool:
        """Tell whether the last word was said: also where the run waits for a person whom nobody here can ask."""
        return isinstance(state, State) and state.is_over

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the frames as one piece to send."""
        return b"".join(frames)

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return nothing: the first chunk names the role."""
        return b""

    def gap(self, gap: Gap, after: Cursor) -> bytes:  # noqa: ARG002
        """Return an error: an answer with a hole must not look like an answer."""
        return _frame(error_of("a part of the answer was lost", "server_error", "gap")) + DONE

    def position(self, cursor: Cursor) -> bytes:  # noqa: ARG002
        """Return nothing: this protocol has no cursors."""
        return b""

    def end(self, cursor: Cursor) -> bytes:  # noqa: ARG002
        """Return nothing: the last frames were the end."""
        return b""

    def closing(self, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return an error: a stream that ends without one would be taken for a good end."""
        return _frame(_CLOSING) + DONE

    def beat(self) -> bytes:
        """Return a sign of life."""
        return BEAT


class Completion:
    """The payloads of a run, folded into one `chat.completion` object.

    Attributes:
        error: the error that ended the run, or None.
    """

    def __init__(self) -> None:
        self.error: Payload | None = None
        self._head: Payload = {}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[JsonValue]] = {}
        self._finish: JsonValue = None
        self._usage: JsonValue = None

    def add(self, payload: Payload) -> None:
        """Take the next payload."""
        error = payload.get("error")
        if isinstance(error, dict):
            self.error = error
            return
        self._head = {name: payload[name] for name in ("id", "created", "model")}
        if "usage" in payload:
            self._usage = payload["usage"]
        choices: Any = payload["choices"]
        for choice in choices:
            self._finish = choice["finish_reason"] or self._finish
            for name, value in choice["delta"].items():
                if name in ("content", "reasoning_content", "refusal"):
                    self._texts.setdefault(name, []).append(value)
                elif name != "role":
                    self._lists.setdefault(name, []).extend(
                        {key: member for key, member in one.items() if key != "index"} for one in value
                    )

    def body(self) -> Payload:
        """Return the object. `content` is null where there are only calls or a refusal, as OpenAI has it."""
        said = {name: "".join(pieces) for name, pieces in self._texts.items()}
        content: JsonValue = said.get("content", "")
        if not content and ("refusal" in said or "tool_calls" in self._lists):
            content = None
        message: dict[str, JsonValue] = {
            "role": "assistant",
            "content": content,
            "refusal": said.get("refusal"),
        }
        if "reasoning_content" in said:
            message["reasoning_content"] = said["reasoning_content"]
        message |= dict(self._lists)
        choice: JsonValue = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._finish,
        }
        head = {"id": self._head["id"], "object": "chat.completion"}
        return {
            **head,
            "created": self._head["created"],
            "model": self._head["model"],
            "choices": [choice],
            "usage": self._usage,
        }


def error_of(message: str, kind: str, code: str, param: str | None = None) -> Payload:
    """Return an error as OpenAI's clients read it, in a stream and as an answer's body."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code or None}}


_CLOSING: Final = error_of("the server ends this stream; ask again", "server_error", "closing")


def usage_of(usage: Mapping[str, int]) -> JsonValue:
    """Return a run's usage in OpenAI's words."""
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": {"cached_tokens": usage["cache_read_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"]},
    }


def _is_object(text: str) -> bool:
    """Tell whether a call's arguments can be read: the run leaves no other to its caller."""
    try:
        return not text.strip() or isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no number of JSON")


def _frame(payload: Payload) -> bytes:
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b"data: %b\n\n" % valid_text(text).encode()
