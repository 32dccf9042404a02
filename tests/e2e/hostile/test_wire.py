"""Parts C and E of the threats, as far as bytes go: frames that are none, compressed bombs, old and smuggled HTTP, text that looks
like frames. See `lines`."""

import asyncio
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import websockets
from e2e.hostile.odd import GIANT, STRANGE
from e2e.hostile.undisturbed import SECONDS, ask, odd_server, undisturbed
from e2e.peers import Follower, Raw, start_run
from e2e.servers import Process

from agentkit.sse import SSEDecoder

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One server for this file."""
    with odd_server(tmp_path_factory.mktemp("odd")) as one:
        yield one


@pytest.fixture
def server(shared: Process) -> Iterator[Process]:
    """The server; nothing is left of an attack."""
    with undisturbed(shared):
        yield shared


def socket(server: Process) -> Any:
    return websockets.connect(
        f"ws://127.0.0.1:{server.port}/v1/ws",
        subprotocols=[websockets.Subprotocol("agentkit.v1")],
        proxy=None,
        max_size=None,
    )


async def hear(link: websockets.ClientConnection) -> dict[str, Any]:
    """Return the next frame."""
    heard: dict[str, Any] = json.loads(await asyncio.wait_for(link.recv(), SECONDS))
    return heard


WRONG = [
    "", "hello", "[]", "null", "1", "{", '{"op":"ping"', "{'op':'ping'}", '{"op":"dance"}', '{"op":7}', '{"op":null}', "{}",
    '{"op":"sub"}', '{"op":"sub","rid":"1"}', '{"op":"sub","rid":true,"topic":"agents/quick/threads/t"}',
    '{"op":"sub","rid":"1","topic":7}', '{"op":"sub","rid":"1","topic":"agents/quick/threads/*"}',
    '{"op":"sub","rid":"1","topic":"agents/quick/threads/t","after":-1}', '{"op":"run","rid":"1","agent":"quick","thread":"t"}',
    '{"op":"run","rid":"1","agent":"quick","thread":"t","input":"x","model":"other"}', '{"op":"ping","op":"ping"}',
    '{"op":"ping","__proto__":{}}', '{"op":"ping","t":"\\ud83d"}',
]  # fmt: skip


async def test_51_a_wrong_frame_is_told_and_the_socket_goes_on_until_the_tenth(server: Process) -> None:
    for first in range(0, len(WRONG), 8):
        async with socket(server) as link:
            for frame in WRONG[first : first + 8]:
                await link.send(frame)
                heard = await hear(link)
                assert (heard["op"], heard["problem"]["status"]) == ("err", 400), (frame, heard)
            await link.send('{"op":"ping","t":1}')
            assert (await hear(link))["op"] == "pong"
            for _ in range(10):
                await link.send("{")
            with pytest.raises(websockets.ConnectionClosed):
                while True:
                    await hear(link)

        assert link.close_code is not None
        assert link.close_code >= 4000


@pytest.mark.parametrize(
    ("data", "opcode", "code"),
    [
        pytest.param(b"\x00\x01\x02", 2, 4501, id="binary"),
        pytest.param('{"op":"é'.encode()[:-1], 1, 1007, id="cut in a letter"),
        pytest.param(b"", 3, 1002, id="an unknown opcode"),
        pytest.param(b"x", 0, 1002, id="a continuation of nothing"),
        pytest.param(b"x" * 126, 9, 1002, id="a ping that is too long"),
        pytest.param(b"\x03", 8, 1002, id="half a close code"),
        pytest.param(b"\x03\xed", 8, 1002, id="a close code that is never sent"),
    ],
)
async def test_51_bytes_that_are_no_frame_close_with_their_code(
    server: Process, data: bytes, opcode: int, code: int
) -> None:
    with Raw(server.port) as peer:
        peer.upgrade()
        peer.frame(data, opcode=opcode)
        answer = peer.read_until(code.to_bytes(2, "big"))

    assert b"pong" not in answer


async def test_51_a_frame_without_a_mask_closes(server: Process) -> None:
    with Raw(server.port) as peer:
        peer.upgrade()
        peer.send(b'\x81\x0d{"op":"ping"}')
        answer = peer.read_all()

    assert (1002).to_bytes(2, "big") in answer
    assert b"pong" not in answer


async def test_53_a_compressed_bomb_is_not_unpacked(server: Process) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packer.compress(b"\0" * 64 * 1024 * 1024) + packer.flush(zlib.Z_SYNC_FLUSH)
    before = server.memory()
    with Raw(server.port) as peer:
        peer.send(
            "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
            "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-protocol: agentkit.v1\r\n"
            "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
        )
        head = peer.read_until(b"\r\n\r\n").lower()
        for size in (60_000, len(bomb)):
            part = bomb[:size]
            kind = (
                b"\xfe" + len(part).to_bytes(2, "big") if size < 65536 else b"\xff" + size.to_bytes(8, "big")
            )
            try:
                peer.send(b"\xc1" + kind + b"\0\0\0\0" + part)  # RSV1: it says that it is compressed
            except ConnectionError:
                break
        answer = peer.read_all()
    used = server.memory() - before

    assert b"101 switching" in head
    assert b"permessage-deflate" not in head
    assert answer == b"" or (1002).to_bytes(2, "big") in answer  # a reset may take it
    assert used < 32 * 1024 * 1024


async def test_53_a_compressed_body_is_not_unpacked(server: Process) -> None:
    body = zlib.compress(b'{"input":"' + b"x" * 1_000_000 + b'"}')
    path = "/v1/agents/quick/threads/packed/runs"
    for encoding in ("gzip", "deflate", "br"):
        with Raw(server.port) as peer:
            peer.send(
                f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
                f"content-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            peer.send(body)
            assert peer.read_all().split(b" ", 2)[1] in (b"400", b"415")

    assert ask(server, "GET", path).json() == {"runs": []}


RUNS = "/v1/agents/quick/threads/smuggled/runs"
POST = f"POST {RUNS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
HIDDEN = f'POST {RUNS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{{"input":"x"}}'
SMUGGLED = {
    "length and chunks": f"{POST}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
    "chunks and length": f"{POST}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n{HIDDEN}",
    "two lengths": f"{POST}content-length: 0\r\ncontent-length: 4\r\n\r\n{HIDDEN}",
    "a length with a sign": f"{POST}content-length: +0\r\n\r\n{HIDDEN}",
    "a length with a comma": f"{POST}content-length: 0, 0\r\n\r\n{HIDDEN}",
    "an unknown encoding": f"{POST}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{HIDDEN}",
    "chunked twice": f"{POST}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{HIDDEN}",
    "a tab before chunked": f"{POST}transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n{HIDDEN}",
    "a folded header": f"{POST}x: y\r\n z\r\ncontent-length: 0\r\n\r\n{HIDDEN}",
    "bare line feeds": f"{POST}content-length: 0\r\n\r\n{HIDDEN}".replace("\r\n", "\n"),
    "a bare return": f"{POST}x: y\rcontent-length: 0\r\n\r\n{HIDDEN}",
    "a space before the colon": f"{POST}content-length : 0\r\n\r\n{HIDDEN}",
    "a chunk that is no number": f"{POST}transfer-encoding: chunked\r\n\r\nzz\r\n\r\n{HIDDEN}",
    "a chunk with a sign": f"{POST}transfer-encoding: chunked\r\n\r\n-1\r\n\r\n{HIDDEN}",
}


@pytest.mark.parametrize("words", SMUGGLED.values(), ids=SMUGGLED.keys())
async def test_65_a_request_that_may_be_read_in_two_ways_is_refused_and_what_is_behind_it_never_read(
    server: Process, words: str
) -> None:
    with Raw(server.port) as peer:
        peer.send(words)
        answer = peer.read_all()

    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert ask(server, "GET", RUNS).json() == {"runs": []}


async def test_66_a_client_of_http_1_0_gets_a_feed_that_ends_with_its_connection(server: Process) -> None:
    path = "/v1/agents/quick/threads/old"
    run = await start_run(f"http://127.0.0.1:{server.port}", "quick", "old")
    with Raw(server.port) as peer:
        peer.send(f"GET {path}/events?run={run}&after=earliest HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        head, _, body = (await asyncio.to_thread(peer.read_all)).partition(b"\r\n\r\n")
    frames = [json.loads(frame.data) for frame in SSEDecoder().feed(body)]
    with Raw(server.port) as peer:
        peer.send(f"GET {path}/runs HTTP/1.0\r\n\r\n")
        listed = peer.read_all().partition(b"\r\n\r\n")[2]

    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in head.lower()
    assert head.lower().count(b"connection:") == head.lower().count(b"connection: close") == 1
    seqs = [frame["seq"] for frame in frames if "seq" in frame]
    assert seqs == list(range(1, len(seqs) + 1))
    assert [frame["type"] for frame in frames[-2:]] == ["run.finished", "stream.end"]
    assert json.loads(listed)["runs"][0]["run"] == run


async def socket_records(server: Process, agent: str, thread: str) -> list[dict[str, Any]]:
    """Return a thread's records up to the end of its run, over a WebSocket."""
    records: list[dict[str, Any]] = []
    async with socket(server) as link:
        topic = f"agents/{agent}/threads/{thread}"
        await link.send(json.dumps({"op": "sub", "rid": "1", "topic": topic, "after": "earliest"}))
        while not records or records[-1]["type"] != "run.finished":
            records += (await hear(link)).get("e", ())
    return records


