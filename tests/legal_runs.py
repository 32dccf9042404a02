"""Random runs as their events: what a run may say, in an order in which it may say it. For the protocols of front ends.

Blocks are what `StepEvents` makes of random chunks: interleaved, cut, without names, with ids that come twice. Around them stands what a run
does: steps, calls with approvals, progress and sub-agents, results in the order of the calls, an end at any place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from agentkit.accumulators import Response
from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ImageChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
)
from agentkit.content import ImageBlock, Origin, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from agentkit.events import (
    Event,
    Parent,
    ReasoningBlockFinished,
    RefusalFinished,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunNotice,
    RunResumed,
    RunStarted,
    RunSuspended,
    StateDelta,
    StateSnapshot,
    StepFinished,
    StepStarted,
    TextFinished,
    ToolApprovalRequested,
    ToolApprovalResolved,
    ToolExecutionFinished,
    ToolExecutionProgress,
    ToolExecutionStarted,
    ToolResult,
)
from agentkit.repair import runnable
from agentkit.step_events import StepEvents

ORIGIN = Origin("scripted", "scripted", "scripted")
WORDS = st.sampled_from(["", "a", "Ålesund ", "two\nlines", "🙂", '"', "\n\n"])
_FINISHED: dict[str, Callable[[str, int, float, str], Event]] = {
    "text": TextFinished,
    "refusal": RefusalFinished,
    "reasoning_block": ReasoningBlockFinished,
}
INPUTS = st.sampled_from(["", "{", '{"a":', "1}", '{"city":"Rome"}', "[1]"])


@st.composite
def chunks(draw: st.DrawFn) -> list[Chunk]:
    """Return an answer's chunks, with at most four indexes, open and closed at will."""
    out: list[Chunk] = []
    for _ in range(draw(st.integers(0, 9))):
        index = draw(st.integers(0, 3))
        match draw(st.sampled_from(["text", "think", "sign", "state", "call", "refuse", "image", "end"])):
            case "text":
                out.append(TextChunk(draw(WORDS), index))
            case "think":
                summary, part = draw(st.booleans()), draw(st.sampled_from([None, 0, 1, 2]))
                out.append(ThinkingChunk(draw(WORDS), index=index, summary=summary, part=part))
            case "sign":
                out.append(ThinkingChunk("", "c2ln", "anthropic-messages", index=index))
            case "state":
                out.append(ThinkingChunk("", "", "", '{"x":1}', "openai-responses", index))
            case "call":
                call, name = draw(
                    st.sampled_from([("", ""), ("c1", ""), ("", "rain"), ("c1", "rain"), ("c2", "wind")])
                )
                out.append(ToolUseChunk(call, name, draw(INPUTS), index))
            case "refuse":
                out.append(RefusalChunk(draw(WORDS), index))
            case "image":
                out.append(ImageChunk("image/png", "aWk=", "", index))
            case _:
                out.append(BlockEndChunk(index))
    for index, (call, name) in enumerate([("c1", "rain"), ("c3", "wind")][: draw(st.integers(0, 2))], 4):
        out += [
            ToolUseChunk(call, name, '{"city":', index),
            ToolUseChunk("", "", '"Rome"}', index),
            BlockEndChunk(index),
        ]
    return out


@dataclass
class Legs:
    """A run's events, in the pieces in which a client sees them: more than one where it waited for a person."""

    legs: list[list[Event]] = field(default_factory=lambda: [[]])

    def add(self, *events: Event) -> None:
        """Add events to the last leg."""
        self.legs[-1].extend(events)


@st.composite
def runs(draw: st.DrawFn, *, run: str = "run_1") -> list[list[Event]]:
    """Return a run's events by leg."""
    out = Legs()
    out.add(RunStarted(run, 0, 0, "demo", "t1", client_tools=["rain", "wind"]))
    usage = Usage(5, 7, 2)
    last = draw(st.integers(1, 3))
    for step in range(1, last + 1):
        out.add(StepStarted(run, step, 0, "demo-1", "demo"))
        told, calls = _answer(draw, run, step)
        if draw(st.integers(0, 9)) == 0:  # in the middle of it all
            keep = draw(st.integers(0, len(told)))
            out.add(*_closed(told[:keep], run, step), _bad(draw, run, usage))
            return out.legs
        out.add(*told)
        match draw(st.sampled_from(["work", "work", "work", "client", "suspend"])) if calls else "none":
            case "work":
                _work(draw, out, run, step, calls)
            case "client" if step == last:
                pass  # whoever gave the tools answers them
            case "suspend":
                out.add(*(ToolApprovalRequested(run, step, 0, f"{run}.{step}.{c.id}", c.id, c.name, c.input) for c in calls))  # fmt: skip
                out.add(RunSuspended(run, 0, 0, "approval"))
                if draw(st.booleans()):
                    return out.legs
                out.legs.append([RunResumed(run, 0, 0)])
                out.add(*(ToolApprovalResolved(run, step, 0, f"{run}.{step}.{c.id}", c.id, True) for c in calls))  # fmt: skip
                _work(draw, out, run, step, calls)
            case _:
                _work(draw, out, run, step, calls)
        out.add(StepFinished(run, step, 0, "stop", usage))
    good: Event = RunFinished(run, 0, 0, "", "stop", usage)
    out.add(good if draw(st.integers(0, 3)) else _bad(draw, run, usage))
    return out.legs


