"""`GET …/events`: a thread's or a run's feed as server-sent events."""

import logging
from collections.abc import Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.errors import EngineError
from agentkit_server.access import topic_of
from agentkit_server.described import (
    CURSOR,
    FEED,
    LAST_EVENT_ID,
    RUN_ID,
    Description,
    Parameter,
    Reply,
    names_of,
)
from agentkit_server.feed import FeedResponse, sent_away, wanted_feed
from agentkit_server.problems import Endpoint
from agentkit_server.service import THREAD, Service
from agentkit_transports.sse import open_feed

logger = logging.getLogger("agentkit.server")

EVENTS: Final = Description(
    "A thread's or a run's feed. Frames are envelopes (schemas/envelope.json) and the stream's own words.",
    {
        200: FEED,
        204: Reply("The run has ended and nothing of it would follow: do not come back.", is_empty=True),
    },
    query=(
        Parameter("after", "An id, `earliest` or `now` (the default).", CURSOR),
        Parameter(
            "types",
            "Types of events, `x` with all `x.…`; it may stand several times, or with commas.",
            names_of("[a-z][a-z0-9_.-]{0,63}"),
        ),
        Parameter("kinds", "Kinds of reasoning.", names_of("(delta|summary|signature|state)")),
        Parameter("run", "Only this run's events; the feed ends with it.", RUN_ID),
        Parameter("named", "0: without event names, so that `onmessage` gets all.", {"enum": ["0", "1"]}),
        Parameter("merge", "1: deltas may be merged for a reader far behind.", {"enum": ["0", "1"]}),
        Parameter("ticket", "A ticket, in the place of a header that browsers cannot send."),
    ),
    headers=(LAST_EVENT_ID,),
    tag="feeds",
)


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

    return [Route(f"{THREAD}/events", Endpoint(events, describe=EVENTS), methods=["GET"])]
