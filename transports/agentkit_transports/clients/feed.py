"""`follow`: a thread's feed for as long as you want it, over links that break.

Not pure: it connects and waits. It comes back by itself with its cursor, so that nothing is lost and nothing comes twice; what the server
has lost is told as a `Gap`. There is no task and no queue behind it: a feed that nobody reads reads nothing.
Grounds: design.md §7.
"""

import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, Self, TypeAlias, get_args

import anyio
import httpx2

from agentkit.errors import AgentKitError, ConfigurationError, RemoteConnectionError, quote
from agentkit_transports.clients.access import Auth, Credentials
from agentkit_transports.clients.envelope import Envelope, Gap
from agentkit_transports.clients.frame import Closing, End, Frame, Hello, Moved, Retry
from agentkit_transports.clients.http import Door
from agentkit_transports.clients.link import Link
from agentkit_transports.clients.place import Place, parse_feed
from agentkit_transports.clients.position import Position
from agentkit_transports.clients.refusal import Cut, Refused
from agentkit_transports.clients.settings import ClientSettings
from agentkit_transports.clients.sse import open_sse
from agentkit_transports.clients.websocket import open_socket

logger = logging.getLogger("agentkit")

Transport: TypeAlias = Literal["auto", "sse", "websocket"]
Ending: TypeAlias = Literal["ended", "deleted"]
Complete: TypeAlias = Callable[[Place], Awaitable[Place]]
"""Says what a place leaves open (the server's default agent), before the first connection."""


def follow(
    url: str,
    *,
    after: str | None = None,
    types: Iterable[str] = (),
    kinds: Iterable[str] = (),
    run: str = "",
    merge: bool = False,
    auth: Auth = None,
    transport: Transport = "auto",
    settings: ClientSettings | None = None,
    client: httpx2.AsyncClient | None = None,
) -> "Feed":
    """Follow a thread, or one run of it.

        async with follow("http://localhost:8000/v1/agents/demo/threads/main", after="earliest") as feed:
            async for item in feed:
                match item:
                    case Envelope():
                        print(item.type, item.event)
                    case Gap():
                        print("lost", item.first, item.last, item.reason)

    It ends by itself where the server says that nothing will follow (a run's feed with its run, a deleted thread's). Until then it comes
    back after whatever ends a connection: a cut, silence, a server that restarts, 408, 425, 429, 5xx, close codes below 4500. An expired
    token is asked for once more. There is no time limit: wrap it in a cancel scope for one, or set `give_up_after`.

    Args:
        url: a thread's address (`http://host/v1/agents/A/threads/T`), the `events` path that starting a run gives, or either with ws(s).
        after: where to begin: a record's id, `earliest` or `now`. By default what the address says, else `now`.
        types: only these types; `text` stands for `text` and `text.*`.
        kinds: only these kinds of reasoning.
        run: only this run; the feed ends with it.
        merge: allow the server to merge deltas of one block while this reader is far behind.
        auth: a token, or a function (sync or async) that gives one.
        transport: `auto` takes WebSocket for a ws(s) address, else SSE. WebSocket needs asyncio.
        settings: timeouts, delays, the size of an event.
        client: carries SSE in place of a client of our own: for other proxies, certificates, an ASGI application. It stays yours.

    Raises:
        ConfigurationError: the address, cursor, token or transport cannot be. Here, not later.
    """
    check_transport(transport)
    place = parse_feed(url).narrowed(after=after, run=run, types=types, kinds=kinds, merge=merge)
    door = Door(place.root, Credentials(auth), settings or ClientSettings(), client)
    return Feed(door, place, is_socket=transport == "websocket" or (transport == "auto" and place.is_socket))


def check_transport(transport: Transport) -> None:
    """Raise unless it is a transport.

    Raises:
        ConfigurationError: it is none.
    """
    if transport not in get_args(Transport):
        raise ConfigurationError(
            f"unknown transport {quote(transport)}; known: {', '.join(get_args(Transport))}"
        )


