"""AG-UI's events: exact bytes of the project's own streams, a strict reader for random runs, and what a resumed stream gets."""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from checkers.ag_ui import Watcher, frames_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from legal_runs import runs
from own_streams import RUN, STREAMS, TOPIC, Stream, records_of

from agentkit.content import Usage
from agentkit.envelope import draft_all
from agentkit.events import Event, RunFailed, RunFinished, RunStarted, StepStarted, TextDelta, ToolCallStarted
from agentkit.log import Cursor, Gap, Record
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.protocols.ag_ui import AGUI, Options

pytestmark = pytest.mark.pure

Json = dict[str, Any]

GOLDEN = Path(__file__).parent / "golden" / "ag_ui"
NEW = Options("t1", "client-run", "1.0", state='{"n":1}')
OLD = Options("t1", "client-run")


def numbered(events: Sequence[Event], *, first: int = 1) -> list[Record]:
    drafts = draft_all(TOPIC, events)
    return [Record.of(draft, "E", seq) for seq, draft in enumerate(drafts, first)]


def encode(records: Sequence[Record], options: Options, *, after: int = 0) -> bytes:
    """Fold all records; return the frames of those behind number `after`."""
    encoder = AGUI(options)
    state, out = encoder.start(), []
    for record in records:
        state, frames = encoder.step(state, record)
        if record.seq > after:
            out.append(frames)
    return encoder.join(out)


def events_of(events: Sequence[Event], options: Options = NEW) -> list[Json]:
    return [event for _, event in frames_of(encode(numbered(events), options))]


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_own_streams_have_the_bytes_that_were_read_by_people(stream: Stream) -> None:
    path = GOLDEN / f"{stream.name}.sse"
    made = encode(records_of(stream, expose_state=True), NEW)

    if "AGENTKIT_WRITE_GOLDEN" in os.environ:  # then read the difference
        path.write_bytes(made)

    assert made == path.read_bytes()


@pytest.mark.parametrize("options", [NEW, OLD], ids=["1.0", "0.0.59"])
@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_own_streams_are_what_the_specification_wants(stream: Stream, options: Options) -> None:
    watcher = Watcher(version=options.version)

    events = [event for _, event in frames_of(encode(records_of(stream), options))]

    watcher.watch(events, run="client-run", thread="t1")


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_a_stream_resumed_after_any_frame_gets_exactly_the_rest(stream: Stream) -> None:
    records = records_of(stream, expose_state=True)
    whole = frames_of(encode(records, NEW))

    for place, (last, _) in enumerate(whole, 1):
        seq, _, had = last.removeprefix("E-").partition(".")
        skip = (int(seq), int(had)) if had else (0, 0)
        after = int(seq) - 1 if had else int(seq)
        options = Options("t1", "client-run", "1.0", state='{"n":1}', skip=skip)

        assert frames_of(encode(records, options, after=after)) == whole[place:]


SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
VERSIONS = st.sampled_from(["1.0", ""])


@given(legs=runs(), version=VERSIONS)
@settings(max_examples=40, suppress_health_check=SLOW)
def test_random_runs_are_what_the_specification_wants(legs: list[list[Event]], version: str) -> None:
    watch(legs, version)


@pytest.mark.full
@pytest.mark.timeout(120)
@given(legs=runs(), version=VERSIONS)
@settings(max_examples=600, suppress_health_check=SLOW)
def test_many_random_runs_are_what_the_specification_wants(legs: list[list[Event]], version: str) -> None:
    watch(legs, version)


def watch(legs: list[list[Event]], version: str) -> None:
    """Read each leg as a client does that asks again after each."""
    records = numbered([event for leg in legs for event in leg])
    watcher, after = Watcher(version=version), 0
    for number in range(1, len(legs) + 1):
        seen = len(numbered([event for leg in legs[:number] for event in leg]))
        options = Options("t1", f"c{number}", version)
        events = [event for _, event in frames_of(encode(records[:seen], options, after=after))]
        watcher.watch(events, run=f"c{number}", thread="t1")
        after = seen


@given(legs=runs(), data=st.data())
@settings(max_examples=20, suppress_health_check=SLOW)
def test_folding_again_up_to_any_record_changes_nothing(legs: list[list[Event]], data: st.DataObject) -> None:
    records = numbered(legs[0])
    cut = data.draw(st.integers(0, len(records)))
    encoder = AGUI(NEW)
    state = encoder.start()
    for record in records[:cut]:
        state, _ = encoder.step(state, record)
    kept = repr(state)

    rest: list[bytes] = []
    again: list[bytes] = []
    for out in (rest, again):
        here = state
        for record in records[cut:]:
            here, frames = encoder.step(here, record)
            out.append(frames)

    assert rest == again
    assert b"".join(rest) == encode(records, NEW, after=cut)
    assert repr(state) == kept


