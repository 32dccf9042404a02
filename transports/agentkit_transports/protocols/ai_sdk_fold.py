"""Which UI message chunks a record becomes, given what has been told before.

Pure. A state is never changed, only replaced: readers share it. The fold makes no order: it opens what a record needs where its beginning
was lost, closes what the run left open, and says nothing after the end. Opaque state is told only where the log holds it, and then once,
whole, at its part's end: clients replace a part's metadata with each chunk that has some.
A part's id is its block's. Calls have a room of their own (`ai_sdk_calls`).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_core import from_json

from agentkit.content import JsonValue
from agentkit.log import Record
from agentkit_transports.protocols.ai_sdk_calls import Calls
from agentkit_transports.protocols.ai_sdk_words import (
    Chunk,
    Kind,
    Part,
    finish_word,
    merged,
    opaque,
    usage_of,
)


class Fold(Calls):
    """One record's turn: `take` it once, then read `state` and `chunks`."""

    __slots__ = ()

    def take(self, record: Record) -> None:
        """Tell a record. What this protocol has no word for is left out."""
        if not record.run and not self.state.run:
            return  # the application's, before the run began
        body = _read(record.body)
        data = body.get("data")
        if not record.run:
            self._tell_aside(record.type, data)
            return
        if not isinstance(data, dict):
            return
        self.body, self.data = body, data
        if "parent" in body:
            self._start(record.run)
            self._tell_child()
        elif (handle := _TABLE.get(record.type)) is not None:
            if record.type != "run.started":
                self._start(record.run)
            if data.get("truncated") is True and "bytes" in self.data and record.type not in _SURVIVE_LOSS:
                self.say("data-truncated", data={"type": record.type, "bytes": data["bytes"]})
            else:
                handle(self)

    def _start(self, run: str, *, again: bool = False) -> None:
        if not self.state.run or again:
            self.change(run=run)
            self.say("start", messageId=self.options.message or run, messageMetadata={"runId": run})

    # the run and its steps

    def _run_started(self) -> None:
        self.change(client_tools=frozenset(self.data.get("client_tools") or ()))
        self._start(self.body.get("run", ""))

    def _run_resumed(self) -> None:
        if self.options.again and self.state.pauses == self.options.pauses:
            self._start(self.body.get("run", ""), again=True)

    def _run_suspended(self) -> None:
        self._close_parts()
        self._close_step()
        self.change(pauses=self.state.pauses + 1)
        if self.state.pauses > self.options.pauses:
            self.say("finish", **self._reason("tool_calls"))
            self.change(is_over=True)

    def _run_finished(self) -> None:
        self._close_all()
        metadata: Chunk = {"finishReason": finish_word(self.data.get("finish"))}
        self.say(
            "finish",
            **self._reason(self.data.get("finish")),
            messageMetadata={**metadata, **usage_of(self.data)},
        )
        self.change(is_over=True)

    def _run_failed(self) -> None:
        self._close_all()
        error: Chunk = {
            "code": self.data.get("code", "failed"),
            "retryable": self.data.get("retryable") is True,
        }
        self.say("message-metadata", messageMetadata={"error": error, **usage_of(self.data)})
        self.say("error", errorText=self.data.get("message") or self.data.get("code") or "The run failed.")
        self.change(is_over=True)

    def _run_cancelled(self) -> None:
        self._close_all()
        reason = self.data.get("reason", "")
        self.say("message-metadata", messageMetadata={"cancelled": {"reason": reason}, **usage_of(self.data)})
        self.say("abort", **({"reason": reason} if self.options.sdk >= 6 and reason else {}))
        self.change(is_over=True)

    def _reason(self, finish: JsonValue) -> Chunk:
        return {"finishReason": finish_word(finish)} if self.options.sdk >= 6 else {}

    def _step_started(self) -> None:
        self._close_all()
        self.say("start-step")
        self.change(step=self.body.get("step", 1))

    def _step_finished(self) -> None:
        self._close_all()

    def _close_step(self) -> None:
        if self.state.step:
            self.say("finish-step")
            self.change(step=0)

    def _close_parts(self) -> None:
        for kind, block in tuple(self.state.parts):
            self._close_part(kind, block)

    def _close_all(self) -> None:
        """Close what is open: a client would show it as going on for ever. Only calls that the client itself answers stay open."""
        self._close_parts()
        self.close_calls()
        self._close_step()

    # text and reasoning

    def _part(self, kind: Kind, block: str, number: int | None = None) -> Part:
        """Return the part of a block that is open, or open one."""
        part = self.state.parts.get((kind, block))
        if part is not None and number is not None and part.number not in (None, number):
            self._close_part(kind, block)
            part = None
        if part is None:
            part = Part(kind, self.fresh(block), number)
            self.say(f"{kind}-start", id=part.id)
        elif number is None or part.number == number:
            return part
        part = replace(part, number=number)
        self.change(parts={**self.state.parts, (kind, block): part})
        return part

    def _close_part(self, kind: Kind, block: str) -> None:
        part = self.state.parts.get((kind, block))
        if part is not None:
            metadata: Chunk = {"providerMetadata": dict(part.metadata)} if part.metadata else {}
            self.say(f"{kind}-end", id=part.id, **metadata)
            self.change(parts={key: one for key, one in self.state.parts.items() if key != (kind, block)})

    def _text_started(self) -> None:
        self._part("text", self.block)

    def _text_delta(self) -> None:
        self.say("text-delta", id=self._part("text", self.block).id, delta=self.data.get("text", ""))

    def _text_finished(self) -> None:
        self._close_part("text", self.block)

    def _refusal_started(self) -> None:
        """A refusal is text for this protocol; its metadata says what it is."""
        key: tuple[Kind, str] = ("text", self.block)
        if key not in self.state.parts:
            metadata: Chunk = {"agentkit": {"refusal": True}}
            part = Part("text", self.fresh(key[1]), metadata=metadata)
            self.change(parts={**self.state.parts, key: part})
            self.say("text-start", id=part.id, providerMetadata=metadata)

    def _refusal_delta(self) -> None:
        self._refusal_started()
        self._text_delta()

    def _thinking_started(self) -> None:
        self._part("reasoning", self.block)

    def _thinking_finished(self) -> None:
        self._close_part("reasoning", self.block)

    def _reasoning(self) -> None:
        block, inner = self.block, self.data.get("data")
        inner = inner if isinstance(inner, dict) else {}
        if self.data.get("kind") in ("delta", "summary"):
            number = inner.get("part")
            part = self._part("reasoning", block, number if isinstance(number, int) else None)
            self.say("reasoning-delta", id=part.id, delta=self.data.get("text") or "")
            return
        metadata = opaque(inner)
        is_late = block in self.state.used and ("reasoning", block) not in self.state.parts
        if is_late and not metadata:
            return
        part = self._part("reasoning", block)
        told = replace(part, metadata=merged(part.metadata, metadata))
        self.change(parts={**self.state.parts, ("reasoning", block): told})
        if is_late:
            self._close_part("reasoning", block)

    def _image(self) -> None:
        media_type, raw = self.data.get("media_type") or "image/*", self.data.get("data") or ""
        self.say(
            "file",
            url=f"data:{media_type};base64,{raw}" if raw else self.data.get("url", ""),
            mediaType=media_type,
        )

    # beside the answer

    def _tell_child(self) -> None:
        """Pass on what a sub-agent says, but for what a person has to decide: that stays."""
        body = self.body
        match body.get("type", ""):
            case "tool_approval.requested":
                self.ask_for_approval()
            case "tool_approval.resolved":
                self.tell_decision()
            case _:
                self.pass_on(
                    "subagent",
                    {
                        name: body[name]
                        for name in ("type", "run", "step", "block", "parent", "data")
                        if name in body
                    },
                )

    def _tell_aside(self, name: str, data: Any) -> None:
        """Tell what the application says meanwhile: a part that a later one of the same `id` replaces."""
        id_ = data.get("id") if isinstance(data, dict) else None
        self.say(f"data-{name}", data=data, **({"id": id_} if isinstance(id_, str) else {}))

    def _notice(self) -> None:
        self.pass_on("notice", dict(self.data))

    def _retrying(self) -> None:
        self._close_parts()
        self.close_calls()
        self.pass_on("retry", dict(self.data))

    def _steered(self) -> None:
        self.say("data-steered", id=self.data.get("id", ""), data={"text": self.data.get("text", "")})

    def _snapshot(self) -> None:
        self.say("data-state", id="state", data=self.data.get("state"))

    def _state_delta(self) -> None:
        self.pass_on("state-delta", self.data.get("operations"))


