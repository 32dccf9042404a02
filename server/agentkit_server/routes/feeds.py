"""`GET …/events`: a thread's or a run's feed as server-sent events."""

import logging
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.errors import EngineError
from agentkit_server.access import topic_of
from agentkit_server.feed import FeedResponse, sent_away, wanted_feed
from agentkit_server.problems import Endpoint
from agentkit_server.service import THREAD, Service
from agentkit_transports.sse import open_feed

logger = logging.getLogger("agentkit.server")


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""

    async def events(request: Request) -> Response:
        names = request.path_params
        topic = await topic_of(request, service, "read", names["agent"], names["thread"])
        view, cursor, given = wanted_feed(request, service)
        has_ended = service.end_of(topic, view.run) if view.run else None
        try:
            if has_ended is not None:
                await has_ended()  # an unknown run is a 404 before anything else
            feed = await open_feed(service.hub, topic, view, cursor, given=given, has_ended=has_ended)
        except EngineError as error:
            logger.warning("a feed of %s was sent away: %s", topic.path, error)
            return sent_away(topic, view, service.hub.retry_ms())
        return Response(status_code=204) if feed is None else FeedResponse(feed)

    return [Route(f"{THREAD}/events", Endpoint(events), methods=["GET"])]
