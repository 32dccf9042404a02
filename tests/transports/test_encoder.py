"""Views: what a client's words ask for, and which records that is."""

import pytest

from agentkit.errors import WireError
from agentkit.log import Record, Topic
from agentkit_transports.encoder import PROTOCOLS, Exposure, View, parse_view
from agentkit_transports.protocols.native import NativeSocket, NativeSSE

pytestmark = pytest.mark.pure

ALL = [
    "run.started",
    "reasoning_block.started",
    "reasoning/delta",
    "reasoning/summary",
    "reasoning/signature",
    "reasoning/state",
    "reasoning_block.finished",
    "text.delta",
    "textual",
    "image",
    "order.shipped",
    "run.finished",
]


def record(name: str, run: str = "r1") -> Record:
    kind = name.partition("/")[2]
    return Record("E", 1, name.partition("/")[0], kind, run, "", 0.0, b"{}", name == "run.finished")


@pytest.mark.parametrize(
    ("view", "admitted"),
    [
        pytest.param(View(), ALL, id="all"),
        pytest.param(View(types=("text",)), ["text.delta"], id="a noun"),
        pytest.param(View(types=("text.delta", "image")), ["text.delta", "image"], id="whole names"),
        pytest.param(View(types=("run",)), ["run.started", "run.finished"], id="a noun of several"),
        pytest.param(View(types=("reasoning",)), ALL[1:7], id="reasoning brings its blocks"),
        pytest.param(View(types=("reasoning_block",)), [ALL[1], ALL[6]], id="blocks alone"),
        pytest.param(View(types=("order",)), ["order.shipped"], id="the application's own"),
        pytest.param(View(kinds=("delta",)), [*ALL[:3], *ALL[6:]], id="kinds filter reasoning only"),
        pytest.param(
            View(types=("reasoning", "text"), kinds=("delta", "summary")),
            [*ALL[1:4], "reasoning_block.finished", "text.delta"],
            id="types and kinds",
        ),
        pytest.param(View(exposure="none"), ["run.started", *ALL[7:]], id="no reasoning"),
        pytest.param(View(exposure="summary"), [*ALL[:2], "reasoning/summary", *ALL[6:]], id="summaries"),
        pytest.param(View(exposure="none", types=("reasoning",)), [], id="the operator's word counts"),
        pytest.param(View(run="r2"), [], id="another run"),
        pytest.param(View(run="r1", types=("image",)), ["image"], id="a run and a type"),
    ],
)
def test_a_view_admits(view: View, admitted: list[str]) -> None:
    assert [name for name in ALL if view.admits(record(name))] == admitted


@pytest.mark.parametrize(
    ("view", "admitted"),
    [
        (View(), ["r1", "r2", ""]),
        (View(run="r1"), ["r1"]),
        (View(run="r1", beside=True), ["r1", ""]),
    ],
)
def test_a_view_of_a_run_may_have_what_stands_beside_it(view: View, admitted: list[str]) -> None:
    assert [run for run in ("r1", "r2", "") if view.admits(record("order.shipped", run))] == admitted


def test_equal_wishes_are_equal_views() -> None:
    one = parse_view(types=["text,reasoning", "image"], kinds=["delta"], run="r1")
    other = parse_view(
        types=["image", "reasoning", "text,image"], kinds=["delta", "delta"], run="r1", named="1"
    )

    assert one == other == View(types=("image", "reasoning", "text"), kinds=("delta",), run="r1")
    assert hash(one) == hash(other)


def test_empty_values_ask_for_everything() -> None:
    assert parse_view(types=["", ""], kinds=[""]) == View()
    assert not View().is_filtered


@pytest.mark.parametrize(
    "view", [View(types=("x",)), View(kinds=("delta",)), View(run="r"), View(exposure="summary")]
)
def test_a_view_that_leaves_out_records_is_filtered(view: View) -> None:
    assert view.is_filtered


@pytest.mark.parametrize(
    ("words", "field"),
    [
        pytest.param({"types": ["Text"]}, "types", id="an upper case type"),
        pytest.param({"types": ["a\nb"]}, "types", id="a line break"),
        pytest.param({"types": ["text,,image"]}, "types", id="an empty name"),
        pytest.param({"types": ["x" * 65]}, "types", id="a long name"),
        pytest.param({"types": [f"t{number}" for number in range(33)]}, "types", id="too many"),
        pytest.param({"types": ["te*t"]}, "types", id="a pattern"),
        pytest.param({"kinds": ["deltas"]}, "kinds", id="an unknown kind"),
        pytest.param({"run": "../x"}, "run", id="a path"),
        pytest.param({"run": "r" * 200}, "run", id="a long run"),
        pytest.param({"run": "r１"}, "run", id="a full-width digit"),
        pytest.param({"named": "yes"}, "named", id="a word for a bit"),
        pytest.param({"named": ""}, "named", id="nothing for a bit"),
    ],
)
def test_a_wrong_word_names_its_field(words: dict[str, list[str]], field: str) -> None:
    with pytest.raises(WireError, match=f"^{field}: "):
        parse_view(**words)  # type: ignore[arg-type]  # words are strings or lists of them


@pytest.mark.parametrize("exposure", ["full", "summary", "none"])
def test_exposure_is_the_operators(exposure: Exposure) -> None:
    assert parse_view(exposure=exposure).exposure == exposure


def test_the_table_makes_encoders_for_a_topic_and_a_view() -> None:
    topic = Topic("tenant", "planner", "t1")

    sse = PROTOCOLS["native"](topic, View(named=False))
    socket = PROTOCOLS["native.socket"](topic, View("native.socket"))

    assert isinstance(sse, NativeSSE)
    assert not sse.named
    assert isinstance(socket, NativeSocket)
    assert socket.join([b"{}"]) == b'{"op":"ev","topic":"agents/planner/threads/t1","e":[{}]}'
