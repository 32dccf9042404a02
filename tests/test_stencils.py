from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import envelope
from agentkit.envelope import draft_all
from agentkit.events import Event, Parent, Reasoning, ReasoningEvent, TextDelta, ToolCallDelta
from agentkit.log import Draft, Topic
from agentkit.stencils import LONGEST, Stencils, timestamp

pytestmark = pytest.mark.pure

TOPIC = Topic("", "a", 'say "time":"1970-01-01T00:00:00.000Z"')
TEXTS = st.text(st.characters(), max_size=40)  # halves of surrogate pairs too
TIMES = st.floats(min_value=0, max_value=4e9)
IDS = st.sampled_from(["r", "b", 'q"', "\u00fc"])


def nothing(topic: Topic, event: Event) -> list[Draft]:
    raise AssertionError("every delta has a stencil")


def reasoning(run: str, step: int, time: float, block: str, kind: str, provider: str, text: str) -> Event:
    return Reasoning(run, step, time, block, ReasoningEvent(kind, provider, text))  # type: ignore[arg-type]


DELTAS = st.one_of(
    st.builds(TextDelta, IDS, st.integers(0, 2), TIMES, IDS, TEXTS),
    st.builds(ToolCallDelta, IDS, st.integers(0, 2), TIMES, IDS, IDS, TEXTS),
    st.builds(
        reasoning, IDS, st.integers(0, 2), TIMES, IDS, st.sampled_from(["delta", "summary"]), IDS, TEXTS
    ),
)


@given(st.lists(DELTAS, max_size=8))
def test_a_stencil_gives_what_the_envelope_would(events: list[Event]) -> None:
    stencils = Stencils(envelope._draft_whole)

    cut = stencils.draft(TOPIC, events, nothing)

    assert cut == [envelope._draft_whole(TOPIC, event) for event in events]


@pytest.mark.parametrize(
    "event",
    [
        TextDelta("r", 1, 0.0, "b", "x" * (LONGEST + 1)),
        TextDelta("r", 1, 0.0, "b", "x", parent=Parent("p", "c")),
        Reasoning("r", 1, 0.0, "b", ReasoningEvent("delta", "p", "x", {"part": 1})),
        Reasoning("r", 1, 0.0, "b", ReasoningEvent("signature", "p", None, {"signature": "s"})),
        Reasoning("r", 1, 0.0, "b", ReasoningEvent("signature", "p", "")),
        Reasoning("r", 1, 0.0, "b", ReasoningEvent("state", "p", "x")),
    ],
    ids=["long", "of-a-sub-agent", "with-data", "signature", "signature-with-text", "state-with-text"],
)
def test_what_a_stencil_does_not_fit_is_left_to_the_envelope(event: Event) -> None:
    left: list[Event] = []

    def rest(_: Topic, event: Event) -> list[Draft]:
        left.append(event)
        return []

    assert Stencils(envelope._draft_whole).draft(TOPIC, [event], rest) == []
    assert left == [event]


def test_deltas_of_one_block_render_it_once() -> None:
    rendered: list[Event] = []

    def render(topic: Topic, event: Event) -> Draft:
        rendered.append(event)
        return envelope._draft_whole(topic, event)

    stencils = Stencils(render)
    event = TextDelta("r", 1, 1.0, "b", "x")
    for time in range(100):
        stencils.draft(TOPIC, [replace(event, time=float(time))], nothing)
    stencils.draft(TOPIC._replace(thread="other"), [event], nothing)

    assert [each.time for each in rendered] == [0.0, 0.0]


def test_stencils_are_bounded() -> None:
    stencils = Stencils(envelope._draft_whole)
    for number in range(3000):
        stencils.draft(TOPIC, [TextDelta("r", 1, 1.0, f"r.1.{number}", "x")], nothing)

    assert len(stencils._cut) <= 1024


@given(TIMES)
def test_a_timestamp_is_the_standard_librarys(time: float) -> None:
    said = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")

    assert timestamp(time) == said.replace("+00:00", "Z")


def test_all_events_of_a_read_keep_their_order() -> None:
    events: list[Event] = [
        TextDelta("r", 1, 1.0, "b", "one"),
        Reasoning("r", 1, 1.0, "c", ReasoningEvent("signature", "p", None, {"signature": "s"})),
        TextDelta("r", 1, 1.0, "b", "two"),
    ]

    assert [(draft.type, draft.kind) for draft in draft_all(TOPIC, events)] == [
        ("text.delta", ""),
        ("reasoning", "signature"),
        ("text.delta", ""),
    ]
