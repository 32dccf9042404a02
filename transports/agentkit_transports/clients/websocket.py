"""A feed's connection over WebSocket (`agentkit.v1`). Asyncio only: the `websockets` library is.

One subscription a socket. It does not come back and keeps no cursor: `feed` does.
Grounds: design.md §7 (WebSocket).
"""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, Final

import anyio
import websockets
from websockets.asyncio.client import ClientConnection, connect

from agentkit.errors import ConfigurationError, RemoteError, WireError
from agentkit.network import check_network
from agentkit_transports.clients.access import bearer
from agentkit_transports.clients.frame import Closing, Frame, frames_of_message, hello_of, parse_object
from agentkit_transports.clients.http import Door
from agentkit_transports.clients.place import Place
from agentkit_transports.clients.refusal import Cut, close_error, refusal, refusal_of

_PROTOCOL: Final = websockets.Subprotocol("agentkit.v1")
_RID: Final = "feed"
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds for the closing handshake."""
_QUEUE: Final = 4
"""Frames that are read ahead: what follows waits in the kernel, and the server notices."""


async def open_socket(door: Door, place: Place, after: str) -> "SocketLink":
    """Connect and subscribe.

    Raises:
        Cut, Refused, AgentKitError: as `Door.send`.
        ConfigurationError: not on asyncio.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError('transport="websocket" needs asyncio; on trio use "sse"') from None
    check_network(place.root)
    settings = door.settings
    token = await door.credentials.token()
    more: dict[str, Any] = {"ssl": settings.tls} if settings.tls and place.socket.startswith("wss") else {}
    try:
        socket = await connect(
            place.socket,
            subprotocols=[_PROTOCOL],
            additional_headers=bearer(token),
            user_agent_header="agentkit",
            compression=None,
            proxy=None if place.is_local else True,
            open_timeout=settings.connect_timeout,
            ping_interval=settings.idle_timeout / 2,
            ping_timeout=settings.idle_timeout / 2,
            close_timeout=_CLOSE_TIMEOUT,
            max_size=settings.max_event_size,
            max_queue=_QUEUE,
            **more,
        )
    except websockets.InvalidStatus as error:
        answer = error.response
        headers = {name.lower(): value for name, value in answer.headers.raw_items()}
        raise refusal(
            answer.status_code, headers, bytes(answer.body or b""), time.time(), token=token
        ) from None
    except (websockets.InvalidHandshake, websockets.ConnectionClosed, TimeoutError, OSError) as error:
        raise _unopened(error) from error
    link = SocketLink(socket, place.topic, token)
    try:
        await link.subscribe(place, after)
    except BaseException:
        await link.aclose()
        raise
    return link


class SocketLink:
    """See `link.Link`."""

    __slots__ = ("_delay", "_socket", "_token", "_topic")

    def __init__(self, socket: ClientConnection, topic: str, token: str) -> None:
        self._socket = socket
        self._topic = topic
        self._token = token
        self._delay: float | None = None

    async def subscribe(self, place: Place, after: str) -> None:
        """Ask for the feed; the answer comes by `next`."""
        frame: dict[str, Any] = {"op": "sub", "rid": _RID, "topic": place.topic, "after": after}
        frame |= {"run": place.run} if place.run else {}
        frame |= {"types": list(place.types)} if place.types else {}
        frame |= {"kinds": list(place.kinds)} if place.kinds else {}
        frame |= {"merge": True} if place.merge else {}
        try:
            await self._socket.send(json.dumps(frame))
        except websockets.ConnectionClosed as error:
            raise self._closed(error) from None

    async def next(self) -> Sequence[Frame] | None:
        """See `Link.next`."""
        try:
            text = await self._socket.recv()
        except websockets.ConnectionClosed as error:
            raise self._closed(error) from None
        if not isinstance(text, str):
            raise WireError("a socket's frames are text, got a binary one")
        value = parse_object(text)
        if value.get("rid") == _RID:
            if value.get("op") == "ok":
                return [hello_of(value)]
            raise refusal_of(value.get("problem"), self._token)
        frames = frames_of_message(value)
        for frame in frames:
            if isinstance(frame, Closing):
                self._delay = frame.delay
        return frames

    async def aclose(self) -> None:
        """See `Link.aclose`."""
        with anyio.move_on_after(2 * _CLOSE_TIMEOUT, shield=True) as scope:
            await self._socket.close()
        if scope.cancelled_caught:
            self._socket.transport.abort()

    def _closed(self, error: websockets.ConnectionClosed) -> Exception:
        if error.sent is not None and not error.rcvd_then_sent and error.sent.code in (1002, 1007, 1009):
            return WireError(
                f"the server broke the rules of WebSocket: {error.sent.reason or error.sent.code}"
            )
        if error.rcvd is None:
            return Cut("the socket broke off", delay=self._delay)
        return close_error(error.rcvd.code, error.rcvd.reason, delay=self._delay, token=self._token)


def _unopened(error: Exception) -> Exception:
    """Return what a handshake that failed is."""
    if isinstance(error, websockets.NegotiationError):
        return RemoteError(f"the server does not speak {_PROTOCOL}: {error}")
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ == "SSLCertVerificationError":
            return RemoteError(f"the server's certificate is not trusted: {cause}")
        cause = cause.__cause__ or cause.__context__
    return Cut(str(error) or type(error).__name__, unsent=True)
