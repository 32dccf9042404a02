"""Made-up feeds for the page's tests: every event that the wire knows, as JSON lines that the page can open as a file."""

from collections.abc import Iterable, Sequence

from agentkit.content import TextBlock, ToolResultBlock, Usage
from agentkit.envelope import draft_all
from agentkit.events import (
    Event,
    Image,
    Parent,
    Reasoning,
    ReasoningBlockFinished,
    ReasoningBlockStarted,
    ReasoningEvent,
    RefusalDelta,
    RefusalFinished,
    RefusalStarted,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunNotice,
    RunStarted,
    RunSteered,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextDelta,
    TextFinished,
    TextStarted,
    ToolApprovalRequested,
    ToolApprovalResolved,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolExecutionFinished,
    ToolExecutionProgress,
    ToolExecutionStarted,
    ToolResult,
)
from agentkit.log import Record, Topic

TOPIC = Topic("", "demo", "tour")
START = 1_790_000_000.0
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


def lines(events: Iterable[Event], *, epoch: str = "e", first: int = 1) -> list[str]:
    """Return events as envelopes, numbered from `first`."""
    drafts = draft_all(TOPIC, events)
    return [Record.of(draft, epoch, number).wire.decode() for number, draft in enumerate(drafts, start=first)]


def started(run: str, at: float, question: str, *, parent: Parent | None = None) -> RunStarted:
    return RunStarted(run, 0, at, "demo", "tour", {"input": question} if question else {}, parent=parent)


def thought(
    run: str, index: int, at: float, seconds: float, text: str, *, step: int = 1, summary: bool = False
) -> list[Event]:
    """Return one block of reasoning that takes `seconds`."""
    block = f"{run}.{step}.{index}"
    pieces = [text[start : start + 40] for start in range(0, len(text), 40)]
    pace = seconds / max(1, len(pieces))
    kind = "summary" if summary else "delta"
    out: list[Event] = [ReasoningBlockStarted(run, step, at, block)]
    for number, piece in enumerate(pieces):
        out.append(Reasoning(run, step, at + number * pace, block, ReasoningEvent(kind, "demo", piece)))  # type: ignore[arg-type]
    return [*out, ReasoningBlockFinished(run, step, at + seconds, block)]


def opaque(run: str, index: int, at: float, kind: str, data: str, *, step: int = 1) -> list[Event]:
    """Return a block without readable text: `signature` only, or encrypted `state`."""
    block = f"{run}.{step}.{index}"
    event = ReasoningEvent("signature" if kind == "signature" else "state", "demo", None, {kind: data})
    return [
        ReasoningBlockStarted(run, step, at, block),
        Reasoning(run, step, at + 1, block, event),
        ReasoningBlockFinished(run, step, at + 2, block),
    ]


def text(run: str, index: int, at: float, seconds: float, words: str, *, step: int = 1) -> list[Event]:
    block = f"{run}.{step}.{index}"
    return [
        TextStarted(run, step, at, block),
        *(
            TextDelta(run, step, at + seconds * start / len(words), block, words[start : start + 12])
            for start in range(0, len(words), 12)
        ),
        TextFinished(run, step, at + seconds, block),
    ]


def call(run: str, index: int, at: float, name: str, arguments: str, *, step: int = 1) -> list[Event]:
    """Return a call whose arguments come in two pieces; its id is `<name>-1`."""
    block, half = f"{run}.{step}.{index}", len(arguments) // 2
    return [
        ToolCallStarted(run, step, at, block, f"{name}-1", name),
        ToolCallDelta(run, step, at + 0.1, block, f"{name}-1", arguments[:half]),
        ToolCallDelta(run, step, at + 0.2, block, f"{name}-1", arguments[half:]),
        ToolCallReady(run, step, at + 0.3, block, f"{name}-1", name, arguments),
    ]


def result(run: str, at: float, name: str, said: str, *, step: int = 1, seconds: float = 1.0) -> list[Event]:
    """Return the end of a tool's work, and what it gave."""
    status = "error" if said.startswith("error") else "ok"
    block = ToolResultBlock(f"{name}-1", name, (TextBlock(said),), status)  # type: ignore[arg-type]
    return [
        ToolExecutionFinished(run, step, at, f"{name}-1", name, status, seconds),
        ToolResult(run, step, at + 0.01, block),
    ]


