"""The AI SDK's stream: every legal run passes a strict reader, and the bytes depend on the records alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from checkers.ui_stream import StreamError, check_stream, read_chunks
from hypothesis import given, settings
from hypothesis import strategies as st
from legal_runs import runs
from own_streams import STREAMS, Stream, records_of

from agentkit.chunks import ThinkingChunk
from agentkit.content import ImageBlock, TextBlock, ToolResultBlock, Usage
from agentkit.envelope import draft_all
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
    RunResumed,
    RunStarted,
    RunSuspended,
    StepFinished,
    StepStarted,
    TextDelta,
    TextFinished,
    TextStarted,
    ToolApprovalRequested,
    ToolApprovalResolved,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolExecutionProgress,
    ToolResult,
)
from agentkit.log import Cursor, Gap, Record, Topic
from agentkit.step_events import StepEvents
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.protocols.ai_sdk import UIMessageStream

pytestmark = pytest.mark.pure

GOLDEN = Path(__file__).parent / "golden" / "ai_sdk"
RUN = "run_1"
TOPIC = Topic("", "planner", "t1")
USAGE = Usage(10, 20, 5)
AT: tuple[str, int, float] = (RUN, 1, 0.0)
STARTED = RunStarted(RUN, 0, 0.0, "planner", "t1", {})
STEP = StepStarted(*AT, "m", "p")
END = RunFinished(RUN, 0, 0.0, "", "stop", USAGE)
TOLD_USAGE = {
    "inputTokens": 10,
    "outputTokens": 20,
    "totalTokens": 30,
    "reasoningTokens": 5,
    "cachedInputTokens": 0,
}
SERVER = {"providerExecuted": True, "dynamic": True}


def records(events: Sequence[Event], *, expose_state: bool = False) -> list[Record]:
    """The events as a log would number them."""
    drafts = draft_all(TOPIC, events, expose_state=expose_state)
    return [Record.of(draft, "E", seq) for seq, draft in enumerate(drafts, 1)]


def encode(given_records: Sequence[Record], **options: str) -> bytes:
    encoder = UIMessageStream.of(tuple(options.items()))
    state, out = encoder.start(), []
    for record in given_records:
        state, data = encoder.step(state, record)
        out.append(data)
    return encoder.join(out)


def chunks(*events: Event, expose_state: bool = False, **options: str) -> list[dict[str, Any]]:
    """The chunks between `start` and the end of a run of these events."""
    told = records([STARTED, *events, END], expose_state=expose_state)
    sdk = int(options.get("sdk", "5"))
    seen = check_stream(encode(told, **options), sdk=sdk)
    assert seen[0] == {"type": "start", "messageId": RUN, "messageMetadata": {"runId": RUN}}
    return seen[1:-1]


def call(
    name: str = "f", raw: str = "{}", *, id_: str = "c1", block: str = f"{RUN}.1.0", step: int = 1
) -> list[Event]:
    return [
        ToolCallStarted(RUN, step, 0.0, block, id_, name),
        ToolCallDelta(RUN, step, 0.0, block, id_, raw),
        ToolCallReady(RUN, step, 0.0, block, id_, name, raw),
    ]


def reasoning(kind: Any, text: str | None = None, block: str = f"{RUN}.1.0", **data: Any) -> Reasoning:
    return Reasoning(*AT, block, ReasoningEvent(kind, "anthropic", text, data))


# any run

FEW = settings(max_examples=30)
"""Of five properties: together they draw 150 runs in two seconds."""


def whole(legs: list[list[Event]], *, expose_state: bool = False) -> tuple[list[Record], str]:
    """A run's records, and how often it went on after a pause."""
    events = [event for leg in legs for event in leg]
    return records(events, expose_state=expose_state), str(len(legs) - 1)


@FEW
@given(runs(), st.sampled_from([5, 6, 7]), st.booleans())
def test_any_legal_run_passes_a_strict_reader(legs: list[list[Event]], sdk: int, exposed: bool) -> None:
    told, pauses = whole(legs, expose_state=exposed)

    check_stream(encode(told, sdk=str(sdk), pauses=pauses), sdk=sdk)


