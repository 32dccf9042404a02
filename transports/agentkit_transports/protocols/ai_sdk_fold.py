"""Which UI message chunks a record becomes, given what has been told before.

Pure. A state is never changed, only replaced: readers share it. The fold makes no order: it opens what a record needs where its beginning
was lost, closes what the run left open, and says nothing after the end. Opaque state is told only where the log holds it, and then once,
whole, at its part's end: clients replace a part's metadata with each chunk that has some.
A part's id is its block's. A call's is `<run>.<step>.<call>`: providers begin again with their ids, a thread must not.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_core import from_json

from agentkit.content import JsonValue
from agentkit.log import Record
from agentkit_transports.protocols.ai_sdk_words import (
    Call,
    Chunk,
    Kind,
    Options,
    Part,
    State,
    finish_word,
    flags,
    joined,
    json_value,
    merged,
    opaque,
    output_of,
    text_of,
    usage_of,
)

_NO_RESULT: Final = "This call was not run."
_NOT_WHOLE: Final = "This call broke off."
_NOT_JSON: Final = "The model's arguments are not JSON."


class Fold:
    """One record's turn: `take` it once, then read `state` and `chunks`."""

    __slots__ = ("_body", "_data", "_options", "chunks", "state")

    def __init__(self, options: Options, state: State) -> None:
        self._options = options
        self.state = state
        self.chunks: list[Chunk] = []
        self._body: Mapping[str, Any] = {}
        self._data: Mapping[str, Any] = {}

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
        self._body, self._data = body, data
        if "parent" in body:
            self._start(record.run)
            self._tell_child()
        elif (handle := _TABLE.get(record.type)) is not None:
            if record.type != "run.started":
                self._start(record.run)
            if data.get("truncated") is True and "bytes" in self._data and record.type not in _SURVIVE_LOSS:
                self._say("data-truncated", data={"type": record.type, "bytes": data["bytes"]})
            else:
                handle(self)

    # small words

    def _say(self, type: str, /, **fields: JsonValue) -> None:  # noqa: A002 - the protocol's word
        self.chunks.append({"type": type, **fields})

    def _set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def _pass(self, name: str, data: JsonValue) -> None:
        """Tell what is worth a word now and no part of the message."""
        self._say(f"data-{name}", data=data, transient=True)

    def _start(self, run: str, *, again: bool = False) -> None:
        if not self.state.run or again:
            self._set(run=run)
            self._say("start", messageId=self._options.message or run, messageMetadata={"runId": run})

    @property
    def _block(self) -> str:
        return str(self._body.get("block", ""))

    def _fresh(self, block: str) -> str:
        """Return an id that no part of the message had: the block's, where it is the first of it."""
        count = self.state.used.get(block, 0) + 1
        self._set(used={**self.state.used, block: count})
        return block if count == 1 else f"{block}~{count}"

    # the run and its steps

    def _run_started(self) -> None:
        self._set(client_tools=frozenset(self._data.get("client_tools") or ()))
        self._start(self._body.get("run", ""))

    def _run_resumed(self) -> None:
        if self._options.again and self.state.pauses == self._options.pauses:
            self._start(self._body.get("run", ""), again=True)

    def _run_suspended(self) -> None:
        self._close_parts()
        self._close_step()
        self._set(pauses=self.state.pauses + 1)
        if self.state.pauses > self._options.pauses:
            self._say("finish", **self._reason("tool_calls"))
            self._set(is_over=True)

    def _run_finished(self) -> None:
        self._close_all()
        metadata: Chunk = {"finishReason": finish_word(self._data.get("finish"))}
        self._say(
            "finish",
            **self._reason(self._data.get("finish")),
            messageMetadata={**metadata, **usage_of(self._data)},
        )
        self._set(is_over=True)

    def _run_failed(self) -> None:
        self._close_all()
        error: Chunk = {
            "code": self._data.get("code", "failed"),
            "retryable": self._data.get("retryable") is True,
        }
        self._say("message-metadata", messageMetadata={"error": error, **usage_of(self._data)})
        self._say("error", errorText=self._data.get("message") or self._data.get("code") or "The run failed.")
        self._set(is_over=True)

    def _run_cancelled(self) -> None:
        self._close_all()
        reason = self._data.get("reason", "")
        self._say(
            "message-metadata", messageMetadata={"cancelled": {"reason": reason}, **usage_of(self._data)}
        )
        self._say("abort", **({"reason": reason} if self._options.sdk >= 6 and reason else {}))
        self._set(is_over=True)

    def _reason(self, finish: JsonValue) -> Chunk:
        return {"finishReason": finish_word(finish)} if self._options.sdk >= 6 else {}

    def _step_started(self) -> None:
        self._close_all()
        self._say("start-step")
        self._set(step=self._body.get("step", 1))

    def _step_finished(self) -> None:
        self._close_all()

    def _close_step(self) -> None:
        if self.state.step:
            self._say("finish-step")
            self._set(step=0)

    def _close_parts(self) -> None:
        for kind, block in tuple(self.state.parts):
            self._close_part(kind, block)

    def _close_calls(self) -> None:
        for block, call in tuple(self.state.calls.items()):
            if not call.is_whole:
                self._refuse_input(block, call, _NOT_WHOLE)
            elif not call.is_client:
                self._end_call(block, "tool-output-error", errorText=_NO_RESULT)

    def _close_all(self) -> None:
        """Close what is open: a client would show it as going on for ever. Only calls that the client itself answers stay open."""
        self._close_parts()
        self._close_calls()
        self._close_step()

    # text and reasoning

    def _part(self, kind: Kind, block: str, number: int | None = None) -> Part:
        """Return the part of a block that is open, or open one."""
        part = self.state.parts.get((kind, block))
        if part is not None and number is not None and part.number not in (None, number):
            self._close_part(kind, block)
            part = None
        if part is None:
            part = Part(kind, self._fresh(block), number)
            self._say(f"{kind}-start", id=part.id)
        elif number is None or part.number == number:
            return part
        part = replace(part, number=number)
        self._set(parts={**self.state.parts, (kind, block): part})
        return part

    def _close_part(self, kind: Kind, block: str) -> None:
        part = self.state.parts.get((kind, block))
        if part is not None:
            metadata: Chunk = {"providerMetadata": dict(part.metadata)} if part.metadata else {}
            self._say(f"{kind}-end", id=part.id, **metadata)
            self._set(parts={key: one for key, one in self.state.parts.items() if key != (kind, block)})

    def _text_started(self) -> None:
        self._part("text", self._block)

    def _text_delta(self) -> None:
        self._say("text-delta", id=self._part("text", self._block).id, delta=self._data.get("text", ""))

    def _text_finished(self) -> None:
        self._close_part("text", self._block)

    def _refusal_started(self) -> None:
        """A refusal is text for this protocol; its metadata says what it is."""
        key: tuple[Kind, str] = ("text", self._block)
        if key not in self.state.parts:
            metadata: Chunk = {"agentkit": {"refusal": True}}
            part = Part("text", self._fresh(key[1]), metadata=metadata)
            self._set(parts={**self.state.parts, key: part})
            self._say("text-start", id=part.id, providerMetadata=metadata)

    def _refusal_delta(self) -> None:
        self._refusal_started()
        self._text_delta()

    def _thinking_started(self) -> None:
        self._part("reasoning", self._block)

    def _thinking_finished(self) -> None:
        self._close_part("reasoning", self._block)

    def _reasoning(self) -> None:
        block, inner = self._block, self._data.get("data")
        inner = inner if isinstance(inner, dict) else {}
        if self._data.get("kind") in ("delta", "summary"):
            number = inner.get("part")
            part = self._part("reasoning", block, number if isinstance(number, int) else None)
            self._say("reasoning-delta", id=part.id, delta=self._data.get("text") or "")
            return
        metadata = opaque(inner)
        is_late = block in self.state.used and ("reasoning", block) not in self.state.parts
        if is_late and not metadata:
            return
        part = self._part("reasoning", block)
        told = replace(part, metadata=merged(part.metadata, metadata))
        self._set(parts={**self.state.parts, ("reasoning", block): told})
        if is_late:
            self._close_part("reasoning", block)

    def _image(self) -> None:
        media_type, raw = self._data.get("media_type") or "image/*", self._data.get("data") or ""
        self._say(
            "file",
            url=f"data:{media_type};base64,{raw}" if raw else self._data.get("url", ""),
            mediaType=media_type,
        )

    # tools

    def _call_started(self) -> None:
        """Tell a call as soon as its id and name are known: a client throws at a piece of a call that it does not know."""
        block, call, name = self._block, self._data.get("call", ""), self._data.get("name", "")
        if call and name and block not in self.state.calls:
            known = self._begin_call(call, name)
            self._say("tool-input-start", toolCallId=known.id, toolName=name, **flags(known))

    def _begin_call(self, call: str, name: str) -> Call:
        step = self._body.get("step", 0)
        known = Call(
            self._fresh(f"{self._body.get('run', '')}.{step}.{call}"),
            call,
            name,
            step,
            name in self.state.client_tools,
        )
        self._keep_call(self._block, known)
        return known

    def _keep_call(self, block: str, call: Call) -> None:
        self._set(calls={**self.state.calls, block: call})

    def _call_delta(self) -> None:
        block, text = self._block, self._data.get("text", "")
        known = self.state.calls.get(block)
        if known is not None and not known.is_whole:
            self._keep_call(block, replace(known, pieces=(known.pieces, text)))
            self._say("tool-input-delta", toolCallId=known.id, inputTextDelta=text)

    def _call_ready(self) -> None:
        block = self._block
        known = self.state.calls.get(block)
        if known is None:
            if not self._data.get("name"):
                return
            known = self._begin_call(self._data.get("call", ""), self._data["name"])
        elif known.is_whole:
            return
        raw = joined(known) if "input" not in self._data else self._data["input"]
        try:
            value = json_value(raw) if raw.strip() else {}
        except ValueError:
            self._refuse_input(block, known, _NOT_JSON, raw)
            return
        self._keep_call(block, replace(known, pieces=None, is_whole=True))
        self._say(
            "tool-input-available", toolCallId=known.id, toolName=known.name, input=value, **flags(known)
        )

    def _refuse_input(self, block: str, call: Call, said: str, raw: str | None = None) -> None:
        text = joined(call) if raw is None else raw
        self._say(
            "tool-input-error",
            toolCallId=call.id,
            toolName=call.name,
            input=text,
            errorText=said,
            **flags(call),
        )
        self._forget_call(block)

    def _forget_call(self, block: str) -> None:
        self._set(calls={key: one for key, one in self.state.calls.items() if key != block})

    def _find(self, call: str | None) -> tuple[str, Call] | None:
        """Return a step's whole call by the provider's id; for a record that lost it, the first one: results come in order."""
        for block, known in self.state.calls.items():
            if known.is_whole and known.step == self._body.get("step", 0) and call in (None, known.call):
                return block, known
        return None

    def _end_call(self, block: str, type: str, /, **fields: JsonValue) -> None:  # noqa: A002
        call = self.state.calls[block]
        self._say(type, toolCallId=call.id, **fields, **({} if type == "tool-output-denied" else flags(call)))
        self._forget_call(block)

    def _progress(self) -> None:
        found = self._find(self._data.get("call", ""))
        if found is not None:
            output: Chunk = {"message": self._data.get("message", "")}
            if "data" in self._data:
                output["data"] = self._data["data"]
            call = found[1]
            self._say(
                "tool-output-available", toolCallId=call.id, output=output, preliminary=True, **flags(call)
            )

    def _tool_result(self) -> None:
        found = self._find(self._data.get("call"))
        if found is None:
            return
        block, status = found[0], self._data.get("status", "ok")
        if status == "ok":
            self._end_call(block, "tool-output-available", output=output_of(self._data))
        elif status == "denied" and found[1].is_asked:
            self._end_call(block, "tool-output-denied")
        else:
            self._end_call(block, "tool-output-error", errorText=text_of(self._data) or str(status))

    def _approval_requested(self) -> None:
        found = self._find(self._data.get("call", ""))
        if self._options.sdk < 6 or found is None:
            self._ask_for_approval()
            return
        self._keep_call(found[0], replace(found[1], is_asked=True))
        self._say("tool-approval-request", approvalId=self._data.get("approval", ""), toolCallId=found[1].id)

    def _approval_resolved(self) -> None:
        found = self._find(self._data.get("call", ""))
        if found is None or not found[1].is_asked:
            self._tell_decision()
        elif self._options.sdk >= 7:
            approved, reason = self._data.get("approved") is True, self._data.get("reason")
            told: Chunk = {"approved": approved, **({"reason": reason} if reason else {})}
            self._say("tool-approval-response", approvalId=self._data.get("approval", ""), **told)

    def _ask_for_approval(self) -> None:
        """Ask where the protocol has no word for it: a part that a page can show, with the ids that the native route wants."""
        asked: Chunk = {"toolName": self._data.get("name", ""), "input": self._data.get("input", "")}
        self._tell_approval("requested", asked)

    def _tell_decision(self) -> None:
        state = "approved" if self._data.get("approved") is True else "denied"
        self._tell_approval(state, {"reason": self._data["reason"]} if self._data.get("reason") else {})

    def _tell_approval(self, state: str, more: Chunk) -> None:
        approval = self._data.get("approval", "")
        said: Chunk = {"runId": self.state.run, "approvalId": approval, "state": state, **more}
        self._say("data-approval", id=approval, data=said)

    # beside the answer

    def _tell_child(self) -> None:
        """Pass on what a sub-agent says, but for what a person has to decide: that stays."""
        body = self._body
        match body.get("type", ""):
            case "tool_approval.requested":
                self._ask_for_approval()
            case "tool_approval.resolved":
                self._tell_decision()
            case _:
                self._pass(
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
        self._say(f"data-{name}", data=data, **({"id": id_} if isinstance(id_, str) else {}))

    def _notice(self) -> None:
        self._pass("notice", dict(self._data))

    def _retrying(self) -> None:
        self._close_parts()
        self._close_calls()
        self._pass("retry", dict(self._data))

    def _steered(self) -> None:
        self._say("data-steered", id=self._data.get("id", ""), data={"text": self._data.get("text", "")})

    def _snapshot(self) -> None:
        self._say("data-state", id="state", data=self._data.get("state"))

    def _state_delta(self) -> None:
        self._pass("state-delta", self._data.get("operations"))


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
    "tool_call.started": Fold._call_started,
    "tool_call.delta": Fold._call_delta,
    "tool_call.ready": Fold._call_ready,
    "tool_approval.requested": Fold._approval_requested,
    "tool_approval.resolved": Fold._approval_resolved,
    "tool_execution.progress": Fold._progress,
    "tool_result": Fold._tool_result,
    "state.snapshot": Fold._snapshot,
    "state.delta": Fold._state_delta,
}
_SURVIVE_LOSS: Final = frozenset({"tool_call.ready", "tool_result"})
"""Too large for a record, and told all the same: arguments were streamed, a result has its size."""
