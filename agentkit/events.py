"""Events: what a run says to its watchers, and the one pure mapping chunk → event.

Pure: no I/O, no clock (times are given). Events exist only in process; `envelope` makes their wire form. Events are slotted and
unfrozen because freezing costs a microsecond a delta; treat them as immutable.
Source: the seed's ReasoningEvent (kind, provider, text, data) and its loop over `event.type.startswith("reasoning.")`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ImageChunk,
    ProviderChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import JsonValue, ToolResultBlock, Usage

ReasoningKind: TypeAlias = Literal["delta", "summary", "signature", "state"]


@dataclass(slots=True)
class ReasoningEvent:
    """One piece of what a provider says about its reasoning."""

    kind: ReasoningKind
    """`delta`: thinking text. `summary`: the provider's text about it. `signature`, `state`: opaque replay state."""
    provider: str
    text: str | None = None
    data: dict[str, JsonValue] = field(default_factory=dict)
    """In process: `{"signature", "format"}` or `{"state", "format"}` for the opaque kinds (in the log: `{"bytes": N}`);
    `{"part": N}` for a piece of a summary that has several parts."""


@dataclass(slots=True)
class Parent:
    """The call of another run that this run answers (a sub-agent)."""

    run: str
    call: str


@dataclass(slots=True)
class _Event:
    type: ClassVar[str]
    run: str
    """The run's id; "" for an application's event outside of a run."""
    step: int
    """1 for the first model request; 0 for events of the whole run."""
    time: float
    """Seconds since the epoch, as the run saw it."""
    parent: Parent | None = field(default=None, kw_only=True)


@dataclass(slots=True)
class _BlockEvent(_Event):
    block: str
    """`<run>.<step>.<index>`, unique in the thread."""


# the run


@dataclass(slots=True)
class RunStarted(_Event):
    """The first event of a run."""

    type = "run.started"
    agent: str
    thread: str
    metadata: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True)
class RunSuspended(_Event):
    """The run waits outside of any process (for approvals)."""

    type = "run.suspended"
    reason: str


@dataclass(slots=True)
class RunResumed(_Event):
    """A suspended run goes on."""

    type = "run.resumed"


@dataclass(slots=True)
class RunSteered(_Event):
    """A message went in at a step boundary."""

    type = "run.steered"
    id: str
    text: str


@dataclass(slots=True)
class RunNotice(_Event):
    """Something that the run did or left out which a watcher should know."""

    type = "run.notice"
    code: str
    message: str
    data: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True)
class RunFinished(_Event):
    """The run ended well. Terminal."""

    type = "run.finished"
    text: str
    finish: str
    usage: Usage
    termination: str = "completed"
    """Why it ended: `completed`, `stop_condition`, `hook_stop`, …"""


@dataclass(slots=True)
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


@dataclass(slots=True)
class RunCancelledEvent(_Event):
    """The run was cancelled; what came before stays in the thread. Terminal."""

    type = "run.cancelled"
    reason: str
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    error: BaseException | None = None
    """In process only."""


# the step


@dataclass(slots=True)
class StepStarted(_Event):
    """A model request begins."""

    type = "step.started"
    model: str
    provider: str


@dataclass(slots=True)
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


@dataclass(slots=True)
class StepFinished(_Event):
    """A model request and its tool calls are done."""

    type = "step.finished"
    finish: str
    usage: Usage


# blocks


@dataclass(slots=True)
class ReasoningBlockStarted(_BlockEvent):
    """A thinking block begins."""

    type = "reasoning_block.started"


@dataclass(slots=True)
class Reasoning(_BlockEvent):
    """A `ReasoningEvent` in its place: `type` is `reasoning.delta`, `.summary`, `.signature` or `.state`."""

    event: ReasoningEvent

    @property
    def type(self) -> str:  # type: ignore[override]  # the four names differ by kind only
        """`reasoning.` and the kind."""
        return _REASONING_TYPES[self.event.kind]


@dataclass(slots=True)
class ReasoningBlockFinished(_BlockEvent):
    """A thinking block is whole."""

    type = "reasoning_block.finished"


@dataclass(slots=True)
class TextStarted(_BlockEvent):
    """A block of visible text begins."""

    type = "text.started"


@dataclass(slots=True)
class TextDelta(_BlockEvent):
    """A piece of visible text."""

    type = "text.delta"
    text: str