@FEW
@given(runs(), st.sampled_from([5, 6, 7]))
def test_each_leg_of_a_run_that_waits_for_people_is_a_stream_of_its_own(
    legs: list[list[Event]], sdk: int
) -> None:
    told, _ = whole(legs)
    starts = [0, *(i for i, record in enumerate(told) if record.type == "run.resumed"), len(told)]
    for number in range(len(legs)):
        encoder = UIMessageStream.of(
            (("sdk", str(sdk)), ("pauses", str(number)), ("again", "1" if number else "0"))
        )
        state, out = encoder.start(), [b""]
        for place, record in enumerate(told):
            state, data = encoder.step(state, record)
            if starts[number] <= place:
                out.append(data)

        check_stream(b"".join(out), sdk=sdk, is_resumed=number > 0)
        assert encoder.is_over(state)


@FEW
@given(runs(), st.data())
def test_a_stream_cut_anywhere_is_a_prefix_that_a_strict_reader_takes(
    legs: list[list[Event]], data: st.DataObject
) -> None:
    told, pauses = whole(legs)
    cut = data.draw(st.integers(0, len(told)))

    assert encode(told, pauses=pauses).startswith(encode(told[:cut], pauses=pauses))
    check_stream(encode(told[:cut], pauses=pauses), complete=False)


@FEW
@given(runs())
def test_a_step_changes_no_state_that_others_hold(legs: list[list[Event]]) -> None:
    encoder = UIMessageStream()
    told, _ = whole(legs)
    states, first = [encoder.start()], []
    for record in told:
        state, data = encoder.step(states[-1], record)
        states.append(state)
        first.append(data)

    again = [encoder.step(state, record)[1] for state, record in zip(states, told, strict=False)]

    assert again == first


@FEW
@given(runs(), st.data())
def test_text_and_reasoning_come_whole_and_in_order(legs: list[list[Event]], data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.sampled_from(["text.started", "reasoning_block.started", "run.started"])))
    told, pauses = whole(legs)
    told = [record for record in told if record.type not in lost]  # a hook may leave events out

    seen = check_stream(encode(told, pauses=pauses))

    own = [event for leg in legs for event in leg if event.parent is None]
    for kind, wanted in (
        ("text-delta", [e.text for e in own if isinstance(e, TextDelta | RefusalDelta)]),
        (
            "reasoning-delta",
            [e.event.text for e in own if isinstance(e, Reasoning) and e.event.text is not None],
        ),
    ):
        assert [chunk["delta"] for chunk in seen if chunk["type"] == kind] == wanted


# our own streams


@pytest.mark.parametrize("stream", STREAMS, ids=[one.name for one in STREAMS])
def test_our_own_streams_are_these_bytes(stream: Stream) -> None:
    """Whoever changes them on purpose writes the files again, and reads the difference."""
    data = encode(records_of(stream))

    check_stream(data)
    assert data == (GOLDEN / f"{stream.name}.sse").read_bytes()


# reasoning


def test_a_summary_of_several_parts_is_a_part_each() -> None:
    seen = chunks(
        STEP,
        ReasoningBlockStarted(*AT, f"{RUN}.1.0"),
        reasoning("summary", "one", part=0),
        reasoning("summary", "two", part=1),
        ReasoningBlockFinished(*AT, f"{RUN}.1.0"),
        StepFinished(*AT, "stop", USAGE),
    )

    assert seen == [
        {"type": "start-step"},
        {"type": "reasoning-start", "id": f"{RUN}.1.0"},
        {"type": "reasoning-delta", "id": f"{RUN}.1.0", "delta": "one"},
        {"type": "reasoning-end", "id": f"{RUN}.1.0"},
        {"type": "reasoning-start", "id": f"{RUN}.1.0~2"},
        {"type": "reasoning-delta", "id": f"{RUN}.1.0~2", "delta": "two"},
        {"type": "reasoning-end", "id": f"{RUN}.1.0~2"},
        {"type": "finish-step"},
    ]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        pytest.param(
            {"signature": "sig", "format": "anthropic-messages"},
            {"anthropic": {"signature": "sig"}},
            id="anthropic signature",
        ),
        pytest.param(
            {"state": '{"type":"redacted_thinking","data":"sealed"}', "format": "anthropic-messages"},
            {"anthropic": {"redactedData": "sealed"}},
            id="anthropic redacted",
        ),
        pytest.param(
            {"state": '{"id":"rs_1","encrypted_content":"sealed"}', "format": "openai-responses"},
            {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "sealed"}},
            id="openai",
        ),
        pytest.param(
            {"signature": "sig", "format": "gemini"}, {"google": {"thoughtSignature": "sig"}}, id="google"
        ),
        pytest.param(
            {"state": "[1]", "format": "openai-chat"},
            {"agentkit": {"state": "[1]", "stateFormat": "openai-chat"}},
            id="any other",
        ),
    ],
)
def test_opaque_state_stays_here_unless_exposed_and_then_stands_on_the_end(
    state: dict[str, str], wanted: dict[str, Any]
) -> None:
    events: list[Event] = [
        ReasoningBlockStarted(*AT, f"{RUN}.1.0"),
        reasoning("signature" if "signature" in state else "state", **state),
        ReasoningBlockFinished(*AT, f"{RUN}.1.0"),
    ]

    hidden, shown = chunks(*events), chunks(*events, expose_state=True)

    assert hidden == [
        {"type": "reasoning-start", "id": f"{RUN}.1.0"},
        {"type": "reasoning-end", "id": f"{RUN}.1.0"},
    ]
    assert shown == [hidden[0], {**hidden[1], "providerMetadata": wanted}]


