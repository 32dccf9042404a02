"""Links that break in the middle of a run: nothing is lost, nothing comes twice."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import websockets
from e2e.peers import Follower, Proxy, start_run
from e2e.servers import Running, running, until

PROTOCOL = websockets.Subprotocol("agentkit.v1")

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One server for this file; each test has a thread of its own."""
    with running() as one:
        yield one


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    """A thread of the test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]


async def test_a_feed_of_reasoning_comes_while_the_run_goes_on(server: Running, thread: str) -> None:
    path = f"{server.url}/v1/agents/held/threads/{thread}"
    follower = Follower(f"{path}/events?types=reasoning&after=earliest")
    following = asyncio.create_task(follower.follow(until="reasoning_block.finished"))
    run = await start_run(server.url, "held", thread)
    await asyncio.wait_for(following, 20)

    async with httpx2.AsyncClient(trust_env=False) as client:
        status = (await client.get(f"{path}/runs/{run}")).json()["status"]
    assert status == "running"
    assert follower.named == ["", "reasoning_block.started", "reasoning", "reasoning_block.finished"]
    assert follower.records[1]["data"] == {"kind": "delta", "provider": "scripted", "text": "hm", "data": {}}


async def test_sse_over_a_link_that_breaks_has_no_gap_and_no_duplicate(server: Running, thread: str) -> None:
    whole = Follower(f"{server.url}/v1/agents/quick/threads/{thread}/events?after=earliest")
    following = asyncio.create_task(whole.follow(until="run.finished"))
    async with Proxy(server.port, [700, 1500, 2500, 100, 3000]).open() as proxy:
        run = await start_run(server.url, "quick", thread)
        url = (
            f"http://127.0.0.1:{proxy.port}/v1/agents/quick/threads/{thread}/events?run={run}&after=earliest"
        )
        broken = Follower(url)
        while "stream.end" not in [event["type"] for event in broken.events]:
            await asyncio.wait_for(broken.follow(), 20)
    await asyncio.wait_for(following, 20)

    assert proxy.connections >= 5
    assert broken.records == whole.records
    assert broken.seqs == list(range(1, len(broken.seqs) + 1))
    assert not [event for event in broken.events if event["type"] == "stream.gap"]


async def test_a_feed_that_is_over_says_204_to_who_comes_back(server: Running, thread: str) -> None:
    run = await start_run(server.url, "quick", thread)
    url = f"{server.url}/v1/agents/quick/threads/{thread}/events?run={run}&after=earliest"
    first = await asyncio.wait_for(Follower(url).follow(until="nothing"), 20)
    again = await asyncio.wait_for(Follower(url, last_id=first.last_id).follow(), 20)

    assert (first.ended_cleanly, first.events[-1]["type"]) == (True, "stream.end")
    assert again.status == 204


async def socket_events(port: int, thread: str, after: str) -> AsyncIterator[dict[str, Any]]:
    """Subscribe to a thread over WebSocket, and yield its envelopes until the link breaks."""
    try:
        async with websockets.connect(
            f"ws://127.0.0.1:{port}/v1/ws", subprotocols=[PROTOCOL], proxy=None
        ) as socket:
            await socket.send(
                json.dumps(
                    {"op": "sub", "rid": "1", "topic": f"agents/quick/threads/{thread}", "after": after}
                )
            )
            async for text in socket:
                frame = json.loads(text)
                assert frame["op"] in ("welcome", "ok", "ev"), frame
                for event in frame.get("e", ()):
                    yield event
    except (websockets.ConnectionClosed, websockets.InvalidMessage):
        return


async def test_a_socket_over_a_link_that_breaks_has_no_gap_and_no_duplicate(
    server: Running, thread: str
) -> None:
    whole = Follower(f"{server.url}/v1/agents/quick/threads/{thread}/events?after=earliest")
    following = asyncio.create_task(whole.follow(until="run.finished"))
    records: list[dict[str, Any]] = []
    async with Proxy(server.port, [1200, 2500, 50, 3000]).open() as proxy, asyncio.timeout(10):
        await start_run(server.url, "quick", thread)
        while not records or records[-1]["type"] != "run.finished":
            async for event in socket_events(
                proxy.port, thread, records[-1]["id"] if records else "earliest"
            ):
                records.append(event)
                if event["type"] == "run.finished":
                    break
    await asyncio.wait_for(following, 20)

    assert proxy.connections >= 5
    assert records == whole.records


async def test_a_run_is_started_and_cancelled_over_a_socket(server: Running, thread: str) -> None:
    async with (
        websockets.connect(
            f"ws://127.0.0.1:{server.port}/v1/ws",
            subprotocols=[PROTOCOL],
            proxy=None,
        ) as socket,
        asyncio.timeout(20),
    ):
        topic = f"agents/held/threads/{thread}"
        await socket.send(json.dumps({"op": "sub", "rid": "1", "topic": topic, "after": "now"}))
        await socket.send(
            json.dumps({"op": "run", "rid": "2", "agent": "held", "thread": thread, "input": "hello"})
        )
        frames: list[dict[str, Any]] = []
        while not any(frame.get("rid") == "2" for frame in frames):
            frames.append(json.loads(await socket.recv()))
        run = frames[-1]["run"]
        await socket.send(
            json.dumps({"op": "cancel", "rid": "3", "agent": "held", "thread": thread, "run": run})
        )
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != "run.cancelled":
            frame = json.loads(await socket.recv())
            frames.append(frame)
            events += frame.get("e", ())

    sub = next(frame for frame in frames if frame.get("rid") == "1")
    assert (sub["op"], sub["topic"]) == ("ok", topic)
    assert [frame for frame in frames if frame["op"] == "err"] == []
    assert next(frame for frame in frames if frame.get("rid") == "3")["op"] == "ok"
    assert events[-1]["run"] == run
    assert events[-1]["data"]["reason"] == "a client asked"


async def test_readers_of_our_server_that_keep_up_need_no_task_each(server: Running, thread: str) -> None:
    hub = server.app.service.hub
    before = hub.stats.tasks
    follower = Follower(f"{server.url}/v1/agents/quick/threads/{thread}/events")
    following = asyncio.create_task(follower.follow(until="run.finished"))
    async with websockets.connect(
        f"ws://127.0.0.1:{server.port}/v1/ws", subprotocols=[PROTOCOL], proxy=None
    ) as socket:
        topic = f"agents/quick/threads/{thread}"
        await socket.send(json.dumps({"op": "sub", "rid": "1", "topic": topic, "after": "now"}))
        assert json.loads(await socket.recv())["op"] == "ok"
        await asyncio.to_thread(until, lambda: len(follower.events) == 1)
        await start_run(server.url, "quick", thread)
        async with asyncio.timeout(20):
            while "run.finished" not in str(await socket.recv()):
                pass
    await asyncio.wait_for(following, 20)

    assert hub.stats.tasks == before
