"""Every event comes back from the wire as it went in, but for what never leaves a process."""

import json
from typing import Any, get_args

import pytest

from agentkit.content import ImageBlock, TextBlock, ToolResultBlock, Usage
from agentkit.envelope import draft_all
from agentkit.errors import WireError
from agentkit.events import (
    CustomEvent,
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
    RunResumed,
    RunStarted,
    RunSteered,
    RunSuspended,
    StateDelta,
    StateSnapshot,
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
from agentkit_transports.clients.envelope import Envelope, parse_envelope, split_id

pytestmark = pytest.mark.pure

AT = 1_700_000_000.25
USAGE = Usage(3, 4, 1, 2, 0)
EVENTS: list[Event] = [
    RunStarted("r", 0, AT, "a", "t", {"k": [1, None]}),
    RunSuspended("r", 0, AT, "approval"),
    RunResumed("r", 0, AT),
    RunSteered("r", 0, AT, "s1", "go on"),
    RunNotice("r", 1, AT, "code", "words", {"n": 1}),
    RunFinished("r", 0, AT, "all", "stop", USAGE, "stop_condition"),
    RunFailed("r", 0, AT, "model", "broke", True, USAGE, "half"),
    RunCancelledEvent("r", 0, AT, "why", USAGE, "half"),
    StepStarted("r", 1, AT, "m", "p"),
    StepRetrying("r", 1, AT, 2, 0.5, "429", "busy", ["r.1.0"]),
    StepFinished("r", 1, AT, "stop", USAGE),
    ReasoningBlockStarted("r", 1, AT, "r.1.0"),
    Reasoning("r", 1, AT, "r.1.0", ReasoningEvent("delta", "p", "hm", {})),
    Reasoning("r", 1, AT, "r.1.0", ReasoningEvent("signature", "p", None, {"bytes": 0})),
    ReasoningBlockFinished("r", 1, AT, "r.1.0"),
    TextStarted("r", 1, AT, "r.1.1"),
    TextDelta("r", 1, AT, "r.1.1", "hi 😀"),
    TextFinished("r", 1, AT, "r.1.1"),
    RefusalStarted("r", 1, AT, "r.1.2"),
    RefusalDelta("r", 1, AT, "r.1.2", "no"),
    RefusalFinished("r", 1, AT, "r.1.2"),
    Image("r", 1, AT, "r.1.3", "image/png", "QUJD", ""),
    ToolCallStarted("r", 1, AT, "r.1.4", "c1", "f", parent=Parent("q", "c0")),
    ToolCallDelta("r", 1, AT, "r.1.4", "c1", '{"a"'),
    ToolCallReady("r", 1, AT, "r.1.4", "c1", "f", '{"a":1}'),
    ToolApprovalRequested("r", 1, AT, "ap", "c1", "f", "{}"),
    ToolApprovalResolved("r", 1, AT, "ap", "c1", False, "no"),
    ToolExecutionStarted("r", 1, AT, "c1", "f", "{}"),
    ToolExecutionProgress("r", 1, AT, "c1", "f", "half", {"x": 1}),
    ToolExecutionFinished("r", 1, AT, "c1", "f", "ok", 1.5),
    ToolResult("r", 1, AT, ToolResultBlock("c1", "f", (TextBlock("12"), ImageBlock("image/png", "QUJD")), "error")),
    StateSnapshot("r", 1, AT, {"a": 1}),
    StateDelta("r", 1, AT, [{"op": "add", "path": "/a", "value": 1}]),
    CustomEvent("r", 1, AT, "app.said", {"x": [1]}),
]  # fmt: skip


def wire(event: Event, seq: int = 7) -> Envelope:
    (draft,) = draft_all(Topic("", "a", "t"), [event])
    return parse_envelope(json.loads(Record.of(draft, "e", seq).wire))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_comes_back(event: Event) -> None:
    assert wire(event).event == event


def test_all_events_are_tried() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))


def test_an_envelope_tells_its_place() -> None:
    envelope = wire(TextDelta("r", 2, AT, "r.2.0", "hi"))

    assert (envelope.id, envelope.seq, envelope.first, envelope.time) == ("e-7", 7, 7, AT)
    assert (envelope.agent, envelope.thread, envelope.run, envelope.step, envelope.block) == ("a", "t", "r", 2, "r.2.0")  # fmt: skip


def test_a_record_that_was_cut_for_its_size_is_still_an_event() -> None:
    event = wire(ToolExecutionStarted("r", 1, AT, "c1", "f", "x" * 70_000)).event

    assert event == ToolExecutionStarted("r", 1, AT, "", "", "")


def base(**members: Any) -> dict[str, Any]:
    return {"v": 1, "id": "e-1", "seq": 1, "type": "text.delta", "time": "2026-01-01T00:00:00Z", "data": {"text": "x"}} | members  # fmt: skip


def test_what_is_unknown_is_kept() -> None:
    envelope = parse_envelope(base(type="run.paused", data=[1], new={"a": 1}))

    assert envelope.event == CustomEvent("", 0, 1767225600.0, "run.paused", [1])
    assert envelope.members["new"] == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [[], None, base(id="1"), base(id=None), base(seq=2), base(first=2), base(first="1"), base(first=0), base(type=None), base(run=3), base(step="1")],
    ids=repr,
)  # fmt: skip
def test_what_is_no_envelope_is_refused(value: Any) -> None:
    with pytest.raises(WireError):
        parse_envelope(value)


@pytest.mark.parametrize(
    "value",
    [base(data=None), base(data={"text": 3}), base(time="soon"), base(type="reasoning", data={"kind": "guess"}), base(parent=3),
     base(parent={"run": 3}), base(type="run.finished", data={"usage": 3}), base(type="tool_result", data={"status": "odd"}),
     base(type="step.retrying", data={"attempt": "2"}), base(type="reasoning", data={"kind": "delta", "text": []})],
    ids=repr,
)  # fmt: skip
def test_data_that_is_not_its_types_is_refused_when_it_is_read(value: Any) -> None:
    envelope = parse_envelope(value)

    with pytest.raises(WireError, match=r"e-1|of an envelope|should be"):
        _ = envelope.event


def test_an_id_is_an_epoch_and_a_number() -> None:
    assert split_id("a1-0") == ("a1", 0)
    for text in ("", "a", "a-01", "-1", "a-1\n", "ä-1", 3):
        with pytest.raises(WireError):
            split_id(text)
