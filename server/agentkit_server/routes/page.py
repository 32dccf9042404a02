"""`GET /` and `/assets/…`: the page, as files beside this package. Nothing is built and nothing comes from elsewhere."""

import re
from collections.abc import Iterable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from agentkit_server.described import Description, Reply
from agentkit_server.origin import is_local
from agentkit_server.problems import Endpoint
from agentkit_server.service import Service

FOLDER = Path(__file__).parent.parent / "inspector"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".ts": "text/plain; charset=utf-8",
}
"""What may be sent; other files of the folder are not the page's."""
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

CLIENT = ("agentkit-client.js", "agentkit-client.d.ts")
"""Served at `/` too, with the page or without: what other people's pages import, from any origin. It holds no secret."""

_FILE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", re.ASCII)

PAGE = Description("The page.", {200: Reply("HTML.", media_type="text/html")}, tag="page")
ASSET = Description("A file of the page.", {200: Reply("It.", media_type="*/*")}, tag="page")
CLIENT_FILE = Description("The JavaScript client.", {200: Reply("It.", media_type="*/*")}, tag="page")


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""
    audience = service.settings.page

    def admit(request: Request) -> None:
        if audience == "off" or (audience == "loopback" and not _is_near(request)):
            raise HTTPException(404)

    async def page(request: Request) -> Response:
        admit(request)
        return _file("index.html")

    async def asset(request: Request) -> Response:
        admit(request)
        return _file(request.path_params["file"])

    async def client(request: Request) -> Response:
        response = _file(request.url.path.rpartition("/")[2])
        response.headers["Access-Control-Allow-Origin"] = "*"
        return response

    return [
        *(
            Route(f"/{name}", Endpoint(client, is_public=True, describe=CLIENT_FILE), methods=["GET"])
            for name in CLIENT
        ),
        Route("/", Endpoint(page, is_public=True, describe=PAGE), methods=["GET"]),
        Route("/assets/{file}", Endpoint(asset, is_public=True, describe=ASSET), methods=["GET"]),
    ]


def _is_near(request: Request) -> bool:
    """Tell whether somebody asks from this machine, by its own address: a proxy here passes on what was asked of its public name."""
    asked = request.url.hostname or ""
    return is_local(asked) and (request.client is None or is_local(request.client.host))


def _file(name: str) -> Response:
    path = FOLDER / name
    media_type = MEDIA_TYPES.get(path.suffix)
    if media_type is None or not _FILE.fullmatch(name) or not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, media_type=media_type, headers=HEADERS)
