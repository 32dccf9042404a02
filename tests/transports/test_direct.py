"""Writing to uvicorn's transports: with its own classes, on a transport that remembers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import RequestResponseCycle as H11Cycle
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle as HTTPToolsCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.datastructures import Headers
from websockets.http11 import Request

from agentkit.log import NOW, Draft, Topic
from agentkit_transports import direct
from agentkit_transports.direct import body_outlet, socket_outlet, text_frame
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub
from agentkit_transports.outlet import Batch, BodyOutlet, SlowReader, SocketOutlet
from agentkit_transports.sse import open_feed

pytestmark = pytest.mark.anyio

Settled = Callable[..., Awaitable[None]]


class Transport(asyncio.Transport):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
        self.writes: list[bytes] = []
        self.closing = False
        self.aborted = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def cycle(kind: str = "httptools") -> Any:
    transport = Transport()
    logger = logging.getLogger("test")
    given: dict[str, Any] = {
        "scope": {"type": "http", "method": "GET", "headers": [], "http_version": "1.1", "path": "/"},
        "transport": transport,
        "flow": FlowControl(transport),
        "logger": logger,
        "access_logger": logger,
        "access_log": False,
        "default_headers": [],
        "message_event": asyncio.Event(),
    }
    if kind == "httptools":
        return HTTPToolsCycle(**given, expect_100_continue=False, keep_alive=True, on_response=lambda: None)
    import h11

    conn = h11.Connection(h11.SERVER)
    conn.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    conn.next_event()
    return H11Cycle(**given, conn=conn, on_response=lambda: None)


START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}


async def test_bodies_are_written_in_the_turn_of_the_loop_that_wants_it() -> None:
    one = cycle()
    await one.send(START)
    outlet = body_outlet({}, one.send, 1.0)

    assert outlet.is_direct
    assert outlet.offer(Batch(b"data: 1\n\n"))
    assert outlet.offer(Batch(b"data: 22\n\n"))

    assert b"".join(one.transport.writes[1:]) == b"9\r\ndata: 1\n\n\r\na\r\ndata: 22\n\n\r\n"
    assert outlet.abort()
    assert one.transport.aborted


async def test_a_full_buffer_is_waited_for_in_a_task() -> None:
    one = cycle()
    await one.send(START)
    outlet = body_outlet({}, one.send, 5.0)
    one.flow.pause_writing()

    assert not outlet.offer(Batch(b"x"))
    async with asyncio.TaskGroup() as group:
        group.create_task(outlet.send(Batch(b"x")))
        await asyncio.sleep(0)
        assert len(one.transport.writes) == 1
        one.flow.resume_writing()

    assert one.transport.writes[1:] == [b"1\r\nx\r\n"]


async def test_a_buffer_that_stays_full_is_a_slow_reader() -> None:
    one = cycle()
    await one.send(START)
    outlet = body_outlet({}, one.send, 0.02)
    one.flow.pause_writing()

    with anyio.fail_after(20), pytest.raises(SlowReader):
        await outlet.send(Batch(b"x"))

    assert len(one.transport.writes) == 1


async def test_whatever_wraps_a_send_gets_the_plain_outlet() -> None:
    one = cycle()
    await one.send(START)

    async def wrapped(message: Any) -> None:
        await one.send(message)

    class Double:
        async def send(self, message: Any) -> None:
            await one.send(message)

    assert type(body_outlet({}, wrapped, 1.0)) is BodyOutlet
    assert type(body_outlet({}, Double().send, 1.0)) is BodyOutlet
    assert type(body_outlet({}, one.receive, 1.0)) is BodyOutlet
    assert type(socket_outlet({}, one.send, 1.0)) is SocketOutlet


async def test_a_subclass_that_has_its_own_send_gets_the_plain_outlet() -> None:
    class Own(HTTPToolsCycle):
        async def send(self, message: Any) -> None:
            async with asyncio.timeout(1):
                await super().send(message)

    one = cycle()
    await one.send(START)
    one.__class__ = Own

    assert type(body_outlet({}, one.send, 1.0)) is BodyOutlet


async def test_without_uvicorn_everything_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cycle()
    await one.send(START)
    monkeypatch.setattr(direct, "_IS_UVICORN_HERE", False)

    assert type(body_outlet({}, one.send, 1.0)) is BodyOutlet


async def test_nothing_is_written_to_who_has_left() -> None:
    one = cycle()
    await one.send(START)
    outlet = body_outlet({}, one.send, 1.0)
    one.disconnected = True

    assert outlet.offer(Batch(b"late"))
    assert len(one.transport.writes) == 1


async def test_a_body_that_is_not_chunked_gets_the_plain_outlet() -> None:
    one = cycle()
    await one.send({**START, "headers": [(b"content-length", b"5")]})

    assert type(body_outlet({}, one.send, 1.0)) is BodyOutlet


async def test_h11_gets_the_plain_outlet() -> None:
    one = cycle("h11")
    await one.send(START)

    assert type(body_outlet({}, one.send, 1.0)) is BodyOutlet


@pytest.mark.parametrize("size", [1, 15, 16, 65536])
async def test_a_shared_chunk_is_what_uvicorn_would_have_sent(size: int) -> None:
    one = cycle()
    await one.send(START)
    outlet = body_outlet({}, one.send, 1.0)
    batch = Batch(b"x" * size)

    assert outlet.offer(batch)
    await outlet.send(batch)

    assert one.transport.writes[-1] == one.transport.writes[-2] == batch.wire


async def test_a_hub_feeds_uvicorn_without_a_task_for_each_reader(
    hub: Hub, log: Any, topic: Topic, make_draft: Callable[..., Draft], settled: Settled
) -> None:
    cycles = [cycle() for _ in range(20)]
    tasks = []
    for one in cycles:
        one.scope["extensions"] = {}
        await one.send(START)
        feed = await open_feed(hub, topic, View(), NOW, given=False)
        assert feed is not None
        tasks.append(asyncio.create_task(feed.run(one.scope, one.receive, one.send)))
    for one in cycles:
        one.more_body = False
    await settled()
    alive = len(asyncio.all_tasks())

    for _ in range(3):
        log.put(make_draft(), make_draft())
        await settled()

    assert len(asyncio.all_tasks()) == alive
    assert hub.stats.tasks == 0
    assert hub.stats.encoded == 6
    assert [len(one.transport.writes) for one in cycles] == [1 + 1 + 3] * 20

    for one in cycles:
        one.disconnected = True
        one.message_event.set()
    with anyio.fail_after(20):
        await asyncio.gather(*tasks)


async def test_a_feed_on_uvicorn_is_woken_for_its_farewell(hub: Hub, topic: Topic, settled: Settled) -> None:
    one, wrapped = cycle(), cycle()
    tasks = []
    for each in (one, wrapped):
        each.more_body = False
        await each.send(START)
        feed = await open_feed(hub, topic, View(), NOW, given=False)
        assert feed is not None

        async def receive(each: Any = each) -> Any:
            return await each.receive()

        heard = one.receive if each is one else receive
        tasks.append(asyncio.create_task(feed.run(each.scope, heard, each.send)))
    await settled()

    with anyio.fail_after(20):
        assert await hub.drain() == 0
        await asyncio.gather(*tasks)

    for each in (one, wrapped):
        assert b"stream.closing" in each.transport.writes[-1]
        assert each.transport.writes[-1].endswith(b"0\r\n\r\n")
        assert each.response_complete


def handshake() -> Request:
    headers = Headers()
    headers["Host"] = "x"
    headers["Connection"] = "Upgrade"
    headers["Upgrade"] = "websocket"
    headers["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    headers["Sec-WebSocket-Version"] = "13"
    return Request("/", headers)


async def socket(*, deflate: bool = False) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.get_running_loop().create_future()

    config = Config(
        app, ws="websockets-sansio", ws_per_message_deflate=deflate, log_config=None, lifespan="off"
    )
    config.load()
    protocol = WebSocketsSansIOProtocol(config, ServerState(), {})
    protocol.connection_made(Transport())
    request = handshake()
    if deflate:
        request.headers["Sec-WebSocket-Extensions"] = "permessage-deflate"
    protocol.data_received(request.serialize())
    await protocol.send({"type": "websocket.accept"})
    return protocol


async def close(protocol: Any) -> None:
    protocol.stop_keepalive()
    for task in tuple(protocol.tasks):
        task.cancel()
    await asyncio.gather(*protocol.tasks, return_exceptions=True)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 70000])
async def test_a_shared_frame_is_what_uvicorn_would_have_sent(size: int) -> None:
    protocol = await socket()
    transport = protocol.transport
    outlet = socket_outlet({}, protocol.send, 1.0)
    batch = Batch(b"x" * size)

    assert outlet.offer(batch)
    await outlet.send(batch)

    assert transport.writes[-2] == transport.writes[-1] == text_frame(b"x" * size)
    assert batch.wire == transport.writes[-1]
    await close(protocol)


async def test_a_socket_that_closes_takes_no_more_frames() -> None:
    protocol = await socket()
    outlet = socket_outlet({}, protocol.send, 1.0)
    await outlet.close(4000, "bye")

    with pytest.raises(ConnectionResetError):
        outlet.offer(Batch(b"late"))

    assert protocol.close_timer is not None
    protocol.close_timer.cancel()
    await close(protocol)


async def test_a_socket_that_cannot_take_more_is_not_ready() -> None:
    protocol = await socket()
    outlet = socket_outlet({}, protocol.send, 1.0)
    assert outlet.offer(Batch(b"x"))

    protocol.pause_writing()

    assert not outlet.offer(Batch(b"x"))
    await close(protocol)


async def test_a_socket_on_which_somebody_waits_for_a_turn_is_not_written_to() -> None:
    protocol = await socket()
    outlet = socket_outlet({}, protocol.send, 1.0)
    protocol.pause_writing()
    waiting = asyncio.create_task(outlet.send(Batch(b"first")))
    await asyncio.sleep(0)
    protocol.resume_writing()

    assert not outlet.offer(Batch(b"second"))

    await waiting
    assert outlet.offer(Batch(b"second"))
    assert protocol.transport.writes[-2:] == [text_frame(b"first"), text_frame(b"second")]
    await close(protocol)


async def test_compressed_sockets_share_no_frames() -> None:
    protocol = await socket(deflate=True)

    assert type(socket_outlet({}, protocol.send, 1.0)) is SocketOutlet
    await close(protocol)
