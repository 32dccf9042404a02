"""A feed as a response: sse-starlette's headers around the transport's stream.

Its four tasks for each stream (pings, two watchers, the writer) are left out: the hub has one timer and one farewell for all. And the stream
begins when the route is done: the frames and objects of a router, a request and a response would stay as long as the reader does.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from agentkit.errors import WireError
from agentkit.log import NOW, Cursor, Topic
from agentkit_server.access import IDENTITY, exposure_of, known
from agentkit_server.origin import add_headers
from agentkit_server.problems import Refuse, response_of
from agentkit_server.service import Service
from agentkit_transports.asgi import Receive, Scope, Send
from agentkit_transports.encoder import PROTOCOLS, View, parse_view
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.sse import SSEFeed

LATER: Final = "agentkit.later"
"""Where a scope keeps the stream that begins when its route is done, for who put None there: see `Application`."""


class FeedResponse(EventSourceResponse):
    """One stream. Make it, and nothing is held until it is sent."""

    def __init__(
        self,
        feed: SSEFeed,
        *,
        on_leave: Callable[[], Awaitable[None]] | None = None,
        refuse: Refuse = response_of,
    ) -> None:
        """Make a response.

        Args:
            feed: what is sent.
            on_leave: awaited when the stream is over, whatever the end.
            refuse: makes the answer where there are too many streams already.
        """
        super().__init__(_nothing(), sep="\n", ping=0)
        self._feed = feed
        self._on_leave = on_leave
        self._refusal = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, then the feed. HEAD gets the head only, and subscribes to nothing."""
        if scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        stream = _Stream(self._feed, self.raw_headers, self._on_leave, self._refusal)
        if LATER in scope:
            scope[LATER] = stream
        else:
            await stream(scope, receive, send)


class _Stream:
    """A feed that is about to be sent, as an ASGI app: what is left of its response."""

    __slots__ = ("_feed", "_headers", "_on_leave", "_refusal")

    def __init__(
        self,
        feed: SSEFeed,
        headers: list[tuple[bytes, bytes]],
        on_leave: Callable[[], Awaitable[None]] | None,
        refuse: Refuse,
    ) -> None:
        self._feed = feed
        self._headers = headers
        self._on_leave = on_leave
        self._refusal = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, then the feed."""
        try:
            stay = scope["app"].service.stays.enter(scope[IDENTITY])
        except ProblemError as error:
            await self._refuse(error, scope, receive, send)
            return
        try:
            stay.begin(self._feed.told_to_stop, self._feed.watched)
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            self._headers = []
            await self._feed.run(scope, receive, send)
        finally:
            stay.leave()
            if self._on_leave is not None:
                await self._on_leave()

    async def _refuse(self, error: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one stream too many; what was started for it is left as by any client that leaves."""
        response = self._refusal(error, scope)
        add_headers(scope, scope["app"].service.settings, response.raw_headers)
        await response(scope, receive, send)
        if self._on_leave is not None:
            await self._on_leave()


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""  # makes it a generator; never run


def sent_away(topic: Topic, view: View, retry_ms: int) -> Response:
    """Return a feed that says only when to come back: after an error status browsers would never do."""
    body = PROTOCOLS[view.protocol](topic, view).closing(retry_ms)
    return Response(body, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def wanted_feed(request: Request, service: Service) -> tuple[View, Cursor, bool]:
    """Return what a request for a feed asks: its view, where it begins, and whether it said so itself.

    Raises:
        ProblemError: 400, naming the parameter at fault.
    """
    query, identity = request.query_params, known(request)
    for name in ("after", "run", "named", "merge"):
        if len(query.getlist(name)) > 1:
            raise _malformed(name, f"{name} stands twice")
    try:
        view = parse_view(
            types=query.getlist("types"),
            kinds=query.getlist("kinds"),
            run=query.get("run", ""),
            named=query.get("named", "1"),
            merge=query.get("merge", "0"),
            exposure=exposure_of(identity, service),
        )
    except WireError as error:
        raise _malformed(str(error).partition(":")[0], str(error)) from None
    grant = identity.grant
    if grant is not None and grant.run and view.run != grant.run:
        raise ProblemError(Problem(404, "not_found", "no such run on this thread", field="run"))
    last = request.headers.get("last-event-id", "")
    place, field = (last, "last-event-id") if last else (query.get("after", ""), "after")
    try:
        cursor = Cursor.parse(place) if place else NOW
    except WireError:  # which quotes it; but people put tokens where none belongs
        raise _malformed(field, "a cursor is <epoch>-<seq>, earliest or now") from None
    return view, cursor, bool(place)


def _malformed(field: str, detail: str) -> ProblemError:
    return ProblemError(Problem(400, "malformed", detail, field=field))
