"""What tests of sockets share: a backend that remembers, and a socket's other end."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio

from agentkit.content import JsonValue
from agentkit.log import Topic
from agentkit_transports.asgi import Scope
from agentkit_transports.backend import Action, Identity, Stay
from agentkit_transports.encoder import Exposure
from agentkit_transports.hub import Hub
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.session import Approve, CancelRun, CloseCode, StartRun, Steer

PATH = "agents/planner/threads/t1"


class CountedStay:
    """One socket, as a backend counts it."""

    def __init__(self) -> None:
        self.entered: list[Identity | None] = []
        self.stop: Callable[[CloseCode, str], None] | None = None
        self.watched: Callable[[], Iterable[Topic]] = tuple
        self.left = 0
        self.error: ProblemError | None = None

    def begin(self, stop: Callable[[CloseCode, str], None], watched: Callable[[], Iterable[Topic]]) -> None:
        self.stop, self.watched = stop, watched

    def renew(self, identity: Identity) -> None:
        if self.error is not None:
            raise self.error
        self.entered.append(identity)

    def leave(self) -> None:
        self.left += 1


class Backend:
    """Remembers what it was asked."""

    def __init__(self, hub: Hub, *, known: bool = True) -> None:
        self._hub = hub
        self.known = known
        self.stay = CountedStay()
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

    def enter(self, identity: Identity | None) -> Stay:
        if self.stay.error is not None:
            raise self.stay.error
        self.stay.entered.append(identity)
        return self.stay

    async def authorize(
        self, identity: Identity, action: Action, agent: str, thread: str, run: str = ""
    ) -> Topic:
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
        with anyio.fail_after(20):
            await self.peer.until(lambda: len(self.peer.frames) >= count)
        frames: list[Any] = self.peer.frames
        return frames

    async def closed(self) -> int | None:
        """Return the close code once the server's side is over."""
        with anyio.fail_after(20):
            await self.task
        codes = [one["code"] for one in self.peer.messages if one["type"] == "websocket.close"]
        return codes[0] if codes else None

    async def leave(self) -> None:
        self.peer.leave()
        await self.closed()


def seqs(frames: list[Any]) -> list[int]:
    return [envelope["seq"] for frame in frames if frame["op"] == "ev" for envelope in frame["e"]]


Connect = Callable[..., Client]
