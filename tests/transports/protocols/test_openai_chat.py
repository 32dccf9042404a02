"""Chat completions: exact bytes of the project's own streams, a strict reader for random runs, and what each event becomes."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from checkers.chat_chunks import Answer, check_answer, frames_of
from hypothesis import given, settings
from hypothesis import strategies as st
from legal_runs import runs
from own_streams import STREAMS, TOPIC, Stream, records_of

from agentkit.content import Usage
from agentkit.envelope import draft_all
from agentkit.events import (
    Event,
    Image,
    Parent,
    Reasoning,
    ReasoningEvent,
    RefusalDelta,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolApprovalRequested,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from agentkit.log import Cursor, Gap, Record
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.protocols.openai_chat import ChatCompletions, Completion, Fold, State

pytestmark = pytest.mark.pure

GOLDEN = Path(__file__).parent / "golden" / "openai_chat"
WITH_USAGE = (("usage", "1"),)
RUN = "run_1"
USAGE = Usage(10, 20, 5, 3)
AT: tuple[str, int, float] = (RUN, 1, 0.0)
STARTED = RunStarted(RUN, 0, 0.0, "demo", "t1")
THEIRS = RunStarted(RUN, 0, 0.0, "demo", "t1", client_tools=["locate"])
END = RunFinished(RUN, 0, 0.0, "", "stop", USAGE)


def numbered(events: Sequence[Event]) -> list[Record]:
    return [Record.of(draft, "E", seq) for seq, draft in enumerate(draft_all(TOPIC, events), 1)]


def encode(records: Sequence[Record], *, usage: bool = False, after: int = 0) -> bytes:
    """Fold all records; return the frames of those behind number `after`."""
    encoder = ChatCompletions("demo", WITH_USAGE if usage else ())
    state, out = encoder.start(), []
    for record in records:
        state, data = encoder.step(state, record)
        if record.seq > after:
            out.append(data)
    return encoder.join(out)


def answer_to(*events: Event, usage: bool = False) -> Answer:
    return check_answer(encode(numbered(events), usage=usage), usage=usage)


def thought(text: str, block: str = f"{RUN}.1.0", kind: str = "delta", **data: Any) -> Reasoning:
    return Reasoning(*AT, block, ReasoningEvent(kind, "demo", text, data))  # type: ignore[arg-type]


def said(text: str) -> TextDelta:
    return TextDelta(*AT, f"{RUN}.1.9", text)


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_own_streams_have_the_bytes_that_were_read_by_people(stream: Stream) -> None:
    path = GOLDEN / f"{stream.name}.sse"
    made = encode(records_of(stream), usage=True)

    if "AGENTKIT_WRITE_GOLDEN" in os.environ:  # then read the difference
        path.write_bytes(made)

    assert made == path.read_bytes()
    check_answer(made, usage=True)


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_opaque_state_is_never_sent_even_where_the_log_has_it(stream: Stream) -> None:
    assert encode(records_of(stream, expose_state=True)) == encode(records_of(stream))


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_from_any_record_on_the_rest_is_the_suffix(stream: Stream) -> None:
    records = records_of(stream)
    whole = encode(records)

    for record in records:
        assert whole == encode(records[: record.seq]) + encode(records, after=record.seq)


@settings(max_examples=60)
@given(legs=runs(), usage=st.booleans())
def test_every_legal_run_passes_the_strict_reader(legs: list[list[Event]], usage: bool) -> None:
    events = [event for leg in legs for event in leg]
    last = events[-1]
    if isinstance(last, RunFinished) and any(event.type == "tool_call.ready" for event in events):
        answer = check_answer(encode(numbered(events), usage=usage), usage=usage)
        if answer.error is None and answer.calls:  # the runtime says so, where calls are left open
            last.termination = "client_tools"
    body = encode(numbered(events), usage=usage)
    answer = check_answer(body, usage=usage, whole=last.type != "run.suspended" or b'"error"' in body)

    own = [event for event in events if event.parent is None]
    if answer.error is None:
        assert answer.content == "".join(event.text for event in own if isinstance(event, TextDelta))
        assert answer.refusal == "".join(event.text for event in own if isinstance(event, RefusalDelta))


@settings(max_examples=60)
@given(legs=runs())
def test_one_object_says_what_the_stream_says(legs: list[list[Event]]) -> None:
    events = [event for leg in legs for event in leg]
    fold, state, whole = Fold("demo", with_usage=True), State(), Completion()
    for record in numbered(events):
        state, payloads = fold.step(state, record)
        for payload in payloads:
            whole.add(payload)
    answer = check_answer(encode(numbered(events), usage=True), usage=True, whole=False)

    assert whole.error == answer.error
    if answer.error is None and state.is_over:
        body: Any = whole.body()
        [choice] = body["choices"]
        message = choice["message"]
        assert (message["content"] or "", message["refusal"] or "") == (answer.content, answer.refusal)
        assert message.get("reasoning_content", "") == answer.reasoning_content
        assert [call["id"] for call in message.get("tool_calls", [])] == [call for call, _, _ in answer.calls]
        assert (choice["finish_reason"], body["usage"]) == (answer.finish, answer.usage)


def test_a_run_in_all_its_bytes() -> None:
    body = encode(numbered([STARTED, thought("hm"), said("Hi"), END]), usage=True)

    head = '"id":"chatcmpl-run_1","object":"chat.completion.chunk","created":0,"model":"demo"'
    choice = f'data: {{{head},"choices":[{{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}}]}}\n\n'
    usage = (
        '{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30,"prompt_tokens_details":{"cached_tokens":3},'
        '"completion_tokens_details":{"reasoning_tokens":5}}'
    )
    assert body.decode() == "".join(
        [
            choice % ('{"role":"assistant","content":""}', "null"),
            choice % ('{"reasoning_content":"hm"}', "null"),
            choice % ('{"content":"Hi"}', "null"),
            choice % ("{}", '"stop"'),
            f'data: {{{head},"choices":[],"usage":{usage}}}\n\n',
            "data: [DONE]\n\n",
        ]
    )


def test_blocks_and_parts_of_reasoning_stand_apart() -> None:
    answer = answer_to(
        STARTED,
        thought("one ", part=0, kind="summary"),
        thought("more", part=0, kind="summary"),
        thought("two", part=1, kind="summary"),
        thought("other", "run_1.1.1"),
        said("So:"),
        thought(" and more", "run_1.1.1"),
        said(" then:"),
        thought("third", "run_1.2.0"),
        END,
    )

    assert answer.reasoning_content == "one more\n\ntwo\n\nother and more\n\nthird"


@pytest.mark.parametrize(
    ("finish", "termination", "told"),
    [
        ("stop", "completed", "stop"),
        ("length", "completed", "length"),
        ("content_filter", "completed", "content_filter"),
        ("refusal", "completed", "content_filter"),
        ("tool_calls", "stop_condition", "stop"),
        ("other", "completed", "stop"),
        ("", "completed", "stop"),
    ],
)
def test_every_end_has_one_of_the_known_names(finish: str, termination: str, told: str) -> None:
    assert answer_to(STARTED, RunFinished(RUN, 0, 0.0, "", finish, USAGE, termination)).finish == told


def test_a_refusal_is_a_refusal_and_a_plain_end() -> None:
    refusal = RefusalDelta(*AT, f"{RUN}.1.0", "I will not.")
    answer = answer_to(STARTED, refusal, RunFinished(RUN, 0, 0.0, "", "refusal", USAGE))

    assert (answer.refusal, answer.content, answer.finish) == ("I will not.", "", "stop")


def test_only_calls_that_the_client_answers_are_told_and_each_whole() -> None:
    events: list[Event] = [
        THEIRS,
        ToolCallStarted(*AT, "b1", "c1", "locate"),
        ToolCallDelta(*AT, "b1", "c1", '{"zoom":'),
        ToolCallDelta(*AT, "b1", "c1", "3}"),
        ToolCallReady(*AT, "b1", "c1", "locate", '{"zoom":3}'),
        ToolCallReady(*AT, "b2", "c2", "own", "{}"),
        ToolCallReady(*AT, "b3", "c3", "locate", " "),
        ToolCallReady(*AT, "b4", "c4", "locate", "{broken"),
        ToolCallReady(*AT, "b5", "c5", "locate", '{"n":NaN}'),
        ToolCallReady(*AT, "b6", "c1", "locate", "{}"),
        ToolCallReady(*AT, "b7", "", "locate", "{}"),
        RunFinished(RUN, 0, 0.0, "", "stop", USAGE, "client_tools"),
    ]

    answer = answer_to(*events)

    assert answer.calls == [("c1", "locate", {"zoom": 3}), ("c3", "locate", {})]
    assert answer.finish == "tool_calls"


def test_a_call_whose_record_is_too_large_is_put_together_from_its_pieces() -> None:
    text = json.dumps({"text": "x" * 100_000})
    pieces = [text[start : start + 10_000] for start in range(0, len(text), 10_000)]
    answer = answer_to(
        THEIRS,
        ToolCallStarted(*AT, "b1", "c1", "locate"),
        *(ToolCallDelta(*AT, "b1", "c1", piece) for piece in pieces),
        ToolCallReady(*AT, "b1", "c1", "locate", text),
        RunFinished(RUN, 0, 0.0, "", "stop", USAGE, "client_tools"),
    )

    assert answer.calls == [("c1", "locate", json.loads(text))]


def test_a_childs_words_are_not_the_answer() -> None:
    child: list[Event] = [
        RunStarted("run_2", 0, 0.0, "helper", "t1"),
        thought("psst"),
        said("psst"),
        RunFinished("run_2", 0, 0.0, "psst", "stop", USAGE),
    ]
    for event in child:
        event.parent = Parent(RUN, "c1")

    answer = answer_to(STARTED, *child, said("mine"), END)

    assert (answer.content, answer.reasoning_content) == ("mine", "")


@pytest.mark.parametrize("parent", [None, Parent(RUN, "c1")])
def test_a_call_that_needs_a_person_is_an_error_that_ends_the_stream(parent: Parent | None) -> None:
    asked = ToolApprovalRequested(*AT, "a1", "c1", "delete", "{}", parent=parent)
    records = numbered([RunStarted(RUN, 0, 0.0, "demo", "t1"), asked])
    encoder = ChatCompletions("demo")
    state, _ = encoder.step(encoder.start(), records[0])
    assert not encoder.is_over(state)
    state, _ = encoder.step(state, records[1])

    assert encoder.is_over(state)
    error = check_answer(encode(records)).error
    assert error is not None
    assert error["code"] == "approval_required"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (RunFailed(RUN, 0, 0.0, "model_stream", "it broke", True, USAGE), "model_stream"),
        (RunCancelledEvent(RUN, 0, 0.0, "the server stops", USAGE), "closing"),
    ],
)
def test_a_bad_end_is_an_error_behind_what_came(last: Event, code: str) -> None:
    answer = answer_to(STARTED, said("so far"), last)

    assert answer.content == "so far"
    assert answer.finish is None
    assert answer.error is not None
    assert (answer.error["type"], answer.error["code"]) == ("server_error", code)


def test_a_stop_that_somebody_asked_for_is_an_end() -> None:
    answer = answer_to(STARTED, said("so far"), RunCancelledEvent(RUN, 0, 0.0, "a client asked", USAGE))

    assert (answer.content, answer.finish, answer.error) == ("so far", "stop", None)
    assert answer_to(RunCancelledEvent(RUN, 0, 0.0, "while it waited", USAGE)).finish == "stop"


def test_images_come_as_addresses() -> None:
    answer = answer_to(
        STARTED,
        Image(*AT, "b1", "image/png", "aWk=", ""),
        Image(*AT, "b2", "", "", "https://example.org/a.png"),
        Image(*AT, "b3", "image/png", "x" * 100_000, ""),
        END,
    )

    assert answer.images == ["data:image/png;base64,aWk=", "https://example.org/a.png"]


def test_what_stands_around_the_records() -> None:
    encoder = PROTOCOLS["openai_chat"](TOPIC, View("openai_chat"))

    assert encoder.folds
    assert encoder.hello(Cursor("E", 0), 0, resumed=False, retry_ms=1) == b""
    assert encoder.position(Cursor("E", 1)) == encoder.end(Cursor("E", 1)) == b""
    assert encoder.beat() == b": keep-alive\n\n"
    for farewell in (encoder.closing(1), encoder.gap(Gap("trimmed", 1, 2), Cursor("E", 2))):
        assert check_answer(farewell).error is not None
    assert frames_of(encoder.closing(1))[-1] == "[DONE]"