def tour(start: float = START) -> list[Event]:
    """Return a run that does a bit of everything, in two steps, with a sub-agent."""
    run, child, at = "run_tour", "run_child", start
    parent = Parent(run, "research-1")
    weather = '{"city":"Lisbon","days":2,"id":12345678901234567890}'
    return [
        started(run, at, "Will it rain in Lisbon this Sunday, and what could we do then?"),
        StepStarted(run, 1, at, "demo-large", "demo"),
        *thought(run, 0, at + 0.6, 4.4, "The user asks about the weather and about things to do. " * 3),
        *thought(run, 1, at + 5.0, 1.0, "I will ask for the forecast first.", summary=True),
        *call(run, 2, at + 6.1, "get_weather", weather),
        *call(run, 3, at + 6.5, "research", '{"question":"museums in Lisbon"}'),
        ToolApprovalRequested(run, 1, at + 6.8, "approval-1", "research-1", "research", "{}"),
        ToolExecutionStarted(run, 1, at + 6.9, "get_weather-1", "get_weather", weather),
        ToolApprovalResolved(run, 1, at + 7.9, "approval-1", "research-1", approved=True, reason="fine"),
        ToolExecutionStarted(run, 1, at + 8.0, "research-1", "research", "{}"),
        *result(
            run, at + 8.4, "get_weather", '{"sunday":{"rain_mm":11.5,"chance":0.92}}', step=1, seconds=1.5
        ),
        started(child, at + 8.5, "", parent=parent),
        StepStarted(child, 1, at + 8.5, "demo-small", "demo", parent=parent),
        *[
            _in(parent, event)
            for event in thought(child, 0, at + 8.7, 1.0, "Museums: tiles, coaches, design.")
        ],
        *[
            _in(parent, event)
            for event in text(child, 1, at + 9.7, 0.5, "The tile museum is open on Sundays.")
        ],
        StepFinished(child, 1, at + 10.2, "stop", Usage(40, 30, 12), parent=parent),
        RunFinished(child, 0, at + 10.2, "", "stop", Usage(40, 30, 12), parent=parent),
        ToolExecutionProgress(run, 1, at + 10.3, "research-1", "research", "1 of 1 answered"),
        *result(run, at + 10.4, "research", "The tile museum is open on Sundays.", seconds=2.4),
        StepFinished(run, 1, at + 10.5, "tool_calls", Usage(812, 164, 92, 512)),
        StepStarted(run, 2, at + 10.6, "demo-large", "demo"),
        *opaque(run, 0, at + 11.0, "state", "x" * 512, step=2),
        *text(run, 1, at + 13.2, 2.0, ANSWER, step=2),
        StepFinished(run, 2, at + 15.2, "stop", Usage(1_104, 120, 40, 812)),
        RunFinished(run, 0, at + 15.2, ANSWER, "stop", Usage(1_916, 284, 132, 1_324)),
    ]


ANSWER = (
    "Yes, take an umbrella: about 11 mm of rain are likely on Sunday.\n\n"
    'A dry plan:\n\n```python\nplan = ["tile museum", "lunch in Alfama", "a late film"]\n```\n\n'
    "The museum closes at six, so start there."
)


def endings(start: float = START + 100) -> list[Event]:
    """Return five short runs, one for each way to end or to be odd."""
    usage = Usage(10, 5)
    return [
        started("run_signed", start, "Think in secret."),
        StepStarted("run_signed", 1, start, "m", "demo"),
        *opaque("run_signed", 0, start + 0.2, "signature", "s" * 96),
        *text("run_signed", 1, start + 3, 1, "Done."),
        RunFinished("run_signed", 0, start + 4, "Done.", "length", usage),
        started("run_failed", start + 10, "Break."),
        StepStarted("run_failed", 1, start + 10, "m", "demo"),
        *text("run_failed", 0, start + 10.5, 0.5, "This much came through"),
        StepRetrying("run_failed", 1, start + 11, 2, 0.5, "overloaded", "the provider is overloaded", ["run_failed.1.0"]),
        *text("run_failed", 0, start + 12, 0.5, "and then it came again"),
        RunFailed("run_failed", 0, start + 13, "provider_error", "demo: overloaded", True, usage),
        started("run_stopped", start + 20, "Stop."),
        StepStarted("run_stopped", 1, start + 20, "m", "demo"),
        *thought("run_stopped", 0, start + 20.2, 65, "On and on. " * 8),
        RunCancelledEvent("run_stopped", 0, start + 86, "by the user", usage),
        started("run_refused", start + 90, "Something bad."),
        StepStarted("run_refused", 1, start + 90, "m", "demo"),
        RunNotice("run_refused", 1, start + 90.1, "foreign_signature", "a block of another provider was left out"),
        RefusalStarted("run_refused", 1, start + 91, "run_refused.1.0"),
        RefusalDelta("run_refused", 1, start + 91, "run_refused.1.0", "I cannot help with that."),
        RefusalFinished("run_refused", 1, start + 91.5, "run_refused.1.0"),
        RunSteered("run_refused", 1, start + 91.6, "steer-1", "Then something nice."),
        Image("run_refused", 1, start + 92, "run_refused.1.1", "image/png", DOT, ""),
        Image("run_refused", 1, start + 92, "run_refused.1.2", "", "", "https://example.com/picture.png"),
        RunFinished("run_refused", 0, start + 93, "", "refusal", usage),
    ]  # fmt: skip


def jsonl(*feeds: Sequence[Event]) -> str:
    """Return feeds one behind the other as one file."""
    return "\n".join(lines([event for feed in feeds for event in feed])) + "\n"


def _in(parent: Parent, event: Event) -> Event:
    event.parent = parent
    return event
