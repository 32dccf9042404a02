"""`/healthz`: the process answers. `/readyz`: it takes new work, and its engine can be reached."""

import logging
from collections.abc import Iterable
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.errors import EngineError
from agentkit_server.answers import StatusAnswer
from agentkit_server.described import Description, Reply
from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.service import Service
from agentkit_transports.problem import Problem, ProblemError

logger = logging.getLogger("agentkit.server")

PROBE: Final = "readyz"
"""An agent's name, to ask the engine for threads of: there may be none."""
HEALTHZ: Final = Description(
    "Whether the process answers.", {200: Reply("It does.", StatusAnswer)}, tag="server"
)
READYZ: Final = Description(
    "Whether the server takes new work: its engine can be reached, and it does not stop.",
    {200: Reply("It does.", StatusAnswer)},
    tag="server",
)
ENGINE_TIMEOUT: Final = 2.0
"""Seconds for the engine to say a word: who asks for readiness waits for some seconds at most."""


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        if service.draining:
            raise ProblemError(Problem(503, "draining", "the server stops"))
        try:
            with anyio.fail_after(ENGINE_TIMEOUT):
                await service.engine.threads.threads("", PROBE, limit=1)
        except (EngineError, TimeoutError) as error:
            logger.warning("not ready: %s %s", type(error).__name__, error)
            raise ProblemError(Problem(503, "engine_unavailable", "the engine cannot be reached")) from None
        return JSONResponse({"status": "ready"})

    return [
        Route("/healthz", Endpoint(healthz, is_public=True, describe=HEALTHZ), methods=["GET"]),
        Route("/readyz", Endpoint(readyz, is_public=True, describe=READYZ), methods=["GET"]),
    ]
