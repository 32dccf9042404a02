"""What a socket asks for, done by the `Service`: the transport's `Backend`, without authentication."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from agentkit.content import JsonValue
from agentkit.log import Topic
from agentkit_server.inputs import read_input, read_text
from agentkit_server.service import RunOrder, Service
from agentkit_transports.asgi import Scope
from agentkit_transports.encoder import Exposure
from agentkit_transports.hub import Hub
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.session import Approve, CancelRun, StartRun, Steer
from agentkit_transports.websocket import Action, Identity

ANYBODY = ""
"""Whoever comes: there is no authentication yet, and every thread's owner is ""."""


class SocketBackend:
    """See `agentkit_transports.websocket.Backend`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def hub(self) -> Hub:
        """The server's hub."""
        return self._service.hub

    async def identify(self, scope: Scope) -> Identity | None:
        """Take anybody, but no page of another site: browsers let any page open a socket to any server.

        Raises:
            ProblemError: 403.
        """
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        if origin is None or origin in self._service.settings.allowed_origins:
            return ANYBODY
        if urlsplit(origin).netloc.lower() != headers.get(b"host", "").lower():
            raise ProblemError(Problem(403, "forbidden", "not from this origin", field="origin"))
        return ANYBODY

    async def authenticate(self, identity: Identity | None, auth: str) -> Identity:  # noqa: ARG002 - nobody is asked
        """Take anybody."""
        return ANYBODY

    async def authorize(self, identity: Identity, action: Action, agent: str, thread: str) -> Topic:  # noqa: ARG002
        """Find the thread."""
        return self._service.topic(agent, thread)

    def exposure(self, identity: Identity, topic: Topic) -> Exposure:  # noqa: ARG002 - the operator's word for all
        """Say what the operator allows."""
        return self._service.settings.exposure

    async def has_ended(self, topic: Topic, run: str) -> bool:
        """Tell whether a run has ended."""
        return await self._service.has_ended(topic, run)

    async def start_run(self, identity: Identity, topic: Topic, request: StartRun) -> Mapping[str, JsonValue]:  # noqa: ARG002
        """Start a run; a busy thread is refused."""
        started = await self._service.start(topic, RunOrder(read_input(request.input), key=request.idem))
        return {"run": started.run, "thread": topic.thread}

    async def cancel_run(
        self,
        identity: Identity,  # noqa: ARG002
        topic: Topic,
        request: CancelRun,
    ) -> Mapping[str, JsonValue]:
        """Ask a run to stop; the outcome is an event."""
        record = await self._service.cancel(topic, request.run)
        return {"run": record.run, "status": record.status}

    async def steer(self, identity: Identity, topic: Topic, request: Steer) -> Mapping[str, JsonValue]:  # noqa: ARG002
        """Put a message into a run; the outcome is an event."""
        steering = await self._service.steer(topic, request.run, read_text(request.input))
        return {"run": request.run, "steering": steering}

    async def approve(self, identity: Identity, topic: Topic, request: Approve) -> Mapping[str, JsonValue]:  # noqa: ARG002
        """Decide a call; the outcome is an event."""
        record = await self._service.approve(
            topic, request.run, request.approval, approved=request.approved, reason=request.reason
        )
        return {"run": record.run, "approval": request.approval}
