"""A feed's connection over Server-Sent Events. Asyncio and trio.

It does not come back and keeps no cursor: `feed` does.
"""

from collections.abc import Sequence

from agentkit.sse import SSEDecoder
from agentkit_transports.clients.frame import End, Frame, frames_of_event
from agentkit_transports.clients.http import Answer, Door, check_type
from agentkit_transports.clients.place import Place


async def open_sse(door: Door, place: Place, after: str) -> "SSELink":
    """Connect.

    Raises:
        Cut, Refused, AgentKitError: see `Door.send`.
    """
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    if after not in ("earliest", "now"):
        headers["last-event-id"] = after
    answer = await door.send("GET", place.events(after), headers=headers, silence=door.settings.idle_timeout)
    try:
        if answer.status != 204:
            check_type(answer, "text/event-stream")
    except BaseException:
        await answer.aclose()
        raise
    return SSELink(answer, door.settings.max_event_size)


class SSELink:
    """See `link.Link`."""

    __slots__ = ("_answer", "_decoder")

    def __init__(self, answer: Answer, max_event_size: int) -> None:
        self._answer = answer
        self._decoder = SSEDecoder(max_event_size)

    async def next(self) -> Sequence[Frame] | None:
        """See `Link.next`. The end of a body in the middle of an event drops that event: the next connection brings it whole."""
        if self._answer.status == 204:
            return [End("", deleted=False)]
        data = await self._answer.read()
        if not data:
            return None
        return [frame for event in self._decoder.feed(data) for frame in frames_of_event(event)]

    async def aclose(self) -> None:
        """See `Link.aclose`."""
        await self._answer.aclose()