def _answer(draw: st.DrawFn, run: str, step: int) -> tuple[list[Event], list[ToolUseBlock]]:
    """Return what watchers see of an answer, and the calls that are run."""
    made = draw(chunks())
    maker, response = StepEvents(run, step, "demo"), Response(ORIGIN)
    for chunk in made:
        response.add(chunk)
    told = [*maker.map(made, 0), *maker.close(0)]
    ready = {event.call for event in told if event.type == "tool_call.ready"}
    return told, [call for call in runnable(response.message().tool_uses) if call.id in ready]


def _closed(told: Sequence[Event], run: str, step: int) -> list[Event]:
    """Return a beginning of `told` with its open blocks closed, as a run does it at a bad end."""
    open_blocks: dict[tuple[str, str], None] = {}
    for event in told:
        noun, _, verb = event.type.partition(".")
        if noun in ("text", "refusal", "reasoning_block") and verb == "started":
            open_blocks[noun, event.block] = None  # type: ignore[union-attr]
        elif verb == "finished":
            open_blocks.pop((noun, event.block), None)  # type: ignore[union-attr]
    return [*told, *(_FINISHED[noun](run, step, 0, block) for noun, block in open_blocks)]


def _work(draw: st.DrawFn, out: Legs, run: str, step: int, calls: Sequence[ToolUseBlock]) -> None:
    for call in calls:
        out.add(ToolExecutionStarted(run, step, 0, call.id, call.name, call.input))
        match draw(st.sampled_from(["", "", "progress", "child", "state", "notice"])):
            case "progress":
                out.add(ToolExecutionProgress(run, step, 0, call.id, call.name, "half", {"n": None}))
            case "child":
                out.add(*_child(draw, run, step, call))
            case "state":
                out.add(StateSnapshot(run, step, 0, {"n": 1, "none": None}))
                out.add(StateDelta(run, step, 0, [{"op": "replace", "path": "/n", "value": 2}]))
            case "notice":
                out.add(RunNotice(run, step, 0, "model_fallback", "going on"))
            case _:
                pass
        out.add(ToolExecutionFinished(run, step, 0, call.id, call.name, "ok", 0.1))
    for call in calls:
        out.add(ToolResult(run, step, 0, draw(st.sampled_from([_said(call), _seen(call), _long(call)]))))


def _child(draw: st.DrawFn, run: str, step: int, call: ToolUseBlock) -> list[Event]:
    """Return a sub-agent's run inside a call; it may be cut short."""
    name = f"{run}s{step}{call.id}"
    told, calls = _answer(draw, name, 1)
    events: list[Event] = [
        RunStarted(name, 0, 0, "helper", "t1"),
        StepStarted(name, 1, 0, "demo-1", "demo"),
        *told,
        *(ToolResult(name, 1, 0, _said(one)) for one in calls),
        StepFinished(name, 1, 0, "stop", Usage(1, 1)),
        _end_of_child(draw, name),
    ]
    if draw(st.integers(0, 5)) == 0:
        del events[-1]
    for event in events:
        event.parent = Parent(run, call.id)
    return events


def _end_of_child(draw: st.DrawFn, name: str) -> Event:
    if draw(st.booleans()):
        return RunFinished(name, 0, 0, "", "stop", Usage(1, 1))
    return RunFailed(name, 0, 0, "x", "y", False)


def _bad(draw: st.DrawFn, run: str, usage: Usage) -> Event:
    if draw(st.booleans()):
        return RunFailed(run, 0, 0, "model_stream", "it broke", True, usage)
    return RunCancelledEvent(run, 0, 0, "a client asked", usage)


def _said(call: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(call.id, call.name, (TextBlock("fine"), TextBlock("")), "error")


def _seen(call: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(call.id, call.name, (TextBlock("see"), ImageBlock("image/png", "aWk=")))


def _long(call: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(call.id, call.name, (TextBlock("long " * 20_000),))