def test_a_signature_that_comes_after_its_block_gets_a_part_of_its_own_where_it_is_told() -> None:
    mapped = StepEvents(RUN, 1, "p")
    events: list[Event] = [
        *mapped.map([ThinkingChunk("hm")], 0.0),
        *mapped.close(0.0),
        *mapped.map([ThinkingChunk("", "sig", "gemini")], 0.0),
    ]

    assert [chunk["type"] for chunk in chunks(*events)] == [
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
    ]
    assert chunks(*events, expose_state=True)[-2:] == [
        {"type": "reasoning-start", "id": f"{RUN}.1.0~2"},
        {
            "type": "reasoning-end",
            "id": f"{RUN}.1.0~2",
            "providerMetadata": {"google": {"thoughtSignature": "sig"}},
        },
    ]


# tools


def test_a_call_is_run_by_the_server_and_its_result_is_a_value() -> None:
    result = ToolResultBlock("c1", "f", (TextBlock('{"degrees":3}'),))

    seen = chunks(STEP, *call(raw='{"city":"Oslo"}'), ToolResult(*AT, result))

    id_ = f"{RUN}.1.c1"
    assert seen == [
        {"type": "start-step"},
        {"type": "tool-input-start", "toolCallId": id_, "toolName": "f", **SERVER},
        {"type": "tool-input-delta", "toolCallId": id_, "inputTextDelta": '{"city":"Oslo"}'},
        {
            "type": "tool-input-available",
            "toolCallId": id_,
            "toolName": "f",
            "input": {"city": "Oslo"},
            **SERVER,
        },
        {"type": "tool-output-available", "toolCallId": id_, "output": {"degrees": 3}, **SERVER},
        {"type": "finish-step"},
    ]


@pytest.mark.parametrize(
    ("content", "output"),
    [
        pytest.param((TextBlock("3 °C"),), "3 °C", id="text"),
        pytest.param((TextBlock("[1] see"),), "[1] see", id="text that only looks like JSON"),
        pytest.param((TextBlock("[1e999]"),), "[1e999]", id="a number that JSON cannot say again"),
        pytest.param(
            (TextBlock("a"), ImageBlock("image/png", "AAAA")),
            [{"type": "text", "text": "a"}, {"type": "image", "media_type": "image/png", "data": "AAAA"}],
            id="an image",
        ),
    ],
)
def test_an_output_is_what_the_tool_gave(content: Any, output: Any) -> None:
    seen = chunks(*call(), ToolResult(*AT, ToolResultBlock("c1", "f", content)))

    assert seen[-1]["output"] == output


