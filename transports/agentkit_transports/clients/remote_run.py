"""A run on a server, watched from here: the same face as a run in this process.

Not pure. One task follows the run's feed and fills a buffer, from which any number of iterators read; they never pull the server. What
the feed has lost is a `run.notice` among the events, and an error for who reads text. The outcome is the server's own record of the run.
"""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote, urlsplit

import anyio

from agentkit.background import Work, spawn
from agentkit.content import JsonValue, Message, TextBlock, Usage
from agentkit.errors import AgentKitError, LostEventsError, RemoteError, RunCancelled
from agentkit.events import (
    Event,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunNotice,
    RunStarted,
    RunSuspended,
    TerminalEvent,
    TextDelta,
)
from agentkit.run_spec import RunResult
from agentkit.stream import EventBuffer, RunStream, TextIterator
from agentkit_transports.clients.caller import ask, insist, send, text_of
from agentkit_transports.clients.envelope import Gap
from agentkit_transports.clients.feed import Complete, Feed
from agentkit_transports.clients.http import Door, check_type
from agentkit_transports.clients.place import Place, thread_url
from agentkit_transports.clients.records import run_record, visible_messages
from agentkit_transports.clients.refusal import failure
from agentkit_transports.clients.sse import SSELink

logger = logging.getLogger("agentkit")

LOST = "events_lost"
"""The code of the notice that stands where events of a run are missing; its data are `reason`, `from` and `to`."""
_LEAVE_TIMEOUT = 5.0
"""Seconds to tell a server that its run is to stop, when nobody waits for it any more."""


class Watch:
    """What follows one run and fills a buffer. It does not know who reads, so that dropping the reader is seen."""

    def __init__(
        self, door: Door, place: Place, complete: Complete, *, is_socket: bool = False, whole: bool = False
    ) -> None:
        """Watch a run that exists (`place.run`), or one that `order` asks for.

        Args:
            door: the server.
            place: its agent and thread.
            complete: names the agent where the caller did not.
            is_socket: follow over WebSocket.
            whole: the result is to hold the run's messages: one more request.
        """
        self.door = door
        self.place = place
        self.detached = True
        self._complete = complete
        self._is_socket = is_socket
        self._whole = whole
        self._body: Mapping[str, JsonValue] | None = None
        self._key = ""
        self._feed: Feed | None = None

    def order(self, body: Mapping[str, JsonValue]) -> None:
        """Have `work` start the run, and stop it when it is cancelled."""
        self.detached = False
        self._body = body
        self._key = new_key()

    async def work(self, buffer: EventBuffer) -> None:
        """Start the run if it has none, follow it to its end, and close the buffer with its outcome."""
        try:
            await self._begin()
            terminal = await self._follow(buffer)
            result, error = await self._outcome(terminal)
            buffer.close(result, error)
        except AgentKitError as error:
            buffer.close(None, error)
        except BaseException:
            buffer.close(None, RunCancelled(reason="the caller left"))
            if not self.detached:
                await self._stop()
            raise
        finally:
            if self._feed is not None:
                await self._feed.aclose()

    async def _begin(self) -> None:
        """Start the run: the answer is its feed already."""
        self.place = await self._complete(self.place)
        if self.place.run:
            return
        path = f"{path_of(self.place)}/runs"
        if self._is_socket:
            answer = await ask(self.door, "POST", path, self._body, key=self._key)
            self.place = replace(self.place, run=text_of(answer, "run"), after="earliest")
            return

        async def once() -> tuple[str, SSELink]:
            settings = self.door.settings
            answer = await send(
                self.door, "POST", path, self._body, accept="text/event-stream", key=self._key, silence=settings.idle_timeout
            )  # fmt: skip
            try:
                check_type(answer, "text/event-stream")
                run = urlsplit(answer.headers.get("location", "")).path.rpartition("/runs/")[2]
                if not run:
                    raise RemoteError("the server started a run and did not say which (Location)")
            except BaseException:
                await answer.aclose()
                raise
            return run, SSELink(answer, settings.max_event_size)

        run, link = await insist(self.door, once)
        self.place = replace(self.place, run=run, after="earliest")
        self._feed = Feed(self.door, self.place, link=link)

    async def _follow(self, buffer: EventBuffer) -> TerminalEvent | RunSuspended | None:
        """Return how the run ended as the feed tells it; None where the feed ended without telling."""
        feed = self._feed = self._feed or Feed(self.door, self.place, is_socket=self._is_socket)
        begun, gap = False, None
        async for item in feed:
            if isinstance(item, Gap):
                if begun:
                    buffer.extend([self._lost(item)])
                else:
                    gap = item
                continue
            event = item.event
            if gap is not None and not isinstance(event, RunStarted):
                buffer.extend([self._lost(gap)])  # before the run's first event nothing of it is lost
            begun, gap = True, None
            buffer.extend([event])
            if event.parent is not None:
                continue
            if isinstance(event, RunFinished | RunFailed | RunCancelledEvent):
                return event
            if isinstance(event, RunSuspended) and await self._is_suspended():
                return event
        return None

    async def _is_suspended(self) -> bool:
        """Tell whether the run waits now: one that went on since is followed on."""
        return text_of(await self._ask_record(), "status") == "suspended"

    async def _outcome(
        self, told: TerminalEvent | RunSuspended | None
    ) -> tuple[RunResult | None, BaseException | None]:
        """Return what the server knows of the run's end: as result, or as error."""
        record = run_record(await self._ask_record())
        run, partial = record.run, None
        if record.text:
            partial = Message("assistant", (TextBlock(record.text),), "partial", run)
        match record.status:
            case "failed":
                code = told.code if isinstance(told, RunFailed) else record.code
                return None, failure(code, record.message, retryable=record.retryable, partial=partial)
            case "cancelled":
                return None, RunCancelled(record.message, reason=record.message, partial=partial)
            case "finished" | "suspended":
                pass
            case _:
                return None, LostEventsError(
                    f"the feed of run {run} ended, and the run goes on: {record.status}"
                )
        messages: list[Message] = []
        if self._whole:
            answer = await ask(self.door, "GET", f"{path_of(self.place)}/messages")
            messages = [message for message in visible_messages(answer) if message.run == run]
        usage: Usage = told.usage if isinstance(told, RunFinished) else record.usage
        termination = "suspended" if record.status == "suspended" else "completed"
        if isinstance(told, RunFinished):
            termination = told.termination
        return RunResult(
            run, record.text, record.refusal, tuple(messages), usage, record.finish, termination
        ), None

    async def _ask_record(self) -> dict[str, JsonValue]:
        return await ask(self.door, "GET", f"{path_of(self.place)}/runs/{quote(self.place.run, safe='')}")

    def _lost(self, gap: Gap) -> Event:
        data: dict[str, JsonValue] = {"reason": gap.reason, "from": gap.first, "to": gap.last}
        said = f"records {gap.first} to {gap.last} of the thread cannot be had: {gap.reason}"
        return RunNotice(self.place.run, 0, 0.0, LOST, said, data)

    async def _stop(self) -> None:
        """Tell the server that nobody wants the run any more."""
        with anyio.move_on_after(_LEAVE_TIMEOUT, shield=True):
            try:
                if not self.place.run:  # it may have been started: the same key finds it
                    answer = await ask(
                        self.door, "POST", f"{path_of(self.place)}/runs", self._body, key=self._key
                    )
                    self.place = replace(self.place, run=text_of(answer, "run"))
                await cancel_run(self.door, self.place, "the caller left")
            except AgentKitError as error:
                logger.warning("run %s was left and could not be stopped: %s", self.place.run, error)