class Feed:
    """An iterator over a thread's records and gaps. For one task; use it as an async context manager, or call `aclose`.

    What it raises: `AccessError` (nobody known, not allowed), `RemoteError` (no such thing, or refused for good), `WireError` (the
    server breaks the contract: a number is skipped without a gap, an event is too large), `RemoteConnectionError` (`give_up_after`). It
    is over then; `cursor` tells where another one may go on.
    """

    __slots__ = ("_asked", "_complete", "_door", "_frames", "_is_socket", "_link", "_lost_at", "_place", "_position", "_refused", "_retry", "attempt", "connections", "ending", "head")  # fmt: skip

    def __init__(
        self,
        door: Door,
        place: Place,
        *,
        is_socket: bool = False,
        link: Link | None = None,
        complete: Complete | None = None,
    ) -> None:
        """See `follow`.

        Args:
            door: the server.
            place: which feed, and where it begins.
            is_socket: over WebSocket.
            link: a connection of this feed that is open already.
            complete: asked once for the whole place.
        """
        self._door = door
        self._place = place
        self._is_socket = is_socket
        self._position = Position(place.after, contiguous=not place.is_filtered)
        self._frames: deque[Frame] = deque()
        self._link = link
        self._complete = complete
        self._asked: float | None = None
        self._retry: float | None = None
        self._lost_at: float | None = None
        self._refused = False
        self.attempt = 0
        """How many attempts to connect have failed since the last that worked."""
        self.connections = 0
        """How many worked."""
        self.head = 0
        """The log's last number when the present connection began."""
        self.ending: Ending | Literal["left", "failed"] | None = None
        """Why it is over: `ended` or `deleted` by the server's word, `left`, `failed`. None while it goes on."""

    @property
    def cursor(self) -> str:
        """The place behind what was handed out last: keep it, and another feed goes on there with `after=`."""
        return self._position.cursor

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave."""
        self._frames.clear()
        self.ending = self.ending or "left"
        await self._drop()

    async def __anext__(self) -> Envelope | Gap:
        while True:
            while self._frames:
                try:
                    item = self._take(self._frames.popleft())
                except AgentKitError:
                    await self._fail()
                    raise
                if item is not None:
                    return item
            if self.ending is not None:
                await self._drop()
                raise StopAsyncIteration
            await self._read()

    def _take(self, frame: Frame) -> Envelope | Gap | None:
        """Move on by one frame; return what it is to the caller."""
        position = self._position
        match frame:
            case Envelope():
                return frame if position.admit(frame) else None
            case Gap():
                position.move(frame.id)
                return frame
            case Hello():
                self._greeted(frame)
            case Moved():
                position.advance(frame.id)
            case End():
                self.ending = "deleted" if frame.deleted else "ended"
                if frame.id and not frame.deleted:
                    position.advance(frame.id)
            case Closing():
                self._asked = frame.delay
            case Retry():
                self._retry = frame.delay
        return None

    def _greeted(self, hello: Hello) -> None:
        self.attempt, self._lost_at, self._refused, self._asked = 0, None, False, None
        self.connections += 1
        self.head = hello.head
        self._position.contiguous = not (self._place.is_filtered or hello.hides)
        if not self._position.is_pinned:
            self._position.move(hello.id)

    async def _read(self) -> None:
        """Get more frames, or be ready for another attempt."""
        try:
            if self._link is None:
                self._link = await self._open()
            frames = await self._link.next()
            if frames is None:
                raise Cut("the server ended the connection")
            self._frames.extend(frames)
        except Cut as cut:
            await self._drop()
            await self._wait(cut)
        except Refused as refused:
            await self._drop()
            await self._ask_again(refused)
        except AgentKitError:
            await self._fail()
            raise
        except BaseException:  # the caller was cancelled in the middle of a read: the next one begins anew
            await self._drop()
            raise

    async def _open(self) -> Link:
        self._asked = None
        if self._complete is not None:
            self._place, self._complete = await self._complete(self._place), None
        opening = open_socket if self._is_socket else open_sse
        return await opening(self._door, self._place, self._position.cursor)

    async def _wait(self, cut: Cut) -> None:
        """Wait for the next attempt.

        Raises:
            RemoteConnectionError: it has been too long.
        """
        settings, now = self._door.settings, anyio.current_time()
        self.attempt += 1
        self._lost_at = now if self._lost_at is None else self._lost_at
        asked = cut.delay if cut.delay is not None else self._asked
        delay = settings.delay(self.attempt, self._retry if asked is None else asked, random.random)
        if settings.give_up_after is not None and now + delay - self._lost_at > settings.give_up_after:
            self.ending = "failed"
            raise RemoteConnectionError(
                f"no feed from {self._place.root} for {settings.give_up_after:g} s: {cut}", retry_after=asked
            ) from cut
        level = logging.WARNING if self.attempt > 1 else logging.INFO
        logger.log(level, "the feed of %s broke off (%s); again in %.1f s", self._place.topic, cut, delay)
        await anyio.sleep(delay)

    async def _ask_again(self, refused: Refused) -> None:
        """Have another token asked for, once in a row, after a moment: a server that refuses every token must not be asked without pause.

        Raises:
            AccessError: there is none, or it was refused too.
        """
        if self._refused or not self._door.credentials.refuse(refused.token):
            self.ending = "failed"
            raise refused.error
        self._refused = True
        await anyio.sleep(self._door.settings.delay(1, None, random.random))

    async def _fail(self) -> None:
        self.ending = "failed"
        self._frames.clear()
        await self._drop()

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()
