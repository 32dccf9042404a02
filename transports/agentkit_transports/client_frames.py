"""What a client may say on a socket: its frames, as strict models.

Pure. Shapes and sizes only: whether a topic exists, or a frame comes at its time, is for others to say.
Grounds: design.md §7 (WebSocket).
"""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

Rid: TypeAlias = Annotated[str, Field(max_length=64)] | int
"""A request's id: the client's own, echoed."""


_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
_Names: TypeAlias = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=32)]


class _Frame(BaseModel):
    model_config = ConfigDict(defer_build=True, strict=True, extra="forbid")


class HelloFrame(_Frame):
    """Who I am."""

    op: Literal["hello"]
    v: Literal[1] = 1
    auth: Annotated[str, Field(min_length=1, max_length=8192)] | None = None


class SubFrame(_Frame):
    """Send me a topic's records."""

    op: Literal["sub"]
    rid: Rid
    topic: Annotated[
        str, Field(pattern=r"^agents/[^/\x00-\x20\x7f]{1,128}/threads/[^/\x00-\x20\x7f]{1,128}$")
    ]
    run: Annotated[str, Field(max_length=128)] = ""
    after: Annotated[str, Field(max_length=64)] = "now"
    types: _Names = []
    kinds: _Names = []
    merge: bool = False
    """Allows merging of deltas for a reader that is far behind; it never has to happen."""


class UnsubFrame(_Frame):
    """Stop sending them."""

    op: Literal["unsub"]
    rid: Rid
    topic: Annotated[str, Field(max_length=512)]


class RunFrame(_Frame):
    """Start a run."""

    op: Literal["run"]
    rid: Rid
    agent: _Name
    thread: _Name
    input: JsonValue
    idem: Annotated[str, Field(max_length=256)] = ""


class CancelFrame(_Frame):
    """Stop a run."""

    op: Literal["cancel"]
    rid: Rid
    agent: _Name
    thread: _Name
    run: _Id


class SteerFrame(_Frame):
    """Put a message into a run."""

    op: Literal["steer"]
    rid: Rid
    agent: _Name
    thread: _Name
    run: _Id
    input: JsonValue


class ApproveFrame(_Frame):
    """Decide a call."""

    op: Literal["approve"]
    rid: Rid
    agent: _Name
    thread: _Name
    run: _Id
    approval: _Id
    approved: bool
    reason: Annotated[str, Field(max_length=4096)] = ""


class PingFrame(_Frame):
    """Are you there?"""

    op: Literal["ping"]
    t: int | float | Annotated[str, Field(max_length=64)] | None = None


ClientFrame: TypeAlias = Annotated[
    HelloFrame | SubFrame | UnsubFrame | RunFrame | CancelFrame | SteerFrame | ApproveFrame | PingFrame,
    Field(discriminator="op"),
]
CLIENT_FRAMES: Final[TypeAdapter[ClientFrame]] = TypeAdapter(ClientFrame, config=ConfigDict(defer_build=True))
"""Validates one frame, and tells what is wrong with it by field."""
