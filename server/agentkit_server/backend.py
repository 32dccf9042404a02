"""What a socket asks for, done by the `Service` for who is behind the socket: the transport's `Backend`."""

import base64
from collections.abc import Mapping
from typing import Final

from starlette.requests import HTTPConnection

from agentkit.content import JsonValue
from agentkit.log import Topic
from agentkit_server.access import admit, exposure_of, identify_token, owned_topic
from agentkit_server.body import demand_shallow
from agentkit_server.identity import Identity
from agentkit_server.inputs import read_input, read_text
from agentkit_server.origin import check_host, check_origin
from agentkit_server.service import RunOrder, Service
from agentkit_transports.asgi import Scope
from agentkit_transports.backend import Action, Stay
from agentkit_transports.backend import Identity as Anybody
from agentkit_transports.encoder import Exposure
from agentkit_transports.hub import Hub
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.session import Approve, CancelRun, StartRun, Steer

BEARER: Final = "bearer."
"""A subprotocol that is a token, as base64url: what a browser's WebSocket can send. It is never chosen, so it is not sent back."""


class SocketBackend:
    """See `agentkit_transports.websocket.Backend`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def hub(self) -> Hub:
        """The server's hub."""
        return self._service.hub

    async def identify(self, scope: Scope) -> Identity | None:
        """Say who opens a socket, by its head; who says nothing there has to say hello. No page of another site may.

        Raises:
            ProblemError: 403, 401, 429.
        """
        settings = self._service.settings
        check_host(scope, settings, is_open=self._service.auth.is_open)
        check_origin(scope, settings)
        offered = [one for one in scope.get("subprotocols", ()) if one.startswith(BEARER)]
        if offered:
            identity = await identify_token(_token(offered[0]), self._service)
            self._service.count_request(identity)
            return identity
        try:
            identity = await admit(HTTPConnection(scope), self._service)
        except ProblemError as error:
            if error.problem.status != 401 or any(name == b"authorization" for name, _ in scope["headers"]):
                raise
            return None
        self._service.count_request(identity)
        return identity

    async def authenticate(self, identity: Anybody | None, auth: str) -> Identity:
        """Say whom `hello{auth}` names. Once it is known whose socket it is, it stays that one's: so do its subscriptions.

        Raises:
            ProblemError: 401; 403, it is somebody else; 409, it may see another part of the reasoning than what is subscribed was opened for.
        """
        named = await identify_token(auth, self._service)
        before = None if identity is None else _ours(identity)
        if before is not None and before.is_anyone and named.is_anyone:
            return named  # nobody was asked who it is; a ticket may still narrow what it may do
        if before is not None and (named.key, named.grant) != (before.key, before.grant):
            raise ProblemError(Problem(403, "forbidden", "this socket is somebody else's"))
        if before is not None and exposure_of(named, self._service) != exposure_of(before, self._service):
            raise ProblemError(Problem(409, "exposure_changed", "open a socket with this token"))
        return named

    def enter(self, identity: Anybody | None) -> Stay:
        """Count a socket."""
        return self._service.stays.enter(None if identity is None else _ours(identity))

    async def authorize(
        self, identity: Anybody, action: Action, agent: str, thread: str, run: str = ""
    ) -> Topic:
        """Find the thread, if `identity` may do `action` on it, or on this run of it."""
        ours = _ours(identity)
        topic = await owned_topic(ours, self._service, action, agent, thread)
        if ours.grant is not None and ours.grant.run and ours.grant.run != run:
            raise ProblemError(Problem(404, "not_found", "no such run on this thread", field="run"))
        return topic

    def exposure(self, identity: Anybody, topic: Topic) -> Exposure:  # noqa: ARG002 - the same for all its threads
        """Say how much of the reasoning it gets."""
        return exposure_of(_ours(identity), self._service)

    async def has_ended(self, topic: Topic, run: str) -> bool:
        """Tell whether a run has ended."""
        return await self._service.has_ended(topic, run)

    async def start_run(self, identity: Anybody, topic: Topic, request: StartRun) -> Mapping[str, JsonValue]:  # noqa: ARG002
        """Start a run; a busy thread is refused."""
        demand_shallow(request.input, self._service.settings.json_depth)
        started = await self._service.start(topic, RunOrder(read_input(request.input), key=request.idem))
        return {"run": started.run, "thread": topic.thread}

    async def cancel_run(
        self,
        identity: Anybody,  # noqa: ARG002
        topic: Topic,
        request: CancelRun,
    ) -> Mapping[str, JsonValue]:
        """Ask a run to stop; the outcome is an event."""
        record = await self._service.cancel(topic, request.run)
        return {"run": record.run, "status": record.status}

    async def steer(self, identity: Anybody, topic: Topic, request: Steer) -> Mapping[str, JsonValue]:  # noqa: ARG002
        """Put a message into a run; the outcome is an event."""
        steering = await self._service.steer(topic, request.run, read_text(request.input))
        return {"run": request.run, "steering": steering}

    async def approve(self, identity: Anybody, topic: Topic, request: Approve) -> Mapping[str, JsonValue]:  # noqa: ARG002
        """Decide a call; the outcome is an event."""
        record = await self._service.approve(
            topic, request.run, request.approval, approved=request.approved, reason=request.reason
        )
        return {"run": record.run, "approval": request.approval}


def _token(offered: str) -> str:
    """Return the token in a subprotocol; "" for what is none."""
    text = offered.removeprefix(BEARER)
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""


def _ours(identity: Anybody) -> Identity:
    """Return who it is: the transport hands back what this room gave it."""
    if not isinstance(identity, Identity):
        raise ProblemError(Problem(401, "unauthenticated"))
    return identity
