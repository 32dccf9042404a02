"""How a request in a foreign protocol becomes a run and its feed.

The protocol is an encoder that folds (see `agentkit_transports.encoder`): one view of one run, from its first record on. Which request
means what, and what becomes of a run whose client leaves, is the route's matter.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
from starlette.requests import Request

from agentkit.history import RunRecord
from agentkit.log import EARLIEST, NOW, Cursor, Record, Topic
from agentkit_server.access import topic_of
from agentkit_server.feed import FeedResponse
from agentkit_server.problems import Refuse, response_of
from agentkit_server.run_end import PAGE
from agentkit_server.service import RunOrder, Service, Started
from agentkit_transports.encoder import View
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.sse import SSEFeed, open_feed

OnLeave = Callable[[Started], Awaitable[None]]
"""Awaited with the run when its stream is over, whatever the end."""


async def start_feed(
    service: Service,
    topic: Topic,
    order: RunOrder,
    view: View,
    *,
    on_leave: OnLeave | None = None,
    refuse: Refuse = response_of,
) -> tuple[Started, FeedResponse]:
    """Start a run, and return it with its feed from the first record on.

    A key that has a run already gives that run's feed, from its beginning.

    Args:
        service: the server's.
        topic: the thread, from `access.topic_of` with action `run`.
        order: the run.
        view: protocol, options and exposure; its run is filled in here.
        on_leave: see `OnLeave`.
        refuse: makes the answer where there are too many streams already.

    Raises:
        ProblemError: as `Service.start`.
        EngineError: the engine cannot be reached.
    """
    before = await service.hub.locate(topic, NOW)
    started = await service.start(topic, order)
    place = before.cursor if started.fresh else EARLIEST
    feed = await _feed(service, topic, started.run, view, place, is_beginning=started.fresh)

    async def leave() -> None:
        if on_leave is not None:
            await on_leave(started)

    return started, FeedResponse(feed, on_leave=leave, refuse=refuse)


async def run_feed(
    service: Service, topic: Topic, run: str, view: View, cursor: Cursor = EARLIEST
) -> FeedResponse:
    """Return the feed of a run that was started before: what follows `cursor`, by default all of it.

    The encoder folds the records before the cursor too, so that the bytes are those that a reader of the whole would get there.

    Raises:
        ProblemError: 404, no such run.
        EngineError: the engine cannot be reached.
    """
    return FeedResponse(await _feed(service, topic, run, view, cursor))


async def read_run(service: Service, topic: Topic, cursor: Cursor, take: Callable[[Record], bool]) -> None:
    """Give each record that follows `cursor` to `take`, as it comes, until it returns True.

    It waits for as long as there is no end; whoever calls has a scope that its client's leaving cancels.

    Raises:
        ProblemError: 503, records were lost before they were read.
        EngineError: the engine cannot be reached.
    """
    tail = await service.engine.log.tail(topic)
    woken = anyio.Event()

    def wake() -> None:
        woken.set()

    stop = tail.on_wake(wake)
    try:
        while True:
            woken = anyio.Event()
            page = await service.engine.log.read(topic, cursor, PAGE)
            if page.gap is not None:
                raise ProblemError(Problem(503, "gap", "a part of the answer was lost"))
            if any(take(record) for record in page.records):
                return
            cursor = page.cursor
            if not page.records:
                await woken.wait()
    finally:
        stop()


async def cancel_on_leave(service: Service, topic: Topic, started: Started) -> None:
    """Stop a run whose client has left; one that has ended stays as it is. A server that drains ends its runs itself."""
    if not service.draining:
        await service.cancel(topic, started.run, "the client left")


async def leave_waiting(
    request: Request, service: Service, topic: Topic, records: Sequence[RunRecord]
) -> None:
    """Stop the runs of a thread that wait for a person, who says something else instead: their answer would have no place.

    Raises:
        ProblemError: 403, the sender may not stop them.
    """
    for waiting in [one for one in records if one.status == "suspended"]:
        await topic_of(request, service, "cancel", topic.agent, topic.thread)
        await service.cancel(topic, waiting.run, "the user went on without it")


async def _feed(
    service: Service, topic: Topic, run: str, view: View, cursor: Cursor, *, is_beginning: bool = False
) -> SSEFeed:
    feed = await open_feed(
        service.hub,
        topic,
        replace(view, run=run),
        cursor,
        given=False,
        has_ended=service.end_of(topic, run),
        is_beginning=is_beginning or cursor == EARLIEST,
    )
    assert feed is not None  # no cursor was given by the client
    return feed
