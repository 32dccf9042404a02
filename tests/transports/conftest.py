"""Doubles for the transports: a log whose ring is shorter than its store, outlets that remember, and an ASGI peer."""

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from sockets import Backend, Client

from agentkit.log import EARLIEST, NOW, Cursor, Draft, Gap, Page, Record, Tail, Topic
from agentkit_transports.hub import Hub, HubSettings
from agentkit_transports.outlet import Batch, Outlet, SlowReader
from agentkit_transports.session import SessionLimits
from agentkit_transports.websocket import WebSocketEndpoint

TOPIC = Topic("", "planner", "t1")


@pytest.fixture
def anyio_backend() -> str:
    """Transports run on asyncio."""
    return "asyncio"


def draft(
    type: str = "text.delta",  # noqa: A002
    *,
    kind: str = "",
    run: str = "r1",
    text: str = "x",
    terminal: bool = False,
) -> Draft:
    """An event on its way into a log."""
    data = {"text": text, "kind": kind} if kind else {"text": text}
    body = {"type": type, "agent": "planner", "thread": "t1", "run": run, "data": data}
    return Draft(
        type, kind, run, 1, f"{run}.1.0", 0.0, json.dumps(body, ensure_ascii=False).encode(), terminal
    )


class FakeLog:
    """A log that keeps all records, with rings of the last `ring` only."""

    def __init__(self, ring: int = 1000) -> None:
        self.ring = ring
        self.reads: list[Cursor] = []
        self.error: Exception | None = None
        """Raised by reads."""
        self._tails: dict[Topic, Tail] = {}
        self._stores: dict[Topic, list[Record]] = {}

    def put(self, *drafts: Draft, topic: Topic = TOPIC) -> list[Record]:
        """Append at once."""
        tail = self.ring_of(topic)
        records = [Record.of(one, tail.epoch, tail.head + 1 + number) for number, one in enumerate(drafts)]
        self._stores.setdefault(topic, []).extend(records)
        # a log's feeder may be a plain callback of the loop, in which anyio finds no task
        contextvars.Context().run(tail.append, records)
        tail.trim(tail.head - self.ring + 1)
        return records

    def ring_of(self, topic: Topic = TOPIC) -> Tail:
        """The topic's tail, without waiting."""
        return self._tails.setdefault(topic, Tail("E"))

    @property
    def wakers(self) -> int:
        """How many are woken by appends."""
        return sum(len(tail._wakers) for tail in self._tails.values())

    def forget(self, first: int, topic: Topic = TOPIC) -> None:
        """Trim the store too."""
        self._stores[topic] = [record for record in self._stores[topic] if record.seq >= first]
        self.ring_of(topic).trim(first)

    def restart(self, epoch: str, topic: Topic = TOPIC, *, erased: str = "") -> None:
        """Lose everything."""
        self._stores[topic] = []
        contextvars.Context().run(lambda: self.ring_of(topic).reset(epoch, erased=erased))

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        """See `EventLog`."""
        return self.put(*drafts, topic=topic)

    async def delete(self, topic: Topic) -> None:
        """See `EventLog`."""
        self.restart("D", topic, erased=self.ring_of(topic).epoch)

    async def tail(self, topic: Topic) -> Tail:
        """See `EventLog`."""
        await asyncio.sleep(0)
        return self.ring_of(topic)

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        """See `EventLog`."""
        await asyncio.sleep(0)
        self.reads.append(after)
        if self.error is not None:
            raise self.error
        ring = self.ring_of(topic)
        store = self._stores.get(topic, [])
        first = store[0].seq if store else ring.head + 1
        gap: Gap | None = None
        seq = after.seq
        if after == NOW:
            seq = ring.head
        elif after.epoch != ring.epoch:
            seq = 0
            if after != EARLIEST:
                gap = Gap("deleted" if after.epoch == ring.erased else "epoch", 0, first - 1)
        elif seq > ring.head:
            gap = Gap("future", ring.head + 1, seq)
            seq = ring.head
        if seq + 1 < first:
            gap = gap or Gap("trimmed", seq + 1, first - 1)
            seq = first - 1
        records = [record for record in store if record.seq > seq][:limit]
        return Page(records, Cursor(ring.epoch, seq + len(records)), ring.head, gap)


