"""The plain outlets: any server's `send`, under a timeout."""

import asyncio
from typing import Any

import anyio
import pytest

from agentkit_transports.asgi import ABORT
from agentkit_transports.outlet import Batch, BodyOutlet, SlowReader, SocketOutlet

pytestmark = pytest.mark.anyio


async def test_messages_are_made_once_and_shared(make_peer: Any) -> None:
    first, second = make_peer(), make_peer()
    batch = Batch(b"data: 1\n\n")

    for peer in (first, second):
        await BodyOutlet(peer.scope, peer.send, 1.0).send(batch)

    assert first.messages == [{"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}]
    assert first.messages[0]["body"] is second.messages[0]["body"]


async def test_a_body_is_finished_with_its_last_piece(make_peer: Any) -> None:
    peer = make_peer()

    await BodyOutlet(peer.scope, peer.send, 1.0).finish(b"bye")

    assert peer.messages == [{"type": "http.response.body", "body": b"bye", "more_body": False}]


async def test_a_socket_sends_text_and_closes(make_peer: Any) -> None:
    peer = make_peer()
    outlet = SocketOutlet(peer.scope, peer.send, 1.0)

    await outlet.send(Batch("é".encode()))
    await outlet.close(4000, "bye")

    assert peer.messages == [
        {"type": "websocket.send", "text": "é"},
        {"type": "websocket.close", "code": 4000, "reason": "bye"},
    ]


async def test_plain_outlets_take_nothing_without_waiting(make_peer: Any) -> None:
    peer = make_peer()

    assert not BodyOutlet(peer.scope, peer.send, 1.0).offer(Batch(b"x"))
    assert peer.messages == []


async def test_a_send_that_does_not_go_through_in_time_is_a_slow_reader(make_peer: Any) -> None:
    peer = make_peer()
    peer.is_stuck = True

    with anyio.fail_after(20), pytest.raises(SlowReader):
        await BodyOutlet(peer.scope, peer.send, 0.02).send(Batch(b"x"))

    assert peer.messages == []


async def test_a_timeout_of_the_servers_own_is_not_ours() -> None:
    async def send(message: Any) -> None:
        raise TimeoutError("the network's")

    with pytest.raises(TimeoutError, match="network"):
        await BodyOutlet({}, send, 1.0).send(Batch(b"x"))


async def test_only_one_writes_to_a_socket_and_waiting_for_ones_turn_is_not_slow() -> None:
    busy: list[int] = []

    async def send(message: Any) -> None:
        busy.append(1)
        assert len(busy) == 1
        await asyncio.sleep(0.1)
        busy.pop()

    outlet = SocketOutlet({}, send, 1.0)
    with anyio.fail_after(20):
        await asyncio.gather(*[outlet.send(Batch(b"x")) for _ in range(12)])


async def test_an_abort_is_the_servers_to_give(make_peer: Any) -> None:
    peer = make_peer()

    assert BodyOutlet(peer.scope, peer.send, 1.0).abort()
    assert peer.aborted
    assert not BodyOutlet({"extensions": {}}, peer.send, 1.0).abort()
    assert not BodyOutlet({}, peer.send, 1.0).abort()
    assert ABORT in peer.scope["extensions"]


async def test_a_socket_that_was_closed_meanwhile_is_a_client_that_left(make_peer: Any) -> None:
    async def send(_: object) -> None:
        raise RuntimeError("Unexpected ASGI message 'websocket.send', after sending 'websocket.close'")

    with pytest.raises(ConnectionResetError):
        await SocketOutlet(make_peer().scope, send, 1.0).send(Batch(b"x"))
