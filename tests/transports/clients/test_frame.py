import pytest

from agentkit.errors import WireError
from agentkit.log import Cursor
from agentkit.log import Gap as Loss
from agentkit.sse import ServerSentEvent, SSEDecoder
from agentkit_transports.clients.envelope import Envelope, Gap
from agentkit_transports.clients.frame import (
    Closing,
    End,
    Hello,
    Moved,
    Retry,
    frames_of_event,
    frames_of_message,
    parse_object,
)
from agentkit_transports.protocols.native import NativeSocket, NativeSSE

pytestmark = pytest.mark.pure


def test_what_the_server_frames_is_read_back() -> None:
    protocol = NativeSSE(exposure="none")
    data = protocol.hello(Cursor("E", 4), 9, resumed=True, retry_ms=1500)
    data += protocol.gap(Loss("trimmed", 1, 7), Cursor("E", 7)) + protocol.beat()
    data += protocol.position(Cursor("E", 8)) + protocol.closing(2000) + protocol.end(Cursor("E", 9))

    told = [frame for event in SSEDecoder().feed(data) for frame in frames_of_event(event)]

    assert told == [
        Retry(1.5), Hello("E-4", 9, resumed=True, hides=True), Gap("trimmed", 1, 7, "E-7"), Moved("E-8"), Retry(2.0), Closing(2.0),
        End("E-9", deleted=False),
    ]  # fmt: skip


def test_what_the_server_says_on_a_socket_is_read_back() -> None:
    protocol = NativeSocket("agents/a/threads/t")
    frames = [protocol.gap(Loss("epoch", 1, 0), Cursor("E", 0)), protocol.position(Cursor("E", 8)), protocol.end(Cursor("E", 9))]  # fmt: skip

    told = [frame for data in frames for frame in frames_of_message(parse_object(data.decode()))]

    assert told == [Gap("epoch", 1, 0, "E-0"), Moved("E-8"), End("E-9", deleted=False)]


def test_what_is_unknown_is_passed_over() -> None:
    event = ServerSentEvent(data='{"v":1,"type":"stream.weather","data":{"rain":true}}', id="E-1")

    assert frames_of_event(event) == []
    assert frames_of_message({"op": "weather"}) == []
    assert frames_of_message({"op": "welcome", "limits": {}}) == []


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("1500", 1.5), ("0", 0), ("-5", 0), ("1e999", 0), ("NaN", 0), ("null", 0), ('"5"', 0), ("9" * 30, 0)],
)
def test_how_long_to_wait_is_a_time_that_one_can_wait(said: str, seconds: float) -> None:
    event = ServerSentEvent(data='{"type":"stream.closing","data":{"retry_ms":' + said + "}}")

    assert frames_of_event(event) == [Closing(seconds)]


@pytest.mark.parametrize(
    "data",
    ["", "x", "3", "[]", "[" * 100_000, '{"type":"stream.gap","data":{}}', '{"type":"stream.position"}', '{"type":"stream.hello","data":{}}', '{"seq":1}'],
    ids=lambda data: data[:20],
)  # fmt: skip
def test_what_breaks_the_protocol_is_refused(data: str) -> None:
    with pytest.raises(WireError):
        frames_of_event(ServerSentEvent(data=data))


def test_an_ev_frame_holds_envelopes() -> None:
    record = {"id": "e-2", "seq": 2, "type": "x"}

    (told,) = frames_of_message({"op": "ev", "topic": "t", "e": [record]})

    assert isinstance(told, Envelope) and told.id == "e-2"


def test_half_a_surrogate_pair_is_read_too() -> None:
    assert parse_object('{"text":"\\ud83d"}') == {"text": "\ud83d"}