@dataclass(slots=True)
class TextFinished(_BlockEvent):
    """A block of visible text is whole."""

    type = "text.finished"


@dataclass(slots=True)
class RefusalStarted(_BlockEvent):
    """A refusal begins."""

    type = "refusal.started"


@dataclass(slots=True)
class RefusalDelta(_BlockEvent):
    """A piece of a refusal."""

    type = "refusal.delta"
    text: str


@dataclass(slots=True)
class RefusalFinished(_BlockEvent):
    """A refusal is whole."""

    type = "refusal.finished"


@dataclass(slots=True)
class Image(_BlockEvent):
    """An image that the model made."""

    type = "image"
    media_type: str
    data: str
    url: str


# tools


@dataclass(slots=True)
class ToolCallStarted(_BlockEvent):
    """A call begins; id and name may be "" until they come."""

    type = "tool_call.started"
    call: str
    name: str


@dataclass(slots=True)
class ToolCallDelta(_BlockEvent):
    """A piece of a call's raw arguments."""

    type = "tool_call.delta"
    call: str
    text: str


@dataclass(slots=True)
class ToolCallReady(_BlockEvent):
    """A call is whole: its arguments as raw JSON text. It is what the model asked, not yet checked."""

    type = "tool_call.ready"
    call: str
    name: str
    input: str


@dataclass(slots=True)
class ToolApprovalRequested(_Event):
    """A call waits for a person."""

    type = "tool_approval.requested"
    approval: str
    call: str
    name: str
    input: str


@dataclass(slots=True)
class ToolApprovalResolved(_Event):
    """A person (or a policy) has decided."""

    type = "tool_approval.resolved"
    approval: str
    call: str
    approved: bool
    reason: str = ""


@dataclass(slots=True)
class ToolExecutionStarted(_Event):
    """A tool begins to work."""

    type = "tool_execution.started"
    call: str
    name: str
    input: str


@dataclass(slots=True)
class ToolExecutionProgress(_Event):
    """A tool tells how far it is."""

    type = "tool_execution.progress"
    call: str
    name: str
    message: str
    data: JsonValue = None


@dataclass(slots=True)
class ToolExecutionFinished(_Event):
    """A tool has ended, in order of completion."""

    type = "tool_execution.finished"
    call: str
    name: str
    status: str
    duration: float
    """Seconds."""


@dataclass(slots=True)
class ToolResult(_Event):
    """What goes back to the model, in order of the calls."""

    type = "tool_result"
    result: ToolResultBlock


# the application


@dataclass(slots=True)
class StateSnapshot(_Event):
    """Shared state, whole."""

    type = "state.snapshot"
    state: JsonValue


@dataclass(slots=True)
class StateDelta(_Event):
    """A change of shared state: JSON Patch operations (RFC 6902)."""

    type = "state.delta"
    operations: list[JsonValue]


@dataclass(slots=True)
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


@dataclass(slots=True)
class _Open:
    """A block that watchers have seen begin."""

    kind: type
    id: str
    call: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