def test_a_provider_that_begins_again_with_its_call_ids_gets_a_part_for_each_call() -> None:
    result = ToolResult(RUN, 2, 0.0, ToolResultBlock("c1", "f", (TextBlock("two"),)))

    seen = chunks(
        *call(),
        ToolResult(*AT, ToolResultBlock("c1", "f", (TextBlock("one"),))),
        *call(block=f"{RUN}.2.0", step=2),
        result,
    )

    outputs = [(c["toolCallId"], c["output"]) for c in seen if c["type"] == "tool-output-available"]
    assert outputs == [(f"{RUN}.1.c1", "one"), (f"{RUN}.2.c1", "two")]


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        pytest.param(call()[:2], ("tool-input-error", "This call broke off."), id="cut in its arguments"),
        pytest.param(call(), ("tool-output-error", "This call was not run."), id="never run"),
        pytest.param(
            call(raw="{nonsense"), ("tool-input-error", "The model's arguments are not JSON."), id="no JSON"
        ),
    ],
)
@pytest.mark.parametrize(
    "end",
    [
        END,
        RunFailed(RUN, 0, 0.0, "overloaded", "too many", True),
        RunCancelledEvent(RUN, 0, 0.0, "asked"),
    ],
    ids=["finished", "failed", "cancelled"],
)
def test_no_call_is_left_open(events: list[Event], wanted: tuple[str, str], end: Event) -> None:
    seen = check_stream(encode(records([STARTED, STEP, *events, end])))

    closing = next(chunk for chunk in seen if "errorText" in chunk and "toolCallId" in chunk)
    assert (closing["type"], closing["errorText"]) == wanted


def test_calls_that_the_client_answers_are_left_to_it() -> None:
    started = RunStarted(RUN, 0, 0.0, "planner", "t1", {}, ["ask"])

    seen = check_stream(
        encode(records([started, STEP, *call("ask"), StepFinished(*AT, "tool_calls", USAGE), END]))
    )

    assert [c for c in seen if "toolCallId" in c][-1] == {
        "type": "tool-input-available",
        "toolCallId": f"{RUN}.1.c1",
        "toolName": "ask",
        "input": {},
        "dynamic": True,
    }


def test_a_result_too_large_for_a_record_is_told_by_its_size() -> None:
    big = ToolResultBlock("c1", "f", (TextBlock("x" * 70_000),))

    seen = chunks(*call(), ToolResult(*AT, big))

    assert seen[-1]["output"]["truncated"] is True
    assert seen[-1]["output"]["bytes"] > 70_000


def test_arguments_too_large_for_a_record_are_put_together_from_their_pieces() -> None:
    pieces = ["{", '"text":"', *["x" * 10_000] * 7, '"}']
    raw = "".join(pieces)
    block = f"{RUN}.1.0"
    deltas = [ToolCallDelta(*AT, block, "c1", piece) for piece in pieces]

    seen = chunks(ToolCallStarted(*AT, block, "c1", "f"), *deltas, ToolCallReady(*AT, block, "c1", "f", raw))

    (whole,) = [c for c in seen if c["type"] == "tool-input-available"]
    assert whole["input"] == {"text": "x" * 70_000}


def test_arguments_of_half_a_surrogate_pair_and_of_great_depth_are_told() -> None:
    deep = '{"a":' * 300 + "1" + "}" * 300

    (half,) = [c for c in chunks(*call(raw='{"a":"\\ud83d"}')) if c["type"] == "tool-input-available"]
    (nested,) = [c for c in chunks(*call(raw=deep)) if c["type"] == "tool-input-available"]

    assert half["input"] == {"a": "\ufffd"}
    assert json.dumps(nested["input"], separators=(",", ":")) == deep


def test_progress_is_a_preliminary_output() -> None:
    seen = chunks(
        *call(),
        ToolExecutionProgress(*AT, "c1", "f", "half", {"done": 1}),
        ToolResult(*AT, ToolResultBlock("c1", "f", (TextBlock("all"),))),
    )

    assert [(c["output"], c.get("preliminary")) for c in seen if c["type"] == "tool-output-available"] == [
        ({"message": "half", "data": {"done": 1}}, True),
        ("all", None),
    ]


# people

APPROVAL = f"{RUN}.1.c1"
ASKED = ToolApprovalRequested(*AT, APPROVAL, "c1", "f", "{}")


def test_sdk_5_has_no_word_for_approvals_and_gets_a_data_part() -> None:
    seen = chunks(*call(), ASKED, ToolApprovalResolved(*AT, APPROVAL, "c1", True))

    assert [c for c in seen if c["type"] == "data-approval"] == [
        {
            "type": "data-approval",
            "id": APPROVAL,
            "data": {
                "runId": RUN,
                "approvalId": APPROVAL,
                "state": "requested",
                "toolName": "f",
                "input": "{}",
            },
        },
        {
            "type": "data-approval",
            "id": APPROVAL,
            "data": {"runId": RUN, "approvalId": APPROVAL, "state": "approved"},
        },
    ]


