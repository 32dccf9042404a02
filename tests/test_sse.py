import re
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.errors import WireError
from agentkit.sse import ServerSentEvent, SSEDecoder, encode_comment, encode_event

pytestmark = pytest.mark.pure


def event(data: str, name: str = "", *, id: str | None = None, retry: int | None = None) -> ServerSentEvent:  # noqa: A002
    return ServerSentEvent(name, data, id, retry)


def decode(body: bytes, *cuts: int) -> list[ServerSentEvent]:
    decoder = SSEDecoder()
    out: list[ServerSentEvent] = []
    for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True):
        out += decoder.feed(body[start:end])
    return out + decoder.close()


def reference(body: bytes) -> list[ServerSentEvent]:
    """The standard's algorithm, word for word, over the whole body; and the `error` lines of our own."""
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    *lines, rest = re.split("\r\n|\r|\n", text)
    out: list[ServerSentEvent] = []
    data, name, last_id, retry = "", "", None, None
    errors: list[ServerSentEvent] = []
    for line in lines:
        if line == "":
            if data != "":
                out.append(event(data[:-1], name, id=last_id, retry=retry))
            out += errors
            data, name, last_id, retry, errors = "", "", None, None, []
            continue
        field, colon, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if field == "data":
            data += value + "\n"
        elif field == "event":
            name = value
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and re.fullmatch("[0-9]{1,15}", value):
            retry = int(value)
        elif field == "error" and colon:
            errors.append(event(value, "error"))
    if rest.startswith("error:"):
        errors.append(event(rest[6:].removeprefix(" "), "error"))
    return out + errors


BODIES = {
    "anthropic": b'event: ping\ndata: {"type": "ping"}\n\nevent: stop\ndata: {}\n\n',
    "crlf": b"data: a\r\n\r\nevent: x\r\ndata: b\r\n\r\n",
    "cr": b"data: a\r\revent: x\rdata: b\r\r",
    "mixed line ends": b"data: a\r\n\rdata: b\n\r\ndata: c\r\r\ndata: d\n\n",
    "bom": b"\xef\xbb\xbfdata: a\n\n",
    "two boms": b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n",
    "half a bom": b"\xef\xbbdata: a\n\ndata: b\n\n",
    "utf-8": "data: Grüße 🌍 e\u0301\n\nevent: 名\ndata: \u2028\u0085x\n\n".encode(),
    "broken utf-8": b"data: \xf0\x9f\ndata: \xffz\n\ndata: \xc3\n\n",
    "comments": b": hi\n\n:\n\n: a\ndata: x\n: b\n\n:data: y\n\n",
    "many lines of data": b"data: a\ndata\ndata:\ndata:  b\n\ndata:\n\ndata\n\n",
    "no data, no event": b"event: x\n\nid: 1\n\nretry: 5\n\ndata: a\n\n",
    "name is not kept": b"event: x\n\ndata: a\n\n",
    "id": b"id: 1\ndata: a\n\nid\ndata: b\n\nid: \0\ndata: c\n\nid: 2\n: c\n\ndata: d\n\n",
    "retry": "retry: 10\ndata: a\n\nretry: 1x\nretry:\nretry: -1\nretry: ٣\ndata: b\n\n".encode(),
    "absurd retry": b"retry: " + b"9" * 20 + b"\ndata: a\n\n",
    "unknown fields": b"Data: a\n data: b\ndata : c\nfoo\nfoo: bar\ndata: d\n\n",
    "no space after the colon": b"data:a\n\nevent:x\ndata:b\n\n",
    "no space before the value twice": b"event: x\ndata:b\n\nevent: x\nid: 7\ndata: b\n\n",
    "many blank lines": b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n",
    "name before many lines": b"event: x\ndata: a\ndata: b\n\nevent: x\ndata: a\nid: 1\n\n",
    "name after data": b"data: a\nevent: x\n\n",
    "name twice": b"event: x\nevent: y\ndata: a\n\n",
    "name without data line": b"event: x\nfoo: y\n\n",
    "cut before its blank line": b"data: a\n\ndata: b\n",
    "cut in a line": b"data: a\n\nevent: x\ndata: b",
    "error line": b'data: a\n\nerror: {"x":1}\n\n',
    "error line at the end": b'data: a\n\nerror: {"x":1}\n',
    "error line, unfinished": b'data: a\n\ndata: lost\nerror: {"x":1}',
    "error line beside data": b"error: e\ndata: a\n\nerror\n\nerrors: x\n\n",
    "empty": b"",
}
whole = pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES.items()])


