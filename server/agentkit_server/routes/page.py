"""`GET /` and `/assets/…`: the page, as files beside this package. Nothing is built and nothing comes from elsewhere."""

import re
from collections.abc import Iterable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from agentkit_server.problems import Endpoint

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
}
"""What may be sent; other files of the folder are not the page's."""
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_FILE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", re.ASCII)


def routes() -> Iterable[Route]:
    """Return this room's routes."""

    async def page(_: Request) -> Response:
        return _file("index.html")

    async def asset(request: Request) -> Response:
        return _file(request.path_params["file"])

    return [
        Route("/", Endpoint(page, is_public=True), methods=["GET"]),
        Route("/assets/{file}", Endpoint(asset, is_public=True), methods=["GET"]),
    ]


def _file(name: str) -> Response:
    path = FOLDER / name
    media_type = MEDIA_TYPES.get(path.suffix)
    if media_type is None or not _FILE.fullmatch(name) or not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, media_type=media_type, headers=HEADERS)
