"""What idle readers cost the real server: counted, not timed."""

import asyncio
import json
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
