"""`/metrics`: the server's metrics, for who has the right `metrics`; without authentication for this machine only.

A proxy on this machine asks as this machine: what it hands on is not answered where it says so (`Forwarded`, `X-Forwarded-For`, `Via`).
Better give metrics a listener of their own (`--metrics-port`).
"""

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit_server.access import demand, known
from agentkit_server.described import Description, Reply
from agentkit_server.identity import METRICS
from agentkit_server.metrics import MEDIA_TYPE, Metrics
from agentkit_server.origin import is_local
from agentkit_server.problems import Endpoint
from agentkit_server.service import Service
from agentkit_transports.problem import Problem, ProblemError

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers by which a proxy says that somebody else asks."""

METRICS_ANSWER = Description(
    "The server's metrics, for who has the right `metrics`.",
    {200: Reply("In Prometheus' text format.", media_type="text/plain")},
    tag="server",
)


def routes(service: Service, metrics: Metrics) -> Iterable[Route]:
    """Return this room's routes."""

    async def show(request: Request) -> Response:
        if service.auth.is_open:
            client = request.client.host if request.client is not None else ""
            if not is_local(client) or any(name in request.headers for name in FORWARDED):
                raise HTTPException(404)
        else:
            identity = known(request)
            await demand(identity, service, METRICS, "", "")
            if identity.agents is not None or identity.grant is not None:
                raise ProblemError(Problem(403, "forbidden", "metrics are of all agents"))
        return Response(metrics.text(), headers={"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"})

    return [Route("/metrics", Endpoint(show, describe=METRICS_ANSWER), methods=["GET"])]