@whole
def test_a_body_reads_as_the_standard_says(body: bytes) -> None:
    assert decode(body) == reference(body)


@whole
def test_every_cut_reads_the_same(body: bytes) -> None:
    expected = reference(body)

    for cut in range(len(body) + 1):
        assert decode(body, cut) == expected
    for cut in range(len(body) - 2):
        assert decode(body, cut, cut + 1, cut + 2) == expected


@whole
def test_single_bytes_read_the_same(body: bytes) -> None:
    assert decode(body, *range(len(body))) == reference(body)


FRAGMENTS = [b"data", b"event", b"id", b"retry", b"error", b":", b" ", b"x", b"1", b"\n", b"\r", b"\r\n", b"\n\n", b"\0",
             b"\xef\xbb\xbf", b"\xc3\xa4", b"\xf0\x9f", b"\x8c\x8d", b"data: a\n", b"event: b\n"]  # fmt: skip


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join), st.lists(st.integers(0, 120), max_size=8)
)
def test_any_body_in_any_pieces_reads_as_the_standard_says(body: bytes, places: list[int]) -> None:
    cuts = sorted(min(place, len(body)) for place in places)

    assert decode(body, *cuts) == reference(body)


PLAIN = [b"data: a\n\n", b"data: \n\n", b"data:  b:\n\n", b"event: x\ndata: c\n\n", b"event: \ndata: d\n\n", b": ping\n\n",
         b"id: 1\ndata: e\n\n", b"data:f\n\n", b"\n", b"x", b"event: y\n\n", b"data: g\ndata: h\n\n", b"event: error: data: i\n\n"]  # fmt: skip


@settings(max_examples=300)
@given(
    st.one_of(
        st.lists(st.sampled_from(PLAIN), max_size=12).map(b"".join),
        st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join),
    ),
    st.lists(st.integers(0, 120), max_size=8),
)
def test_groups_are_the_names_and_data_of_the_events(body: bytes, places: list[int]) -> None:
    cuts = sorted(min(place, len(body)) for place in places)
    one, other = SSEDecoder(), SSEDecoder()

    for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True):
        read = body[start:end]
        groups = one.feed_groups(read)
        assert all(data for _, data in groups)
        pairs = [(name, value) for name, data in groups for value in data]
        assert pairs == [(event.event, event.data) for event in other.feed(read)]
    assert one.close() == other.close()


def test_events_of_one_name_are_one_group() -> None:
    body = b"event: a\ndata: 1\n\n" * 2 + b"event: b\ndata: 2\n\n" + b"data: 3\n\n" * 2

    assert SSEDecoder().feed_groups(body) == [("a", ["1", "1"]), ("b", ["2"]), ("", ["3", "3"])]


def test_groups_before_an_oversized_event_come_before_its_fault() -> None:
    decoder = SSEDecoder(20)

    assert decoder.feed_groups(b"data: a\n\ndata: " + b"x" * 50 + b"\n\n") == [("", ["a"])]
    with pytest.raises(WireError, match="limit is 20"):
        decoder.feed_groups(b"")


def test_an_event_is_given_out_with_its_blank_line_and_not_later() -> None:
    decoder = SSEDecoder()

    assert decoder.feed(b"data: a\r\n") == []
    assert decoder.feed(b"\r") == [event("a")]
    assert decoder.feed(b"\n") == []


def test_last_event_id_and_retry_are_kept_without_data_and_only_from_whole_events() -> None:
    decoder = SSEDecoder()

    decoder.feed(b"id: 1\nretry: 7\n\nid: 2\nretry: 8\n")
    decoder.close()

    assert (decoder.last_event_id, decoder.retry) == ("1", 7)


def test_an_empty_id_resets_the_last_event_id() -> None:
    decoder = SSEDecoder()

    decoder.feed(b"id: 1\ndata: a\n\nid\n\n")

    assert decoder.last_event_id == ""


LIMIT = 20
OVERSIZED = {
    "one line": b"data: " + b"x" * (LIMIT - 5),
    "many lines": b"data: abc\n" * 3,
    "comments alone": b": abc\n" * 4,
    "no colon": b"x" * 21,
}


