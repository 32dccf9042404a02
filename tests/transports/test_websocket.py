"""The socket over ASGI: what its client sees, with a backend of the test's own."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from sockets import PATH, Backend, Client, Connect, seqs

from agentkit.errors import EngineError
from agentkit.log import Draft, Topic
from agentkit_transports.hub import Hub
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.websocket import WebSocketEndpoint

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]


async def test_the_subprotocol_is_echoed_and_hello_is_welcomed(connect: Connect) -> None:
    client = connect(subprotocols=["token.x", "agentkit.v1"])

    client.send(op="hello")
    (welcome,) = await client.expect(1)

    assert client.peer.messages[0] == {
        "type": "websocket.accept",
        "subprotocol": "agentkit.v1",
        "headers": [],
    }
    assert welcome["op"] == "welcome"
    await client.leave()


async def test_a_subscription_is_confirmed_before_its_records_which_come_in_batches(
    connect: Connect, log: Any, make_draft: MakeDraft
) -> None:
    log.put(*[make_draft() for _ in range(5)])
    client = connect()

    client.send(op="sub", rid="1", topic=PATH, after="E-2")
    frames = await client.expect(2)
    log.put(make_draft(), make_draft())
    frames = await client.expect(3)

    assert frames[0] == {
        "op": "ok",
        "rid": "1",
        "topic": PATH,
        "epoch": "E",
        "after": 2,
        "head": 5,
        "resumed": True,
    }
    assert [(frame["op"], frame["topic"], len(frame["e"])) for frame in frames[1:]] == [
        ("ev", PATH, 3),
        ("ev", PATH, 2),
    ]
    assert seqs(frames) == [3, 4, 5, 6, 7]
    assert frames[1]["e"][0] == {
        "v": 1,
        "id": "E-3",
        "seq": 3,
        "type": "text.delta",
        "agent": "planner",
        "thread": "t1",
        "run": "r1",
        "data": {"text": "x"},
    }
    await client.leave()


async def test_a_burst_comes_in_frames_of_at_most_64_kib(
    connect: Connect, log: Any, make_draft: MakeDraft
) -> None:
    client = connect()
    client.send(op="sub", rid="1", topic=PATH)
    await client.expect(1)

    log.put(*[make_draft(text="y" * (size * 331)) for size in range(1, 41)])
    with anyio.fail_after(20):
        await client.peer.until(lambda: len(seqs(client.peer.frames)) == 40)

    sizes = [len(one["text"]) for one in client.peer.messages if one["type"] == "websocket.send"]
    assert max(sizes) <= 64 * 1024
    assert seqs(client.peer.frames) == list(range(1, 41))
    await client.leave()


async def test_a_loss_is_told_between_the_confirmation_and_the_records(
    connect: Connect, log: Any, make_draft: MakeDraft
) -> None:
    log.put(*[make_draft() for _ in range(5)])
    log.forget(4)
    client = connect()

    client.send(op="sub", rid="1", topic=PATH, after="E-1")
    frames = await client.expect(3)

    assert [frame["op"] for frame in frames] == ["ok", "gap", "ev"]
    assert frames[1] == {"op": "gap", "topic": PATH, "id": "E-3", "from": 2, "to": 3, "reason": "trimmed"}
    assert seqs(frames) == [4, 5]
    await client.leave()


async def test_a_run_subscription_ends_and_its_topic_is_free_again(
    connect: Connect, backend: Backend, log: Any, make_draft: MakeDraft
) -> None:
    client = connect()
    client.send(op="sub", rid="1", topic=PATH, run="r1")
    await client.expect(1)

    log.put(
        make_draft(run="r0"), make_draft(), make_draft("run.finished", terminal=True), make_draft(run="r2")
    )
    frames = await client.expect(3)
    backend.ended.add("r1")
    client.send(op="sub", rid="2", topic=PATH, run="r1")
    frames = await client.expect(5)

    assert seqs(frames) == [2, 3]
    assert frames[2] == {"op": "end", "topic": PATH, "id": "E-3"}
    assert (frames[3]["op"], frames[3]["rid"]) == ("ok", "2")
    assert frames[4] == {"op": "end", "topic": PATH, "id": "E-4"}
    await client.leave()


async def test_filters_and_exposure_apply(
    connect: Connect, backend: Backend, log: Any, make_draft: MakeDraft
) -> None:
    backend.shown = "summary"
    client = connect()
    client.send(op="sub", rid="1", topic=PATH, types=["reasoning"], kinds=["delta", "summary"])
    await client.expect(1)

    log.put(make_draft(), make_draft("reasoning", kind="delta"), make_draft("reasoning", kind="summary"))
    frames = await client.expect(2)

    assert seqs(frames) == [3]
    await client.leave()


async def test_after_unsub_nothing_more_comes_and_the_rest_can_be_had_again(
    connect: Connect, log: Any, make_draft: MakeDraft, settled: Settled
) -> None:
    client = connect()
    client.send(op="sub", rid="1", topic=PATH)
    await client.expect(1)
    log.put(make_draft())
    await client.expect(2)

    client.send(op="unsub", rid="2", topic=PATH)
    frames = await client.expect(3)
    log.put(make_draft())
    await settled()
    assert frames[2] == {"op": "ok", "rid": "2", "topic": PATH}
    assert len(client.peer.frames) == 3

    client.send(op="sub", rid="3", topic=PATH, after="E-1")
    frames = await client.expect(5)
    assert seqs(frames) == [1, 2]
    await client.leave()


async def test_unsub_is_confirmed_after_a_send_that_was_under_way(
    hub: Hub, backend: Backend, log: Any, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    peer = make_peer({"type": "websocket", "subprotocols": []})
    peer.say({"type": "websocket.connect"})

    async def send(message: Any) -> None:
        if "text.delta" in message.get("text", ""):
            try:
                await asyncio.get_running_loop().create_future()
            finally:  # a server that has begun to write does not stop in the middle
                peer.messages.append(dict(message))
        await peer.send(message)

    client = Client(peer, asyncio.create_task(WebSocketEndpoint(backend)(peer.scope, peer.receive, send)))
    client.send(op="sub", rid="1", topic=PATH)
    await client.expect(1)
    log.put(make_draft())
    await settled()

    client.send(op="unsub", rid="2", topic=PATH)
    frames = await client.expect(3)

    assert [frame["op"] for frame in frames] == ["ok", "ev", "ok"]
    await client.leave()


async def test_one_socket_follows_several_topics(connect: Connect, log: Any, make_draft: MakeDraft) -> None:
    client = connect()
    for number in range(3):
        client.send(op="sub", rid=number, topic=f"agents/planner/threads/t{number}")
    await client.expect(3)

    for number in range(3):
        log.put(make_draft(), topic=Topic("", "planner", f"t{number}"))
    frames = await client.expect(6)

    assert sorted(frame["topic"] for frame in frames[3:]) == [
        f"agents/planner/threads/t{number}" for number in range(3)
    ]
    await client.leave()


@pytest.mark.parametrize(
    ("frame", "answer", "asked"),
    [
        pytest.param(
            {"op": "run", "agent": "planner", "thread": "t1", "input": "hi"},
            {"op": "ok", "rid": "1", "run": "run-of-hi"},
            ("anybody", "run", "planner", "t1"),
            id="run",
        ),
        pytest.param(
            {"op": "cancel", "agent": "planner", "thread": "t1", "run": "r1"},
            {"op": "ok", "rid": "1", "run": "r1"},
            ("anybody", "cancel", "planner", "t1"),
            id="cancel",
        ),
        pytest.param(
            {"op": "steer", "agent": "planner", "thread": "t1", "run": "r1", "input": "x"},
            501,
            ("anybody", "steer", "planner", "t1"),
            id="steer, not built",
        ),
        pytest.param(
            {
                "op": "approve",
                "agent": "planner",
                "thread": "t1",
                "run": "r1",
                "approval": "p",
                "approved": True,
            },
            501,
            ("anybody", "approve", "planner", "t1"),
            id="approve, not built",
        ),
        pytest.param(
            {"op": "run", "agent": "other", "thread": "t1", "input": "hi"},
            404,
            ("anybody", "run", "other", "t1"),
            id="an agent that is not there",
        ),
        pytest.param(
            {"op": "sub", "topic": "agents/other/threads/t1"},
            404,
            ("anybody", "read", "other", "t1"),
            id="a topic that may not be seen",
        ),
        pytest.param(
            {"op": "sub", "topic": PATH, "run": "nobody"},
            404,
            ("anybody", "read", "planner", "t1"),
            id="a run that is not there",
        ),
    ],
)
async def test_what_a_client_asks_is_authorized_and_answered(
    connect: Connect, backend: Backend, frame: Any, answer: Any, asked: Any
) -> None:
    client = connect()

    client.send(rid="1", **frame)
    (seen,) = await client.expect(1)

    assert backend.asked == [asked]
    if isinstance(answer, int):
        assert (seen["op"], seen["rid"], seen["problem"]["status"]) == ("err", "1", answer)
    else:
        assert seen == answer
    await client.leave()


async def test_a_refused_subscription_can_be_tried_again(connect: Connect, backend: Backend) -> None:
    client = connect()
    backend.error = ProblemError(Problem(404, "not_found"))
    client.send(op="sub", rid="1", topic=PATH)
    await client.expect(1)
    backend.error = None

    client.send(op="sub", rid="2", topic=PATH)
    frames = await client.expect(2)

    assert [frame["op"] for frame in frames] == ["err", "ok"]
    await client.leave()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        pytest.param(
            EngineError("redis://secret@host is down"), 503, "engine_unavailable", id="an engine that is down"
        ),
        pytest.param(ZeroDivisionError("a fault"), 500, "internal", id="a fault"),
    ],
)
async def test_a_backend_that_fails_is_an_err_without_its_words(
    connect: Connect, backend: Backend, error: Exception, status: int, code: str
) -> None:
    backend.error = error
    client = connect()

    client.send(op="run", rid="1", agent="planner", thread="t1", input="hi")
    client.send(op="ping")
    frames = await client.expect(2)

    assert frames[0]["problem"]["status"] == status
    assert frames[0]["problem"]["code"] == code
    assert "secret" not in json.dumps(frames)
    assert frames[1] == {"op": "pong"}
    await client.leave()


async def test_hello_again_refreshes_the_identity(connect: Connect, backend: Backend) -> None:
    client = connect()

    client.send(op="hello", auth="good")
    client.send(op="run", rid="1", agent="planner", thread="t1", input="hi")
    await client.expect(2)

    assert backend.asked == [("anybody>good", "run", "planner", "t1")]
    await client.leave()
