"""Handlers as ASGI apps: what they raise becomes a problem document, and `send` stays the server's own.

Before a handler is called, `access.admit` has found out who asks: a route has to say that it is for everybody.
Starlette would wrap `send` in its exception middleware; the hub recognises uvicorn's own and writes to it without a task for each
reader. So this stands in the middleware's place. It decides no policy: which error has which status is the table below.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agentkit.content import JsonValue
from agentkit.errors import AgentKitError, ConfigurationError, EngineError, ThreadBusy, WireError
from agentkit_server.access import admit
from agentkit_server.described import Description
from agentkit_server.origin import add_headers
from agentkit_transports.asgi import Receive, Scope, Send
from agentkit_transports.problem import MEDIA_TYPE, Problem, ProblemError

logger = logging.getLogger("agentkit.server")

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Refuse: TypeAlias = Callable[[Exception, Scope], Response]

_STATUS: dict[type[AgentKitError], int] = {
    WireError: 400,
    ThreadBusy: 409,
    ConfigurationError: 422,
    EngineError: 503,
}


class JSONResponse(Response):
    """A JSON answer that no cache keeps."""

    media_type = "application/json"

    def __init__(
        self, content: JsonValue, status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        super().__init__(body.encode(), status_code, {"Cache-Control": "no-store", **(headers or {})})


class ProblemResponse(JSONResponse):
    """A problem document (RFC 9457)."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.body(), problem.status, headers)


def problem_of(error: Exception) -> Problem:
    """Return what a client may know of an error. What is not ours is a bare 500."""
    match error:
        case ProblemError():
            return error.problem
        case HTTPException():
            code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
            return Problem(error.status_code, code)
        case AgentKitError():
            for kind, status in _STATUS.items():
                if isinstance(error, kind):
                    detail = "the engine cannot be reached" if status == 503 else str(error)
                    return Problem(status, error.code, detail)
        case _:
            pass
    return Problem(500, "internal")


def response_of(error: Exception, scope: Scope) -> ProblemResponse:
    """Return the answer for an error, and log what is our own fault."""
    problem = problem_of(error)
    if problem.status >= 500 and not isinstance(error, ProblemError):
        where = f"{scope.get('method', '')} {scope['path']}"
        if isinstance(error, EngineError):  # its words say all; where it was noticed does not matter
            logger.error("%s: %s", where, error)
        else:
            logger.error("%s failed", where, exc_info=error)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-problem.retry_after_ms // 1000))
    return ProblemResponse(problem, headers)


class Endpoint:
    """A handler as an ASGI app. Nobody unknown gets to it, unless it is public."""

    def __init__(
        self,
        handler: Handler,
        *,
        is_public: bool = False,
        refuse: Refuse = response_of,
        describe: Description | None = None,
    ) -> None:
        """Make an endpoint.

        Args:
            handler: answers a request.
            is_public: see the attribute.
            refuse: makes the answer for what the handler raised, in the shape that a protocol's clients read.
            describe: what `/openapi.json` says of it.
        """
        self.description = describe
        self._handler = handler
        self._refuse = refuse
        self.is_public = is_public
        """True for what everybody may have: the page, and whether the server is well."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. What breaks after the answer has begun is raised: the server then breaks the connection."""
        try:
            request, service = Request(scope, receive), scope["app"].service
            if not self.is_public:
                service.count_request(await admit(request, service))
            with service.observing(scope):
                response = await self._handler(request)
        except ClientDisconnect:
            return
        except Exception as error:
            response = self._refuse(error, scope)
        add_headers(scope, scope["app"].service.settings, response.raw_headers)
        await response(scope, receive, send)
