"""One connection of a feed, whatever carries it. Only the protocol."""

from collections.abc import Sequence
from typing import Protocol

from agentkit_transports.clients.frame import Frame


class Link(Protocol):
    """What came of one attempt to connect. Read by one task."""

    async def next(self) -> Sequence[Frame] | None:
        """Return what one read brings, maybe nothing; None where the server ended in order.

        Raises:
            Cut: the connection broke, was silent for too long, or the server wants us to come back.
            Refused: the token has run out.
            AgentKitError: it ended for good, or does not speak the protocol.
        """
        ...

    async def aclose(self) -> None:
        """Leave the connection. It raises nothing and takes a second at most."""
        ...
