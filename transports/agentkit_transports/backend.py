"""What a socket asks of whoever stands behind it: a server, or a test.

Only the protocol: no implementation, and nothing of how agents work.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol, TypeAlias

from agentkit.content import JsonValue
from agentkit.log import Topic
from agentkit_transports.asgi import Scope
from agentkit_transports.encoder import Exposure
from agentkit_transports.hub import Hub
from agentkit_transports.session import Approve, CancelRun, CloseCode, StartRun, Steer

Action: TypeAlias = Literal["read", "run", "cancel", "steer", "approve", "delete", "metrics"]
"""What is done with a thread; `metrics` is the one that looks at the whole server."""
Identity: TypeAlias = object
"""Whoever the backend says it is; the transport only hands it back."""


class Stay(Protocol):
    """One open socket, as whoever stands behind it counts it."""

    def begin(self, stop: Callable[[CloseCode, str], None], watched: Callable[[], Iterable[Topic]]) -> None:
        """Take what ends the socket, with a code and a sentence, and what tells the topics that it watches. Called once it is open."""
        ...

    def renew(self, identity: Identity) -> None:
        """Note whom `hello` named.

        Raises:
            ProblemError: one socket too many; it closes with 4504.
        """
        ...

    def leave(self) -> None:
        """The socket is over, whatever the end."""
        ...


class Backend(Protocol):
    """What a socket asks of the producer behind it. Every method may raise `ProblemError`, which the client gets as `err`."""

    @property
    def hub(self) -> Hub:
        """The process's hub."""
        ...

    async def identify(self, scope: Scope) -> Identity | None:
        """Say who opens a socket, by header, cookie or subprotocol; None: wait for `hello{auth}`. Without auth: any object.

        Raises:
            ProblemError: refused before the handshake, with this status.
        """
        ...

    async def authenticate(self, identity: Identity | None, auth: str) -> Identity:
        """Say who `hello{auth}` names, for the first time or again (`identity`: who it was).

        Raises:
            ProblemError: a bad token; the socket closes with 4500. 403: a good one that is not for this socket; 4503.
        """
        ...

    def enter(self, identity: Identity | None) -> Stay:
        """Count a socket that is about to be opened.

        Raises:
            ProblemError: one too many; refused before the handshake.
        """
        ...

    async def authorize(
        self, identity: Identity, action: Action, agent: str, thread: str, run: str = ""
    ) -> Topic:
        """Return the topic of a thread on which `identity` may do `action`. Asked at every operation.

        Args:
            identity: whose socket it is.
            action: what it wants to do.
            agent: whose thread.
            thread: its name.
            run: the run that it is about; "" for the whole thread.

        Raises:
            ProblemError: 404 for what does not exist and for what may not be seen.
        """
        ...

    def exposure(self, identity: Identity, topic: Topic) -> Exposure:
        """Say how much of the reasoning this reader gets."""
        ...

    async def has_ended(self, topic: Topic, run: str) -> bool:
        """Tell whether a run has ended.

        Raises:
            ProblemError: 404, no such run.
        """
        ...

    async def start_run(self, identity: Identity, topic: Topic, request: StartRun) -> Mapping[str, JsonValue]:
        """Start a run and return what `ok` holds beside `rid`: at least `run`."""
        ...

    async def cancel_run(
        self, identity: Identity, topic: Topic, request: CancelRun
    ) -> Mapping[str, JsonValue]:
        """Ask a run to stop; idempotent. Returns what `ok` holds."""
        ...

    async def steer(self, identity: Identity, topic: Topic, request: Steer) -> Mapping[str, JsonValue]:
        """Put a message into a run. Not built: raise `ProblemError(Problem(501, "not_supported"))`."""
        ...

    async def approve(self, identity: Identity, topic: Topic, request: Approve) -> Mapping[str, JsonValue]:
        """Decide an approval. Not built: raise `ProblemError(Problem(501, "not_supported"))`."""
        ...
