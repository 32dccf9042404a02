"""Messages that wait to go into a run at its next step boundary, in order.

Pure: it keeps them and gives them out. Whether and when a run takes them is the run's to say.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.content import Message


@dataclass(frozen=True, slots=True)
class Steering:
    """A message that waits to go in."""

    id: str
    message: Message


class SteeringQueue:
    """What waits. False where nothing does."""

    def __init__(self) -> None:
        self._waiting: deque[Steering] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, steering: Steering) -> None:
        """Let a message wait behind the others."""
        self._waiting.append(steering)

    def take_back(self, id: str) -> bool:  # noqa: A002 - the field's word
        """Remove a message; False where it has gone in already, or never was."""
        for waiting in self._waiting:
            if waiting.id == id:
                self._waiting.remove(waiting)
                return True
        return False

    def taken(self) -> Iterator[Steering]:
        """Yield each in order, taken out; those that come meanwhile too."""
        while self._waiting:
            yield self._waiting.popleft()
