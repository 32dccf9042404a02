"""A driver of ASGI applications: one request, whose answer may be a stream, without sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import httpx2

from agentkit.sse import ServerSentEvent, SSEDecoder
from agentkit_transports.asgi import Message, Scope

App = Any
"""An ASGI application."""


def client(app: App, *, root_path: str = "", host: str = "testserver") -> httpx2.AsyncClient:
    """Return a client for requests whose answers end."""
    transport = httpx2.ASGITransport(app=app, root_path=root_path)
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}")


def scope_of(method: str, target: str, headers: Mapping[str, str] | None = None) -> Scope:
    """Return the scope of a request."""
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()
        ],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
        "state": {},
    }


class Exchange:
    """One request and its answer, while it comes.

    Attributes:
        status: 0 until the answer has begun.
        headers: of the answer.
        body: what has come of it.
        ended: the application has sent its last piece.
        received: how often the application asked for the request's body.
    """

    def __init__(self, app: App, scope: Scope, body: list[bytes], *, endless: bytes = b"") -> None:
        self._app = app
        self._scope = scope
        self._body = body
        self._endless = endless
        self._left = asyncio.Event()
        self._changed = asyncio.Event()
        self._decoder = SSEDecoder()
        self._events: list[ServerSentEvent] = []
        self._task: asyncio.Task[None] | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self.received = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        self.leave()
        with anyio.fail_after(20):
            await asyncio.wait([self._task])
        if exc[0] is None:
            await self._task

    def leave(self) -> None:
        """Disconnect."""
        self._left.set()

    async def begun(self) -> Self:
        """Wait for the answer's head."""
        await self._until(lambda: self.status != 0)
        return self

    async def finished(self) -> Self:
        """Wait for the answer's end."""
        await self._until(lambda: self.ended)
        return self

    async def next(self) -> ServerSentEvent:
        """Wait for the next frame."""
        await self._until(lambda: bool(self._events))
        return self._events.pop(0)

    async def until(self, type: str) -> list[dict[str, Any]]:  # noqa: A002
        """Return the data of the frames up to the first of a type, that one included."""
        out: list[dict[str, Any]] = []
        while not out or out[-1]["type"] != type:
            out.append(json.loads((await self.next()).data))
        return out

    def json(self) -> Any:
        """Return the whole body as JSON."""
        return json.loads(self.body)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self._changed.set()

    async def _receive(self) -> Message:
        self.received += 1
        if self._endless:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": self._endless, "more_body": True}
        if self._body:
            piece = self._body.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._body)}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self._events += self._decoder.feed(message["body"])
            self.ended = not message.get("more_body", False)
        self._changed.set()

    async def _until(self, condition: Any) -> None:
        assert self._task is not None
        with anyio.fail_after(20):
            while not condition():
                assert not self._task.done(), f"the application ended; {self.status} {self.body!r}"
                self._changed.clear()
                await self._changed.wait()


def get(app: App, target: str, headers: Mapping[str, str] | None = None, *, method: str = "GET") -> Exchange:
    """Return a request without a body; enter it to send it."""
    return Exchange(app, scope_of(method, target, headers), [b""])


def post(
    app: App, target: str, body: Any, headers: Mapping[str, str] | None = None, *, endless: bytes = b""
) -> Exchange:
    """Return a request with a JSON body (or raw bytes); with `endless`, that piece comes again and again."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    every = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    return Exchange(app, scope_of("POST", target, every), [data], endless=endless)


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[list[Message]]:
    """Start an application, and stop it at the end; yields what it says."""
    said: list[Message] = []
    started, stopping = asyncio.Event(), asyncio.Event()
    asked = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        kind = next(asked)
        if kind == "lifespan.shutdown":
            await stopping.wait()
        return {"type": kind}

    async def send(message: Message) -> None:
        said.append(message)
        started.set()

    task = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send))
    with anyio.fail_after(20):
        await started.wait()
    yield said
    stopping.set()
    with anyio.fail_after(20):
        await task
