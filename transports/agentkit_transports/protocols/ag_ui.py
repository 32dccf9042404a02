"""AG-UI 1.0, safe for its clients 0.0.x: a run's records → its events as SSE frames.

Pure: a fold from the run's first record. It knows neither stores nor requests: what a client said is in the view's options. What clients
of 0.0.x refuse is only said where the input had a `protocolVersion`. Ids are the runtime's own, unique in the thread over all kinds: a
client appends to whatever has the id already. Every part is closed before the end is told.
Grounds: docs.ag-ui.com/spec/1.0, and what `verifyEvents` and the reducers of @ag-ui/client 1.0.0 and 0.0.59 do (read 2026-11-30).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agentkit.content import JsonValue
from agentkit.log import Cursor, Gap, Record
from agentkit.sse import encode_comment
from agentkit_transports.protocols.ag_ui_blocks import Blocks
from agentkit_transports.protocols.ag_ui_telling import NOT_RUN, Options, State, encode

__all__ = ["AGUI", "Options", "interrupt"]

BEAT: Final = encode_comment()


class AGUI:
    """Records of one run as AG-UI events, one `data:` line each; `id:` is the place after which a client may ask again."""

    __slots__ = ("_options",)

    folds: Final = True

    def __init__(self, options: Options) -> None:
        self._options = options

    def start(self) -> object:
        """Return the state before the run's first record."""
        return State()

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        """Return the next state and the frames of one record."""
        assert isinstance(state, State)
        fold = _Fold(self._options, state, record)
        fold.take()
        return fold.state, self._frames(record, fold.events)

    def _frames(self, record: Record, events: Sequence[Mapping[str, JsonValue]]) -> bytes:
        """Return the frames. Only the last has the record's own id: who lost the line between two gets the rest of them."""
        seq, had = self._options.skip
        out: list[bytes] = []
        for number, event in enumerate(events, 1):
            place = record.id if number == len(events) else f"{record.id}.{number}"
            if seq != record.seq or number > had:
                out.append(b"id: %b\ndata: %b\n\n" % (place.encode(), encode(event)))
        return b"".join(out)

    def is_over(self, state: object) -> bool:
        """Tell whether the stream has said how it ends: also where the run only waits for a person."""
        assert isinstance(state, State)
        return state.has_ended

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the frames as one piece to send."""
        return b"".join(frames)

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return nothing: the first event is RUN_STARTED."""
        return b""

    def gap(self, gap: Gap, after: Cursor) -> bytes:
        """Return a CUSTOM event that tells a loss in the middle of a run, or RUN_ERROR where the thread is gone."""
        if gap.reason == "deleted":
            return _frame(
                {"type": "RUN_ERROR", "message": "the thread was deleted", "code": "thread_deleted"}
            )
        value: JsonValue = {"from": gap.first, "to": gap.last, "reason": gap.reason}
        return _frame(
            {"type": "CUSTOM", "metadata": {"seq": after.seq}, "name": "stream.gap", "value": value}
        )

    def position(self, cursor: Cursor) -> bytes:  # noqa: ARG002
        """Return nothing: AG-UI has no word for it."""
        return b""

    def end(self, cursor: Cursor) -> bytes:  # noqa: ARG002
        """Return nothing: the terminal event was the end."""
        return b""

    def closing(self, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return nothing, so that the connection breaks: a clean end would be taken for a good one, and parts may be open."""
        return b""

    def beat(self) -> bytes:
        """Return a sign of life."""
        return BEAT


class _Fold(Blocks):
    """Tells any record."""

    def take(self) -> None:
        """Say what the record means to the client."""
        name = self.record.type
        if self.lane and not self.options.version:
            return  # clients of before sub-agents see the call of one, and its result
        if self.state.has_ended and name not in ("run.started", "run.resumed"):
            return
        if not self.run and not self.state.is_open:
            return  # the application, before the run began
        handler = _HANDLERS.get(name)
        if handler is None:
            self.custom()
        else:
            handler(self)

    # the run

    def run_started(self) -> None:
        if not self.lane:
            if "agent" in self.data:  # else the record was too large for its data
                self.own().client_tools = frozenset(self.data.get("client_tools", ()))
            if not self.state.is_open:
                self.begin()
            return
        self.own().lanes[self.lane] = None
        members: dict[str, JsonValue] = {"name": self.data.get("agent", "")}
        if caller := self.call_of("", None, self.caller):
            members["parentToolCallId"] = caller
        self.say("SUBAGENT_STARTED", members)

    def run_resumed(self) -> None:
        """Begin a second stream of the same run: the client has asked again, with a person's answers."""
        state = self.own()
        state.is_open = False
        state.approvals.clear()
        self.begin()

    def run_suspended(self) -> None:
        """End the stream, and say what waits for a person. Clients of 0.0.x have been told by CUSTOM events."""
        self._close_all()
        interrupts = [interrupt(approval, *call) for approval, call in self.state.approvals.items()]
        self._finish({"type": "interrupt", "interrupts": interrupts} if interrupts else None)

    def run_finished(self) -> None:
        if self.lane:
            self._leave("SUBAGENT_FINISHED", {})
            return
        self._close_all()
        outcome: dict[str, JsonValue] = {"type": "success"}
        if pending := self._settle(is_good=True):
            outcome["pendingToolCallIds"] = pending
        self._finish(outcome)

    def run_failed(self) -> None:
        self._fail(str(self.data.get("message") or "the run failed"), str(self.data.get("code") or "failed"))

    def run_cancelled(self) -> None:
        if self.lane or not self.options.version:
            self._fail(str(self.data.get("reason") or "the run was cancelled"), "cancelled")
            return
        self._close_all()
        self._settle(is_good=False)
        self._finish({"type": "cancelled"})

    def _finish(self, outcome: JsonValue) -> None:
        members: dict[str, JsonValue] = {"threadId": self.options.thread, "runId": self.options.run}
        if outcome is not None and self.options.version:
            members["outcome"] = outcome
        self._end("RUN_FINISHED", members)

    def _fail(self, message: str, code: str) -> None:
        members: dict[str, JsonValue] = {"message": message, "code": code}
        if self.lane:
            self._leave("SUBAGENT_ERROR", members)
            return
        self._close_all()
        self._settle(is_good=False)
        self._end("RUN_ERROR", members)

    def _end(self, kind: str, members: Mapping[str, JsonValue]) -> None:
        self.say(kind, {**members, **self._usage()})
        state = self.own()
        state.is_open, state.has_ended = False, True

    def _usage(self) -> dict[str, JsonValue]:
        """Return the run's tokens, and who answered, where it was one model."""
        usage = self.data.get("usage")
        if not isinstance(usage, dict):
            return {}
        entry: dict[str, JsonValue] = {}
        if len(self.state.models) == 1:
            ((provider, model),) = self.state.models
            entry = {"provider": provider, "model": model}
        for ours, theirs in _USAGE.items():
            if theirs != "cacheWriteInputTokens" or self.options.version:
                entry[theirs] = usage.get(ours, 0)
        return {"usage": [entry]}

    # what is open at an end

    def _close_all(self) -> None:
        """Close everything, sub-agents first."""
        for lane in tuple(self.state.lanes):
            self.lane = lane
            self._leave("SUBAGENT_ERROR", {"message": "the run ended before it", "code": "interrupted"})
        self.lane = ""
        self._close()

    def _close(self) -> None:
        """Close the parts and steps of this lane."""
        for part in [part for part in self.state.parts.values() if part.lane == self.lane]:
            self.finish_part(part, is_whole=False)
        for key in [key for key in self.state.steps if key[0] == self.lane]:
            self.say("STEP_FINISHED", {"stepName": self.own().steps.pop(key)})

    def _leave(self, kind: str, members: Mapping[str, JsonValue]) -> None:
        """End a sub-agent's part of the stream."""
        self._close()
        if self.lane in self.state.lanes:
            del self.own().lanes[self.lane]
            self.say(kind, members)

    def _settle(self, *, is_good: bool) -> list[JsonValue]:
        """Say of calls that will have no result that they were not run; return those that are the client's to answer."""
        last = max((call.step for call in self.state.calls.values() if not call.lane), default=0)
        pending: list[JsonValue] = []
        for known, call in tuple(self.state.calls.items()):
            is_theirs = self.state.client_tools is None or call.name in self.state.client_tools
            if is_good and not call.lane and call.step == last and call.is_runnable and is_theirs:
                pending.append(known)
            else:
                self.answer(known, NOT_RUN, status="interrupted")
        return pending

    # steps

    def step_started(self) -> None:
        for known, call in tuple(self.state.calls.items()):
            if call.lane == self.lane and call.step < self.number:
                self.answer(known, NOT_RUN, status="interrupted")
        state = self.own()
        if not self.lane:
            state.models[self.data["provider"], self.data["model"]] = None
        key = self.lane, self.number
        if key not in state.steps:
            state.steps[key] = f"step-{self.number}"
            self.say("STEP_STARTED", {"stepName": state.steps[key]})

    def step_finished(self) -> None:
        key = self.lane, self.number
        for part in [part for part in self.state.parts.values() if (part.lane, part.step) == key]:
            self.finish_part(part, is_whole=False)
        if key in self.state.steps:  # a resumed run ends a step that the stream before has closed
            self.say("STEP_FINISHED", {"stepName": self.own().steps.pop(key)})

    def step_retrying(self) -> None:
        discarded = self.data.get("discarded", [])
        for part in [part for part in self.state.parts.values() if part.block in discarded]:
            self.finish_part(part, is_whole=False)
        self.custom()

    # calls at work, and shared state

    def approval_requested(self) -> None:
        call = self.call_of(self.lane, self.number, self.data.get("call", ""))
        if not self.lane and "approval" in self.data:
            self.own().approvals[self.data["approval"]] = (call, self.data["name"])
        self.custom(call)

    def approval_resolved(self) -> None:
        self.own().approvals.pop(self.data.get("approval", ""), None)
        self.custom(self.call_of(self.lane, self.number, self.data.get("call", "")))

    def execution(self) -> None:
        self.custom(self.call_of(self.lane, self.number, self.data.get("call", "")))

    def state_snapshot(self) -> None:
        if "state" in self.data:
            self.say("STATE_SNAPSHOT", {"snapshot": self.data["state"]})
        else:
            self.custom()  # it was too large for a record

    def state_delta(self) -> None:
        if "operations" in self.data:
            self.say("STATE_DELTA", {"delta": self.data["operations"]})
        else:
            self.custom()


_HANDLERS: Final[dict[str, Callable[[_Fold], None]]] = {
    "run.started": _Fold.run_started,
    "run.resumed": _Fold.run_resumed,
    "run.suspended": _Fold.run_suspended,
    "run.finished": _Fold.run_finished,
    "run.failed": _Fold.run_failed,
    "run.cancelled": _Fold.run_cancelled,
    "step.started": _Fold.step_started,
    "step.finished": _Fold.step_finished,
    "step.retrying": _Fold.step_retrying,
    **{
        f"{noun}.{verb}": _Fold.text
        for noun in ("text", "refusal")
        for verb in ("started", "delta", "finished")
    },
    "reasoning_block.started": _Fold.reasoning_started,
    "reasoning": _Fold.reasoning,
    "reasoning_block.finished": _Fold.reasoning_finished,
    "tool_call.started": _Fold.call_started,
    "tool_call.delta": _Fold.call_delta,
    "tool_call.ready": _Fold.call_ready,
    "tool_result": _Fold.tool_result,
    "tool_approval.requested": _Fold.approval_requested,
    "tool_approval.resolved": _Fold.approval_resolved,
    **{f"tool_execution.{verb}": _Fold.execution for verb in ("started", "progress", "finished")},
    "state.snapshot": _Fold.state_snapshot,
    "state.delta": _Fold.state_delta,
}
"""What AG-UI has a word for. Everything else is CUSTOM under its own name."""

_USAGE: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cache_read_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
}


def interrupt(approval: str, call: str, name: str) -> JsonValue:
    """Return what a person is asked."""
    schema: JsonValue = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["approved"],
    }
    out: dict[str, JsonValue] = {
        "id": approval,
        "reason": "tool_call",
        "message": f"Allow the call of {name}?",
    }
    if call:
        out["toolCallId"] = call
    return {**out, "responseSchema": schema}


def _frame(event: Mapping[str, JsonValue]) -> bytes:
    return b"data: %b\n\n" % encode(event)
