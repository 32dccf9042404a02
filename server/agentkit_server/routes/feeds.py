"""`GET …/events`: a thread's or a run's feed as server-sent events."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit_server.feed import FeedResponse, wanted_feed
from agentkit_server.problems import Endpoint
from agentkit_server.service import THREAD, Service
from agentkit_transports.sse import open_feed


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""

    async def events(request: Request) -> Response:
        topic = service.topic(request.path_params["agent"], request.path_params["thread"])
        view, cursor, given = wanted_feed(request, service)
        has_ended = None
        if view.run:
            has_ended = service.end_of(topic, view.run)
            await has_ended()  # an unknown run is a 404 before anything else
        feed = await open_feed(service.hub, topic, view, cursor, given=given, has_ended=has_ended)
        return Response(status_code=204) if feed is None else FeedResponse(feed)

    return [Route(f"{THREAD}/events", Endpoint(events), methods=["GET"])]
