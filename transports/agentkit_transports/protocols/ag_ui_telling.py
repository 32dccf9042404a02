"""AG-UI: what a client has been told of a run, and how one more event is told.

Pure: values. It knows how events look, not when they are due: that is `ag_ui` and `ag_ui_blocks`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from agentkit.content import JsonValue
from agentkit.log import Record

NOT_RUN: Final = "This call was not run."
"""Stands for the result of a call that never gets one: a client would show it as going on, or take it for one of its own tools."""

Kind: TypeAlias = Literal["text", "refusal", "reasoning", "call"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the client's input said, as far as its stream shows it."""

    thread: str
    run: str
    """The client's own id of this run; ours is the view's."""
    version: str = ""
    """The input's `protocolVersion`; "" for a client of 0.0.x."""
    parent: str = ""
    """The input's `parentRunId`."""
    state: str = ""
    """The thread's state as JSON text, told after the start; "" for none."""
    skip: tuple[int, int] = (0, 0)
    """A record's number, and how many of its frames the client has had."""

    @staticmethod
    def of(thread: str, options: Sequence[tuple[str, str]]) -> "Options":
        """Return what a view's options say."""
        said = dict(options)
        seq, _, count = said.get("skip", "0.0").partition(".")
        return Options(
            thread,
            said.get("run", ""),
            said.get("version", ""),
            said.get("parent", ""),
            said.get("state", ""),
            (int(seq), int(count)),
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A block that has begun."""

    kind: Kind
    lane: str
    """The sub-agent's run that it belongs to; "" for the run itself."""
    step: int
    block: str
    id: str = ""
    """The message or call as the client knows it; "" until told."""
    span: str = ""
    """Of reasoning: what stands around its messages."""
    number: int = 0
    """Of reasoning: which part of a summary is open."""
    call: str = ""
    name: str = ""
    raw: str = ""
    """Of a call: arguments that came before its name."""
    has_input: bool = False
    opaque: Mapping[str, str] = field(default_factory=dict)
    """Of reasoning: signature and state, where the log holds them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A whole call without a result."""

    lane: str
    step: int
    call: str
    """The provider's id, which may come again in another step."""
    name: str
    is_runnable: bool


@dataclass(slots=True)
class State:
    """What the client has been told so far. Not changed once it was returned."""

    is_open: bool = False
    """Between RUN_STARTED and the end."""
    has_ended: bool = False
    parts: dict[tuple[Kind, str], Part] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    steps: dict[tuple[str, int], str] = field(default_factory=dict)
    lanes: dict[str, None] = field(default_factory=dict)
    """The sub-agents that are at work."""
    used: set[str] = field(default_factory=set)
    """All ids."""
    anchors: dict[tuple[str, int], str] = field(default_factory=dict)
    """The assistant message to which a step's calls belong."""
    thoughts: dict[str, str] = field(default_factory=dict)
    """The message of each reasoning block, for a signature that comes late."""
    approvals: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What waits for a person: the call's id as the client knows it, the tool's name."""
    models: dict[tuple[str, str], None] = field(default_factory=dict)
    client_tools: frozenset[str] | None = None
    """The tools whose calls are left to the client; None where nothing is known of them."""

    def copy(self) -> "State":
        """Return one that may be changed."""
        return State(
            self.is_open,
            self.has_ended,
            dict(self.parts),
            dict(self.calls),
            dict(self.steps),
            dict(self.lanes),
            set(self.used),
            dict(self.anchors),
            dict(self.thoughts),
            dict(self.approvals),
            dict(self.models),
            self.client_tools,
        )


class Teller:
    """Tells one record: what it says, and what is known afterwards.

    Attributes:
        state: what the client knows.
        events: what the record says.
    """

    def __init__(self, options: Options, state: State, record: Record) -> None:
        body: dict[str, Any] = json.loads(record.body)
        self.state = state
        self.events: list[dict[str, JsonValue]] = []
        self.options = options
        self.record = record
        self.value: JsonValue = body["data"]
        self.data: dict[str, Any] = body["data"] if isinstance(body["data"], dict) else {}
        self.run: str = body.get("run", "")
        self.lane = self.run if "parent" in body else ""
        self.caller: str = body.get("parent", {}).get("call", "")
        self.number: int = body.get("step", 0)
        self.block: str = body.get("block", "")
        self._is_owned = False

    def own(self) -> State:
        """Return the state as this record's own, to change it."""
        if not self._is_owned:
            self.state = self.state.copy()
            self._is_owned = True
        return self.state

    def say(self, kind: str, members: Mapping[str, JsonValue], **metadata: JsonValue) -> None:
        """Add an event; the first of a run is RUN_STARTED."""
        if not self.state.is_open:
            self.begin()
        event: dict[str, JsonValue] = {
            "type": kind,
            "timestamp": round(self.record.time * 1000),
            "metadata": {"seq": self.record.seq, **metadata},
        }
        if self.lane and not kind.startswith("RUN_"):
            event["subagentRunId"] = self.lane
        self.events.append({**event, **members})

    def begin(self) -> None:
        """Say RUN_STARTED and the thread's state."""
        options, state = self.options, self.own()
        state.is_open, state.has_ended = True, False
        members: dict[str, JsonValue] = {"threadId": options.thread, "runId": options.run}
        if options.version:
            members["protocolVersion"] = "1.0"
        if options.parent:
            members["parentRunId"] = options.parent
        lane, self.lane = self.lane, ""
        self.say("RUN_STARTED", members)
        if options.state:
            self.say("STATE_SNAPSHOT", {"snapshot": json.loads(options.state)})
        self.lane = lane

    def custom(self, call: str = "") -> None:
        """Say the record under its own name, with the call's id as the client knows it."""
        value: JsonValue = {**self.data, "toolCallId": call} if call else self.value
        self.say("CUSTOM", {"name": self.record.type, "value": value})

    def fresh(self, name: str) -> str:
        """Return an id that the client does not know yet."""
        used, out, number = self.own().used, name, 2
        while out in used:
            out, number = f"{name}~{number}", number + 1
        used.add(out)
        return out

    def keep(self, part: Part) -> Part:
        """Keep a part that is open."""
        self.own().parts[part.kind, part.block] = part
        return part

    def call_of(self, lane: str, step: int | None, call: str | None) -> str:
        """Return the client's id of the oldest call without a result that fits, or "". None fits all."""
        for known, one in self.state.calls.items():
            if one.lane == lane and step in (None, one.step) and call in (None, one.call):
                return known
        return ""

    def answer(self, call: str, content: JsonValue, **metadata: JsonValue) -> None:
        """Say a call's result."""
        self.own().calls.pop(call, None)
        result: dict[str, JsonValue] = {"messageId": self.fresh(f"{call}.result"), "toolCallId": call}
        self.say("TOOL_CALL_RESULT", {**result, "content": content, "role": "tool"}, **metadata)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Made once: `json.dumps` would make one for each event."""


def encode(value: object) -> bytes:
    """Return compact JSON."""
    return _ENCODER.encode(value).encode()
