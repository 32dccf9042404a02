"""The socket's conversation: one table of frames and what they ask for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.log import EARLIEST, NOW, Cursor
from agentkit_transports.problem import Problem
from agentkit_transports.session import (
    Action,
    Approve,
    Authenticate,
    CancelRun,
    Close,
    CloseCode,
    Reply,
    Session,
    SessionLimits,
    StartRun,
    Steer,
    Subscribe,
    Unsubscribe,
    bye,
    err,
    ok,
)

pytestmark = pytest.mark.pure

TOPIC = "agents/a/threads/t"
LIMITS = SessionLimits()


def session(limits: SessionLimits = LIMITS, *, known: bool = True) -> Session:
    return Session(limits, is_authenticated=known, now=0.0)


def say(one: Session, frame: Any, now: float = 0.0) -> list[Action]:
    return one.text(frame if isinstance(frame, str) else json.dumps(frame), now)


def replies(actions: list[Action]) -> list[Any]:
    return [json.loads(action.data) for action in actions if isinstance(action, Reply)]


def refusal(actions: list[Action]) -> tuple[str, str]:
    (frame,) = replies(actions)
    assert frame["op"] == "err"
    return frame["problem"]["code"], frame["problem"].get("field", "")


@pytest.mark.parametrize(
    ("frame", "action"),
    [
        pytest.param(
            {"op": "sub", "rid": "1", "topic": TOPIC},
            Subscribe("1", TOPIC, "a", "t", NOW, "", [], []),
            id="sub",
        ),
        pytest.param(
            {
                "op": "sub", "rid": 2, "topic": TOPIC, "run": "r1", "after": "E-4", "types": ["text"], "kinds": ["delta"], "merge": True,
            },
            Subscribe(2, TOPIC, "a", "t", Cursor("E", 4), "r1", ["text"], ["delta"], merge=True),
            id="sub with all",
        ),
        pytest.param(
            {"op": "sub", "rid": "", "topic": TOPIC, "after": "earliest"},
            Subscribe("", TOPIC, "a", "t", EARLIEST, "", [], []),
            id="sub from the earliest",
        ),
        pytest.param(
            {"op": "run", "rid": "3", "agent": "a", "thread": "t", "input": "hi"},
            StartRun("3", "a", "t", "hi"),
            id="run",
        ),
        pytest.param(
            {"op": "run", "rid": "3", "agent": "a", "thread": "t", "input": [{"type": "text"}], "idem": "k"},
            StartRun("3", "a", "t", [{"type": "text"}], "k"),
            id="run with blocks",
        ),
        pytest.param(
            {"op": "cancel", "rid": "4", "agent": "a", "thread": "t", "run": "r1"},
            CancelRun("4", "a", "t", "r1"),
            id="cancel",
        ),
        pytest.param(
            {"op": "steer", "rid": "5", "agent": "a", "thread": "t", "run": "r1", "input": "left"},
            Steer("5", "a", "t", "r1", "left"),
            id="steer",
        ),
        pytest.param(
            {"op": "approve", "rid": "6", "agent": "a", "thread": "t", "run": "r1", "approval": "p", "approved": False, "reason": "no"},
            Approve("6", "a", "t", "r1", "p", approved=False, reason="no"),
            id="approve",
        ),
        pytest.param({"op": "hello", "auth": "token"}, Authenticate("token"), id="hello with a token"),
        pytest.param({"op": "ping", "t": 1.5}, Reply(b'{"op":"pong","t":1.5}'), id="ping"),
        pytest.param({"op": "ping"}, Reply(b'{"op":"pong"}'), id="ping without t"),
    ],
)  # fmt: skip
def test_a_frame_asks_for(frame: Any, action: Action) -> None:
    assert say(session(), frame) == [action]


def test_hello_is_answered_by_a_welcome_with_the_limits() -> None:
    assert replies(say(session(), {"op": "hello", "v": 1})) == [
        {
            "op": "welcome",
            "v": 1,
            "limits": {"frame_size": 65536, "subscriptions": 32, "errors": 10, "rate": 20.0, "burst": 40},
        }
    ]


@pytest.mark.parametrize(
    ("frame", "code", "field"),
    [
        pytest.param("", "malformed", "", id="nothing"),
        pytest.param("hello", "malformed", "", id="a word"),
        pytest.param("[]", "malformed", "", id="a list"),
        pytest.param("null", "malformed", "", id="null"),
        pytest.param("[" * 60_000, "malformed", "", id="deep"),
        pytest.param('{"op":"ping","t":' + "9" * 5000 + "}", "malformed", "", id="5,000 digits"),
        pytest.param('{"op":"ping","t":NaN}', "malformed", "", id="NaN"),
        pytest.param('{"op":"ping","op":"ping"}', "malformed", "", id="a key twice"),
        pytest.param('{"op":"ping","t":"\\ud800"}', "malformed", "", id="half a surrogate pair"),
        pytest.param({}, "malformed", "op", id="no op"),
        pytest.param({"op": "dance", "rid": "1"}, "malformed", "op", id="an unknown op"),
        pytest.param({"op": ["sub"]}, "malformed", "op", id="an op of another kind"),
        pytest.param({"op": "sub", "topic": TOPIC}, "malformed", "rid", id="no rid"),
        pytest.param({"op": "sub", "rid": True, "topic": TOPIC}, "malformed", "rid", id="a rid of another kind"),
        pytest.param({"op": "sub", "rid": "r" * 65, "topic": TOPIC}, "malformed", "rid", id="a long rid"),
        pytest.param({"op": "sub", "rid": "1", "topic": "x"}, "malformed", "topic", id="no topic's name"),
        pytest.param({"op": "sub", "rid": "1", "topic": "agents/a/threads/../t"}, "malformed", "topic", id="a path"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC + "\n"}, "malformed", "topic", id="a line break"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "after": "E-"}, "malformed", "after", id="a cut cursor"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "after": -1}, "malformed", "after", id="a number for a cursor"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "types": "text"}, "malformed", "types", id="a name for a list"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "types": ["T"]}, "malformed", "types", id="no type's name"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "kinds": ["x"]}, "malformed", "kinds", id="an unknown kind"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "run": "a b"}, "malformed", "run", id="no run's id"),
        pytest.param({"op": "sub", "rid": "1", "topic": TOPIC, "afer": "now"}, "malformed", "afer", id="a typo"),
        pytest.param({"op": "unsub", "rid": "1", "topic": TOPIC}, "not_subscribed", "topic", id="unsub of nothing"),
        pytest.param({"op": "run", "rid": "1", "agent": "a", "thread": "t"}, "malformed", "input", id="no input"),
        pytest.param({"op": "run", "rid": "1", "agent": "", "thread": "t", "input": ""}, "malformed", "agent", id="an empty agent"),
        pytest.param({"op": "approve", "rid": "1", "agent": "a", "thread": "t", "run": "r", "approval": "p", "approved": "yes"}, "malformed", "approved", id="a word for a bit"),
        pytest.param({"op": "hello", "v": 2}, "malformed", "v", id="another version"),
        pytest.param({"op": "hello", "auth": ""}, "malformed", "auth", id="an empty token"),
    ],
)  # fmt: skip
def test_a_wrong_frame_is_refused_and_the_socket_lives(frame: Any, code: str, field: str) -> None:
    one = session()

    actions = say(one, frame)

    assert refusal(actions) == (code, field)
    assert len(actions) == 1
    assert one.topics == []


@pytest.mark.parametrize(
    ("frame", "rid"),
    [
        pytest.param({"op": "sub", "rid": "7"}, "7", id="text"),
        pytest.param({"op": "dance", "rid": 7}, 7, id="a number"),
        pytest.param({"op": "sub", "rid": False}, None, id="neither"),
        pytest.param("[]", None, id="no object"),
    ],
)
def test_a_refusal_names_the_request_where_it_can(frame: Any, rid: Any) -> None:
    (answer,) = replies(say(session(), frame))

    assert answer.get("rid") == rid


def test_the_tenth_wrong_frame_closes_the_socket() -> None:
    one = session()
    for _ in range(9):
        assert len(say(one, "{")) == 1

    assert say(one, "{")[1:] == [Close(CloseCode.TOO_MANY_ERRORS, "too many errors")]


def test_refusals_of_good_frames_are_not_counted() -> None:
    one = session(SessionLimits(burst=100))
    for _ in range(50):
        assert len(say(one, {"op": "unsub", "rid": "1", "topic": TOPIC})) == 1


@pytest.mark.parametrize(
    "text", ["x" * 65537, "é" * 32769, "𝄞" * 16385], ids=["ascii", "two bytes", "four bytes"]
)
def test_an_oversized_frame_closes_with_1009(text: str) -> None:
    assert say(session(), text) == [Close(CloseCode.TOO_BIG, "a frame may have 65536 bytes")]


def test_a_binary_frame_closes_with_4501() -> None:
    assert session().binary() == [Close(CloseCode.MALFORMED, "frames are text")]


def test_frames_beyond_the_rate_close_with_4006_and_time_brings_new_ones() -> None:
    one = session(SessionLimits(rate=10.0, burst=3))
    ping = {"op": "ping"}

    assert [isinstance(say(one, ping)[0], Reply) for _ in range(3)] == [True] * 3
    assert say(one, ping) == [Close(CloseCode.RATE, "too many frames")]
    assert isinstance(say(one, ping, now=0.1)[0], Reply)
    assert say(one, ping, now=0.1) == [Close(CloseCode.RATE, "too many frames")]
    assert [isinstance(say(one, ping, now=99.0)[0], Reply) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    one = session(SessionLimits(rate=10.0, burst=3))

    assert [isinstance(say(one, {"op": "ping"}, now=-5.0)[0], Reply) for _ in range(3)] == [True] * 3


def test_before_hello_only_hello_and_ping_are_heard() -> None:
    one = session(known=False)

    assert refusal(say(one, {"op": "sub", "rid": "1", "topic": TOPIC})) == ("unauthenticated", "")
    assert refusal(say(one, {"op": "run", "rid": "1", "agent": "a", "thread": "t", "input": ""})) == (
        "unauthenticated",
        "",
    )
    assert refusal(say(one, {"op": "hello"})) == ("unauthenticated", "auth")
    assert say(one, {"op": "ping"}) == [Reply(b'{"op":"pong"}')]
    assert say(one, {"op": "hello", "auth": "t"}) == [Authenticate("t")]
    assert one.hello_timeout() == [Close(CloseCode.AUTH_TIMEOUT, "no hello")]

    assert [frame["op"] for frame in replies(one.authenticated())] == ["welcome"]
    assert isinstance(say(one, {"op": "sub", "rid": "1", "topic": TOPIC})[0], Subscribe)


def test_a_topic_can_be_subscribed_once_and_again_after_it_ended() -> None:
    one = session()
    sub = {"op": "sub", "rid": "1", "topic": TOPIC}

    assert isinstance(say(one, sub)[0], Subscribe)
    assert refusal(say(one, sub)) == ("already_subscribed", "topic")
    assert say(one, {"op": "unsub", "rid": "2", "topic": TOPIC}) == [Unsubscribe("2", TOPIC)]
    assert isinstance(say(one, sub)[0], Subscribe)
    one.unsubscribed(TOPIC)
    assert isinstance(say(one, sub)[0], Subscribe)


def test_a_socket_has_so_many_subscriptions() -> None:
    one = session(SessionLimits(subscriptions=2))
    for number in range(2):
        say(one, {"op": "sub", "rid": "1", "topic": f"{TOPIC}{number}"})

    assert refusal(say(one, {"op": "sub", "rid": "1", "topic": TOPIC})) == ("too_many_subscriptions", "")


def test_answers_are_this_json() -> None:
    assert json.loads(ok("1", {"run": "r1"})) == {"op": "ok", "rid": "1", "run": "r1"}
    assert json.loads(err(None, Problem(404, "not_found"))) == {
        "op": "err",
        "problem": {"type": "about:blank", "title": "Not Found", "status": 404, "code": "not_found"},
    }
    assert json.loads(bye(CloseCode.DRAINING, 1200)) == {"op": "bye", "code": 4000, "retry_ms": 1200}


def test_close_codes_tell_whether_to_come_back() -> None:
    assert [code for code in CloseCode if code.means_return] == list(range(4000, 4008))
    assert [code for code in CloseCode if code >= 4500] == [4500, 4501, 4502, 4503, 4504, 4505, 4509]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FRAMES = st.fixed_dictionaries(
    {},
    optional={
        name: JSON
        | st.sampled_from(["hello", "sub", "unsub", "run", "cancel", "steer", "approve", "ping", TOPIC, "1"])
        for name in (
            "op",
            "rid",
            "topic",
            "run",
            "after",
            "types",
            "kinds",
            "agent",
            "thread",
            "input",
            "auth",
            "t",
        )
    },
)


@given(st.lists(FRAMES.map(json.dumps) | st.text(max_size=40), max_size=4), st.booleans())
def test_no_frame_raises_and_every_frame_is_answered(frames: list[str], known: bool) -> None:
    one = session(known=known)

    for frame in frames:
        assert one.text(frame, 0.0)
