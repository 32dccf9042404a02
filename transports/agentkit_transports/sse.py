"""One SSE stream: hello, gap, records, signs of life, end, farewell.

Skeleton: signatures are final. How a route uses it (`FeedResponse` is the route's thin subclass of sse-starlette's `EventSourceResponse`):

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

from collections.abc import Awaitable, Callable

from agentkit.log import Cursor, Topic
from agentkit_transports.asgi import Receive, Scope, Send
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub, Start


async def open_feed(
    hub: Hub,
    topic: Topic,
    view: View,
    cursor: Cursor,
    *,
    given: bool,
    has_ended: Callable[[], Awaitable[bool]] | None = None,
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

    Raises:
        EngineError: the log cannot be reached.
    """
    raise NotImplementedError


class SSEFeed:
    """One stream's body. Made by `open_feed`; run once."""

    def __init__(self, hub: Hub, start: Start, view: View, *, has_ended: bool) -> None:
        raise NotImplementedError

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body, from hello to the last chunk, after the route has sent `http.response.start`.

        It returns when the client has left, the run has ended, the hub drains, or the reader was cut; a cut breaks the connection.
        """
        raise NotImplementedError
