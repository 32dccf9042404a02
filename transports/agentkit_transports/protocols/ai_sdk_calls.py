"""The AI SDK's stream: tool calls, their results, and what a person decides of them.

Pure. A call's id is `<run>.<step>.<call>`: providers begin again with their ids, a thread must not. All chunks of a call agree on who runs
it, or a client makes two parts of it.
"""

from dataclasses import replace
from typing import Final

from agentkit.content import JsonValue
from agentkit_transports.protocols.ai_sdk_telling import Teller
from agentkit_transports.protocols.ai_sdk_words import (
    Call,
    Chunk,
    flags,
    joined,
    json_value,
    output_of,
    text_of,
)

_NO_RESULT: Final = "This call was not run."
_NOT_WHOLE: Final = "This call broke off."
_NOT_JSON: Final = "The model's arguments are not JSON."


class Calls(Teller):
    """What becomes of calls."""

    __slots__ = ()

    def call_started(self) -> None:
        """Tell a call as soon as its id and name are known: a client throws at a piece of a call that it does not know."""
        block, call, name = self.block, self.data.get("call", ""), self.data.get("name", "")
        if call and name and block not in self.state.calls:
            known = self._begin_call(call, name)
            self.say("tool-input-start", toolCallId=known.id, toolName=name, **flags(known))

    def _begin_call(self, call: str, name: str) -> Call:
        step = self.body.get("step", 0)
        known = Call(
            self.fresh(f"{self.body.get('run', '')}.{step}.{call}"),
            call,
            name,
            step,
            name in self.state.client_tools,
        )
        self._keep_call(self.block, known)
        return known

    def _keep_call(self, block: str, call: Call) -> None:
        self.change(calls={**self.state.calls, block: call})

    def call_delta(self) -> None:
        """Tell a piece of a call's arguments."""
        block, text = self.block, self.data.get("text", "")
        known = self.state.calls.get(block)
        if known is not None and not known.is_whole:
            self._keep_call(block, replace(known, pieces=(known.pieces, text)))
            self.say("tool-input-delta", toolCallId=known.id, inputTextDelta=text)

    def call_ready(self) -> None:
        """Tell a call's whole arguments, or that they are no JSON."""
        block = self.block
        known = self.state.calls.get(block)
        if known is None:
            if not self.data.get("name"):
                return
            known = self._begin_call(self.data.get("call", ""), self.data["name"])
        elif known.is_whole:
            return
        raw = joined(known) if "input" not in self.data else self.data["input"]
        try:
            value = json_value(raw) if raw.strip() else {}
        except ValueError:
            self._refuse_input(block, known, _NOT_JSON, raw)
            return
        self._keep_call(block, replace(known, pieces=None, is_whole=True))
        self.say(
            "tool-input-available", toolCallId=known.id, toolName=known.name, input=value, **flags(known)
        )

    def _refuse_input(self, block: str, call: Call, said: str, raw: str | None = None) -> None:
        text = joined(call) if raw is None else raw
        self.say(
            "tool-input-error",
            toolCallId=call.id,
            toolName=call.name,
            input=text,
            errorText=said,
            **flags(call),
        )
        self._forget_call(block)

    def _forget_call(self, block: str) -> None:
        self.change(calls={key: one for key, one in self.state.calls.items() if key != block})

    def _find(self, call: str | None) -> tuple[str, Call] | None:
        """Return a step's whole call by the provider's id; for a record that lost it, the first one: results come in order."""
        for block, known in self.state.calls.items():
            if known.is_whole and known.step == self.body.get("step", 0) and call in (None, known.call):
                return block, known
        return None

    def _end_call(self, block: str, type: str, /, **fields: JsonValue) -> None:  # noqa: A002
        call = self.state.calls[block]
        self.say(type, toolCallId=call.id, **fields, **({} if type == "tool-output-denied" else flags(call)))
        self._forget_call(block)

    def progress(self) -> None:
        """Tell how far a call's tool is, as an output that is not the last."""
        found = self._find(self.data.get("call", ""))
        if found is not None:
            output: Chunk = {"message": self.data.get("message", "")}
            if "data" in self.data:
                output["data"] = self.data["data"]
            call = found[1]
            self.say(
                "tool-output-available", toolCallId=call.id, output=output, preliminary=True, **flags(call)
            )

    def tool_result(self) -> None:
        """Tell a call's end: its output, its error, or that a person has denied it."""
        found = self._find(self.data.get("call"))
        if found is None:
            return
        block, status = found[0], self.data.get("status", "ok")
        if status == "ok":
            self._end_call(block, "tool-output-available", output=output_of(self.data))
        elif status == "denied" and found[1].is_asked:
            self._end_call(block, "tool-output-denied")
        else:
            self._end_call(block, "tool-output-error", errorText=text_of(self.data) or str(status))

    def approval_requested(self) -> None:
        """Ask a person, in the protocol's own way where the reader's SDK knows it."""
        found = self._find(self.data.get("call", ""))
        if self.options.sdk < 6 or found is None:
            self.ask_for_approval()
            return
        self._keep_call(found[0], replace(found[1], is_asked=True))
        self.say("tool-approval-request", approvalId=self.data.get("approval", ""), toolCallId=found[1].id)

    def approval_resolved(self) -> None:
        """Tell what a person has decided."""
        found = self._find(self.data.get("call", ""))
        if found is None or not found[1].is_asked:
            self.tell_decision()
        elif self.options.sdk >= 7:
            approved, reason = self.data.get("approved") is True, self.data.get("reason")
            told: Chunk = {"approved": approved, **({"reason": reason} if reason else {})}
            self.say("tool-approval-response", approvalId=self.data.get("approval", ""), **told)

    def ask_for_approval(self) -> None:
        """Ask where the protocol has no word for it: a part that a page can show, with the ids that the native route wants."""
        asked: Chunk = {"toolName": self.data.get("name", ""), "input": self.data.get("input", "")}
        self._tell_approval("requested", asked)

    def tell_decision(self) -> None:
        """Tell a decision where the protocol has no word for it."""
        state = "approved" if self.data.get("approved") is True else "denied"
        self._tell_approval(state, {"reason": self.data["reason"]} if self.data.get("reason") else {})

    def _tell_approval(self, state: str, more: Chunk) -> None:
        approval = self.data.get("approval", "")
        said: Chunk = {"runId": self.state.run, "approvalId": approval, "state": state, **more}
        self.say("data-approval", id=approval, data=said)

    def close_calls(self) -> None:
        """End the calls that are open, but for those that the client itself answers."""
        for block, call in tuple(self.state.calls.items()):
            if not call.is_whole:
                self._refuse_input(block, call, _NOT_WHOLE)
            elif not call.is_client:
                self._end_call(block, "tool-output-error", errorText=_NO_RESULT)
