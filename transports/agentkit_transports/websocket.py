"""The socket's shell: drives a `Session` over ASGI, feeds through the hub, and does what the client asked through a `Backend`.

Asyncio only. `WebSocketEndpoint(backend)` is an ASGI app for the path `/v1/ws`: call it with `(scope, receive, send)`, best without
middleware around `send` (see `sse`). It decides nothing about who may do what, and knows no agents: a backend does.
Grounds: design.md §7 (WebSocket).
"""

import asyncio
import json
import logging
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import ClassVar, Final, TypeVar

from agentkit.content import JsonValue
from agentkit.errors import EngineError
from agentkit.log import Topic
from agentkit_transports.asgi import Message, Receive, Scope, Send, settle
from agentkit_transports.backend import Action, Backend, Identity, Stay
from agentkit_transports.client_frames import Rid
from agentkit_transports.direct import socket_outlet
from agentkit_transports.encoder import PROTOCOLS, View, parse_view
from agentkit_transports.hub import EndReason, Reader, Start
from agentkit_transports.outlet import Batch, SlowReader, SocketOutlet
from agentkit_transports.problem import MEDIA_TYPE, Problem, ProblemError
from agentkit_transports.session import (
    SUBPROTOCOL,
    Approve,
    Authenticate,
    CancelRun,
    Close,
    CloseCode,
    Reply,
    Session,
    SessionLimits,
    StartRun,
    Steer,
    Subscribe,
    Unsubscribe,
    bye,
    err,
    ok,
)
from agentkit_transports.session import Action as SessionAction

logger = logging.getLogger("agentkit")

__all__ = ["Action", "Backend", "Identity", "WebSocketEndpoint"]

T = TypeVar("T")

_FAREWELL_TIMEOUT: Final = 1.0
"""Seconds for the last words to a client that did not keep up."""


_REFUSALS: Final = {
    401: Close(CloseCode.BAD_TOKEN, "bad token"),
    403: Close(CloseCode.FORBIDDEN, "this token is not for this socket"),
    409: Close(CloseCode.TOKEN_EXPIRED, "come back with this token"),
    429: Close(CloseCode.CONNECTION_LIMIT, "too many sockets"),
    503: Close(CloseCode.ENGINE_UNAVAILABLE, "tokens cannot be checked now"),
}
"""What follows a hello that is refused with this status."""


