"""One SSE stream: hello, gap, records, signs of life, end, farewell.

Asyncio only. It sends a response's body; status and headers are the route's. `FeedResponse` is the route's thin subclass of sse-starlette's
`EventSourceResponse`, which keeps the class's headers and drops its four tasks:

    view = parse_view(types=query.getlist("types"), kinds=…, run=…, named=…)         # WireError → 400
    cursor = Cursor.parse(text) if text else NOW                                     # Last-Event-ID wins over ?after; WireError → 400
    feed = await open_feed(hub, topic, view, cursor, given=bool(text), has_ended=…)  # EngineError → 503
    if feed is None:
        return Response(status_code=204)
    return FeedResponse(feed)

    class FeedResponse(EventSourceResponse):
        def __init__(self, feed: SSEFeed) -> None:
            super().__init__(nothing(), sep="\n", ping=0)            # `nothing`: an async iterator without items; never run
            self.feed = feed
        async def __call__(self, scope, receive, send) -> None:
            if scope["method"] == "HEAD":                            # headers only; nothing was subscribed
                return await super().__call__(scope, receive, send)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self.feed.run(scope, receive, send)                # sends the whole body, the last chunk too

Until `run` is called a feed holds nothing: one that is thrown away (HEAD, an error) leaks nothing.

`send` should be the server's own, untouched by middleware: uvicorn's is recognised, and the hub then writes to it without a task (a
middleware's wrapper works too, but costs one task for each reader). Starlette wraps `send` in its exception middleware, so the feed and
socket routes are best reached by a small ASGI function in front of the Starlette app.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import ClassVar, Final, Literal

from agentkit.log import Cursor, EventLog, Topic
from agentkit_transports.asgi import Receive, Scope, Send, settle
from agentkit_transports.direct import body_outlet
from agentkit_transports.encoder import PROTOCOLS, Encoder, View
from agentkit_transports.hub import EndReason, Hub, Reader, Start
from agentkit_transports.outlet import Batch, BodyOutlet, SlowReader

_SCAN: Final = 256
"""Records that one look for a run's rest reads before the loop gets its turn."""
_LEAVE_TIMEOUT: Final = 1.0
"""Seconds from an abort until the server tells that the client is gone; then the response is left as it is."""


async def open_feed(
    hub: Hub,
    topic: Topic,
    view: View,
    cursor: Cursor,
    *,
    given: bool,
    has_ended: Callable[[], Awaitable[bool]] | None = None,
    is_beginning: bool = False,
) -> "SSEFeed | None":
    """Return the feed, or None for an answer of 204: a cursor was given, the run has ended, and nothing of it would follow.

    Args:
        hub: the process's hub.
        topic: whose log.
        view: what the reader sees.
        cursor: where it begins.
        given: True where the client named the cursor, False where it is a default.
        has_ended: for a view of one run: tells whether it has ended. It is asked after the cursor was pinned, so a run that ends in
            between is seen. None for other views.
        is_beginning: nothing of the view's run stands before the cursor.

    Raises:
        EngineError: the log cannot be reached.
    """
    start = await hub.locate(topic, cursor)
    is_over = bool(view.run) and has_ended is not None and await has_ended()
    if is_over and given and start.gap is None and not await _follows(hub.log, topic, view, start.cursor):
        return None
    return SSEFeed(hub, replace(start, is_beginning=is_beginning), view, has_ended=is_over)


async def _follows(log: EventLog, topic: Topic, view: View, cursor: Cursor) -> bool:
    """Tell whether a reader of an ended run would get anything after a cursor: a record, or a gap."""
    while True:
        page = await log.read(topic, cursor, _SCAN)
        if page.gap is not None:
            return True
        for record in page.records:
            if view.admits(record):
                return True
            if record.terminal and record.run == view.run:
                return False
        if not page.records:
            return False
        cursor = page.cursor
        await asyncio.sleep(0)


