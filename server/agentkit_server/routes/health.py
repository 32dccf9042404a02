"""`/healthz`: the process answers. `/readyz`: it takes new work."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.service import Service
from agentkit_transports.problem import Problem, ProblemError


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        if service.draining:
            raise ProblemError(Problem(503, "draining", "the server stops"))
        return JSONResponse({"status": "ready"})

    return [
        Route("/healthz", Endpoint(healthz, is_public=True), methods=["GET"]),
        Route("/readyz", Endpoint(readyz, is_public=True), methods=["GET"]),
    ]
