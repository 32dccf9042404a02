"""Who may do what: the one place that turns a request and a thread's name into a topic.

Every route that touches a thread comes through here, and no request reaches a handler before `admit` knows who sent it (see
`problems.Endpoint`). Another owner's thread is an empty one of your own: you cannot tell that it exists. What you may not see is 404.
"""

import re
from typing import Final

from starlette.requests import HTTPConnection, Request

from agentkit.log import Topic
from agentkit_server.auth import with_bearer
from agentkit_server.identity import Identity, least
from agentkit_server.origin import HEADERS, demand_origin, is_allowed
from agentkit_server.service import NAME, Service
from agentkit_server.tickets import COOKIE, TICKET, FeedUse
from agentkit_transports.backend import Action
from agentkit_transports.encoder import Exposure
from agentkit_transports.problem import Problem, ProblemError

IDENTITY: Final = "agentkit.identity"
"""Where a scope keeps who sent it."""
CREDENTIALS: Final = frozenset(
    {
        "access_token",
        "api_key",
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "jwt",
        "key",
        "password",
        "secret",
        "token",
    }
)
"""Names in a query that are refused: what stands in a URL is in logs, histories and referrers."""

_FEED: Final = re.compile(r"/v1/agents/[^/]+/threads/[^/]+/events\Z")
"""What a ticket in a URL opens; not what only ends like it, as a chat whose name is `events`."""


async def admit(request: HTTPConnection, service: Service) -> Identity:
    """Find out who sent a request, and note it in its scope.

    Raises:
        ProblemError: 401 nobody known; or what the `Auth` says.
    """
    identity = request.scope.get(IDENTITY)
    if not isinstance(identity, Identity):
        identity = request.scope[IDENTITY] = await _identify(request, service)
    return identity


def known(request: HTTPConnection) -> Identity:
    """Return who sent a request that was admitted."""
    identity = request.scope.get(IDENTITY)
    if not isinstance(identity, Identity):
        raise unauthenticated()
    return identity


async def topic_of(
    request: HTTPConnection, service: Service, action: Action, agent: str, thread: str
) -> Topic:
    """Return the topic of a thread on which the request's sender may do `action`.

    Raises:
        ProblemError: 401 nobody known, 403 it may see the thread and not do this, 404 no such agent or not for the sender, 400 no name
            of a thread.
    """
    return await owned_topic(await admit(request, service), service, action, agent, thread)


async def owned_topic(identity: Identity, service: Service, action: Action, agent: str, thread: str) -> Topic:
    """Return the topic of a thread on which `identity` may do `action`; see `topic_of`."""
    if not NAME.fullmatch(thread):  # before the agent is looked for: a hidden one is not to be told from none
        raise ProblemError(
            Problem(400, "malformed", f"a thread's name matches {NAME.pattern}", field="thread")
        )
    service.entry(agent)
    await demand(identity, service, action, agent, thread)
    return service.topic(agent, thread, identity.owner)


async def owner_of(request: Request, service: Service, agent: str) -> str:
    """Return whose threads of an agent the request's sender may list.

    Raises:
        ProblemError: 401, 404 as `topic_of`.
    """
    identity = await admit(request, service)
    service.entry(agent)
    await demand(identity, service, "read", agent, "")
    return identity.owner


async def demand(identity: Identity, service: Service, action: Action, agent: str, thread: str) -> None:
    """Let pass who may do `action`.

    Raises:
        ProblemError: 403, or 404 for who may not even read.
    """
    if is_expired(identity, service):
        raise unauthenticated()
    if await service.auth.authorize(identity, action, agent, thread):
        return
    if action != "read" and await service.auth.authorize(identity, "read", agent, thread):
        raise ProblemError(Problem(403, "forbidden", f"you may not {action} here"))
    raise ProblemError(Problem(404, "not_found", "no such agent", field="agent"))


def exposure_of(identity: Identity, service: Service) -> Exposure:
    """Return how much of the reasoning somebody gets."""
    return least(service.settings.exposure, identity.exposure)


def is_expired(identity: Identity, service: Service) -> bool:
    """Tell whether an identity's time is over."""
    return identity.expires is not None and service.clock() >= identity.expires


def unauthenticated() -> ProblemError:
    """Return the refusal of who is not known: the same for every reason."""
    return ProblemError(Problem(401, "unauthenticated", "say who you are: Authorization: Bearer …"))


async def identify_token(token: str, service: Service) -> Identity:
    """Return whom a token or a ticket names that came in a frame. A ticket is used up by it.

    Raises:
        ProblemError: 401 nobody.
    """
    if token.startswith(TICKET):
        identity = await service.tickets.open_socket(token)
        if identity is None or _is_left_over(identity, service):
            raise unauthenticated()
        return identity
    scope = {"type": "websocket", "path": "/", "query_string": b"", "headers": []}
    return await _identify(HTTPConnection(with_bearer(scope, token)), service)


async def _identify(request: HTTPConnection, service: Service) -> Identity:
    """Find out who it is: by its header, its ticket, its cookie; what is none of ours the `Auth` may know."""
    if any(name.lower() in CREDENTIALS for name in request.query_params):
        raise ProblemError(
            Problem(400, "credentials_in_url", "URLs are logged and shared: send Authorization: Bearer …")
        )
    identity: Identity | None = None
    if "authorization" not in request.headers:
        if "ticket" in request.query_params:
            identity = await _by_ticket(request, service)
            if identity is None:
                raise unauthenticated()
        elif COOKIE in request.cookies:
            identity = await service.tickets.session(request.cookies[COOKIE])
            if identity is not None:
                demand_origin(request.scope, service.settings)
    if identity is None:
        identity = await service.auth.authenticate(request)
    if identity is None or is_expired(identity, service) or _is_left_over(identity, service):
        raise unauthenticated()
    return identity


def _is_left_over(identity: Identity, service: Service) -> bool:
    """Tell whether somebody comes with a ticket or cookie from before people were asked who they are."""
    return identity.is_anyone and not service.auth.is_open


async def _by_ticket(request: HTTPConnection, service: Service) -> Identity | None:
    """Return whom a ticket in a URL stands for: for a feed only. A socket says its ticket in hello."""
    scope, words = request.scope, request.query_params.getlist("ticket")
    if (
        scope["type"] != "http"
        or scope["method"] != "GET"
        or not _FEED.search(scope["path"])
        or len(words) > 1
    ):
        return None
    origin = request.headers.get("origin", "")
    if origin and not is_allowed(origin, scope, service.settings):
        raise ProblemError(Problem(403, "forbidden", "not from this origin", field="origin"))
    has_place = bool(request.headers.get("last-event-id"))
    is_secure = scope["scheme"] == "https"
    found = await service.tickets.open_feed(
        FeedUse(words[0], origin.lower(), has_place, lambda name: request.cookies.get(name, ""), is_secure)
    )
    if found is None:
        return None
    identity, cookie = found
    if cookie:
        scope[HEADERS] = [(b"set-cookie", cookie.encode())]
    return identity