class StepEvents:
    """Map the chunks of one model response to events, and close what is open at its end.

    A block begins with its first chunk and ends with its `BlockEndChunk`, or with `close()`. An index that comes again after its end
    (a signature that a provider sends late) gives reasoning events of the same block, without a second start.
    """

    __slots__ = ("_open", "_seen", "provider", "run", "step")

    def __init__(self, run: str, step: int, provider: str) -> None:
        self.run = run
        self.step = step
        self.provider = provider
        self._open: dict[tuple[int, type], _Open] = {}
        self._seen: set[str] = set()

    @property
    def blocks(self) -> list[str]:
        """The ids of all blocks that watchers have seen, sorted."""
        return sorted(self._seen)

    def map(self, chunks: Iterable[Chunk], time: float) -> list[Event]:
        """Return the events of `chunks`, in order."""
        out: list[Event] = []
        for chunk in chunks:
            match chunk:
                case TextChunk():
                    opened = self._begin(chunk.index, TextChunk, out, time)
                    if chunk.text:
                        out.append(TextDelta(self.run, self.step, time, opened.id, chunk.text))
                case ThinkingChunk():
                    self._thinking(chunk, out, time)
                case ToolUseChunk():
                    self._tool_use(chunk, out, time)
                case RefusalChunk():
                    opened = self._begin(chunk.index, RefusalChunk, out, time)
                    if chunk.refusal:
                        out.append(RefusalDelta(self.run, self.step, time, opened.id, chunk.refusal))
                case ImageChunk():
                    block = self._id(chunk.index)
                    out.append(
                        Image(self.run, self.step, time, block, chunk.media_type, chunk.data, chunk.url)
                    )
                case BlockEndChunk():
                    self._end(chunk.index, out, time)
                case ProviderChunk() | UsageChunk() | FinishChunk() | ErrorChunk():
                    pass  # kept in the thread or told by the step's and the run's own events
        return out

    def close(self, time: float) -> list[Event]:
        """Return the events that close every open block, in the order in which they began."""
        out: list[Event] = []
        for opened in self._open.values():
            self._finish(opened, out, time, whole=False)
        self._open.clear()
        return out

    def _id(self, index: int) -> str:
        return f"{self.run}.{self.step}.{index}"

    def _begin(self, index: int, kind: type, out: list[Event], time: float) -> _Open:
        opened = self._open.get((index, kind))
        if opened is None:
            opened = self._open[index, kind] = _Open(kind, self._id(index))
            self._seen.add(opened.id)
            if kind is TextChunk:
                out.append(TextStarted(self.run, self.step, time, opened.id))
            elif kind is ThinkingChunk:
                out.append(ReasoningBlockStarted(self.run, self.step, time, opened.id))
            elif kind is RefusalChunk:
                out.append(RefusalStarted(self.run, self.step, time, opened.id))
        return opened

    def _thinking(self, chunk: ThinkingChunk, out: list[Event], time: float) -> None:
        block = self._id(chunk.index)
        late = block in self._seen and (chunk.index, ThinkingChunk) not in self._open
        if not (late and not chunk.thinking):
            self._begin(chunk.index, ThinkingChunk, out, time)
        if chunk.thinking:
            kind: ReasoningKind = "summary" if chunk.summary else "delta"
            part: dict[str, JsonValue] = {} if chunk.part is None else {"part": chunk.part}
            event = ReasoningEvent(kind, self.provider, chunk.thinking, part)
            out.append(Reasoning(self.run, self.step, time, block, event))
        if chunk.signature:
            data: dict[str, JsonValue] = {"signature": chunk.signature, "format": chunk.signature_format}
            event = ReasoningEvent("signature", self.provider, None, data)
            out.append(Reasoning(self.run, self.step, time, block, event))
        if chunk.provider_state and chunk.provider_state_format:
            data = {"state": chunk.provider_state, "format": chunk.provider_state_format}
            event = ReasoningEvent("state", self.provider, None, data)
            out.append(Reasoning(self.run, self.step, time, block, event))

    def _tool_use(self, chunk: ToolUseChunk, out: list[Event], time: float) -> None:
        fresh = (chunk.index, ToolUseChunk) not in self._open
        opened = self._begin(chunk.index, ToolUseChunk, out, time)
        opened.call = chunk.id or opened.call
        opened.name = chunk.name or opened.name
        if fresh:
            out.append(ToolCallStarted(self.run, self.step, time, opened.id, opened.call, opened.name))
        if chunk.input:
            opened.pieces.append(chunk.input)
            out.append(ToolCallDelta(self.run, self.step, time, opened.id, opened.call, chunk.input))

    def _end(self, index: int, out: list[Event], time: float) -> None:
        for kind in (TextChunk, ThinkingChunk, ToolUseChunk, RefusalChunk):
            opened = self._open.pop((index, kind), None)
            if opened is not None:
                self._finish(opened, out, time, whole=True)

    def _finish(self, opened: _Open, out: list[Event], time: float, *, whole: bool) -> None:
        if opened.kind is TextChunk:
            out.append(TextFinished(self.run, self.step, time, opened.id))
        elif opened.kind is ThinkingChunk:
            out.append(ReasoningBlockFinished(self.run, self.step, time, opened.id))
        elif opened.kind is RefusalChunk:
            out.append(RefusalFinished(self.run, self.step, time, opened.id))
        elif whole:
            text = "".join(opened.pieces)
            out.append(ToolCallReady(self.run, self.step, time, opened.id, opened.call, opened.name, text))
