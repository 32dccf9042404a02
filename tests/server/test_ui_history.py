"""A thread as messages of a page."""

from typing import Any

import pytest

from agentkit.content import (
    ImageBlock,
    Message,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from agentkit.history import RunRecord
from agentkit_server.ui_history import ui_messages

pytestmark = pytest.mark.pure


def run(name: str, termination: str = "completed", **metadata: Any) -> RunRecord:
    return RunRecord(name, "finished", 0.0, finish="stop", termination=termination, metadata=metadata)


def answer(run: str, *blocks: Any) -> Message:
    return Message("assistant", blocks, run=run)


USAGE = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0, "reasoningTokens": 0, "cachedInputTokens": 0}
"""As the stream of a run tells it."""


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "state": "done"}


THREAD = [
    Message.user([TextBlock("look"), ImageBlock("image/png", "AAAA")]),
    answer(
        "r1",
        ThinkingBlock("hm", "c2VjcmV0", signature_format="anthropic-messages"),
        ThinkingBlock("in short", summary=True),
        TextBlock("I ask."),
        ToolUseBlock("c1", "f", '{"a":1}'),
        ToolUseBlock("c2", "f", ""),
    ),
    Message(
        "tool",
        (
            ToolResultBlock("c1", "f", (TextBlock('{"b":2}'),)),
            ToolResultBlock("c2", "f", (TextBlock("it broke"),), "error"),
        ),
        run="r1",
    ),
    answer("r1", ToolUseBlock("c1", "f", "{}")),
    answer("r1", RefusalBlock("I will not.")),
]
CALL = {"type": "dynamic-tool", "toolName": "f", "providerExecuted": True}


def test_a_run_is_one_message_with_the_ids_and_parts_of_its_stream() -> None:
    [asked, answered] = ui_messages(THREAD, [run("r1", message="u1")], "full")

    assert asked == {
        "id": "u1",
        "role": "user",
        "parts": [
            text("look"),
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
        ],
    }
    assert answered == {
        "id": "r1",
        "role": "assistant",
        "metadata": {"runId": "r1", "finishReason": "stop", "usage": USAGE},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "state": "done"},
            {"type": "reasoning", "text": "in short", "state": "done"},
            text("I ask."),
            {
                **CALL,
                "toolCallId": "r1.1.c1",
                "input": {"a": 1},
                "state": "output-available",
                "output": {"b": 2},
            },
            {**CALL, "toolCallId": "r1.1.c2", "input": {}, "state": "output-error", "errorText": "it broke"},
            {"type": "step-start"},
            {
                **CALL,
                "toolCallId": "r1.2.c1",
                "input": {},
                "state": "output-error",
                "errorText": "This call was not run.",
            },
            {"type": "step-start"},
            {**text("I will not."), "providerMetadata": {"agentkit": {"refusal": True}}},
        ],
    }


@pytest.mark.parametrize(
    ("exposure", "wanted"), [("full", ["hm", "in short"]), ("summary", ["in short"]), ("none", [])]
)
def test_reasoning_shows_as_far_as_it_may(exposure: Any, wanted: list[str]) -> None:
    shown: Any = ui_messages(THREAD, [run("r1")], exposure)

    assert [part["text"] for part in shown[1]["parts"] if part["type"] == "reasoning"] == wanted


def test_the_answer_that_is_being_made_is_left_to_its_stream() -> None:
    thread = [Message.user("one"), answer("r1", TextBlock("eins")), Message.user("two")]
    records = [run("r1"), run("r2", message="u2")]

    shown = ui_messages([*thread, answer("r2", TextBlock("zw"))], records, "full", leave_out="r2")

    assert [one["id"] for one in shown] == ["r1.0", "r1", "u2"]
    assert ui_messages(thread, records, "full", leave_out="r2") == shown


def test_what_was_taken_back_does_not_show() -> None:
    thread = [
        Message.user("one"),
        answer("r1", TextBlock("eins")),
        Message.user("one"),
        answer("r2", TextBlock("1")),
    ]

    shown = ui_messages(thread, [run("r1"), run("r2", replaces="r1")], "full")

    assert [one["id"] for one in shown] == ["r2.0", "r2"]


@pytest.mark.parametrize(
    ("record", "ending"),
    [
        (RunRecord("r1", "running", 0.0), {}),
        (
            RunRecord("r1", "finished", 0.0, finish="length", usage=Usage(7, 5, 3, 2)),
            {
                "finishReason": "length",
                "usage": {
                    "inputTokens": 7,
                    "outputTokens": 5,
                    "totalTokens": 12,
                    "reasoningTokens": 3,
                    "cachedInputTokens": 2,
                },
            },
        ),
        (
            RunRecord("r1", "failed", 0.0, code="rate_limited", message="slow down", retryable=True),
            {"error": {"code": "rate_limited", "retryable": True}, "usage": USAGE},
        ),
        (
            RunRecord("r1", "cancelled", 0.0, message="enough"),
            {"cancelled": {"reason": "enough"}, "usage": USAGE},
        ),
        (None, {}),
    ],
    ids=["running", "finished", "failed", "cancelled", "unknown"],
)
def test_how_an_answer_ended_is_told_as_its_stream_did(
    record: RunRecord | None, ending: dict[str, Any]
) -> None:
    [*_, shown] = ui_messages(
        [Message.user("a"), answer("r1", TextBlock("b"))], [record] if record is not None else [], "full"
    )

    assert shown["metadata"] == {"runId": "r1", **ending}


def test_what_came_from_elsewhere_shows_in_its_roles() -> None:
    thread = [Message.user("a"), Message.assistant("b"), Message.user("c"), answer("r1", TextBlock("d"))]

    shown = ui_messages(thread, [run("r1", message="u1")], "full")

    assert [(one["id"], one["role"]) for one in shown] == [
        ("r1.-2", "user"),
        ("r1.-1", "assistant"),
        ("u1", "user"),
        ("r1", "assistant"),
    ]


def test_a_call_that_the_page_answers_waits_for_it_and_goes_on_in_the_same_message() -> None:
    asked = [Message.user("where?"), answer("r1", ToolUseBlock("c1", "f", "{}"))]
    told = Message("tool", (ToolResultBlock("c1", "f", (TextBlock("there"),)),))
    records = [run("r1", "client_tools")]

    waiting: Any = ui_messages(asked, records, "full")
    done: Any = ui_messages(
        [*asked, told, answer("r2", TextBlock("Good."))], [*records, run("r2", continues="r1")], "full"
    )

    call = {"type": "dynamic-tool", "toolName": "f", "toolCallId": "r1.1.c1", "input": {}}
    assert waiting[-1]["parts"] == [{"type": "step-start"}, {**call, "state": "input-available"}]
    assert [one["id"] for one in done] == ["r1.0", "r1"]
    assert waiting[-1]["metadata"]["runId"] == "r1"
    assert done[-1]["metadata"]["runId"] == "r2"
    assert done[-1]["parts"] == [
        {"type": "step-start"},
        {**call, "state": "output-available", "output": "there"},
        {"type": "step-start"},
        text("Good."),
    ]
