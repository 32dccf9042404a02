"""Bringing an AG-UI client's run again: from its beginning, or behind the frame that it had last.

What the client said of a run stands in the run's metadata, so that a replay says the same as the first stream did.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agentkit.content import JsonValue
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, Cursor, Topic
from agentkit_server.access import exposure_of, known
from agentkit_server.feed import FeedResponse
from agentkit_server.service import ENDED, Service
from agentkit_transports.encoder import View
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.sse import open_feed

LEFT: Final = "ag_ui"
"""In a run's metadata: what its client said of it."""
WORDS: Final[tuple[str, ...]] = ("run", "version", "parent")
"""Of that, what its stream needs."""


async def replay(service: Service, request: Request, topic: Topic, record: RunRecord) -> Response:
    """Bring a run again: all of it, or what follows the request's `Last-Event-ID`; 204 where nothing would.

    Raises:
        ProblemError: 400, no place of this stream; 410, what followed is not kept any more.
    """
    left = dict(texts(record.metadata.get(LEFT)))  # or what another protocol's client has written there
    words = {name: left[name] for name in WORDS if name in left}
    if "state" in record.metadata:
        words["state"] = json.dumps(record.metadata["state"])
    cursor, words["skip"] = _place(request)
    if (await service.hub.locate(topic, cursor)).gap is not None:
        raise ProblemError(Problem(410, "gone", "what followed there is not kept any more"))
    exposure = exposure_of(known(request), service)
    view = View("ag_ui", tuple(sorted(words.items())), exposure, run=record.run, beside=True)
    feed = await open_feed(
        service.hub,
        topic,
        view,
        cursor,
        given=cursor != EARLIEST,
        has_ended=_is_over(service, topic, record.run),
    )
    return Response(status_code=204) if feed is None else FeedResponse(feed)


def _is_over(service: Service, topic: Topic, run: str) -> Callable[[], Awaitable[bool]]:
    async def is_over() -> bool:
        return (await service.record(topic, run)).status in ENDED | {"suspended"}

    return is_over


def by_client(records: Sequence[RunRecord], run: str) -> RunRecord | None:
    """Return the run that a client calls so."""
    return next((one for one in reversed(records) if ("run", run) in texts(one.metadata.get(LEFT))), None)


def texts(value: JsonValue) -> list[tuple[str, str]]:
    """Return the members of an object that are texts; metadata may be another protocol's."""
    return (
        [(name, text) for name, text in value.items() if isinstance(text, str)]
        if isinstance(value, dict)
        else []
    )


def _place(request: Request) -> tuple[Cursor, str]:
    """Return after which record a client comes back, and which frames of the next it has had: `E-42.1` is in the middle of record 42."""
    said = request.headers.get("last-event-id", "")
    if not said:
        return EARLIEST, "0.0"
    place, _, had = said.partition(".")
    cursor = Cursor.parse(place)
    if not had:
        return cursor, "0.0"
    if not (had.isascii() and had.isdigit() and len(had) < 6) or cursor.seq < 1:
        raise ProblemError(
            Problem(400, "malformed", "Last-Event-ID is none of this stream", field="last-event-id")
        )
    return Cursor(cursor.epoch, cursor.seq - 1), f"{cursor.seq}.{int(had)}"
