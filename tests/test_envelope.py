import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import TextBlock, ToolResultBlock, Usage
from agentkit.envelope import MAX_CUSTOM, draft_all, encode, timestamp
from agentkit.errors import ConfigurationError
from agentkit.events import (
    CustomEvent,
    Event,
    Parent,
    Reasoning,
    ReasoningEvent,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolExecutionProgress,
    ToolResult,
)
from agentkit.log import MAX_RECORD, Topic

pytestmark = pytest.mark.pure

TOPIC = Topic("tenant", "a", "t")
TIME = 1_700_000_000.25


def bodies(*events: Event, expose_state: bool = False) -> list[dict[str, Any]]:
    return [json.loads(draft.body) for draft in draft_all(TOPIC, events, expose_state=expose_state)]


def test_an_envelope_has_its_place_and_leaves_out_what_is_absent() -> None:
    assert bodies(TextDelta("r", 2, TIME, "r.2.0", "hi")) == [
        {
            "type": "text.delta",
            "agent": "a",
            "thread": "t",
            "run": "r",
            "step": 2,
            "block": "r.2.0",
            "time": "2023-11-14T22:13:20.250Z",
            "data": {"text": "hi"},
        }
    ]


def test_the_owner_never_shows() -> None:
    (draft,) = draft_all(TOPIC, [TextDelta("r", 1, TIME, "b", "hi")])

    assert b"tenant" not in draft.body


@pytest.mark.parametrize(
    ("event", "data"),
    [
        pytest.param(
            ReasoningEvent("delta", "p", "hm"),
            {"kind": "delta", "provider": "p", "text": "hm", "data": {}},
            id="delta",
        ),
        pytest.param(
            ReasoningEvent("signature", "p", None, {"signature": "sécret", "format": "f"}),
            {"kind": "signature", "provider": "p", "data": {"bytes": 7}},
            id="signature",
        ),
        pytest.param(
            ReasoningEvent("state", "p", None, {"state": "{}", "format": "f"}),
            {"kind": "state", "provider": "p", "data": {"bytes": 2}},
            id="state",
        ),
    ],
)
def test_a_reasoning_event_is_named_reasoning_and_keeps_its_secrets(
    event: ReasoningEvent, data: object
) -> None:
    (draft,) = draft_all(TOPIC, [Reasoning("r", 1, TIME, "b", event)])

    assert (draft.type, draft.kind, json.loads(draft.body)["data"]) == ("reasoning", event.kind, data)


def test_state_is_written_only_where_it_is_exposed() -> None:
    event = Reasoning("r", 1, TIME, "b", ReasoningEvent("state", "p", None, {"state": "{}", "format": "f"}))

    assert bodies(event, expose_state=True)[0]["data"]["data"] == {"state": "{}", "format": "f"}


def test_a_custom_event_has_its_own_name() -> None:
    assert bodies(CustomEvent("", 0, TIME, "app.note", {"a": [1]})) == [
        {"type": "app.note", "agent": "a", "thread": "t", "time": timestamp(TIME), "data": {"a": [1]}}
    ]


def test_terminal_events_are_marked_and_hold_no_exception() -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "reasoning_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "total_tokens": 3,
    }
    events: list[Event] = [
        RunFinished("r", 0, TIME, "hi", "stop", Usage(1, 2)),
        RunFailed("r", 0, TIME, "model", "broke", True, Usage(1, 2), "", ValueError("secret")),
        RunCancelledEvent("r", 0, TIME, "enough", Usage(1, 2), "par"),
    ]
    drafts = draft_all(TOPIC, events)

    assert [draft.terminal for draft in drafts] == [True] * 3
    assert [json.loads(draft.body)["data"] for draft in drafts] == [
        {"text": "hi", "finish": "stop", "usage": usage, "termination": "completed"},
        {"code": "model", "message": "broke", "retryable": True, "usage": usage},
        {"reason": "enough", "usage": usage, "text": "par"},
    ]


def test_a_tool_result_and_the_parent_are_told() -> None:
    event = ToolResult("r", 1, TIME, ToolResultBlock("c", "add", (TextBlock("3"),)), parent=Parent("p", "c0"))

    (body,) = bodies(event)

    assert body["parent"] == {"run": "p", "call": "c0"}
    assert body["data"] == {
        "call": "c",
        "name": "add",
        "status": "ok",
        "content": [{"text": "3", "type": "text"}],
    }


def test_a_sub_agents_records_belong_to_the_run_that_called_it_and_do_not_end_it() -> None:
    (draft,) = draft_all(
        TOPIC, [RunFinished("child", 0, TIME, "hi", "stop", Usage(), parent=Parent("r", "c0"))]
    )

    assert (draft.run, draft.terminal, json.loads(draft.body)["run"]) == ("r", False, "child")


def test_null_is_left_out() -> None:
    assert bodies(ToolExecutionProgress("r", 1, TIME, "c", "t", "half", None))[0]["data"] == {
        "call": "c",
        "name": "t",
        "message": "half",
    }


@given(st.text(min_size=1, max_size=200).map(lambda text: text * 400))
def test_a_long_delta_is_split_and_loses_nothing(text: str) -> None:
    for event in (
        TextDelta("r", 1, TIME, "b", text),
        Reasoning("r", 1, TIME, "b", ReasoningEvent("delta", "p", text)),
    ):
        drafts = draft_all(TOPIC, [event])

        assert max(len(draft.body) for draft in drafts) <= MAX_RECORD
        assert "".join(json.loads(draft.body)["data"]["text"] for draft in drafts) == text


def test_nothing_passes_the_bound() -> None:
    big = ToolResult("r", 1, TIME, ToolResultBlock("c", "t", (TextBlock("x" * 200_000),)))
    ended = RunFinished("r", 0, TIME, "\x01" * 200_000, "stop", Usage())

    drafts = draft_all(TOPIC, [big, ended])

    assert [len(draft.body) <= MAX_RECORD for draft in drafts] == [True, True]
    assert json.loads(drafts[0].body)["data"]["truncated"] is True
    assert json.loads(drafts[1].body)["data"]["truncated"] is True


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), {1, 2}], ids=["nan", "infinity", "object", "set"]
)
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        encode({"a": value})


def test_lone_surrogates_leave_as_replacement_characters() -> None:
    assert encode("a\ud83d") == '"a\ufffd"'.encode()
    assert bodies(RunStarted("r", 0, TIME, "a\udc00", "t"))[0]["data"]["agent"] == "a\ufffd"


def test_a_custom_event_fills_a_record_at_most() -> None:
    (draft,) = draft_all(TOPIC, [CustomEvent("", 0, TIME, "app." + "n" * 59, "x" * (MAX_CUSTOM - 2))])

    assert len(draft.body) <= MAX_RECORD
    assert json.loads(draft.body)["data"] == "x" * (MAX_CUSTOM - 2)
