"""`/openapi.json` and `/schemas/…`: what the server says of itself. The same for everybody: it names no agent and no user.

What makes the documents is loaded when one is asked for: few who start a server do.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentkit_server.answers import OpenObject
from agentkit_server.described import Description, Reply
from agentkit_server.problems import Endpoint, JSONResponse

OPENAPI: Final = Description("This document.", {200: Reply("OpenAPI 3.1.", OpenObject)}, tag="server")
ENVELOPE: Final = Description(
    "The JSON Schema of an envelope: a record of a feed.",
    {200: Reply("JSON Schema.", OpenObject)},
    tag="server",
)
SOCKET: Final = Description(
    "The JSON Schema of a socket's frames.", {200: Reply("JSON Schema.", OpenObject)}, tag="server"
)


def routes(all_routes: Callable[[], Sequence[BaseRoute]]) -> Iterable[Route]:
    """Return this room's routes. `all_routes` is asked when somebody wants the document."""
    made: dict[str, Any] = {}

    async def openapi(_: Request) -> Response:
        if not made:
            from agentkit_server.openapi import document

            made.update(document(all_routes()))
        return JSONResponse(made)

    async def envelope(_: Request) -> Response:
        from agentkit_server.wire_schema import envelope_schema

        return JSONResponse(envelope_schema())

    async def socket(_: Request) -> Response:
        from agentkit_server.wire_schema import socket_schema

        return JSONResponse(socket_schema())

    return [
        Route("/openapi.json", Endpoint(openapi, is_public=True, describe=OPENAPI), methods=["GET"]),
        Route(
            "/schemas/envelope.json", Endpoint(envelope, is_public=True, describe=ENVELOPE), methods=["GET"]
        ),
        Route("/schemas/socket.json", Endpoint(socket, is_public=True, describe=SOCKET), methods=["GET"]),
    ]
