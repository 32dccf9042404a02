"""The standard of server-sent events, with Chromium's EventSource as the judge: our decoders read what it reads, our frames come through,
and our client comes back where it gives up.

The cases follow the rules of WHATWG HTML section 9.2 and what the web platform tests of `eventsource/` ask; they are written anew.
"""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from e2e.browsing import Tabs
from e2e.raw_streams import Answer, Streams, raw_streams

from agentkit.log import Cursor, Gap, Record
from agentkit.sse import SSEDecoder, encode_comment, encode_event
from agentkit_transports.protocols.native import NativeSSE

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.full, pytest.mark.e2e, pytest.mark.browser]

Event = tuple[str, str, str]
"""Type, data, last event id."""

BOM = b"\xef\xbb\xbf"
CASES: dict[str, tuple[bytes, list[Event]]] = {
    "bom": (BOM + b"data:1\n\n", [("message", "1", "")]),
    "second-bom": (BOM + BOM + b"data:1\n\ndata:2\n\n", [("message", "2", "")]),
    "bom-later": (b"data:1\n\n" + BOM + b"data:2\n\n", [("message", "1", "")]),
    "comments": (b"data:1\n:\0\n:\ndata:2\n:" + b"x" * 2048 + b"\ndata:3\n:data:fail\ndata:4\n\n", [("message", "1\n2\n3\n4", "")]),
    "only-comments": (b":\n\n: hello\n\n:\n\ndata:1\n\n", [("message", "1", "")]),
    "no-blank-line-at-the-end": (b"data:1\n\nid:3\ndata:2\n", [("message", "1", "")]),
    "empty-data": (b"data\n\ndata:\n\ndata\ndata\n\ndata:test\n\n", [("message", "", ""), ("message", "", ""), ("message", "\n", ""), ("message", "test", "")]),
    "event": (b"event:test\ndata:x\n\ndata:y\n\n", [("test", "x", ""), ("message", "y", "")]),
    "event-empty": (b"event: \ndata:x\n\nevent\ndata:y\n\n", [("message", "x", ""), ("message", "y", "")]),
    "event-last-wins": (b"event:none\nevent:test\ndata:x\n\n", [("test", "x", "")]),
    "event-without-data": (b"event:test\n\ndata:x\n\n", [("message", "x", "")]),
    "id": (b"id: a\ndata:1\n\ndata:2\n\nid\ndata:3\n\n", [("message", "1", "a"), ("message", "2", "a"), ("message", "3", "")]),
    "id-without-data": (b"id: a\n\ndata:1\n\n", [("message", "1", "a")]),
    "id-null": (b"id: a\ndata:1\n\nid: b\0c\ndata:2\n\n", [("message", "1", "a"), ("message", "2", "a")]),
    "id-empty": (b"id: a\ndata:1\n\nid:\ndata:2\n\n", [("message", "1", "a"), ("message", "2", "")]),
    "id-utf8": ("id: …\ndata:1\n\n".encode(), [("message", "1", "…")]),
    "fields": (b"data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n", [("message", "\0\n 2\n1\n3\n\n4", "")]),
    "leading-space": (b"data:\ttest\rdata: \ndata:test\n\n", [("message", "\ttest\n\ntest", "")]),
    "newlines": (b"data:test\r\ndata\ndata:test\r\n\r\n\ndata:a\r\rdata:b\n\r\ndata:c\r\n\n", [("message", "test\n\ntest", ""), ("message", "a", ""), ("message", "b", ""), ("message", "c", "")]),
    "retry": (b"retry:03000\ndata:x\n\nretry:1000x\ndata:y\n\nretry\ndata:z\n\nretry:-1\ndata:a\n\n", [("message", one, "") for one in "xyza"]),
    "unknown": (b"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\n\n", [("message", "test\n", "")]),
    "null": (b"data:\0\n\n\n\n", [("message", "\0", "")]),
    "utf8": ("data:ok…😀\n\n".encode(), [("message", "ok…😀", "")]),
    "not-utf8": (b"data:\xf0\x9f\n\ndata:\xff!\n\n", [("message", "\ufffd", ""), ("message", "\ufffd!", "")]),
    "colons": (b"data:a:b: c\n\ndata : x\n\ndata::\n\n", [("message", "a:b: c", ""), ("message", ":", "")]),
    "long": (b"data:" + b"x" * 300_000 + b"\n\n", [("message", "x" * 300_000, "")]),
}  # fmt: skip