def until_fault(decoder: SSEDecoder, reads: Iterable[bytes]) -> tuple[list[ServerSentEvent], str]:
    out: list[ServerSentEvent] = []
    try:
        for read in reads:
            out += decoder.feed(read)
        out += decoder.close()
    except WireError as error:
        return out, str(error)
    return out, ""


@pytest.mark.parametrize("ended", [True, False], ids=["whole", "unfinished"])
@pytest.mark.parametrize("frame", [pytest.param(frame, id=name) for name, frame in OVERSIZED.items()])
def test_an_oversized_event_raises_at_every_cut_after_what_came_before_it(frame: bytes, ended: bool) -> None:
    body = b"data: a\n\n\nevent: x\ndata: b\n\n" + frame + (b"\n\ndata: c\n\n" if ended else b"")

    for cut in range(len(body) + 1):
        decoder = SSEDecoder(LIMIT)
        out, fault = until_fault(decoder, [body[:cut], body[cut:]])
        assert out == [event("a"), event("b", "x")]
        assert re.fullmatch(f"SSE event grew to [0-9]+ bytes, limit is {LIMIT}", fault)
        assert until_fault(decoder, [b"data: d\n\n"]) == ([], fault)


def test_an_event_of_just_the_limit_passes_at_every_cut() -> None:
    frame = b"data: " + b"x" * (LIMIT - 6)
    body = b"\n\n\n" + frame + b"\n\n\n" + frame + b"\n\n"

    for cut in range(len(body) + 1):
        decoder = SSEDecoder(LIMIT)
        assert len(decoder.feed(body[:cut]) + decoder.feed(body[cut:])) == 2


def test_memory_of_an_endless_line_is_bounded_by_the_limit() -> None:
    decoder = SSEDecoder(1000)
    taken = 0

    def reads() -> Iterator[bytes]:
        nonlocal taken
        while taken < 10_000:
            taken += 2
            yield b"xy"

    assert until_fault(decoder, reads()) == ([], "SSE event grew to 1002 bytes, limit is 1000")
    assert taken == 1002


ENCODED = [
    pytest.param(encode_event("a"), b"data: a\n\n", id="data"),
    pytest.param(encode_event(""), b"data: \n\n", id="empty data"),
    pytest.param(encode_event("a\nb\r\nc\rd\n"), b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n", id="lines"),
    pytest.param(encode_event(b'{"a":1}', event="x"), b'event: x\ndata: {"a":1}\n\n', id="bytes"),
    pytest.param(encode_event("a", event="x", id="7", retry=5), b"id: 7\nevent: x\nretry: 5\ndata: a\n\n", id="all"),
    pytest.param(encode_event("a", id=""), b"id: \ndata: a\n\n", id="empty id"),
    pytest.param(encode_event("\ud83c\udf0d \ud83c"), "data: 🌍 \ufffd\n\n".encode(), id="surrogates"),
    pytest.param(encode_comment(), b":\n\n", id="empty comment"),
    pytest.param(encode_comment("a\r\nb\n"), b": a\n: b\n:\n\n", id="comment of lines"),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "expected"), ENCODED)
def test_encoding(frame: bytes, expected: bytes) -> None:
    assert frame == expected


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"], ids=["LF", "CR", "NUL"])
def test_line_breaks_and_nul_are_refused_in_name_and_id(bad: str) -> None:
    with pytest.raises(ValueError, match="event must not hold"):
        encode_event("x", event=bad)
    with pytest.raises(ValueError, match="id must not hold"):
        encode_event("x", id=bad)


def test_a_negative_retry_is_refused() -> None:
    with pytest.raises(ValueError, match="retry must be"):
        encode_event("x", retry=-1)


ONE_LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]))


@settings(max_examples=100)
@given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])), ONE_LINE, st.none() | ONE_LINE,
       st.none() | st.integers(0, 10**12))  # fmt: skip
def test_what_is_encoded_is_decoded(data: str, name: str, event_id: str | None, retry: int | None) -> None:
    frame = encode_comment("sign of life") + encode_event(data, event=name, id=event_id, retry=retry)

    assert decode(frame) == [event(data, name, id=event_id, retry=retry)]
