"""What idle readers cost the real server: counted, not timed."""

import asyncio
import gc
import json
from collections import Counter
from collections.abc import Iterator

import pytest
import websockets
from e2e.servers import QUICK, Running, running, until

from agentkit.agent import Agent
from agentkit.testing import Say, ScriptedModel

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

READERS = 20
TOPIC = "agents/quick/threads/main"


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[Running]:
    """One that gives no sign of life while the test counts."""
    quiet = QUICK.model_copy(update={"heartbeat": 60.0, "ping_interval": 60.0, "ping_timeout": 60.0})
    with running(quiet, [Agent("quick", model=ScriptedModel([Say("hi")], repeat=True))]) as one:
        yield one


async def test_an_idle_feed_costs_one_task(server: Running) -> None:
    before = server.look()[0]
    streams = []
    for _ in range(READERS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /v1/{TOPIC}/events HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        await reader.readuntil(b"stream.hello")
        streams.append(writer)

    until(lambda: server.look()[0] <= before + READERS)
    for writer in streams:
        writer.close()


async def test_an_idle_feed_keeps_few_frames_and_nothing_of_its_request(server: Running) -> None:
    streams = []
    for _ in range(READERS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /v1/{TOPIC}/events HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        await reader.readuntil(b"stream.hello")
        streams.append(writer)
    gc.collect()
    held = Counter(type(one).__name__ for one in gc.get_objects())

    # the server's run of the application, a middleware, the application, the stream, the feed, `receive`, its wait
    assert held["coroutine"] < 9 * READERS
    assert held["Request"] < READERS
    assert held["FeedResponse"] == held["HttpRequestParser"] == 0

    for writer in streams:
        writer.close()


async def test_a_connection_is_good_for_more_after_a_feed_and_beside_it(server: Running) -> None:
    host = f"host: 127.0.0.1:{server.port}\r\n"
    more = f"GET /healthz HTTP/1.1\r\n{host}\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = b'{"input":"hi"}'
    head = f"POST /v1/{TOPIC}/runs HTTP/1.1\r\n{host}accept: text/event-stream\r\ncontent-type: application/json\r\n"

    async with asyncio.timeout(10):
        for _ in range(2):
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            await reader.readuntil(b"stream.hello")
            writer.write(more[:20])  # a request is sent before the answer has ended, and in pieces
            await asyncio.sleep(0)
            writer.write(more[20:])
            await reader.readuntil(b"stream.end")
            await reader.readuntil(b"\r\n0\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n")
            await reader.readuntil(b"}")
    writer.close()


async def test_an_idle_subscription_costs_its_socket_no_more_tasks(server: Running) -> None:
    url = f"ws://127.0.0.1:{server.port}/v1/ws"
    protocol = websockets.Subprotocol("agentkit.v1")
    async with websockets.connect(url, subprotocols=[protocol]) as socket:
        await socket.send('{"op":"hello"}')
        await socket.recv()
        before = server.look()[0]
        for number in range(READERS):
            topic = f"agents/quick/threads/t{number}"
            await socket.send(json.dumps({"op": "sub", "rid": str(number), "topic": topic, "after": "now"}))
            assert '"ok"' in str(await socket.recv())

        until(lambda: server.look()[0] <= before)