def test_opaque_state_stays_here_unless_the_log_has_it() -> None:
    stream = next(stream for stream in STREAMS if stream.name == "anthropic-thinking")

    hidden = encode(records_of(stream), NEW)
    shown = frames_of(encode(records_of(stream, expose_state=True), NEW))

    assert b"ENCRYPTED" not in hidden
    [value] = [event["encryptedValue"] for _, event in shown if event["type"] == "REASONING_ENCRYPTED_VALUE"]
    envelope = json.loads(base64.urlsafe_b64decode(value))
    assert envelope.keys() == {"v", "provider", "signature", "signature_format"}
    assert envelope["signature"].encode() in stream.body


def test_an_operator_that_shows_no_reasoning_shows_none() -> None:
    stream = next(stream for stream in STREAMS if stream.name == "anthropic-thinking")
    view = View("ag_ui", (("run", "c"), ("version", "1.0")), exposure="none", run=RUN)
    encoder = PROTOCOLS["ag_ui"](TOPIC, view)
    state, out = encoder.start(), b""
    for record in records_of(stream):
        if view.admits(record):
            state, frames = encoder.step(state, record)
            out += frames

    assert b"REASONING" not in out
    Watcher().watch([event for _, event in frames_of(out)], run="c", thread="t1")


def test_ids_of_two_runs_never_meet_although_the_provider_repeats_its_own() -> None:
    stream = next(stream for stream in STREAMS if stream.name == "ollama-call")
    watcher = Watcher()

    for number in (1, 2):
        made = encode(records_of(stream, run=f"run_{number}"), Options("t1", f"c{number}", "1.0"))
        watcher.watch([event for _, event in frames_of(made)])


def test_an_end_before_the_beginning_is_a_whole_stream_all_the_same() -> None:
    events = events_of([RunFailed(RUN, 0, 1.5, "cancelled", "in the queue", False)])

    assert [event["type"] for event in events] == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_ERROR"]
    assert events[2] == {
        "type": "RUN_ERROR",
        "timestamp": 1500,
        "metadata": {"seq": 1},
        "message": "in the queue",
        "code": "cancelled",
        "usage": [
            {
                "inputTokens": 0,
                "outputTokens": 0,
                "totalTokens": 0,
                "reasoningTokens": 0,
                "cachedInputTokens": 0,
                "cacheWriteInputTokens": 0,
            }
        ],
    }


def test_a_parent_run_and_the_state_are_told_at_the_start() -> None:
    options = Options("t1", "c2", "1.0", parent="c1", state='{"items":[1,null]}')

    started, snapshot, *_ = events_of([RunStarted(RUN, 0, 0, "demo", "t1")], options)

    assert (started["parentRunId"], started["protocolVersion"]) == ("c1", "1.0")
    assert snapshot["snapshot"] == {"items": [1, None]}


def test_what_ai_clients_of_before_sub_agents_see_of_a_call_that_broke_off_is_a_result() -> None:
    block = f"{RUN}.1.0"
    events = events_of(
        [
            RunStarted(RUN, 0, 0, "demo", "t1"),
            StepStarted(RUN, 1, 0, "m", "p"),
            ToolCallStarted(RUN, 1, 0, block, "c1", "rain"),
            RunFinished(RUN, 0, 0, "", "length", Usage()),
        ],
        OLD,
    )

    assert [event["type"] for event in events[2:]] == [
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]


def test_nothing_follows_the_end() -> None:
    events = events_of(
        [
            RunStarted(RUN, 0, 0, "demo", "t1"),
            RunFinished(RUN, 0, 0, "", "stop", Usage()),
            TextDelta(RUN, 1, 0, f"{RUN}.1.0", "a straggler"),
        ]
    )

    assert [event["type"] for event in events] == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"]


def test_control_frames() -> None:
    encoder = AGUI(OLD)
    place = Cursor("E", 9)

    assert encoder.hello(place, 9, resumed=False, retry_ms=1) == b""
    assert encoder.position(place) == encoder.end(place) == encoder.closing(1) == b""
    assert encoder.beat() == b":\n\n"
    assert encoder.gap(Gap("trimmed", 3, 9), place) == (
        b'data: {"type":"CUSTOM","metadata":{"seq":9},"name":"stream.gap","value":{"from":3,"to":9,"reason":"trimmed"}}\n\n'
    )
    assert encoder.gap(Gap("deleted", 3, 9), place) == (
        b'data: {"type":"RUN_ERROR","message":"the thread was deleted","code":"thread_deleted"}\n\n'
    )


def test_a_view_says_what_the_input_said() -> None:
    options = (("run", "c"), ("version", "1.0"), ("parent", "b"), ("state", "{}"), ("skip", "7.2"))

    assert Options.of("t1", options) == Options("t1", "c", "1.0", "b", "{}", (7, 2))
    assert Options.of("t1", ()) == Options("t1", "")