class WebSocketEndpoint:
    """An ASGI app that speaks `agentkit.v1` over WebSocket."""

    def __init__(self, backend: Backend, *, limits: SessionLimits | None = None) -> None:
        self.backend = backend
        self.limits = limits or SessionLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket. Returns when it is over, whatever the end.

        A client that offers subprotocols, but not ours, is told 4505; one that offers none is taken to speak ours.
        """
        if (await receive())["type"] != "websocket.connect":
            return
        try:
            identity = await self.backend.identify(scope)
            stay = self.backend.enter(identity)
        except ProblemError as error:
            await _deny(scope, send, error.problem)
            return
        except Exception:
            logger.exception("it could not be found out who opens a socket")
            await _deny(scope, send, Problem(503, "auth_unavailable"))
            return
        offered = scope.get("subprotocols", [])
        chosen = SUBPROTOCOL if SUBPROTOCOL in offered else None
        try:
            await send({"type": "websocket.accept", "subprotocol": chosen, "headers": []})
            settle(scope)
            conversation = _Conversation(self.backend, self.limits, identity, stay, scope, send)
            if offered and chosen is None:
                conversation.stop(Close(CloseCode.VERSION, f"speak {SUBPROTOCOL}"))
            await conversation.run(receive)
        finally:
            stay.leave()


class _Conversation:
    """One accepted socket."""

    __slots__ = (
        "_backend",
        "_closing",
        "_hello_by",
        "_hub",
        "_identity",
        "_is_gone",
        "_outlet",
        "_readers",
        "_session",
        "_stay",
        "_topics",
        "_waiting",
    )

    transport: ClassVar[str] = "websocket"

    def __init__(
        self,
        backend: Backend,
        limits: SessionLimits,
        identity: Identity | None,
        stay: Stay,
        scope: Scope,
        send: Send,
    ) -> None:
        now = asyncio.get_running_loop().time()
        self._backend = backend
        self._hub = backend.hub
        self._identity = identity
        self._outlet: SocketOutlet = socket_outlet(scope, send, self._hub.settings.send_timeout)
        self._session = Session(limits, is_authenticated=identity is not None, now=now)
        self._hello_by = now + limits.hello_timeout
        self._readers: dict[str, Reader] = {}
        self._topics: dict[str, Topic] = {}
        """Of each subscription: what it watches."""
        self._stay = stay
        stay.begin(self._told_to_stop, self._watched)
        self._waiting: asyncio.Timeout | None = None
        self._closing: Close | None = None
        self._is_gone = False

    async def run(self, receive: Receive) -> None:
        """Converse until one side ends it."""
        self._hub.add(self)
        if self._hub.is_draining:
            self.farewell()
        try:
            await self._converse(receive)
            await self._stop_readers()
            if self._closing is not None and not self._is_gone:
                await self._close(self._closing)
        except SlowReader:
            self._outlet.abort()
        except OSError:
            pass  # the client left in the middle of a send
        finally:
            for reader in self._readers.values():
                reader.close()
            self._hub.remove(self)

    def farewell(self) -> None:
        """Tell the client to come back, and close."""
        self.stop(Close(CloseCode.DRAINING, "the server is going down"))

    def abort(self) -> None:
        """Drop the connection."""
        self._is_gone = True
        self._outlet.abort()
        self.stop(Close(CloseCode.DRAINING, ""))

    def _told_to_stop(self, code: CloseCode, reason: str) -> None:
        self.stop(Close(code, reason))

    def _watched(self) -> Iterable[Topic]:
        return [topic for name, topic in self._topics.items() if name in self._readers]

    def stop(self, closing: Close) -> None:
        """Note how it ends, and wake the task that waits for the client."""
        if self._closing is None:
            self._closing = closing
            if self._waiting is not None:
                self._waiting.reschedule(asyncio.get_running_loop().time())

    def _is_over(self) -> bool:
        return self._closing is not None

    async def _converse(self, receive: Receive) -> None:
        while not self._is_over():
            message = await self._next(receive)
            if message is None:
                actions = [] if self._is_over() else self._session.hello_timeout()
            elif message["type"] == "websocket.disconnect":
                self._is_gone = True
                return
            elif message.get("text") is not None:
                actions = self._session.text(message["text"], asyncio.get_running_loop().time())
            else:
                actions = self._session.binary()
            for action in actions:
                await self._do(action)

    async def _next(self, receive: Receive) -> Message | None:
        """Return what comes from the client, or None where the wait was ended: by `stop`, or because no hello came in time."""
        waiting = self._waiting = asyncio.timeout_at(
            None if self._session.is_authenticated else self._hello_by
        )
        try:
            async with waiting:
                return await receive()
        except TimeoutError:
            if not waiting.expired():
                raise
            return None
        finally:
            self._waiting = None

    async def _close(self, closing: Close) -> None:
        if closing.code is not CloseCode.SLOW:
            await self._say_goodbye(closing)
            return
        try:
            async with asyncio.timeout(_FAREWELL_TIMEOUT):
                await self._say_goodbye(closing)
        except TimeoutError:
            self._outlet.abort()

    async def _say_goodbye(self, closing: Close) -> None:
        if closing.code.means_return:
            await self._send(bye(closing.code, self._hub.retry_ms()))
        await self._outlet.close(closing.code, closing.reason)

    async def _send(self, data: bytes) -> None:
        await self._outlet.send(Batch(data))

    async def _do(self, action: SessionAction) -> None:
        match action:
            case Reply():
                await self._send(action.data)
            case Close():
                self.stop(action)
            case Authenticate():
                await self._authenticate(action)
            case Subscribe():
                await self._subscribe(action)
            case Unsubscribe():
                await self._unsubscribe(action)
            case _:
                data = await self._attempt(action.rid, self._ask(action))
                if data is not None:
                    await self._send(ok(action.rid, data))

    async def _authenticate(self, action: Authenticate) -> None:
        try:
            identity = await self._backend.authenticate(self._identity, action.auth)
            self._stay.renew(identity)
        except ProblemError as error:
            self.stop(_REFUSALS.get(error.problem.status, _REFUSALS[401]))
            return
        except Exception:  # the engine cannot be reached, or somebody's own check is broken
            logger.exception("a socket's token could not be checked")
            self.stop(_REFUSALS[503])
            return
        self._identity = identity
        for reply in self._session.authenticated():
            await self._do(reply)

    async def _subscribe(self, action: Subscribe) -> None:
        found = await self._attempt(action.rid, self._find(action))
        if found is None:
            self._session.unsubscribed(action.topic)
            return
        start, view, has_ended = found
        data: dict[str, JsonValue] = {
            "topic": action.topic,
            "epoch": start.after.epoch,
            "after": start.after.seq,
            "head": start.head,
            "resumed": start.resumed,
        }
        if view.exposure != "full":  # numbers are skipped then
            data["exposure"] = view.exposure
        await self._send(ok(action.rid, data))
        if start.gap is not None:
            await self._send(PROTOCOLS[view.protocol](start.topic, view).gap(start.gap, start.cursor))
        on_end = partial(self._on_end, action.topic)
        self._topics[action.topic] = start.topic
        self._readers[action.topic] = self._hub.attach(start, view, self._outlet, on_end, has_ended=has_ended)

    async def _find(self, action: Subscribe) -> tuple[Start, View, bool]:
        """Return where a subscription begins, what it sees, and whether its run has ended."""
        topic = await self._backend.authorize(self._identity, "read", action.agent, action.thread, action.run)
        start = await self._hub.locate(topic, action.after)
        has_ended = bool(action.run) and await self._backend.has_ended(topic, action.run)
        view = parse_view(
            types=action.types,
            kinds=action.kinds,
            run=action.run,
            merge="1" if action.merge else "0",
            protocol="native.socket",
            exposure=self._backend.exposure(self._identity, topic),
        )
        return start, view, has_ended

    async def _unsubscribe(self, action: Unsubscribe) -> None:
        self._topics.pop(action.topic, None)
        reader = self._readers.pop(action.topic, None)
        if reader is not None:
            reader.close()
            await reader.join()
        await self._send(ok(action.rid, {"topic": action.topic}))

    def _on_end(self, topic: str, reason: EndReason) -> None:
        """A subscription is over by the hub's doing."""
        self._session.unsubscribed(topic)
        self._readers.pop(topic, None)
        self._topics.pop(topic, None)
        match reason:
            case "ended":
                pass  # its `end` is on the way
            case "slow":
                self.stop(Close(CloseCode.SLOW, "you did not keep up"))
            case "failed":
                self.stop(Close(CloseCode.ENGINE_UNAVAILABLE, "the log cannot be read"))
            case "gone":
                self._is_gone = True
                self.stop(Close(CloseCode.SLOW, ""))

    async def _stop_readers(self) -> None:
        readers = tuple(self._readers.values())
        self._readers.clear()
        for reader in readers:
            reader.close()
        for reader in readers:
            await reader.join()

    async def _ask(self, action: StartRun | CancelRun | Steer | Approve) -> Mapping[str, JsonValue]:
        """Let the backend do what the client wants and may."""
        backend, identity = self._backend, self._identity
        match action:
            case StartRun():
                topic = await backend.authorize(identity, "run", action.agent, action.thread)
                return await backend.start_run(identity, topic, action)
            case CancelRun():
                topic = await backend.authorize(identity, "cancel", action.agent, action.thread, action.run)
                return await backend.cancel_run(identity, topic, action)
            case Steer():
                topic = await backend.authorize(identity, "steer", action.agent, action.thread, action.run)
                return await backend.steer(identity, topic, action)
            case Approve():
                topic = await backend.authorize(identity, "approve", action.agent, action.thread, action.run)
                return await backend.approve(identity, topic, action)

    async def _attempt(self, rid: Rid, work: Coroutine[None, None, T]) -> T | None:
        """Return what `work` gives, or None after an `err` with its problem."""
        try:
            return await work
        except ProblemError as error:
            problem = error.problem
        except EngineError as error:
            logger.warning("a socket's request failed: %s", error)
            problem = Problem(503, "engine_unavailable")
        except Exception:
            logger.exception("a socket's request failed")
            problem = Problem(500, "internal")
        await self._send(err(rid, problem))
        return None


async def _deny(scope: Scope, send: Send, problem: Problem) -> None:
    """Answer the handshake with a problem document, where the server can; else with a plain refusal."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": CloseCode.FORBIDDEN, "reason": problem.code})
        return
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": json.dumps(problem.body()).encode()})
