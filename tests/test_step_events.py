import pytest

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    FinishChunk,
    ImageChunk,
    ProviderChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import Usage
from agentkit.events import (
    Event,
    Image,
    Reasoning,
    ReasoningBlockFinished,
    ReasoningBlockStarted,
    ReasoningEvent,
    RefusalDelta,
    RefusalFinished,
    RefusalStarted,
    TextDelta,
    TextFinished,
    TextStarted,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from agentkit.step_events import StepEvents

pytestmark = pytest.mark.pure


def map_all(chunks: list[Chunk]) -> list[Event]:
    step = StepEvents("r", 1, "p")
    return [*step.map(chunks, 1.0), *step.close(2.0)]


def test_thinking_is_a_block_with_reasoning_events_inside() -> None:
    events = map_all(
        [
            ThinkingChunk("a"),
            ThinkingChunk("b", summary=True),
            ThinkingChunk("", "sig", "f"),
            ThinkingChunk("", "", "", '{"x":1}', "g"),
            BlockEndChunk(0),
        ]
    )

    b = "r.1.0"
    assert events == [
        ReasoningBlockStarted("r", 1, 1.0, b),
        Reasoning("r", 1, 1.0, b, ReasoningEvent("delta", "p", "a")),
        Reasoning("r", 1, 1.0, b, ReasoningEvent("summary", "p", "b")),
        Reasoning(
            "r", 1, 1.0, b, ReasoningEvent("signature", "p", None, {"signature": "sig", "format": "f"})
        ),
        Reasoning("r", 1, 1.0, b, ReasoningEvent("state", "p", None, {"state": '{"x":1}', "format": "g"})),
        ReasoningBlockFinished("r", 1, 1.0, b),
    ]
    assert [e.type for e in events if e.type.startswith("reasoning.")] == [
        "reasoning.delta",
        "reasoning.summary",
        "reasoning.signature",
        "reasoning.state",
    ]


def test_only_reasoning_events_begin_with_reasoning_dot() -> None:
    for event in map_all([ThinkingChunk("a"), TextChunk("b", 1), ToolUseChunk("c", "t", "{}", 2)]):
        assert event.type.startswith("reasoning.") == isinstance(event, Reasoning)


def test_text_refusal_and_image_are_told() -> None:
    assert map_all(
        [TextChunk("a", 0), BlockEndChunk(0), RefusalChunk("no", 1), ImageChunk("image/png", "AA", "", 2)]
    ) == [
        TextStarted("r", 1, 1.0, "r.1.0"),
        TextDelta("r", 1, 1.0, "r.1.0", "a"),
        TextFinished("r", 1, 1.0, "r.1.0"),
        RefusalStarted("r", 1, 1.0, "r.1.1"),
        RefusalDelta("r", 1, 1.0, "r.1.1", "no"),
        Image("r", 1, 1.0, "r.1.2", "image/png", "AA", ""),
        RefusalFinished("r", 1, 2.0, "r.1.1"),
    ]


def test_a_whole_call_is_ready_and_a_cut_one_is_not() -> None:
    assert map_all(
        [
            ToolUseChunk("c1", "t", '{"a"', 0),
            ToolUseChunk("", "", ":1}", 0),
            BlockEndChunk(0),
            ToolUseChunk("c2", "t", "{", 1),
        ]
    ) == [
        ToolCallStarted("r", 1, 1.0, "r.1.0", "c1", "t"),
        ToolCallDelta("r", 1, 1.0, "r.1.0", "c1", '{"a"'),
        ToolCallDelta("r", 1, 1.0, "r.1.0", "c1", ":1}"),
        ToolCallReady("r", 1, 1.0, "r.1.0", "c1", "t", '{"a":1}'),
        ToolCallStarted("r", 1, 1.0, "r.1.1", "c2", "t"),
        ToolCallDelta("r", 1, 1.0, "r.1.1", "c2", "{"),
    ]


def test_overlapping_blocks_are_kept_apart_by_index() -> None:
    assert [
        (event.type, getattr(event, "block", ""))
        for event in map_all(
            [ThinkingChunk("a", index=0), TextChunk("b", 1), ThinkingChunk("c", index=0), BlockEndChunk(0)]
        )
    ] == [
        ("reasoning_block.started", "r.1.0"),
        ("reasoning.delta", "r.1.0"),
        ("text.started", "r.1.1"),
        ("text.delta", "r.1.1"),
        ("reasoning.delta", "r.1.0"),
        ("reasoning_block.finished", "r.1.0"),
        ("text.finished", "r.1.1"),
    ]


def test_a_late_signature_does_not_open_its_block_again() -> None:
    types = [
        event.type
        for event in map_all([ThinkingChunk("a"), BlockEndChunk(0), ThinkingChunk("", "sig", "f", index=0)])
    ]

    assert types == [
        "reasoning_block.started",
        "reasoning.delta",
        "reasoning_block.finished",
        "reasoning.signature",
    ]


def test_a_signature_alone_makes_a_block() -> None:
    assert [event.type for event in map_all([ThinkingChunk("", "sig", "f")])] == [
        "reasoning_block.started",
        "reasoning.signature",
        "reasoning_block.finished",
    ]


def test_what_is_not_for_watchers_makes_no_event() -> None:
    assert map_all([ProviderChunk("k", "{}", "f"), UsageChunk(Usage(1, 1)), FinishChunk("stop")]) == []


def test_the_blocks_seen_are_counted() -> None:
    step = StepEvents("r", 2, "p")
    step.map([TextChunk("a", 3), BlockEndChunk(3), ThinkingChunk("b", index=1)], 1.0)

    assert step.blocks == ["r.2.1", "r.2.3"]
