"""Who comes: the plug. `create_app(…, auth=…)` takes one `Auth`; without one anybody may do everything.

An `Auth` reads a request's head: HTTP, or the handshake of a socket. A token that a socket says in `hello{auth}` or offers as
subprotocol reaches it as an `Authorization: Bearer` header, so it needs to know one place only. It does not see tickets and session
cookies: those are the server's own (`tickets`).
"""

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import HTTPConnection

from agentkit_server.identity import ANYONE, Identity
from agentkit_transports.asgi import Scope
from agentkit_transports.backend import Action


class Auth:
    """What decides who somebody is and what it may do. Subclass it; `authenticate` is what has to be written."""

    is_open: bool = False
    """True where anybody may come: the command then listens to this machine only, and the Host of requests is checked."""

    async def authenticate(self, request: HTTPConnection) -> Identity | None:
        """Return who sent a request, or None for nobody that is known. It is asked for every request.

        A `ProblemError` is answered as it is (503: the keys cannot be fetched); anything else that is raised is a 500 and lets nobody in.
        """
        raise NotImplementedError

    async def authorize(self, identity: Identity, action: Action, agent: str, thread: str) -> bool:
        """Tell whether `identity` may do `action` on a thread of its own (`thread` "": list an agent's threads).

        Asked for every request, every operation of a socket, every replay, and again while a stream is open.
        """
        return identity.may(action, agent, thread)


class NoAuth(Auth):
    """Anybody may do everything."""

    is_open = True

    async def authenticate(self, request: HTTPConnection) -> Identity | None:  # noqa: ARG002 - nobody is asked
        """Take anybody."""
        return ANYONE


class AnyOf(Auth):
    """Several ways to say who one is, tried in their order: keys for services and tokens for people."""

    def __init__(self, ways: Sequence[Auth]) -> None:
        self._ways = tuple(ways)

    async def authenticate(self, request: HTTPConnection) -> Identity | None:
        """Return whom the first of them knows."""
        for number, way in enumerate(self._ways):
            identity = await way.authenticate(request)
            if identity is not None:
                return replace(identity, way=number)
        return None

    async def authorize(self, identity: Identity, action: Action, agent: str, thread: str) -> bool:
        """Ask the one that knew it."""
        return await self._ways[identity.way].authorize(identity, action, agent, thread)


def bearer(request: HTTPConnection) -> str:
    """Return the token of `Authorization: Bearer …`, or "" where there is none, or two."""
    values = request.headers.getlist("authorization")
    if len(values) != 1:
        return ""
    scheme, _, token = values[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def with_bearer(scope: Scope, token: str) -> Scope:
    """Return a handshake as if its `Authorization` header had held `token`, and no cookie."""
    kept = [(name, value) for name, value in scope["headers"] if name not in (b"authorization", b"cookie")]
    try:
        said = f"Bearer {token}".encode("latin-1")
    except UnicodeEncodeError:
        said = b"Bearer ?"  # no token that could be right
    return {**scope, "headers": [*kept, (b"authorization", said)]}
