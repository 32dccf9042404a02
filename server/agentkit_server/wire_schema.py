"""JSON Schema of what goes over the wire, made of the code's own types: envelopes of events, and the frames of a socket.

Pure. Envelopes come from `agentkit.events`, a client's frames from `agentkit_transports.client_frames`; the server's frames are written
here, because they are written by hand where they are sent. Tests check real ones against all of it.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, create_model

from agentkit.content import ToolResultBlock, Usage
from agentkit.events import CustomEvent, Event, Reasoning, ReasoningKind, ToolResult
from agentkit.events import Parent as EventParent
from agentkit_server.answers import ProblemAnswer
from agentkit_transports.client_frames import CLIENT_FRAMES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_COMMON: Final = frozenset({"run", "step", "time", "parent", "block", "error"})
"""Fields of events that stand in the envelope, or in no envelope."""


class _Wire(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", use_attribute_docstrings=True)


class UsageData(_Wire):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    total_tokens: int


class ReasoningData(_Wire):
    """A piece of reasoning. Of a signature or state there is only how long it is, unless the agent exposes it."""

    kind: ReasoningKind
    provider: str
    text: str | None = None
    data: dict[str, JsonValue]


class ToolResultData(_Wire):
    """What a call gave."""

    call: str
    name: str
    status: Literal["ok", "error", "denied", "interrupted"]
    content: list[dict[str, JsonValue]]


class TruncatedData(_Wire):
    """In the place of data that would be larger than a record may be."""

    truncated: Literal[True]
    bytes: int


class ParentData(_Wire):
    """The call of another run that this run answers."""

    run: str
    call: str


class _Envelope(_Wire):
    v: Literal[1]
    id: str
    """The place in the log: what a client comes back with."""
    seq: int = Field(ge=1)
    agent: str
    thread: str
    run: str | None = None
    step: int | None = None
    block: str | None = None
    parent: ParentData | None = None
    time: str
    """RFC 3339."""
    first: int | None = None
    """The first record that was merged into this one."""


def _models() -> Iterator[type[BaseModel]]:
    """Yield a model of each event's envelope."""
    for kind in get_args(Event):
        if kind is CustomEvent:
            continue
        name, data = kind.__name__, _data(kind)
        word = "reasoning" if kind is Reasoning else kind.type
        yield create_model(
            name, __base__=_Envelope, __doc__=kind.__doc__, type=(_literal(word), ...), data=(data | TruncatedData, ...)
        )  # fmt: skip
    yield create_model(
        "ApplicationEvent",
        __base__=_Envelope,
        __doc__="An application's own event, by its own name.",
        type=(str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")),
        data=(JsonValue, ...),
    )


def _literal(word: str) -> Any:
    return Literal[word]  # a name that is known only now


def _data(kind: Any) -> Any:
    if kind is Reasoning:
        return ReasoningData
    if kind is ToolResult:
        return ToolResultData
    hints = get_type_hints(kind, include_extras=True)
    members: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in _COMMON:
            continue
        hint = UsageData if hints[one.name] is Usage else hints[one.name]
        is_left_out = one.default is None or hint in (EventParent, ToolResultBlock)
        has_none = is_left_out or (one.default is MISSING and type(None) in get_args(hint))
        members[one.name] = (hint | None, None) if has_none else (hint, ...)
    if kind.type in ("run.failed", "run.cancelled"):
        members["text"] = (str | None, None)
    if kind.type.startswith("run.f") or kind.type == "run.cancelled":
        members["truncated"] = (bool | None, None)
    return create_model(f"{kind.__name__}Data", __base__=_Wire, **members)


@cache
def envelope_schema() -> dict[str, Any]:
    """Return the schema of an envelope: one of the runtime's by its `type`, or an application's."""
    *own, custom = list(_models())
    union: Any = own[0]
    for model in own[1:]:
        union = union | model
    everything: Any = union | custom
    schema = TypeAdapter(everything).json_schema()
    reserved: list[Any] = [model.model_fields["type"].annotation for model in own]
    names: list[str] = [get_args(one)[0] for one in reserved]
    schema["$defs"]["ApplicationEvent"]["properties"]["type"]["not"] = {"enum": names}
    return {
        "$schema": DIALECT,
        "title": "Envelope",
        "description": "One record of a feed. Absent is left out; types that you do not know are to be ignored.",
        **schema,
    }


class Welcome(_Wire):
    """The first frame."""

    op: Literal["welcome"]
    limits: dict[str, JsonValue]


class Ok(BaseModel):
    """Yes. Beside `rid` it holds what was asked for."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    op: Literal["ok"]
    rid: str | int


class Err(_Wire):
    """No."""

    op: Literal["err"]
    rid: str | int | None = None
    problem: ProblemAnswer


class Events(_Wire):
    """Records of a topic; none, with `id`, where only the place moves on."""

    op: Literal["ev"]
    topic: str
    e: list[dict[str, JsonValue]]
    """Envelopes."""
    id: str | None = None


class GapFrame(_Wire):
    """Records that cannot be had; the feed goes on behind `id`."""

    model_config = ConfigDict(defer_build=True, extra="forbid", populate_by_name=True)

    op: Literal["gap"]
    topic: str
    id: str
    first: int = Field(alias="from")
    to: int
    reason: str


class End(_Wire):
    """The run is over, or the thread was deleted, and with it the subscription."""

    op: Literal["end"]
    topic: str
    id: str | None = None
    reason: str | None = None


class Bye(_Wire):
    """The socket closes: come back after so many milliseconds."""

    op: Literal["bye"]
    code: int = Field(ge=4000, le=4999)
    retry_ms: int


class Pong(_Wire):
    """Here I am."""

    op: Literal["pong"]
    t: JsonValue = None


SERVER_FRAMES: Final[TypeAdapter[Any]] = TypeAdapter(
    Welcome | Ok | Err | Events | GapFrame | End | Bye | Pong
)


@cache
def socket_schema() -> dict[str, Any]:
    """Return the schemas of a socket's frames, `client` and `server`, of the subprotocol `agentkit.v1`."""
    template = "#/$defs/{model}"
    client = CLIENT_FRAMES.json_schema(ref_template=template)
    server = SERVER_FRAMES.json_schema(ref_template=template)
    defs = {**client.pop("$defs", {}), **server.pop("$defs", {})}
    return {
        "$schema": DIALECT,
        "title": "Frame",
        "description": "A text frame of agentkit.v1: what a client says, or what the server says.",
        "anyOf": [{"$ref": "#/$defs/client"}, {"$ref": "#/$defs/server"}],
        "$defs": {**defs, "client": client, "server": server},
    }