LISTEN = """
([url, types]) => new Promise((done) => {
  const source = new EventSource(url);
  const out = [];
  const note = ({ type, data, lastEventId }) => out.push([type, data, lastEventId]);
  for (const type of types) source.addEventListener(type, note);
  source.onerror = () => { source.close(); done(out); };
})
"""


@pytest.fixture(scope="module")
def streams() -> Iterator[Streams]:
    with raw_streams() as one:
        yield one


@pytest.fixture(scope="module")
def tab(new_tabs: Callable[[], Tabs], streams: Streams) -> "Iterator[Page]":
    tabs = new_tabs()
    tab = tabs.blank()
    tab.goto(streams.url)
    yield tab
    tabs.close()


def decoded(body: bytes, cut: int) -> list[Event]:
    """What our decoder makes of a body that comes in pieces, in EventSource's words."""
    decoder, out, last = SSEDecoder(), [], ""
    for at in range(0, len(body), cut):
        for event in decoder.feed(body[at : at + cut]):
            out.append((event.event or "message", event.data, event.id))
    assert decoder.close() == []
    told: list[Event] = []
    for name, data, id_ in out:
        last = last if id_ is None else id_
        told.append((name, data, last))
    return told


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_read_by_our_decoder_as_the_browser_reads_it(
    name: str, tab: "Page", streams: Streams
) -> None:
    body, wanted = CASES[name]
    path = streams.put(f"/{name}", Answer(body))

    judged = [tuple(event) for event in tab.evaluate(LISTEN, [path, ["message", "test", "none"]])]

    assert judged == wanted
    for cut in (1, 7, len(body)) if len(body) < 10_000 else (1000, len(body)):
        ours = decoded(body, cut)
        if (
            name == "id-without-data"
        ):  # an event that only sets the id is not handed out; the decoder keeps it as its last
            ours = [("message", "1", "a")] if ours == [("message", "1", "")] else ours
        assert ours == wanted, cut


def frames() -> bytes:
    """Every frame that the native protocol can say."""
    protocol = NativeSSE()
    records = [
        Record("E", 8, "reasoning", "delta", "r", "b", 0.0, '{"type":"reasoning","data":{"text":"h…😀"}}'.encode()),
        Record("E", 9, "text.delta", "", "r", "b", 0.0, b'{"type":"text.delta","data":{"text":"a\\r\\nb"}}'),
    ]  # fmt: skip
    return b"".join(
        [
            protocol.hello(Cursor("E", 0), 9, resumed=False, retry_ms=5),
            protocol.gap(Gap("trimmed", 1, 7), Cursor("E", 7)),
            protocol.beat(),
            *(protocol.step((), record)[1] for record in records),
            protocol.position(Cursor("E", 12)),
            protocol.end(Cursor("E", 13)),
            protocol.closing(1500),
            encode_comment("a\nb"),
            encode_event("two\r\nlines\rmore", event="test"),
        ]
    )


def test_our_frames_come_through_as_they_are_meant(tab: "Page", streams: Streams) -> None:
    path = streams.put("/frames", Answer(frames()))

    told = tab.evaluate(LISTEN, [path, ["message", "reasoning", "text.delta", "test"]])

    assert [(kind, place) for kind, _, place in told] == [
        ("message", "E-0"), ("message", "E-7"), ("reasoning", "E-8"), ("text.delta", "E-9"), ("message", "E-12"), ("message", "E-13"),
        ("message", "E-13"), ("test", "E-13"),
    ]  # fmt: skip
    assert [json.loads(data)["type"] for _, data, _ in told[:-1]] == [
        "stream.hello", "stream.gap", "reasoning", "text.delta", "stream.position", "stream.end", "stream.closing",
    ]  # fmt: skip
    assert json.loads(told[3][1])["data"]["text"] == "a\r\nb"
    assert told[-1][1] == "two\nlines\nmore"


