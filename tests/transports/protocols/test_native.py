"""The native protocol's bytes: exact, and read back by the decoder that clients use."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.log import Cursor, Gap, Record
from agentkit.sse import ServerSentEvent, SSEDecoder
from agentkit_transports.protocols.native import NativeSocket, NativeSSE

pytestmark = pytest.mark.pure


def record(type: str = "text.delta", *, seq: int = 42, data: Any = None) -> Record:  # noqa: A002
    body = {"type": type, "agent": "a", "thread": "t", "data": {"text": "x"} if data is None else data}
    return Record("E", seq, type, "", "r1", "", 0.0, json.dumps(body, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    ("made", "bytes_", "event"),
    [
        pytest.param(
            NativeSSE().step((), record())[1],
            b'id: E-42\nevent: text.delta\ndata: {"v":1,"id":"E-42","seq":42,"type": "text.delta", "agent": "a", "thread": "t",'
            b' "data": {"text": "x"}}\n\n',
            ("text.delta", "E-42", None),
            id="a record",
        ),
        pytest.param(
            NativeSSE(named=False).step((), record())[1],
            b'id: E-42\ndata: {"v":1,"id":"E-42","seq":42,"type": "text.delta", "agent": "a", "thread": "t", "data": {"text": "x"}}\n\n',
            ("", "E-42", None),
            id="a record without its name",
        ),
        pytest.param(
            NativeSSE().hello(Cursor("E", 0), 7, resumed=False, retry_ms=1500),
            b'id: E-0\nretry: 1500\ndata: {"v":1,"type":"stream.hello","data":{"epoch":"E","after":0,"head":7,"resumed":false}}\n\n',
            ("", "E-0", 1500),
            id="hello",
        ),
        pytest.param(
            NativeSSE().gap(Gap("trimmed", 3, 9), Cursor("E", 9)),
            b'id: E-9\ndata: {"v":1,"type":"stream.gap","data":{"from":3,"to":9,"reason":"trimmed"}}\n\n',
            ("", "E-9", None),
            id="gap",
        ),
        pytest.param(
            NativeSSE().position(Cursor("E", 500)),
            b'id: E-500\ndata: {"v":1,"type":"stream.position","data":{}}\n\n',
            ("", "E-500", None),
            id="position",
        ),
        pytest.param(
            NativeSSE().end(Cursor("E", 8)),
            b'id: E-8\ndata: {"v":1,"type":"stream.end","data":{}}\n\n',
            ("", "E-8", None),
            id="end",
        ),
        pytest.param(
            NativeSSE().closing(2000),
            b'retry: 2000\ndata: {"v":1,"type":"stream.closing","data":{"retry_ms":2000}}\n\n',
            ("", None, 2000),
            id="closing",
        ),
    ],
)
def test_sse_frames_are_these_bytes(
    made: bytes, bytes_: bytes, event: tuple[str, str | None, int | None]
) -> None:
    (seen,) = SSEDecoder().feed(made)

    assert made == bytes_
    assert (seen.event, seen.id, seen.retry) == event
    json.loads(seen.data)


def test_a_beat_is_a_comment() -> None:
    assert NativeSSE().beat() == b":\n\n"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        pytest.param(
            NativeSocket("agents/a/threads/t").join([record(seq=1).wire, record(seq=2).wire]),
            {
                "op": "ev",
                "topic": "agents/a/threads/t",
                "e": [
                    {
                        "v": 1,
                        "id": f"E-{n}",
                        "seq": n,
                        "type": "text.delta",
                        "agent": "a",
                        "thread": "t",
                        "data": {"text": "x"},
                    }
                    for n in (1, 2)
                ],
            },
            id="ev",
        ),
        pytest.param(
            NativeSocket("agents/a/threads/t").gap(Gap("epoch", 0, 0), Cursor("E", 0)),
            {"op": "gap", "topic": "agents/a/threads/t", "id": "E-0", "from": 0, "to": 0, "reason": "epoch"},
            id="gap",
        ),
        pytest.param(
            NativeSocket("agents/a/threads/t").end(Cursor("E", 8)),
            {"op": "end", "topic": "agents/a/threads/t", "id": "E-8"},
            id="end",
        ),
        pytest.param(
            NativeSocket("agents/a/threads/t").position(Cursor("E", 8)),
            {"op": "ev", "topic": "agents/a/threads/t", "e": [], "id": "E-8"},
            id="position",
        ),
    ],
)
def test_socket_frames_are_this_json(made: bytes, wanted: Any) -> None:
    assert json.loads(made) == wanted


def test_a_socket_has_other_ways_for_hello_farewell_and_signs_of_life() -> None:
    socket = NativeSocket("agents/a/threads/t")

    assert (socket.hello(Cursor("E", 0), 0, resumed=False, retry_ms=1), socket.closing(1), socket.beat()) == (
        b"",
        b"",
        b"",
    )


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXT, st.booleans()), max_size=8), st.integers(1, 40))
def test_any_text_comes_back_whole_however_the_bytes_are_cut(
    texts: list[tuple[str, bool]], size: int
) -> None:
    records = [record(seq=seq, data={"text": text}) for seq, (text, _) in enumerate(texts, 1)]
    encoders = [NativeSSE(named=named) for _, named in texts]
    body = b"".join(encoder.step((), one)[1] for encoder, one in zip(encoders, records, strict=True))

    decoder = SSEDecoder()
    seen: list[ServerSentEvent] = []
    for start in range(0, len(body), size):
        seen += decoder.feed(body[start : start + size])

    assert [(event.id, event.event, json.loads(event.data)["data"]["text"]) for event in seen] == [
        (f"E-{seq}", "text.delta" if named else "", text) for seq, (text, named) in enumerate(texts, 1)
    ]
