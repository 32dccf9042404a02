"""`POST /v1/tickets`: a word that opens one feed or socket. `POST` and `DELETE /v1/session`: a page signs in, and out."""

from collections.abc import Iterable
from typing import Annotated, Final
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.content import JsonValue
from agentkit.envelope import timestamp
from agentkit_server.access import demand, known, owned_topic
from agentkit_server.answers import TicketAnswer
from agentkit_server.body import read_json
from agentkit_server.described import EMPTY, Description, Reply
from agentkit_server.identity import Grant
from agentkit_server.limits import Rate
from agentkit_server.origin import is_local
from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.service import NAME, Service
from agentkit_server.tickets import COOKIE
from agentkit_transports.backend import Action
from agentkit_transports.problem import Problem, ProblemError


class TicketBody(BaseModel):
    """`POST /v1/tickets`."""

    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True)

    agent: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    thread: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    run: Annotated[str, Field(max_length=128)] = ""
    """Only this run's feed."""
    rights: Annotated[list[Action], Field(max_length=16)] = ["read"]
    """What a socket may do that is opened with it; a feed only reads."""


TICKET: Final = Description(
    "Get a word that opens one feed or socket, for pages that cannot send headers.",
    {201: Reply("It, and the feed's path with it.", TicketAnswer)},
    TicketBody,
    tag="tickets",
)
SIGN_IN: Final = Description(
    "Turn a token into a cookie, for a page of this server's.", {204: EMPTY}, tag="tickets"
)
SIGN_OUT: Final = Description(
    "Forget the cookie, and end the streams that it opened.", {204: EMPTY}, tag="tickets"
)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""
    most = service.settings.tickets_each
    rate = Rate(most / 60, most, f"you may have {most} a minute")

    async def ticket(request: Request) -> Response:
        identity, settings = known(request), service.settings
        body = await read_json(
            request, TicketBody, max_size=settings.body_size, max_depth=settings.json_depth
        )
        if identity.grant is not None:
            raise ProblemError(Problem(403, "forbidden", "a ticket opens no tickets"))
        rate.take(identity)
        topic = await owned_topic(identity, service, "read", body.agent, body.thread)
        for right in body.rights:
            await demand(identity, service, right, body.agent, body.thread)
        if body.run:
            await service.record(topic, body.run)
        narrow = identity.narrowed(Grant(body.agent, body.thread, body.run), frozenset(body.rights))
        word, until = await service.tickets.issue(narrow)
        query = {"ticket": word, **({"run": body.run} if body.run else {})}
        root = quote(request.scope.get("root_path", "").rstrip("/"))
        answer: dict[str, JsonValue] = {
            "ticket": word,
            "expires": timestamp(until),
            "events": f"{root}/v1/{topic.path}/events?{urlencode(query)}",
        }
        return JSONResponse(answer, 201)

    async def sign_in(request: Request) -> Response:
        identity = known(request)
        if "authorization" not in request.headers or identity.grant is not None:
            raise ProblemError(Problem(403, "forbidden", "sign in with a token, in the header Authorization"))
        if request.url.scheme != "https" and not is_local(request.url.hostname or ""):
            raise ProblemError(Problem(400, "not_supported", "cookies need https"))
        rate.take(identity)
        word, until = await service.tickets.open_session(identity)
        return _empty(f"{COOKIE}={word}; Max-Age={max(round(until - service.clock()), 1)}")

    async def sign_out(request: Request) -> Response:
        session = await service.tickets.close_session(request.cookies.get(COOKIE, ""))
        service.stays.end_session(session)
        return _empty(f"{COOKIE}=; Max-Age=0")

    return [
        Route("/v1/tickets", Endpoint(ticket, describe=TICKET), methods=["POST"]),
        Route("/v1/session", Endpoint(sign_in, describe=SIGN_IN), methods=["POST"]),
        Route("/v1/session", Endpoint(sign_out, describe=SIGN_OUT), methods=["DELETE"]),
    ]


def _empty(cookie: str) -> Response:
    headers = {
        "Cache-Control": "no-store",
        "Set-Cookie": f"{cookie}; Path=/; Secure; HttpOnly; SameSite=Strict",
    }
    return Response(status_code=204, headers=headers)
