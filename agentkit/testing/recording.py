"""`RecordingEmitter`: keep what runs say, for a test to look at."""

from collections.abc import Sequence

from agentkit.events import Event
from agentkit.log import Topic


class RecordingEmitter:
    """An `Emitter` that keeps all events.

    Attributes:
        events: in order, of all topics.
        topics: for each event, its topic.
        flushes: how often a flush was asked for.
        closed: whether `aclose` was called.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.topics: list[Topic] = []
        self.flushes = 0
        self.closed = False

    @property
    def types(self) -> list[str]:
        """The types of the events, in order."""
        return [event.type for event in self.events]

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """Keep the events."""
        self.events.extend(events)
        self.topics.extend(topic for _ in events)

    async def flush(self, topic: Topic) -> None:  # noqa: ARG002 - the protocol's shape
        """Count it."""
        self.flushes += 1

    async def aclose(self) -> None:
        """Note it."""
        self.closed = True