class RemoteText(TextIterator):
    """The `text.delta` events of a run, and nothing else. A hole in them is an error, raised where it is."""

    __slots__ = ()

    async def __anext__(self) -> str:
        async for event in self._events:
            if isinstance(event, TextDelta) and event.parent is None:
                return event.text
            if isinstance(event, RunNotice) and event.code == LOST:
                raise LostEventsError(event.message)
        raise StopAsyncIteration


class RemoteRun(RunStream):
    """A run on a server: watch it like any `RunStream`; steer, approve and cancel it, which here waits for the server's answer.

    Attributes:
        thread: the thread's name.
    """

    def __init__(self, watch: Watch) -> None:
        def start(buffer: EventBuffer) -> Work:
            return spawn(lambda: watch.work(buffer), name=f"watch of {watch.place.topic}")

        super().__init__(start, detached=watch.detached)
        self._watch = watch
        self.thread = watch.place.thread

    @property
    def id(self) -> str:
        """The run's id; "" until the server has named it."""
        return self._watch.place.run

    @property
    def text_stream(self) -> RemoteText:
        """A new iterator over the visible text."""
        return RemoteText(self)

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to stop; it ends with `run.cancelled`, and the thread keeps the partial answer."""
        await cancel_run(self._watch.door, self._watch.place, reason)

    async def steer(self, text: str) -> str:
        """Put a user's message in at the next step boundary, and return its id."""
        return await steer_run(self._watch.door, self._watch.place, text)

    async def approve(self, approval: str) -> None:
        """Allow a call that waits; the first decision stands."""
        await decide(self._watch.door, self._watch.place, approval, approved=True)

    async def deny(self, approval: str, reason: str = "") -> None:
        """Refuse a call that waits; the model is told the reason."""
        await decide(self._watch.door, self._watch.place, approval, approved=False, reason=reason)


async def cancel_run(door: Door, place: Place, reason: str) -> None:
    """Ask a run to stop; see `ask` for what it raises."""
    await ask(door, "POST", f"{_path(place)}/cancel", {"reason": reason[:200]} if reason else {})


async def steer_run(door: Door, place: Place, text: str) -> str:
    """Put a message into a run and return its id. It is not made again where it may have been done."""
    return text_of(
        await ask(door, "POST", f"{_path(place)}/steer", {"input": text}, repeatable=False), "steering"
    )


async def decide(door: Door, place: Place, approval: str, *, approved: bool, reason: str = "") -> None:
    """Decide a call that waits for a person."""
    body: dict[str, JsonValue] = {"approved": approved, "reason": reason}
    await ask(door, "POST", f"{_path(place)}/approvals/{quote(approval, safe='')}", body)


def path_of(place: Place) -> str:
    """Return a thread's path."""
    return thread_url("", place.agent, place.thread)


def new_key() -> str:
    """Return a fresh idempotency key."""
    return secrets.token_hex(16)


def _path(place: Place) -> str:
    return f"{path_of(place)}/runs/{quote(place.run, safe='')}"
