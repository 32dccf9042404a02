"""An envelope, as it came off the wire, and the event that it tells: the inverse of `agentkit.envelope`.

Pure. What a newer server adds is kept and not understood: an unknown type is a `CustomEvent` of its name, unknown members stay in
`members`. What this process never had (signatures, provider state, the error itself) cannot come back.
Grounds: design.md §5, §7 (envelope).
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, Final, get_args

from pydantic import TypeAdapter, ValidationError

from agentkit import events
from agentkit.content import JsonValue, ToolResultBlock, Usage
from agentkit.errors import WireError, quote
from agentkit.events import CustomEvent, Event, Parent, Reasoning, ReasoningEvent, ToolResult

_ID: Final = re.compile(r"([A-Za-z0-9]{1,16})-(0|[1-9][0-9]{0,15})", re.ASCII)
_KINDS: Final[dict[object, events.ReasoningKind]] = {kind: kind for kind in get_args(events.ReasoningKind)}
_COMMON: Final = frozenset({"run", "step", "time", "parent", "block"})
_IN_PROCESS: Final = frozenset({"error"})
_CLASSES: Final[dict[str, Any]] = {
    one.type: one for one in get_args(events.Event) if one not in (Reasoning, CustomEvent, ToolResult)
}


@cache
def _tool_result() -> TypeAdapter[ToolResultBlock]:
    return TypeAdapter(ToolResultBlock)  # with a first result: it takes longer than loading this room


@dataclass(frozen=True, slots=True)
class Envelope:
    """One record of a log, as a client gets it."""

    id: str
    """`<epoch>-<seq>`: the cursor behind it."""
    seq: int
    first: int
    """The first number that it stands for: less than `seq` where deltas were merged, which only comes to who asked for it."""
    type: str
    """As on the wire: `reasoning`, `text.delta`, `run.finished`, an application's own."""
    agent: str
    thread: str
    run: str
    """"" for none."""
    step: int
    block: str
    data: JsonValue
    members: Mapping[str, JsonValue]
    """The whole object."""

    @property
    def time(self) -> float:
        """Seconds since the epoch, as the run saw it.

        Raises:
            WireError: there is none that can be read.
        """
        text = self.members.get("time")
        try:
            return datetime.fromisoformat(str(text)).timestamp()
        except ValueError:
            raise WireError(f"record {self.id}: time is {quote(text)}, not RFC 3339") from None

    @property
    def event(self) -> Event:
        """The event, made anew at each call; a `CustomEvent` where the type is unknown.

        Raises:
            WireError: its data is not that of its type.
        """
        return _event(self)


@dataclass(frozen=True, slots=True)
class Gap:
    """A told loss: the records `first`…`last` cannot be had. The feed goes on behind `id`."""

    reason: str
    """`trimmed`: too old to be kept. `epoch`: the log began anew. `future`: there never were such records. Or a newer server's word."""
    first: int
    last: int
    id: str
    """The cursor behind it."""


def split_id(text: object) -> tuple[str, int]:
    """Return epoch and number of an id.

    Raises:
        WireError: it is none.
    """
    match = _ID.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise WireError(f"{quote(text)} is not <epoch>-<seq>")
    return match[1], int(match[2])


def parse_envelope(value: JsonValue) -> Envelope:
    """Return the envelope that a JSON value is.

    Raises:
        WireError: it is none.
    """
    if not isinstance(value, dict):
        raise WireError(f"an envelope should be a JSON object, got {quote(value)}")
    _, seq = split_id(value.get("id"))
    first = value.get("first", seq)
    if value.get("seq") != seq or type(first) is not int or not 0 < first <= seq:
        raise WireError(f"record {value['id']} says seq {quote(value.get('seq'))} and first {quote(first)}")
    return Envelope(
        str(value["id"]),
        seq,
        first,
        _text(value, "type", required=True),
        _text(value, "agent"),
        _text(value, "thread"),
        _text(value, "run"),
        _whole(value, "step"),
        _text(value, "block"),
        value.get("data"),
        value,
    )


