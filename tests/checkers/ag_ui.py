"""What a stream of AG-UI events must be: the specification's rules, stricter than any client.

Shapes by the generated models of PyPI `ag-ui-protocol` (no member that they do not know, no null that means nothing); order, nesting and ids
by docs.ag-ui.com/spec/1.0 (read 2026-11-30) and the house's own promises: everything closed before an end, ids unique in a thread over all
kinds. Nothing here is taken from the encoder.
"""

import base64
import json
from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

Json = dict[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPEN = frozenset({"metadata", "snapshot", "value", "delta", "responseSchema"})
"""Members whose JSON is the application's own."""
_NEW = frozenset({"outcome", "protocolVersion", "subagentRunId", "cacheWriteInputTokens"})
"""Members that clients of before 1.0 are not sent."""
_SUBAGENT = frozenset({"SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR"})


def frames_of(data: bytes) -> list[tuple[str, Json]]:
    """Return id and event of each frame; comments are passed over. LF only, one `data:` line."""
    assert b"\r" not in data
    assert not data or data.endswith(b"\n\n")
    out = []
    for block in data.decode().split("\n\n")[:-1]:
        lines = block.split("\n")
        if all(line.startswith(":") for line in lines):
            continue
        fields = dict(line.split(": ", 1) for line in lines)
        assert set(fields) <= {"id", "data"}, fields
        assert len(fields) == len(lines), block
        out.append((fields.get("id", ""), json.loads(fields["data"])))
    return out


class Watcher:
    """One client's thread: give it the events of each of its streams.

    Attributes:
        texts: what it shows, by message id.
    """

    def __init__(self, *, version: str = "1.0") -> None:
        self.version = version
        self.used: set[str] = set()
        self.texts: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.results: dict[str, Any] = {}
        self.assistants: set[str] = set()
        self.open: dict[tuple[str, str], str] = {}
        """What is open: kind and id → the sub-agent that owns it."""
        self.answered: set[str] = set()

    def watch(self, events: Iterable[Json], *, run: str = "", thread: str = "") -> None:
        """Check one stream, from RUN_STARTED to its end."""
        events = list(events)
        assert events, "nothing was said"
        assert events[0]["type"] == "RUN_STARTED", events[0]
        assert [e["type"] for e in events[1:] if e["type"] == "RUN_STARTED"] == []
        ends = [place for place, e in enumerate(events) if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        assert ends == [len(events) - 1], f"ends at {ends} of {len(events)}"
        seqs = [event["metadata"]["seq"] for event in events]
        assert seqs == sorted(seqs)
        for event in events:
            self._shape(event)
            if run and event["type"] in ("RUN_STARTED", "RUN_FINISHED"):
                assert (event["runId"], event["threadId"]) == (run, thread)
            self._order(event)
        assert self.open == {}

    def _shape(self, event: Json) -> None:
        model = _EVENT.validate_python(event)
        _no_extra(model)
        _no_null(event)
        assert type(event["timestamp"]) is int
        if not self.version:
            assert event["type"] not in _SUBAGENT
            assert not _NEW & _names(event), event
            assert event["type"] != "TOOL_CALL_RESULT" or isinstance(event["content"], str)

    def _claim(self, name: str) -> None:
        assert name, "an id is empty"
        assert name not in self.used, f"{name} was used before"
        self.used.add(name)

    def _begin(self, kind: str, name: str, event: Json) -> None:
        owner = event.get("subagentRunId", "")
        assert not owner or ("subagent", owner) in self.open or kind == "subagent", f"{owner} is not at work"
        self.open[kind, name] = owner

    def _inside(self, kind: str, name: str, event: Json) -> None:
        assert (kind, name) in self.open, f"{event['type']} of {name}, which is not open"
        assert self.open[kind, name] == event.get("subagentRunId", "")

    def _end(self, kind: str, name: str, event: Json) -> None:
        self._inside(kind, name, event)
        del self.open[kind, name]

    def _order(self, event: Json) -> None:
        kind = event["type"]
        match kind:
            case "STEP_STARTED" | "STEP_FINISHED":
                name = f"{event.get('subagentRunId', '')}/{event['stepName']}"
                if kind == "STEP_STARTED":
                    assert ("step", name) not in self.open
                    self._begin("step", name, event)
                else:
                    self._end("step", name, event)
            case "TEXT_MESSAGE_START":
                self._claim(event["messageId"])
                self._begin("text", event["messageId"], event)
                self.texts[event["messageId"]] = ""
                self.assistants.add(event["messageId"])
            case "REASONING_START":
                self._claim(event["messageId"])
                self._begin("span", event["messageId"], event)
            case "REASONING_MESSAGE_START":
                self._claim(event["messageId"])
                assert any(one == "span" for one, _ in self.open)
                self._begin("reasoning", event["messageId"], event)
                self.texts[event["messageId"]] = ""
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                self._inside("text" if kind.startswith("TEXT") else "reasoning", event["messageId"], event)
                self.texts[event["messageId"]] += event["delta"]
            case "TEXT_MESSAGE_END":
                self._end("text", event["messageId"], event)
            case "REASONING_MESSAGE_END":
                self._end("reasoning", event["messageId"], event)
            case "REASONING_END":
                self._end("span", event["messageId"], event)
            case "REASONING_ENCRYPTED_VALUE":
                assert event["entityId"] in self.texts
                assert ("reasoning", event["entityId"]) not in self.open, "opaque state comes last"
                envelope = json.loads(base64.urlsafe_b64decode(event["encryptedValue"]))
                assert envelope["v"] == 1
            case "TOOL_CALL_START":
                self._claim(event["toolCallId"])
                parent = event["parentMessageId"]
                if parent not in self.assistants:
                    self._claim(parent)
                    self.assistants.add(parent)
                self._begin("call", event["toolCallId"], event)
                self.arguments[event["toolCallId"]] = ""
            case "TOOL_CALL_ARGS":
                self._inside("call", event["toolCallId"], event)
                self.arguments[event["toolCallId"]] += event["delta"]
            case "TOOL_CALL_END":
                self._end("call", event["toolCallId"], event)
            case "TOOL_CALL_RESULT":
                self._claim(event["messageId"])
                call = event["toolCallId"]
                assert call in self.arguments, f"a result of {call}, which was never called"
                assert ("call", call) not in self.open
                assert call not in self.answered, f"a second result of {call}"
                self.answered.add(call)
                self.results[call] = event["content"]
            case "SUBAGENT_STARTED":
                self._begin("subagent", event["subagentRunId"], {})
            case "SUBAGENT_FINISHED" | "SUBAGENT_ERROR":
                assert not [key for key, owner in self.open.items() if owner == event["subagentRunId"]]
                self._end("subagent", event["subagentRunId"], {})
            case "RUN_FINISHED" | "RUN_ERROR":
                assert self.open == {}, f"open at the end: {self.open}"
                self._outcome(event)
            case _:
                pass

    def _outcome(self, event: Json) -> None:
        unanswered = [call for call in self.arguments if call not in self.answered]
        outcome = event.get("outcome", {})
        if event["type"] == "RUN_ERROR" or outcome.get("type") == "cancelled":
            assert unanswered == []
        elif outcome.get("type") == "success":
            assert outcome.get("pendingToolCallIds", []) == unanswered
        elif outcome.get("type") == "interrupt":
            ids = [interrupt["id"] for interrupt in outcome["interrupts"]]
            assert ids, "an interrupt asks something"
            assert len(set(ids)) == len(ids)
            assert {interrupt["toolCallId"] for interrupt in outcome["interrupts"]} <= set(unanswered)
        else:
            assert not self.version, "a client of 1.0 is told the outcome"


def _no_extra(value: Any) -> None:
    """Fail where a model holds a member that its schema does not know."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, (type(value).__name__, value.model_extra)
        for name in type(value).model_fields:
            _no_extra(getattr(value, name))
    elif isinstance(value, list):
        for member in value:
            _no_extra(member)


def _no_null(value: Any) -> None:
    if isinstance(value, dict):
        for name, member in value.items():
            if name not in _OPEN:
                assert member is not None, f"{name} is null"
                _no_null(member)
    elif isinstance(value, list):
        for member in value:
            _no_null(member)


def _names(value: Any) -> set[str]:
    """Return the names of all members, but for the application's own JSON."""
    if isinstance(value, dict):
        inner = [_names(member) for name, member in value.items() if name not in _OPEN]
        return set(value).union(*inner)
    return set().union(*map(_names, value)) if isinstance(value, list) else set()