def _read(body: bytes) -> Mapping[str, Any]:
    """Return a record's body. It is JSON of ours; only what is nested very deep needs the standard reader."""
    value: Mapping[str, Any]
    try:
        value = from_json(body)
    except ValueError:
        value = json.loads(body)
    return value


_TABLE: Final[dict[str, Callable[[Fold], None]]] = {
    "run.started": Fold._run_started,
    "run.suspended": Fold._run_suspended,
    "run.resumed": Fold._run_resumed,
    "run.steered": Fold._steered,
    "run.notice": Fold._notice,
    "run.finished": Fold._run_finished,
    "run.failed": Fold._run_failed,
    "run.cancelled": Fold._run_cancelled,
    "step.started": Fold._step_started,
    "step.retrying": Fold._retrying,
    "step.finished": Fold._step_finished,
    "reasoning_block.started": Fold._thinking_started,
    "reasoning": Fold._reasoning,
    "reasoning_block.finished": Fold._thinking_finished,
    "text.started": Fold._text_started,
    "text.delta": Fold._text_delta,
    "text.finished": Fold._text_finished,
    "refusal.started": Fold._refusal_started,
    "refusal.delta": Fold._refusal_delta,
    "refusal.finished": Fold._text_finished,
    "image": Fold._image,
    "tool_call.started": Fold.call_started,
    "tool_call.delta": Fold.call_delta,
    "tool_call.ready": Fold.call_ready,
    "tool_approval.requested": Fold.approval_requested,
    "tool_approval.resolved": Fold.approval_resolved,
    "tool_execution.progress": Fold.progress,
    "tool_result": Fold.tool_result,
    "state.snapshot": Fold._snapshot,
    "state.delta": Fold._state_delta,
}
_SURVIVE_LOSS: Final = frozenset({"tool_call.ready", "tool_result"})
"""Too large for a record, and told all the same: arguments were streamed, a result has its size."""
