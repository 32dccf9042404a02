"""Events: what a run says to its watchers.

Pure: no I/O, no clock (times are given). Events exist only in process: `step_events` makes them from chunks, `envelope` makes their
wire form. They are slotted and unfrozen because freezing costs a microsecond a delta; treat them as immutable.
Source: the seed's ReasoningEvent (kind, provider, text, data) and its loop over `event.type.startswith("reasoning.")`.
"""

from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, TypeAlias

from agentkit.content import JsonValue, ToolResultBlock, Usage

ReasoningKind: TypeAlias = Literal["delta", "summary", "signature", "state"]


class _Value:
    """How events compare and show themselves: as dataclasses do, whose methods, made for each class, double the time of importing this."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as a dataclass that is not frozen

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self))  # type: ignore[arg-type]  # all that inherit this are dataclasses

    def __repr__(self) -> str:
        members = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))  # type: ignore[arg-type]  # as above
        return f"{self.__class__.__qualname__}({members})"


@dataclass(slots=True, eq=False, repr=False)
class ReasoningEvent(_Value):
    """One piece of what a provider says about its reasoning."""

    kind: ReasoningKind
    """`delta`: thinking text. `summary`: the provider's text about it. `signature`, `state`: opaque replay state."""
    provider: str
    text: str | None = None
    data: dict[str, JsonValue] = field(default_factory=dict)
    """In process: `{"signature", "format"}` or `{"state", "format"}` for the opaque kinds (in the log: `{"bytes": N}`);
    `{"part": N}` for a piece of a summary that has several parts."""


@dataclass(slots=True, eq=False, repr=False)
class Parent(_Value):
    """The call of another run that this run answers (a sub-agent)."""

    run: str
    call: str


@dataclass(slots=True, eq=False, repr=False)
class _Event(_Value):
    type: ClassVar[str]
    run: str
    """The run's id; "" for an application's event outside of a run."""
    step: int
    """1 for the first model request; 0 for events of the whole run."""
    time: float
    """Seconds since the epoch, as the run saw it."""
    parent: Parent | None = field(default=None, kw_only=True)


@dataclass(slots=True, eq=False, repr=False)
class _BlockEvent(_Event):
    block: str
    """`<run>.<step>.<index>`, unique in the thread."""


# the run


@dataclass(slots=True, eq=False, repr=False)
class RunStarted(_Event):
    """The first event of a run."""

    type = "run.started"
    agent: str
    thread: str
    metadata: dict[str, JsonValue] = field(default_factory=dict)
    client_tools: list[str] | None = None
    """Names of the tools whose calls the run leaves to its caller, where it has such."""


@dataclass(slots=True, eq=False, repr=False)
class RunSuspended(_Event):
    """The run waits outside of any process (for approvals)."""

    type = "run.suspended"
    reason: str


@dataclass(slots=True, eq=False, repr=False)
class RunResumed(_Event):
    """A suspended run goes on."""

    type = "run.resumed"


@dataclass(slots=True, eq=False, repr=False)
class RunSteered(_Event):
    """A message went in at a step boundary."""

    type = "run.steered"
    id: str
    text: str


@dataclass(slots=True, eq=False, repr=False)
class RunNotice(_Event):
    """Something that the run did or left out which a watcher should know."""

    type = "run.notice"
    code: str
    message: str
    data: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class RunFinished(_Event):
    """The run ended well. Terminal."""

    type = "run.finished"
    text: str
    finish: str
    usage: Usage
    termination: str = "completed"
    """Why it ended: `completed`, `stop_condition`, `hook_stop`, …"""


@dataclass(slots=True, eq=False, repr=False)
class RunFailed(_Event):
    """The run failed; what came before stays in the thread. Terminal."""

    type = "run.failed"
    code: str
    message: str
    retryable: bool
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    error: BaseException | None = None
    """In process only."""


@dataclass(slots=True, eq=False, repr=False)
class RunCancelledEvent(_Event):
    """The run was cancelled; what came before stays in the thread. Terminal."""

    type = "run.cancelled"
    reason: str
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    error: BaseException | None = None
    """In process only."""


# the step


@dataclass(slots=True, eq=False, repr=False)
class StepStarted(_Event):
    """A model request begins."""

    type = "step.started"
    model: str
    provider: str


@dataclass(slots=True, eq=False, repr=False)
class StepRetrying(_Event):
    """The request is made again."""

    type = "step.retrying"
    attempt: int
    """The number of the attempt that follows, from 2."""
    delay: float
    """Seconds until it."""
    code: str
    message: str
    discarded: list[str] = field(default_factory=list)
    """Blocks that watchers have seen and that no longer count."""


@dataclass(slots=True, eq=False, repr=False)
class StepFinished(_Event):
    """A model request and its tool calls are done."""

    type = "step.finished"
    finish: str
    usage: Usage


# blocks


@dataclass(slots=True, eq=False, repr=False)
class ReasoningBlockStarted(_BlockEvent):
    """A thinking block begins."""

    type = "reasoning_block.started"