def said(records: list[dict[str, Any]]) -> list[str]:
    """Return the pieces of the visible text."""
    return [one["data"]["text"] for one in records if one["type"] == "text.delta"]


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        pytest.param(
            "strange", STRANGE.replace("\ud83d", "\ufffd").replace("\udc00", "\ufffd"), id="strange"
        ),
        pytest.param("giant", "0123456789" * (GIANT // 10), id="giant"),
    ],
)
async def test_58_59_60_84_95_any_text_comes_whole_and_stays_text(
    server: Process, agent: str, text: str
) -> None:
    url = f"http://127.0.0.1:{server.port}"
    run = await start_run(url, agent, "text")
    feed = f"{url}/v1/agents/{agent}/threads/text/events?run={run}&after=earliest"
    follower = await asyncio.wait_for(Follower(feed).follow(), SECONDS)
    records = await socket_records(server, agent, "text")
    listed = ask(server, "GET", f"/v1/agents/{agent}/threads/text/messages").json()

    assert "".join(said(records)) == text
    assert max(len(piece.encode()) for piece in said(records)) <= 64 * 1024
    assert follower.records == records
    assert [event["type"] for event in follower.events if "seq" not in event] == [
        "stream.hello",
        "stream.end",
    ]
    assert follower.seqs == list(range(1, len(follower.seqs) + 1))
    assert json.dumps(text)[1:-1] in json.dumps(listed)
