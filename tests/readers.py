"""What tests of readers share: following a topic to an outlet, and reading what came there."""

from typing import Any

from agentkit.log import NOW, Cursor, Topic
from agentkit.sse import SSEDecoder
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub, Reader
from agentkit_transports.reader import EndReason


class Ends:
    """Remembers why readers ended."""

    def __init__(self) -> None:
        self.reasons: list[EndReason] = []

    def __call__(self, reason: EndReason) -> None:
        self.reasons.append(reason)


async def follow(
    hub: Hub, topic: Topic, outlet: Any, cursor: Cursor = NOW, view: View | None = None, **more: Any
) -> tuple[Reader, Ends]:
    ends = Ends()
    reader = hub.attach(await hub.locate(topic, cursor), view or View(), outlet, ends, **more)
    return reader, ends


def ids(data: bytes) -> list[str]:
    return [event.id or "" for event in SSEDecoder().feed(data)]


def names(data: bytes) -> list[str]:
    return [event.event for event in SSEDecoder().feed(data)]