def test_a_run_that_waits_for_a_person_ends_its_stream_and_goes_on_in_the_next() -> None:
    denied = ToolResultBlock("c1", "f", (TextBlock("no"),), "denied")
    told = records(
        [
            STARTED,
            STEP,
            *call(),
            ASKED,
            RunSuspended(RUN, 0, 0.0, "approval"),
            RunResumed(RUN, 0, 0.0),
            ToolApprovalResolved(*AT, APPROVAL, "c1", False, "too dear"),
            ToolResult(*AT, denied),
            StepFinished(*AT, "tool_calls", USAGE),
            END,
        ]
    )
    encoder = UIMessageStream.of((("sdk", "7"), ("pauses", "1"), ("again", "1")))
    pause = next(i for i, record in enumerate(told) if record.type == "run.suspended") + 1
    state = encoder.start()
    for record in told[:pause]:
        state, _ = encoder.step(state, record)
    rest = []
    for record in told[pause:]:
        state, data = encoder.step(state, record)
        rest.append(data)

    first = check_stream(encode(told, sdk="7"), sdk=7)
    again = check_stream(b"".join(rest), sdk=7, is_resumed=True)

    assert [c["type"] for c in first][-3:] == ["tool-approval-request", "finish-step", "finish"]
    assert again == [
        {"type": "start", "messageId": RUN, "messageMetadata": {"runId": RUN}},
        {
            "type": "tool-approval-response",
            "approvalId": APPROVAL,
            "approved": False,
            "reason": "too dear",
        },
        {"type": "tool-output-denied", "toolCallId": APPROVAL},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"finishReason": "stop", "usage": TOLD_USAGE},
        },
    ]
    check_stream(encode(told, sdk="7", pauses="1"), sdk=7)  # a replay passes over the pause


# the end


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        pytest.param(
            END,
            [{"type": "finish", "messageMetadata": {"finishReason": "stop", "usage": TOLD_USAGE}}],
            id="finished",
        ),
        pytest.param(
            RunFailed(RUN, 0, 0.0, "overloaded", "too many", True, USAGE),
            [
                {
                    "type": "message-metadata",
                    "messageMetadata": {
                        "error": {"code": "overloaded", "retryable": True},
                        "usage": TOLD_USAGE,
                    },
                },
                {"type": "error", "errorText": "too many"},
            ],
            id="failed",
        ),
        pytest.param(
            RunCancelledEvent(RUN, 0, 0.0, "a client asked", USAGE),
            [
                {
                    "type": "message-metadata",
                    "messageMetadata": {"cancelled": {"reason": "a client asked"}, "usage": TOLD_USAGE},
                },
                {"type": "abort"},
            ],
            id="cancelled",
        ),
    ],
)
def test_open_parts_are_closed_and_the_last_word_is_followed_by_done(
    end: Event, wanted: list[dict[str, Any]]
) -> None:
    open_parts: list[Event] = [
        STARTED,
        STEP,
        ReasoningBlockStarted(*AT, f"{RUN}.1.0"),
        TextStarted(*AT, f"{RUN}.1.1"),
    ]
    data = encode(records([*open_parts, end, TextStarted(*AT, f"{RUN}.1.2")]))

    seen = check_stream(data)

    assert seen[-len(wanted) :] == wanted
    assert [c["type"] for c in seen[4 : -len(wanted)]] == ["reasoning-end", "text-end", "finish-step"]
    assert data.endswith(b"\n\ndata: [DONE]\n\n")


def test_a_run_that_failed_before_it_started_is_a_message_too() -> None:
    seen = check_stream(encode(records([RunFailed(RUN, 0, 0.0, "internal", "OSError", False)])))

    assert [chunk["type"] for chunk in seen] == ["start", "message-metadata", "error"]


# beside the answer