@dataclass(slots=True, eq=False, repr=False)
class Reasoning(_BlockEvent):
    """A `ReasoningEvent` in its place: `type` is `reasoning.delta`, `.summary`, `.signature` or `.state`."""

    event: ReasoningEvent

    @property
    def type(self) -> str:  # type: ignore[override]  # the four names differ by kind only
        """`reasoning.` and the kind."""
        return _REASONING_TYPES[self.event.kind]


@dataclass(slots=True, eq=False, repr=False)
class ReasoningBlockFinished(_BlockEvent):
    """A thinking block is whole."""

    type = "reasoning_block.finished"


@dataclass(slots=True, eq=False, repr=False)
class TextStarted(_BlockEvent):
    """A block of visible text begins."""

    type = "text.started"


@dataclass(slots=True, eq=False, repr=False)
class TextDelta(_BlockEvent):
    """A piece of visible text."""

    type = "text.delta"
    text: str


@dataclass(slots=True, eq=False, repr=False)
class TextFinished(_BlockEvent):
    """A block of visible text is whole."""

    type = "text.finished"


@dataclass(slots=True, eq=False, repr=False)
class RefusalStarted(_BlockEvent):
    """A refusal begins."""

    type = "refusal.started"


@dataclass(slots=True, eq=False, repr=False)
class RefusalDelta(_BlockEvent):
    """A piece of a refusal."""

    type = "refusal.delta"
    text: str


@dataclass(slots=True, eq=False, repr=False)
class RefusalFinished(_BlockEvent):
    """A refusal is whole."""

    type = "refusal.finished"


@dataclass(slots=True, eq=False, repr=False)
class Image(_BlockEvent):
    """An image that the model made."""

    type = "image"
    media_type: str
    data: str
    url: str


# tools


@dataclass(slots=True, eq=False, repr=False)
class ToolCallStarted(_BlockEvent):
    """A call begins; id and name may be "" until they come."""

    type = "tool_call.started"
    call: str
    name: str


@dataclass(slots=True, eq=False, repr=False)
class ToolCallDelta(_BlockEvent):
    """A piece of a call's raw arguments."""

    type = "tool_call.delta"
    call: str
    text: str


@dataclass(slots=True, eq=False, repr=False)
class ToolCallReady(_BlockEvent):
    """A call is whole: its arguments as raw JSON text. It is what the model asked, not yet checked."""

    type = "tool_call.ready"
    call: str
    name: str
    input: str


@dataclass(slots=True, eq=False, repr=False)
class ToolApprovalRequested(_Event):
    """A call waits for a person."""

    type = "tool_approval.requested"
    approval: str
    call: str
    name: str
    input: str


@dataclass(slots=True, eq=False, repr=False)
class ToolApprovalResolved(_Event):
    """A person (or a policy) has decided."""

    type = "tool_approval.resolved"
    approval: str
    call: str
    approved: bool
    reason: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ToolExecutionStarted(_Event):
    """A tool begins to work."""

    type = "tool_execution.started"
    call: str
    name: str
    input: str


@dataclass(slots=True, eq=False, repr=False)
class ToolExecutionProgress(_Event):
    """A tool tells how far it is."""

    type = "tool_execution.progress"
    call: str
    name: str
    message: str
    data: JsonValue = None


@dataclass(slots=True, eq=False, repr=False)
class ToolExecutionFinished(_Event):
    """A tool has ended, in order of completion."""

    type = "tool_execution.finished"
    call: str
    name: str
    status: str
    duration: float
    """Seconds."""


@dataclass(slots=True, eq=False, repr=False)
class ToolResult(_Event):
    """What goes back to the model, in order of the calls."""

    type = "tool_result"
    result: ToolResultBlock


# the application


@dataclass(slots=True, eq=False, repr=False)
class StateSnapshot(_Event):
    """Shared state, whole."""

    type = "state.snapshot"
    state: JsonValue


@dataclass(slots=True, eq=False, repr=False)
class StateDelta(_Event):
    """A change of shared state: JSON Patch operations (RFC 6902)."""

    type = "state.delta"
    operations: list[JsonValue]


@dataclass(slots=True, eq=False, repr=False)
class CustomEvent(_Event):
    """An application's own event. On the wire its `type` is `name`."""

    type = "custom"
    name: str
    data: JsonValue


TerminalEvent: TypeAlias = RunFinished | RunFailed | RunCancelledEvent
Event: TypeAlias = (
    RunStarted
    | RunSuspended
    | RunResumed
    | RunSteered
    | RunNotice
    | TerminalEvent
    | StepStarted
    | StepRetrying
    | StepFinished
    | ReasoningBlockStarted
    | Reasoning
    | ReasoningBlockFinished
    | TextStarted
    | TextDelta
    | TextFinished
    | RefusalStarted
    | RefusalDelta
    | RefusalFinished
    | Image
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | ToolApprovalRequested
    | ToolApprovalResolved
    | ToolExecutionStarted
    | ToolExecutionProgress
    | ToolExecutionFinished
    | ToolResult
    | StateSnapshot
    | StateDelta
    | CustomEvent
)

TERMINAL_TYPES = frozenset({"run.finished", "run.failed", "run.cancelled"})
_REASONING_TYPES = {kind: f"reasoning.{kind}" for kind in ("delta", "summary", "signature", "state")}
