"""`GET …/events`: a thread's or a run's feed as server-sent events."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.errors import WireError
from agentkit.log import NOW, Cursor, Topic
from agentkit_server.problems import Endpoint
from agentkit_server.service import Service
from agentkit_transports.asgi import Receive, Scope, Send
from agentkit_transports.encoder import View, parse_view
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.sse import SSEFeed, open_feed

THREAD = "/v1/agents/{agent}/threads/{thread}"


class FeedResponse(EventSourceResponse):
    """A feed under sse-starlette's headers.

    Its four tasks for each stream (pings, two watchers, the writer) are left out: the hub has one timer and one farewell for all.
    """

    def __init__(self, feed: SSEFeed, *, on_leave: Callable[[], Awaitable[None]] | None = None) -> None:
        """Make a response.

        Args:
            feed: what is sent; it holds nothing until the response is.
            on_leave: awaited when the stream is over, whatever the end.
        """
        super().__init__(_nothing(), sep="\n", ping=0)
        self._feed = feed
        self._on_leave = on_leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, then the feed. HEAD gets the head only, and subscribes to nothing."""
        if scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await self._feed.run(scope, receive, send)
        finally:
            if self._on_leave is not None:
                await self._on_leave()


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""  # makes it a generator; never run


def feed_view(request: Request, service: Service) -> tuple[View, Cursor, bool]:
    """Return what a request for a feed asks: its view, where it begins, and whether it said so itself.

    Raises:
        ProblemError: 400, naming the parameter at fault.
    """
    query = request.query_params
    for name in ("after", "run", "named", "merge"):
        if len(query.getlist(name)) > 1:
            raise _malformed(name, f"{name} stands twice")
    if query.get("merge", "0") != "0":
        raise ProblemError(Problem(400, "not_supported", "merge is not supported yet", field="merge"))
    last = request.headers.get("last-event-id", "")
    place, field = (last, "last-event-id") if last else (query.get("after", ""), "after")
    try:
        view = parse_view(
            types=query.getlist("types"),
            kinds=query.getlist("kinds"),
            run=query.get("run", ""),
            named=query.get("named", "1"),
            exposure=service.settings.exposure,
        )
    except WireError as error:
        raise _malformed(str(error).partition(":")[0], str(error)) from None
    try:
        cursor = Cursor.parse(place) if place else NOW
    except WireError as error:
        raise _malformed(field, str(error)) from None
    return view, cursor, bool(place)


def run_ended(service: Service, topic: Topic, run: str) -> Callable[[], Awaitable[bool]]:
    """Return the question whether a run has ended."""
    return lambda: service.has_ended(topic, run)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""

    async def events(request: Request) -> Response:
        topic = service.topic(request.path_params["agent"], request.path_params["thread"])
        view, cursor, given = feed_view(request, service)
        has_ended = None
        if view.run:
            has_ended = run_ended(service, topic, view.run)
            await has_ended()  # an unknown run is a 404 before anything else
        feed = await open_feed(service.hub, topic, view, cursor, given=given, has_ended=has_ended)
        return Response(status_code=204) if feed is None else FeedResponse(feed)

    return [Route(f"{THREAD}/events", Endpoint(events), methods=["GET"])]


def _malformed(field: str, detail: str) -> ProblemError:
    return ProblemError(Problem(400, "malformed", detail, field=field))
