"""How a socket begins and ends: handshakes, hello, wrong frames, drains, slow clients."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest
from sockets import PATH, Backend, Client, Connect

from agentkit.content import JsonValue
from agentkit.errors import EngineError
from agentkit.log import Draft, Topic
from agentkit_transports.backend import Identity
from agentkit_transports.hub import Hub, HubSettings
from agentkit_transports.session import SessionLimits, StartRun
from agentkit_transports.websocket import WebSocketEndpoint

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]


@pytest.mark.parametrize(("offered", "code"), [(["agentkit.v9"], 4505), ([], None)], ids=["another", "none"])
async def test_a_client_that_offers_other_subprotocols_only_is_told_4505(
    connect: Connect, offered: list[str], code: int | None
) -> None:
    client = connect(subprotocols=offered)
    client.peer.leave()

    assert await client.closed() == code
    assert client.peer.messages[0]["subprotocol"] is None


async def test_an_unknown_client_must_say_hello_in_time(connect: Connect, backend: Backend) -> None:
    backend.known = False
    client = connect(SessionLimits(hello_timeout=0.03))

    client.send(op="ping", t=1)

    assert await client.closed() == 4502
    assert client.peer.frames == [{"op": "pong", "t": 1}]


@pytest.mark.parametrize(("token", "code"), [("good", None), ("bad", 4500)])
async def test_hello_says_who_it_is(connect: Connect, backend: Backend, token: str, code: int | None) -> None:
    backend.known = False
    client = connect(SessionLimits(hello_timeout=60))

    client.send(op="hello", auth=token)
    client.send(op="run", rid="1", agent="planner", thread="t1", input="hi")
    if code is None:
        frames = await client.expect(2)
        client.peer.leave()
        assert [frame["op"] for frame in frames] == ["welcome", "ok"]
        assert backend.asked == [("None>good", "run", "planner", "t1")]

    assert await client.closed() == code


@pytest.mark.parametrize("can_answer", [True, False], ids=["problem document", "plain refusal"])
async def test_a_refused_handshake_is_no_socket(connect: Connect, can_answer: bool) -> None:
    extensions: dict[str, Any] = {"websocket.http.response": {}} if can_answer else {}
    client = connect(headers=[("origin", "evil")], extensions=extensions)

    await client.closed()

    if can_answer:
        start, body = client.peer.messages
        assert (start["type"], start["status"]) == ("websocket.http.response.start", 403)
        assert json.loads(body["body"])["code"] == "forbidden"
    else:
        assert [one["type"] for one in client.peer.messages] == ["websocket.close"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        pytest.param({"bytes": b"\x00"}, 4501, id="binary"),
        pytest.param({"text": None, "bytes": b"{}"}, 4501, id="binary JSON"),
        pytest.param({"text": "x" * 70_000}, 1009, id="oversized"),
    ],
)
async def test_frames_that_end_the_socket(connect: Connect, message: Any, code: int) -> None:
    client = connect()

    client.peer.say({"type": "websocket.receive", **message})

    assert await client.closed() == code


async def test_ten_wrong_frames_are_answered_and_then_end_the_socket(connect: Connect) -> None:
    client = connect()
    for _ in range(12):
        client.peer.say({"type": "websocket.receive", "text": "{"})

    assert await client.closed() == 4509
    assert [frame["op"] for frame in client.peer.frames] == ["err"] * 10


async def test_a_drain_says_bye_with_4000(
    connect: Connect, hub: Hub, log: Any, make_draft: MakeDraft
) -> None:
    clients = [connect() for _ in range(3)]
    for client in clients:
        client.send(op="sub", rid="1", topic=PATH)
        await client.expect(1)

    with anyio.fail_after(20):
        assert await hub.drain() == 0

    for client in clients:
        assert await client.closed() == 4000
        last = client.peer.frames[-1]
        assert (last["op"], last["code"]) == ("bye", 4000)
        assert 1000 <= last["retry_ms"] <= 4000
    late = connect()
    assert await late.closed() == 4000


async def test_a_log_that_fails_closes_with_4005(connect: Connect, log: Any, make_draft: MakeDraft) -> None:
    log.ring = 2
    log.put(*[make_draft() for _ in range(10)])
    client = connect()
    client.send(op="sub", rid="1", topic=PATH, after="E-3")
    await client.peer.until(lambda: bool(client.peer.frames))

    log.error = EngineError("gone")

    assert await client.closed() == 4005


async def test_a_stuck_client_is_cut_and_its_neighbour_goes_on(
    log: Any, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    hub = Hub(log, settings=HubSettings(send_timeout=0.05))
    endpoint = WebSocketEndpoint(Backend(hub))
    clients = []
    for _ in range(2):
        peer = make_peer({"type": "websocket", "subprotocols": []})
        peer.say({"type": "websocket.connect"})
        client = Client(peer, asyncio.create_task(endpoint(peer.scope, peer.receive, peer.send)))
        for number in range(3):
            client.send(op="sub", rid="1", topic=f"agents/planner/threads/t{number}")
        await client.expect(3)
        clients.append(client)
    stuck, good = clients

    stuck.peer.is_stuck = True
    for number in range(3):
        log.put(make_draft(), topic=Topic("", "planner", f"t{number}"))
    await good.expect(6)
    await stuck.closed()

    assert stuck.peer.aborted
    assert not good.peer.aborted
    await good.leave()
    assert hub.is_idle


async def test_a_client_that_leaves_leaves_nothing_behind(
    connect: Connect, hub: Hub, log: Any, make_draft: MakeDraft
) -> None:
    log.put(*[make_draft(text="z" * 5000) for _ in range(900)])
    client = connect()
    client.send(op="sub", rid="1", topic=PATH, after="earliest")
    await client.expect(2)

    await client.leave()

    assert hub.is_idle


async def test_a_slow_request_does_not_keep_a_drain_waiting_longer_than_its_grace(
    connect: Connect, hub: Hub, backend: Backend, settled: Settled
) -> None:
    begun = asyncio.Event()
    gate = asyncio.Event()

    async def slow(identity: Identity, topic: Topic, request: StartRun) -> Mapping[str, JsonValue]:
        begun.set()
        await gate.wait()
        return {"run": "r1"}

    backend.start_run = slow  # type: ignore[method-assign]
    client = connect()
    client.send(op="run", rid="1", agent="planner", thread="t1", input="hi")
    await begun.wait()

    with anyio.fail_after(20):
        await hub.drain(grace=0.02)
    gate.set()
    await client.closed()

    assert client.peer.aborted