def test_a_refusal_is_text_that_says_what_it_is() -> None:
    seen = chunks(
        RefusalStarted(*AT, f"{RUN}.1.0"),
        RefusalDelta(*AT, f"{RUN}.1.0", "I will not."),
        RefusalFinished(*AT, f"{RUN}.1.0"),
    )

    metadata = {"agentkit": {"refusal": True}}
    assert seen == [
        {"type": "text-start", "id": f"{RUN}.1.0", "providerMetadata": metadata},
        {"type": "text-delta", "id": f"{RUN}.1.0", "delta": "I will not."},
        {"type": "text-end", "id": f"{RUN}.1.0", "providerMetadata": metadata},
    ]


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        pytest.param(
            Image(*AT, f"{RUN}.1.0", "image/png", "AAAA", ""),
            {"type": "file", "url": "data:image/png;base64,AAAA", "mediaType": "image/png"},
            id="data",
        ),
        pytest.param(
            Image(*AT, f"{RUN}.1.0", "", "", "https://example.org/a"),
            {"type": "file", "url": "https://example.org/a", "mediaType": "image/*"},
            id="url",
        ),
    ],
)
def test_an_image_is_a_file(image: Image, wanted: dict[str, Any]) -> None:
    assert chunks(image) == [wanted]


def test_an_image_too_large_for_a_record_is_told_by_its_size() -> None:
    (seen,) = chunks(Image(*AT, f"{RUN}.1.0", "image/png", "A" * 70_000, ""))

    assert (seen["type"], seen["data"]["type"], seen["data"]["bytes"] > 70_000) == (
        "data-truncated",
        "image",
        True,
    )


def test_what_a_sub_agent_says_passes_by_and_does_not_end_the_answer() -> None:
    parent = Parent(RUN, "c1")
    child: list[Event] = [
        RunStarted("run_2", 0, 0.0, "helper", "", {}, parent=parent),
        TextDelta("run_2", 1, 0.0, "run_2.1.0", "hm", parent=parent),
        ToolApprovalRequested("run_2", 1, 0.0, "run_2.1.x", "x", "g", "{}", parent=parent),
        RunFinished("run_2", 0, 0.0, "hm", "stop", USAGE, parent=parent),
    ]

    seen = chunks(TextStarted(*AT, f"{RUN}.1.0"), *child, TextFinished(*AT, f"{RUN}.1.0"))

    assert [(c["type"], c.get("transient", False)) for c in seen] == [
        ("text-start", False),
        ("data-subagent", True),
        ("data-subagent", True),
        ("data-approval", False),
        ("data-subagent", True),
        ("text-end", False),
    ]


def test_what_the_application_says_meanwhile_is_a_part_of_the_message() -> None:
    def aside(data: Any) -> CustomEvent:
        return CustomEvent("", 0, 0.0, "weather", data)

    told = records(
        [aside("before"), STARTED, aside({"id": "w1", "sky": "clear"}), aside(7), END, aside("after")]
    )

    seen = check_stream(encode(told))

    assert seen[1:-1] == [
        {"type": "data-weather", "data": {"id": "w1", "sky": "clear"}, "id": "w1"},
        {"type": "data-weather", "data": 7},
    ]


def test_the_protocol_has_a_name() -> None:
    encoder = PROTOCOLS["ai_sdk"](TOPIC, View("ai_sdk", (("sdk", "6"),), run=RUN))

    assert encoder.folds
    assert encoder.hello(Cursor("E", 0), 0, resumed=False, retry_ms=1) == b": stream-open\n\n"
    assert encoder.beat() == b": keep-alive\n\n"
    assert (encoder.position(Cursor("E", 1)), encoder.end(Cursor("E", 1)), encoder.closing(1)) == (
        b"",
        b"",
        b"",
    )
    assert read_chunks(encoder.gap(Gap("trimmed", 1, 2), Cursor("E", 2)), complete=False) == [
        {"type": "data-gap", "data": {"from": 1, "to": 2, "reason": "trimmed"}, "transient": True}
    ]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'data: {"type":"text-start","id":"a"}\n\ndata: [DONE]\n\n', id="no start"),
        pytest.param(b'data: {"type":"start","messageId":"m"}\r\n\r\n', id="CRLF"),
        pytest.param(
            b'data: {"type":"start","messageId":"m"}\n\ndata: {"type":"text-start","id":"a"}\n\n'
            b'data: {"type":"finish"}\n\ndata: [DONE]\n\n',
            id="left open",
        ),
        pytest.param(
            b'data: {"type":"start","messageId":"m"}\n\ndata: {"type":"finish","finishReason":"stop"}\n\ndata: [DONE]\n\n',
            id="a later SDK's word",
        ),
        pytest.param(b'data: {"type":"start","messageId":null}\n\ndata: [DONE]\n\n', id="null"),
    ],
)
def test_the_strict_reader_refuses_what_breaks_the_protocol(bad: bytes) -> None:
    with pytest.raises(StreamError):
        check_stream(bad)