def _event(envelope: Envelope) -> Event:
    name, run, step, time = envelope.type, envelope.run, envelope.step, envelope.time
    parent = _parent(envelope)
    if name == "reasoning":
        said = _reasoning(envelope)
        return Reasoning(run, step, time, envelope.block, said, parent=parent)
    if name == "tool_result":
        return ToolResult(run, step, time, _result(envelope), parent=parent)
    kind = _CLASSES.get(name)
    if kind is None:
        return CustomEvent(run, step, time, name, envelope.data, parent=parent)
    data = _object(envelope)
    values: dict[str, Any] = {"run": run, "step": step, "time": time, "parent": parent}
    for field in fields(kind):
        if field.name == "block":
            values["block"] = envelope.block
        elif field.name not in _COMMON and field.name not in _IN_PROCESS:
            if field.name in data:
                values[field.name] = _member(envelope, field.name, field.type, data[field.name])
            elif field.default is MISSING and field.default_factory is MISSING:
                values[field.name] = _blank(envelope, field.name, field.type)
    event: Event = kind(**values)
    return event


def _reasoning(envelope: Envelope) -> ReasoningEvent:
    data = _object(envelope)
    kind, text, more = _KINDS.get(str(data.get("kind"))), data.get("text"), data.get("data", {})
    if kind is None or not isinstance(text, str | None) or not isinstance(more, dict):
        raise WireError(f"record {envelope.id}: data is not that of a reasoning event")
    return ReasoningEvent(kind, str(data.get("provider", "")), text, more)


def _result(envelope: Envelope) -> ToolResultBlock:
    data = _object(envelope)
    try:
        return _tool_result().validate_python(
            {
                "tool_use_id": data.get("call"),
                "name": data.get("name", ""),
                "content": data.get("content", []),
                "status": data.get("status", "ok"),
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise WireError(f"record {envelope.id}: {first['loc']}: {first['msg']}") from None


def _parent(envelope: Envelope) -> Parent | None:
    value = envelope.members.get("parent")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise WireError(f"record {envelope.id}: parent should be an object")
    return Parent(_text(value, "run", required=True), _text(value, "call", required=True))


def _object(envelope: Envelope) -> dict[str, JsonValue]:
    if not isinstance(envelope.data, dict):
        raise WireError(f"record {envelope.id}: data of {envelope.type} should be an object")
    return envelope.data


def _member(envelope: Envelope, name: str, kind: Any, value: JsonValue) -> Any:
    """Return a member of an event in its own type."""
    if kind is Usage:
        if not isinstance(value, dict):
            raise WireError(f"record {envelope.id}: {name} should be an object")
        return Usage(**{one.name: _whole(value, one.name) for one in fields(Usage)})
    if kind is float and type(value) is int:
        return float(value)
    wanted = {str: str, int: int, float: float, bool: bool, list[str]: list}.get(kind)
    if wanted is not None and type(value) is not wanted:
        raise WireError(f"record {envelope.id}: {name} should be {wanted.__name__}, got {quote(value)}")
    return value


def _blank(envelope: Envelope, name: str, kind: Any) -> Any:
    """Return what stands for a member that is absent because it says nothing; records cut for their size lack all of them."""
    blank = {str: "", int: 0, float: 0.0, bool: False, Usage: Usage()}.get(kind, MISSING)
    if blank is not MISSING:
        return blank
    if kind is list[str] or name == "operations":
        return []
    if name in ("state", "data"):
        return None
    raise WireError(f"record {envelope.id}: data has no {name}")


def _text(value: Mapping[str, JsonValue], name: str, *, required: bool = False) -> str:
    member = value.get(name, None if required else "")
    if not isinstance(member, str):
        raise WireError(f"{name} of an envelope should be text, got {quote(member)}")
    return member


def _whole(value: Mapping[str, JsonValue], name: str) -> int:
    member = value.get(name, 0)
    if type(member) is not int:
        raise WireError(f"{name} should be a whole number, got {quote(member)}")
    return member
