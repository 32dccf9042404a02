"""People for tests of access: a server that knows them by name, requests of theirs, and a socket's other end without a socket."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Self

import anyio
from starlette.requests import HTTPConnection

from agentkit.agent import Agent
from agentkit.engine import Engine
from agentkit.testing import Say, ScriptedModel, Think, Wait
from agentkit_server import Application, Auth, Identity, Settings, create_app
from agentkit_server.auth import bearer
from agentkit_transports.asgi import Message

THREAD = "/v1/agents/planner/threads/t1"
TOPIC = "agents/planner/threads/t1"
PEOPLE = {
    "ann": Identity("ann", "one"),
    "bob": Identity("bob", "two"),
    "reader": Identity("reader", "one", frozenset({"read"})),
}


class ByName(Auth):
    """The token is the name. Who is struck out may do nothing any more."""

    def __init__(self, people: Mapping[str, Identity] = PEOPLE) -> None:
        self.people = dict(people)
        self.struck: set[str] = set()

    async def authenticate(self, request: HTTPConnection) -> Identity | None:
        return self.people.get(bearer(request))

    async def authorize(self, identity: Identity, action: Any, agent: str, thread: str) -> bool:
        return identity.subject not in self.struck and await super().authorize(
            identity, action, agent, thread
        )


class Clock:
    """Seconds since the epoch that a test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def make_guarded(auth: Auth | None = None, *, engine: Engine | None = None, **settings: Any) -> Application:
    """Return a server that knows PEOPLE: `planner` answers at once, `held` never."""
    quick: dict[str, Any] = {"drain_timeout": 0.1, "farewell_timeout": 0.2, "retry_ms": (1, 2)}
    return create_app(
        [
            Agent("planner", model=ScriptedModel([Think("hm"), Say("done")], repeat=True)),
            Agent("held", model=ScriptedModel([Say("well"), Wait(3600)], repeat=True)),
        ],
        settings=Settings(**{**quick, **settings}),
        auth=auth or ByName(),
        engine=engine,
    )


def by(name: str) -> dict[str, str]:
    """Return the header by which somebody is known."""
    return {"authorization": f"Bearer {name}"}


class Socket:
    """One socket: enter it to open it.

    Attributes:
        status: of a refused handshake, 0 otherwise.
        code: with which it was closed, None before.
        frames: all that came.
    """

    def __init__(
        self,
        app: Application,
        headers: Mapping[str, str] | None = None,
        protocols: tuple[str, ...] = (),
        query: str = "",
    ) -> None:
        self._app = app
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.status = 0
        self.code: int | None = None
        self.protocol: str | None = None
        self.frames: list[dict[str, Any]] = []
        self._scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "scheme": "ws",
            "path": "/v1/ws",
            "raw_path": b"/v1/ws",
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.encode(), value.encode("latin-1"))
                for name, value in {"host": "testserver", **(headers or {})}.items()
            ],
            "subprotocols": list(protocols),
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
            "state": {},
            "extensions": {"websocket.http.response": {}},
        }

    async def __aenter__(self) -> Self:
        self._said.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(self._app(self._scope, self._said.get, self._send))
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        self._said.put_nowait({"type": "websocket.disconnect", "code": 1005})
        with anyio.fail_after(20):
            await asyncio.wait([self._task])
        if exc[0] is None:
            await self._task

    def say(self, **frame: Any) -> None:
        """Send a frame."""
        self._said.put_nowait({"type": "websocket.receive", "text": json.dumps(frame)})

    async def get(self, op: str) -> dict[str, Any]:
        """Wait for the first frame of a kind, and take it and what came before."""
        await self._until(lambda: any(frame["op"] == op for frame in self.frames))
        place = next(number for number, frame in enumerate(self.frames) if frame["op"] == op)
        found = self.frames[place]
        del self.frames[: place + 1]
        return found

    async def closed(self) -> int:
        """Wait for the end, and return its code, or the status of a refused handshake."""
        await self._until(lambda: self.code is not None or self.status != 0)
        return self.code or self.status

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "websocket.accept":
                self.protocol = message["subprotocol"]
            case "websocket.send":
                self.frames.append(json.loads(message["text"]))
            case "websocket.close":
                self.code = message["code"]
            case "websocket.http.response.start":
                self.status = message["status"]
            case _:
                pass
        self._changed.set()

    async def _until(self, condition: Any) -> None:
        assert self._task is not None
        with anyio.fail_after(20):
            while not condition():
                assert not self._task.done(), f"the socket is over; {self.code} {self.frames}"
                self._changed.clear()
                await self._changed.wait()