def test_the_browser_comes_back_with_the_last_id_after_the_time_that_was_asked(
    tab: "Page", streams: Streams
) -> None:
    first = Answer(b"retry: 10\nid: E-1\ndata: 1\n\nid: E-2\ndata: 2")  # the second event is not whole
    path = streams.put(
        "/again", first, Answer(b"id: E-2\ndata: 2\n\n"), Answer(b": beat\n\n"), Answer(status=204)
    )

    told = tab.evaluate(
        """
        (url) => new Promise((done) => {
          const source = new EventSource(url);
          const out = [];
          source.onmessage = ({ data, lastEventId }) => out.push([data, lastEventId]);
          source.onerror = () => source.readyState === 2 && done([out, source.readyState]);
        })
        """,
        path,
    )

    assert told == [[["1", "E-1"], ["2", "E-2"]], 2]
    asked = streams.asked[path]
    assert [headers.get("last-event-id") for headers in asked] == [None, "E-1", "E-2", "E-2"]
    assert {headers["accept"] for headers in asked} == {"text/event-stream"}
    assert {headers["cache-control"] for headers in asked} == {"no-cache"} or {headers["cache-control"] for headers in asked} == {"no-store"}  # fmt: skip


STOPS: dict[str, Answer] = {
    **{str(status): Answer(b"data: no\n\n", status) for status in (204, 205, 400, 401, 404, 410, 500, 503)},
    "html": Answer(b"data: no\n\n", content_type="text/html"),
    "no-type": Answer(b"data: no\n\n", content_type=""),
    "look-alike": Answer(b"data: no\n\n", content_type="text/event-streams"),
}


@pytest.mark.parametrize("name", STOPS)
def test_the_browser_gives_up_for_good(name: str, tab: "Page", streams: Streams) -> None:
    path = streams.put(f"/stop-{name}", STOPS[name], Answer(b"data: yes\n\n"))

    told = tab.evaluate(
        """
        (url) => new Promise((done) => {
          const source = new EventSource(url);
          const out = [];
          source.onmessage = ({ data }) => out.push(data);
          source.onerror = () => setTimeout(() => { done([out, source.readyState]); source.close(); }, 50);
        })
        """,
        path,
    )

    assert told == [[], 2]
    assert len(streams.asked[path]) == 1


@pytest.mark.parametrize("content_type", ["text/event-stream;charset=utf-8", "TEXT/EVENT-STREAM", "text/event-stream; x=y"])  # fmt: skip
def test_the_browser_takes_these_for_event_streams(content_type: str, tab: "Page", streams: Streams) -> None:
    path = streams.put("/type", Answer(b"data: yes\n\n", content_type=content_type))

    assert tab.evaluate(LISTEN, [path, ["message"]]) == [["message", "yes", ""]]


@pytest.mark.parametrize("status", [500, 502, 503, 404, 401])
def test_our_client_comes_back_where_the_browser_gives_up(
    status: int, tabs: Tabs, quick_url: str, streams: Streams
) -> None:
    hello = NativeSSE().hello(Cursor("E", 0), 1, resumed=False, retry_ms=1)
    record = NativeSSE().step(
        (), Record("E", 1, "app.said", "", "", "", 0.0, b'{"type":"app.said","data":1}')
    )[1]
    path = "/v1/agents/a/threads/t/events"
    streams.put(path, Answer(b"{}", status, "application/json"), Answer(b"{}", status, "application/json"), Answer(hello + record + NativeSSE().end(Cursor("E", 1))))  # fmt: skip
    tab = tabs.blank()
    source = tab.request.get(f"{quick_url}agentkit-client.js").text()
    tab.goto(streams.url)

    told: Any = tab.evaluate(
        """
        async ([source, url]) => {
          const { follow } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
          const feed = follow(new URL(url, location.href), { after: "earliest", giveUp: () => false });
          const hurry = setInterval(feed.retry, 5);
          const out = [];
          for await (const { envelope } of feed) out.push(envelope.type);
          clearInterval(hurry);
          return out;
        }
        """,
        [source, path],
    )

    assert told == ["app.said"]
    assert len(streams.asked[path]) == 3
