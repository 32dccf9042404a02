"""The socket over ASGI: what its client sees, with a backend of the test's own."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest

from agentkit.content import JsonValue
from agentkit.errors import EngineError
from agentkit.log import Draft, Topic
from agentkit_transports.asgi import Scope
from agentkit_transports.backend import Action, Identity
from agentkit_transports.encoder import Exposure
from agentkit_transports.hub import Hub, HubSettings
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.session import Approve, CancelRun, SessionLimits, StartRun, Steer
from agentkit_transports.websocket import WebSocketEndpoint

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]

PATH = "agents/planner/threads/t1"


class Backend:
    """Remembers what it was asked."""

    def __init__(self, hub: Hub, *, known: bool = True) -> None:
        self._hub = hub
        self.known = known
        self.asked: list[tuple[Any, ...]] = []
        self.ended: set[str] = set()
        self.shown: Exposure = "full"
        self.error: Exception | None = None

    @property
    def hub(self) -> Hub:
        return self._hub

    async def identify(self, scope: Scope) -> Identity | None:
        if ("origin", "evil") in scope.get("headers", []):
            raise ProblemError(Problem(403, "forbidden", "this origin may not"))
        return "anybody" if self.known else None

    async def authenticate(self, identity: Identity | None, auth: str) -> Identity:
        if auth != "good":
            raise ProblemError(Problem(401, "unauthenticated"))
        return f"{identity}>{auth}"

    async def authorize(self, identity: Identity, action: Action, agent: str, thread: str) -> Topic:
        self.asked.append((identity, action, agent, thread))
        if self.error is not None:
            raise self.error
        if agent != "planner":
            raise ProblemError(Problem(404, "not_found"))
        return Topic("", agent, thread)

    def exposure(self, identity: Identity, topic: Topic) -> Exposure:
        return self.shown

    async def has_ended(self, topic: Topic, run: str) -> bool:
        if run == "nobody":
            raise ProblemError(Problem(404, "not_found", field="run"))
        return run in self.ended

    async def start_run(self, identity: Identity, topic: Topic, request: StartRun) -> Mapping[str, JsonValue]:
        return {"run": f"run-of-{request.input}"}

    async def cancel_run(
        self, identity: Identity, topic: Topic, request: CancelRun
    ) -> Mapping[str, JsonValue]:
        return {"run": request.run}

    async def steer(self, identity: Identity, topic: Topic, request: Steer) -> Mapping[str, JsonValue]:
        raise ProblemError(Problem(501, "not_supported"))

    async def approve(self, identity: Identity, topic: Topic, request: Approve) -> Mapping[str, JsonValue]:
        raise ProblemError(Problem(501, "not_supported"))


class Client:
    """A socket's other end."""

    def __init__(self, peer: Any, task: asyncio.Task[None]) -> None:
        self.peer = peer
        self.task = task

    def send(self, **frame: Any) -> None:
        self.peer.say({"type": "websocket.receive", "text": json.dumps(frame)})

    async def expect(self, count: int) -> list[Any]:
        """Return all frames that came, once there are `count` of them."""
        with anyio.fail_after(5):
            await self.peer.until(lambda: len(self.peer.frames) >= count)
        frames: list[Any] = self.peer.frames
        return frames

    async def closed(self) -> int | None:
        """Return the close code once the server's side is over."""
        with anyio.fail_after(5):
            await self.task
        codes = [one["code"] for one in self.peer.messages if one["type"] == "websocket.close"]
        return codes[0] if codes else None

    async def leave(self) -> None:
        self.peer.leave()
        await self.closed()


@pytest.fixture
def backend(hub: Hub) -> Backend:
    return Backend(hub)


@pytest.fixture
def connect(backend: Backend, make_peer: Any) -> Callable[..., Client]:
    def connect(limits: SessionLimits | None = None, **scope: Any) -> Client:
        peer = make_peer({"type": "websocket", "subprotocols": ["agentkit.v1"], **scope})
        if "websocket.http.response" in scope.get("extensions", {}):
            peer.scope["extensions"]["websocket.http.response"] = {}
        peer.say({"type": "websocket.connect"})
        endpoint = WebSocketEndpoint(backend, limits=limits)
        return Client(peer, asyncio.create_task(endpoint(peer.scope, peer.receive, peer.send)))

    return connect


Connect = Callable[..., Client]


def seqs(frames: list[Any]) -> list[int]:
    return [envelope["seq"] for frame in frames if frame["op"] == "ev" for envelope in frame["e"]]


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


@pytest.mark.parametrize(("offered", "code"), [(["agentkit.v9"], 4505), ([], None)], ids=["another", "none"])
async def test_a_client_that_offers_other_subprotocols_only_is_told_4505(
    connect: Connect, offered: list[str], code: int | None
) -> None:
    client = connect(subprotocols=offered)
    client.peer.leave()

    assert await client.closed() == code
    assert client.peer.messages[0]["subprotocol"] is None


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
    with anyio.fail_after(5):
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


async def test_hello_again_refreshes_the_identity(connect: Connect, backend: Backend) -> None:
    client = connect()

    client.send(op="hello", auth="good")
    client.send(op="run", rid="1", agent="planner", thread="t1", input="hi")
    await client.expect(2)

    assert backend.asked == [("anybody>good", "run", "planner", "t1")]
    await client.leave()


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

    with anyio.fail_after(5):
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

    with anyio.fail_after(5):
        await hub.drain(grace=0.02)
    gate.set()
    await client.closed()

    assert client.peer.aborted