class FakeOutlet(Outlet):
    """A connection that takes bytes while it is open. Writes and sends are remembered with the turn of the loop in which they came."""

    def __init__(self, *, is_direct: bool = True, is_open: bool = True) -> None:
        self.is_direct = is_direct
        self.is_open = is_open
        self.batches: list[Batch] = []
        self.writes: list[bytes] = []
        self.ticks: list[int] = []
        self.sends = 0
        self.aborted = False
        self.error: Exception | None = None
        self.timeout = 30.0
        self._opened = asyncio.Event()

    @property
    def data(self) -> bytes:
        """All that came."""
        return b"".join(self.writes)

    def open(self) -> None:
        """Take bytes again."""
        self.is_open = True
        self._opened.set()

    def offer(self, batch: Batch) -> bool:
        if not (self.is_direct and self.is_open):
            return False
        self._keep(batch)
        return True

    async def send(self, batch: Batch) -> None:
        if not self.is_open:
            self._opened.clear()
            try:
                async with asyncio.timeout(self.timeout):
                    await self._opened.wait()
            except TimeoutError:
                raise SlowReader from None
        self.sends += 1
        self._keep(batch)

    def abort(self) -> bool:
        self.aborted = True
        return True

    def _keep(self, batch: Batch) -> None:
        if self.error is not None:
            raise self.error
        self.batches.append(batch)
        self.writes.append(batch.data)
        self.ticks.append(Ticks.now)


class Ticks:
    """Counts the turns of the loop while a test wants to know."""

    now = 0


class Peer:
    """The other end of one ASGI connection: what was sent, and what it says."""

    def __init__(self, scope: Mapping[str, Any] | None = None) -> None:
        self.aborted = False
        self.scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": [], **(scope or {})}
        self.scope["extensions"] = {"agentkit.abort": {"abort": self._abort}}
        self.messages: list[dict[str, Any]] = []
        self.is_stuck = False
        """True: no send goes through."""
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._news = asyncio.Event()
        self._unstuck = asyncio.Event()

    def say(self, message: dict[str, Any]) -> None:
        """Let the application receive a message."""
        self._incoming.put_nowait(message)

    def leave(self) -> None:
        """Close from this side."""
        kind = "http.disconnect" if self.scope["type"] == "http" else "websocket.disconnect"
        self.say({"type": kind, "code": 1001})

    async def receive(self) -> dict[str, Any]:
        """The application's `receive`."""
        return await self._incoming.get()

    async def send(self, message: dict[str, Any]) -> None:
        """The application's `send`."""
        while self.is_stuck and not self.aborted:
            self._unstuck.clear()
            await self._unstuck.wait()
        if self.aborted:
            return  # as uvicorn does
        self.messages.append(dict(message))
        self._news.set()

    def unstick(self) -> None:
        """Take bytes again."""
        self.is_stuck = False
        self._unstuck.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that was sent makes a condition true."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    @property
    def body(self) -> bytes:
        """The bytes of all body messages."""
        return b"".join(one.get("body", b"") for one in self.messages if one["type"] == "http.response.body")

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The JSON of all text frames."""
        return [json.loads(one["text"]) for one in self.messages if one["type"] == "websocket.send"]

    def _abort(self) -> None:
        self.aborted = True
        self._unstuck.set()
        self.leave()


async def settle(turns: int = 20) -> None:
    """Let everything run that can run without waiting for a timer."""
    for _ in range(turns):
        await asyncio.sleep(0)
        Ticks.now += 1


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for five seconds at most."""
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event of its own
            await asyncio.sleep(0.002)


@pytest.fixture
def make_draft() -> Callable[..., Draft]:
    """Make a draft."""
    return draft


@pytest.fixture
def make_log() -> type[FakeLog]:
    """Make a log."""
    return FakeLog


@pytest.fixture
def make_outlet() -> type[FakeOutlet]:
    """Make an outlet."""
    return FakeOutlet


@pytest.fixture
def make_peer() -> type[Peer]:
    """Make a peer."""
    return Peer


@pytest.fixture
def settled() -> Callable[..., Any]:
    """Await it to let everything run that can."""
    return settle


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Await it with a condition to wait for."""
    return until


@pytest.fixture
def topic() -> Topic:
    """The topic that the doubles use."""
    return TOPIC


@pytest.fixture
def log() -> FakeLog:
    """A log."""
    return FakeLog()


@pytest.fixture
async def hub(log: FakeLog) -> AsyncIterator[Hub]:
    """A hub that must be idle again, without tasks, when the test is over."""
    hub = Hub(log, settings=HubSettings(heartbeat=300.0))
    yield hub
    await settle()
    assert hub.is_idle
    assert log.wakers == 0
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("reader of")] == []


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