class SSEFeed:
    """One stream's body. Made by `open_feed`; run once."""

    __slots__ = ("_has_ended", "_hub", "_outlet", "_over", "_reader", "_start", "_view", "_waiting", "topic")

    transport: ClassVar[str] = "sse"

    def __init__(self, hub: Hub, start: Start, view: View, *, has_ended: bool) -> None:
        self.topic = start.topic
        """Whose log it is a feed of."""
        self._hub = hub
        self._start: Start | None = start
        """Until it has begun."""
        self._view = view
        self._has_ended = has_ended
        self._outlet: BodyOutlet | None = None
        self._reader: Reader | None = None
        self._waiting: asyncio.Timeout | None = None
        self._over: EndReason | Literal["drained", "cut"] | None = None

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body, from hello to the last chunk, after the route has sent `http.response.start`.

        It returns when the client has left, the run has ended, the hub drains, or the reader was cut; a cut breaks the connection.
        """
        outlet = self._outlet = body_outlet(scope, send, self._hub.settings.send_timeout)
        settle(scope)
        self._hub.add(self)
        try:
            await self._greet(outlet)
            if self._over is None:
                reader = self._attach(outlet)
                try:  # the wait itself costs nothing but this task, and few frames
                    if outlet.can_wake(receive):
                        while self._over is None:
                            if (await receive())["type"] == "http.disconnect":
                                self._over = "gone"
                    else:
                        await self._listen(receive)
                finally:
                    reader.close()
                await reader.join()
            await self._part(outlet)
        except SlowReader:
            self._over = "slow"
        except OSError:
            self._over = "gone"
        finally:
            self._hub.remove(self)
        if self._over in ("slow", "cut") and outlet.abort():
            await _see_off(receive)

    def farewell(self) -> None:
        """Tell the client to come back, and close cleanly; one that is about to be told its end is told that."""
        if self._reader is None or not self._reader.is_past:
            self._stop("drained")

    def told_to_stop(self, code: object, reason: str) -> None:  # noqa: ARG002 - a stream has no word for why
        """Say farewell: whoever counts streams wants this one to end."""
        self.farewell()

    def watched(self) -> Iterable[Topic]:
        """Return what it watches."""
        return (self.topic,)

    def abort(self) -> None:
        """Drop the connection."""
        if self._outlet is not None:
            self._outlet.abort()
        self._stop("slow")

    def _encoder(self) -> Encoder:
        return PROTOCOLS[self._view.protocol](self.topic, self._view)

    async def _greet(self, outlet: BodyOutlet) -> None:
        """Say hello, and what was lost."""
        hub, start, encoder = self._hub, self._start, self._encoder()
        assert start is not None
        hello = encoder.hello(start.after, start.head, resumed=start.resumed, retry_ms=hub.retry_ms())
        if start.gap is not None:
            hello += encoder.gap(start.gap, start.cursor)
        if hello:
            await outlet.send(Batch(hello))
        if hub.is_draining:
            self._stop("drained")

    def _attach(self, outlet: BodyOutlet) -> Reader:
        """Let the hub write until something ends it, and let go of what only the beginning needed."""
        start, self._start = self._start, None
        assert start is not None
        reader = self._hub.attach(start, self._view, outlet, self._stop, has_ended=self._has_ended)
        self.topic, self._view = reader.topic, reader.frames.view  # all readers' own
        self._reader = reader
        return reader

    async def _listen(self, receive: Receive) -> None:
        """Wait until the client leaves or `_stop` was called, on a server of whatever kind."""
        try:
            while self._over is None:
                waiting = self._waiting = asyncio.timeout(None)
                try:
                    async with waiting:
                        if (await receive())["type"] == "http.disconnect":
                            self._over = "gone"
                except TimeoutError:
                    if not waiting.expired():
                        raise
        finally:
            self._waiting = None

    async def _part(self, outlet: BodyOutlet) -> None:
        """Say goodbye to who is still there."""
        match self._over:
            case "ended":
                await outlet.finish(b"")
            case "failed" | "drained":
                farewell = self._encoder().closing(self._hub.retry_ms())
                if farewell:
                    await outlet.finish(farewell)
                else:
                    self._over = "cut"  # who has no word for it would take a clean end for success
            case _:
                pass

    def _stop(self, reason: EndReason | Literal["drained"]) -> None:
        """Note why it is over, and wake the task that waits for the client."""
        if self._over is None:
            self._over = reason
            if self._waiting is not None:
                self._waiting.reschedule(asyncio.get_running_loop().time())
            elif self._outlet is not None:
                self._outlet.wake()
        elif self._over == "drained" and reason == "ended":
            self._over = reason  # it has just been told its end


async def _see_off(receive: Receive) -> None:
    """Wait until the server has noticed that an aborted client is gone: a response left earlier would look like our fault."""
    try:
        async with asyncio.timeout(_LEAVE_TIMEOUT):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        pass
