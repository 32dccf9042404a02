"""Peers that do not read, do not write, or write too much: they are cut, and nobody else notices."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator

import httpx2
import pytest
from e2e.peers import Follower, Raw, start_run
from e2e.servers import FLOOD, FLOOD_RECORDS, Running, running, until

from agentkit_server.protocols import MAX_AHEAD

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """One server for this file."""
    with running() as one:
        yield one


@pytest.fixture
def server(shared: Running) -> Iterator[Running]:
    """The server, as it was before each test and has to be after it: no connection, no topic, and the same tasks."""
    before = shared.look()
    yield shared
    until(lambda: shared.look()[1:] == (0, 0) and shared.look()[0] <= before[0])


def sse(peer: Raw, thread: str) -> None:
    peer.get(f"/v1/agents/flood/threads/{thread}/events?after=earliest")
    peer.read_until(b"stream.hello")


def websocket(peer: Raw, thread: str) -> None:
    peer.upgrade()
    peer.say(op="sub", rid="1", topic=f"agents/flood/threads/{thread}", after="earliest")
    peer.read_until(b'"ok"')


OPENINGS = [pytest.param(sse, id="sse"), pytest.param(websocket, id="websocket")]


def is_healthy(server: Running) -> bool:
    """Ask the server, which has to answer within some seconds."""
    return httpx2.get(f"{server.url}/healthz", timeout=5, trust_env=False).status_code == 200


async def flood_is_followed(server: Running, thread: str) -> None:
    """Run `flood` on a thread: a polite reader gets all of it, in order."""
    follower = Follower(f"{server.url}/v1/agents/flood/threads/{thread}/events?after=earliest")
    following = asyncio.create_task(follower.follow(until="run.finished"))
    await start_run(server.url, "flood", thread)
    await asyncio.wait_for(following, 20)

    assert follower.seqs == list(range(1, len(follower.seqs) + 1))
    texts = [record["data"]["text"] for record in follower.records if record["type"] == "text.delta"]
    assert sum(map(len, texts)) == len(FLOOD) * FLOOD_RECORDS


@pytest.mark.parametrize("opening", OPENINGS)
async def test_a_reader_that_never_reads_is_cut_and_slows_nobody(
    server: Running, opening: Callable[[Raw, str], None]
) -> None:
    thread = f"never-{opening.__name__}"
    with Raw(server.port) as peer:
        opening(peer, thread)
        await flood_is_followed(server, thread)
        await asyncio.to_thread(until, lambda: server.look()[1] == 0)

        left = await asyncio.to_thread(peer.read_all)
    assert len(left) < 1_000_000


@pytest.mark.parametrize("opening", OPENINGS)
async def test_a_reader_that_trickles_is_cut_and_slows_nobody(
    server: Running, opening: Callable[[Raw, str], None]
) -> None:
    thread = f"trickle-{opening.__name__}"
    stop = False

    def trickle(peer: Raw) -> None:
        while not stop and peer.read(1):
            time.sleep(0.02)

    with Raw(server.port) as peer:
        opening(peer, thread)
        trickling = asyncio.create_task(asyncio.to_thread(trickle, peer))
        await flood_is_followed(server, thread)
        await asyncio.to_thread(until, lambda: server.look()[1] == 0)
        stop = True
        await trickling


async def test_a_socket_that_pings_and_reads_no_pongs_is_cut(server: Running) -> None:
    with Raw(server.port) as peer:
        peer.upgrade()
        peer.socket.settimeout(1)
        ping = b"\x89\xfd\0\0\0\0" + b"x" * 125
        with pytest.raises((ConnectionError, TimeoutError)):
            for _ in range(1000):
                peer.send(ping * 100)
        await asyncio.to_thread(until, lambda: server.look()[1] == 0)
        assert is_healthy(server)


async def test_300_heads_that_never_end_are_closed_and_others_are_served(server: Running) -> None:
    peers = [Raw(server.port) for _ in range(300)]
    try:
        for number, peer in enumerate(peers):
            peer.send(f"GET /healthz HTTP/1.1\r\nx-{number}: ")
        assert is_healthy(server)
        for peer in peers[::10]:
            with pytest.raises(OSError):  # reset, or a broken pipe
                for _ in range(200):
                    peer.send("x")
                    await asyncio.sleep(0.01)
        answers = {peer.read_all()[:12] for peer in peers}
    finally:
        for peer in peers:
            peer.socket.close()

    assert answers <= {b"HTTP/1.1 408", b""}  # a peer that still sends may lose the answer to its reset


async def test_a_head_that_comes_late_is_told_so(server: Running) -> None:
    with Raw(server.port) as peer:
        peer.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n")

        answer = peer.read_all()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout")
    assert json.loads(body)["code"] == "request_timeout"


@pytest.mark.parametrize("first", ["", "\r\n", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"])
async def test_a_connection_that_says_nothing_more_is_closed(server: Running, first: str) -> None:
    with Raw(server.port) as peer:
        peer.send(first)

        answer = peer.read_all()

    assert answer.startswith(b"HTTP/1.1 200 OK") if first.startswith("GET") else answer == b""


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"GET /healthz HTTP/1.1\r\nx: ", b"x" * 65536, b"x" * 65536], id="one huge header"),
        pytest.param([b"GET /", b"x" * 65536, b"x" * 65536], id="a huge path"),
        pytest.param([b"GET /healthz HTTP/1.1\r\n", *[b"x: y\r\n" * 10] * 11, b"\r\n"], id="110 headers"),
        pytest.param(
            [b"GET /healthz HTTP/1.1\r\n", *[b"x: " + b"y" * 3000 + b"\r\n"] * 24, b"\r\n"],
            id="70 kB of headers",
        ),
        pytest.param(
            [
                b"GET /v1/ws HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nx: ",
                b"x" * 65536,
                b"x" * 65536,
            ],
            id="a socket's",
        ),
    ],
)
async def test_a_head_that_grows_too_large_is_refused(server: Running, pieces: list[bytes]) -> None:
    with Raw(server.port, buffer=65536) as peer:
        try:
            for piece in pieces:
                peer.send(piece)
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass  # closed while it was being sent

        answer = peer.read_all()

    assert answer[:12] in (b"HTTP/1.1 431", b"")


async def test_64_mib_of_headers_are_not_taken(server: Running) -> None:
    sent = 0
    with Raw(server.port) as peer:
        peer.send("GET /healthz HTTP/1.1\r\n")
        try:
            while sent < 64 * 1024 * 1024:
                peer.send(b"x: " + b"y" * 8000 + b"\r\n")
                sent += 8005
        except ConnectionError:
            pass

    assert sent < 16 * 1024 * 1024


async def test_a_body_that_comes_late_is_told_so_and_starts_nothing(server: Running) -> None:
    path = "/v1/agents/quick/threads/late/runs"
    with Raw(server.port) as peer:
        peer.send(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n"
        )
        peer.send('{"input"')

        answer = peer.read_all()

    assert answer.startswith(b"HTTP/1.1 408")
    runs = httpx2.get(f"{server.url}{path}", trust_env=False).json()
    assert runs == {"runs": []}


async def test_a_body_that_is_too_large_is_refused_and_the_client_reads_why(server: Running) -> None:
    path = f"{server.url}/v1/agents/quick/threads/large/runs"
    async with httpx2.AsyncClient(trust_env=False) as client:
        told = await client.post(path, json={"input": "x" * 2_000_000})

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(200):
                yield b"x" * 10_000

        chunked = await client.post(path, content=chunks(), headers={"content-type": "application/json"})

    assert (told.status_code, told.json()["code"]) == (413, "too_large")
    assert (chunked.status_code, chunked.json()["code"]) == (413, "too_large")


async def test_a_refused_body_without_end_is_not_read_for_ever(server: Running) -> None:
    with Raw(server.port) as peer:
        peer.send(
            "POST /v1/agents/quick/threads/endless/runs HTTP/1.1\r\nhost: localhost\r\n"
            "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        sent = 0
        with pytest.raises(ConnectionError):
            while sent < 100 * 1024 * 1024:
                peer.send(chunk)
                sent += len(chunk)


async def test_a_length_that_lies_harms_only_its_sender(server: Running) -> None:
    with Raw(server.port) as peer:
        body = '{"input":"hello"}'
        peer.send(
            "POST /v1/agents/quick/threads/lies/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: 5\r\n\r\n{body}"
        )

        answer = peer.read_all()

    assert answer.startswith(b"HTTP/1.1 400")
    assert is_healthy(server)


@pytest.mark.parametrize(
    "request_line",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(
            b"GET / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            id="two lengths",
        ),
        pytest.param(b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"GET / HTTP/1.1\r\nx : y\r\n\r\n", id="a space in a name"),
        pytest.param(b"GET /\x00 HTTP/1.1\r\n\r\n", id="NUL in the path"),
    ],
)
async def test_what_is_not_http_is_a_400(server: Running, request_line: bytes) -> None:
    with Raw(server.port) as peer:
        peer.send(request_line)

        assert peer.read_all().startswith(b"HTTP/1.1 400 ")


async def test_a_handshake_that_cannot_be_read_is_answered(server: Running) -> None:
    with Raw(server.port) as peer:
        peer.send(
            f"GET /v1/ws?{'x' * 9000} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )

        assert peer.read_all().startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param([(b"x" * 65, 1, False)] + [(b"", 0, False)] * 1100, 1009, id="fragments without end"),
        pytest.param(
            [(b"x" * 60_000, 1, False), (b"x" * 60_000, 0, True)], 1009, id="a message that is too large"
        ),
        pytest.param([(b"\xff\xfe", 1, True)], 1007, id="no UTF-8"),
    ],
)
async def test_frames_that_break_the_protocol_close_the_socket(
    server: Running, frames: list[tuple[bytes, int, bool]], code: int
) -> None:
    with Raw(server.port) as peer:
        peer.upgrade()
        for data, opcode, fin in frames:
            peer.frame(data, opcode=opcode, fin=fin)

        answer = peer.read_all()

    assert code.to_bytes(2, "big") in answer


async def test_clients_that_leave_in_every_way_leave_nothing(server: Running) -> None:
    await start_run(server.url, "quick", "churn")
    for number in range(60):
        with Raw(server.port) as peer:
            match number % 4:
                case 0:
                    sse(peer, "churn")
                case 1:
                    peer.get("/v1/agents/quick/threads/churn/events?after=earliest")
                case 2:
                    websocket(peer, "churn")
                case _:
                    peer.send(
                        "HEAD /v1/agents/quick/threads/churn/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
                    )
                    peer.read_until(b"\r\n\r\n")
            if number % 3 == 0:
                peer.socket.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER 0: a reset


async def test_a_replay_to_a_client_that_left_does_not_stop_the_server(server: Running) -> None:
    await flood_is_followed(server, "replay")
    for _ in range(20):
        with Raw(server.port) as peer:
            peer.get("/v1/agents/flood/threads/replay/events?after=earliest")
    assert is_healthy(server)


async def test_two_requests_in_one_packet_are_both_answered(server: Running) -> None:
    one = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with Raw(server.port) as peer:
        peer.send(one + one)

        answer = peer.read_all()

    assert answer.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("is_split", [False, True], ids=["whole", "in two"])
async def test_an_offer_to_speak_http_2_is_passed_over(server: Running, *, is_split: bool) -> None:
    body = '{"input":"x"}'
    head = (
        f"POST /v1/agents/quick/threads/offered-{is_split}/runs HTTP/1.1\r\nconnection: Upgrade, HTTP2-Settings\r\nhost: localhost\r\n"
        f"http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nupgrade: h2c\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with Raw(server.port) as peer:
        peer.send(head if is_split else head + body)
        if is_split:
            peer.send(body)

        assert peer.read_until(b"run_").startswith(b"HTTP/1.1 202 ")


async def test_requests_far_ahead_of_their_answers_are_not_kept(server: Running) -> None:
    one = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with Raw(server.port) as peer:
        peer.get("/v1/agents/held/threads/ahead/events")  # they wait for its end
        peer.read_until(b"stream.hello")
        peer.send(one * (MAX_AHEAD + 1))

        await asyncio.to_thread(until, peer.is_cut)
    assert is_healthy(server)


async def test_a_feed_whose_client_asks_on_and_leaves_is_let_go_in_silence(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        with Raw(server.port) as peer:
            peer.get("/v1/agents/held/threads/asked-on/events")
            peer.read_until(b"stream.hello")
            peer.get("/healthz")
            peer.get("/healthz")
            peer.read()  # a sign of life: the others have come too
        await asyncio.to_thread(until, lambda: server.look()[1:] == (0, 0))

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_socket_is_not_opened_in_the_middle_of_a_feed(server: Running) -> None:
    with Raw(server.port) as peer:
        peer.get("/v1/agents/held/threads/mixed/events")
        peer.read_until(b"stream.hello")
        peer.send(
            "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )

        assert b"101 Switching" not in await asyncio.to_thread(peer.read_all)


async def test_what_a_socket_does_wrong_is_no_error_in_the_log(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with Raw(server.port) as peer:
        peer.send(
            "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\norigin: null\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert b" 403 " in peer.read_until(b"\r\n\r\n")
    with Raw(server.port) as peer:
        peer.upgrade()
        peer.frame(b"\xff")
        assert peer.read_all().startswith(b"\x88\x02\x03\xef")  # 1007

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_no_log_holds_a_query(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    canary = "CANARY-0123456789"
    with caplog.at_level(0):
        for target in ("/healthz", "/nothing", "/v1/ws", "/v1/agents/quick/threads/t1/events"):
            with Raw(server.port) as peer:
                peer.send(
                    f"HEAD {target}?token={canary} HTTP/1.1\r\nhost: localhost\r\nauthorization: {canary}\r\n\r\n"
                )
                peer.read_until(b"\r\n\r\n")
        for target in ("/v1/ws", "/v1/none"):
            with Raw(server.port) as peer:
                peer.send(
                    f"GET {target}?token={canary} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                    "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
                )
                peer.read_until(b"\r\n\r\n")

    assert canary not in caplog.text
