"""Emitters: where a run says what it does.

`LogEmitter` is the durable one: it drafts events and lets one writer per topic append what has gathered. It does not decide what a run
does when the log fails; `on_log_failure` says whether the failure is raised into the run.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

import anyio

from agentkit.background import spawn
from agentkit.envelope import draft_all
from agentkit.errors import AgentKitError, EngineError
from agentkit.events import Event
from agentkit.log import Draft, EventLog, Topic, is_instant

logger = logging.getLogger("agentkit")


class Emitter(Protocol):
    """Takes the events of runs. Plug in any object with these three methods."""

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """Take events, in order. It should return soon: the run waits for it.

        Raises:
            EngineError: the run shall fail. Any other exception is logged and changes nothing for the run.
        """
        ...

    async def flush(self, topic: Topic) -> None:
        """Return once what was emitted for the topic is where it shall be. Raises as `emit`."""
        ...

    async def aclose(self) -> None:
        """Let go of what is held."""
        ...


class NullEmitter:
    """Take events and do nothing."""

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """Do nothing."""

    async def flush(self, topic: Topic) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class CallbackEmitter:
    """Call a function, sync or async, with each topic and event."""

    def __init__(self, callback: Callable[[Topic, Event], Awaitable[object] | object]) -> None:
        self._callback = callback

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """Call the function for each event; what it raises is logged and the next event goes on."""
        for event in events:
            try:
                result = self._callback(topic, event)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                logger.exception("emitter callback failed on %s of run %s", event.type, event.run)

    async def flush(self, topic: Topic) -> None:
        """Nothing is held."""

    async def aclose(self) -> None:
        """Nothing is held."""


class TeeEmitter:
    """Give events to several emitters. One that fails or hangs does not keep them from the others."""

    def __init__(self, *emitters: Emitter, timeout: float = 30.0) -> None:
        """Make one of several.

        Args:
            *emitters: who gets the events, in this order.
            timeout: seconds that each gets for one call: a guard against one that hangs, logged as a failure.
        """
        self._emitters = emitters
        self._timeout = timeout

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """Give the events to each, in order of the emitters."""
        await self._each("emit", lambda emitter: emitter.emit(topic, events))

    async def flush(self, topic: Topic) -> None:
        """Flush each."""
        await self._each("flush", lambda emitter: emitter.flush(topic))

    async def aclose(self) -> None:
        """Close each."""
        await self._each("close", lambda emitter: emitter.aclose())

    async def _each(self, verb: str, call: Callable[[Emitter], Awaitable[None]]) -> None:
        fatal: EngineError | None = None
        for emitter in self._emitters:
            try:
                with anyio.fail_after(self._timeout):
                    await call(emitter)
            except EngineError as error:
                fatal = fatal or error
            except Exception:
                logger.exception("emitter %s failed to %s", type(emitter).__name__, verb)
        if fatal is not None:
            raise fatal


class LogEmitter:
    """Append events to a log: a bounded buffer in front of one writer per topic, or at once where the log's `append` never waits.

    `emit` returns once the events are in the buffer. A full buffer makes it wait, at most `emit_timeout`; then the log counts as
    failed. A failed log stays failed for the topic until the emitter is closed: half a record of a run is worse than a told end.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        fence: int | None = None,
        expose_state: bool = False,
        on_log_failure: Literal["fail", "live_only"] = "fail",
        emit_timeout: float = 5.0,
        max_drafts: int = 1024,
        max_bytes: int = 1024 * 1024,
    ) -> None:
        """Make an emitter for the runs of one lease.

        Args:
            log: where records go.
            fence: the number of the lease, or None.
            expose_state: write signatures and provider state themselves, not only their size.
            on_log_failure: `fail` raises `EngineError` into the run; `live_only` logs it once and drops what the log cannot take.
            emit_timeout: seconds that `emit` waits for room, and `flush` for the writer.
            max_drafts: drafts that wait at most.
            max_bytes: bytes of bodies that wait at most.
        """
        self._log = log
        self._is_instant = is_instant(log)
        self._fence = fence
        self._expose_state = expose_state
        self._on_log_failure = on_log_failure
        self._emit_timeout = emit_timeout
        self._max_drafts = max_drafts
        self._max_bytes = max_bytes
        self._writers: dict[Topic, _Writer] = {}

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """See `Emitter.emit`."""
        drafts = draft_all(topic, events, expose_state=self._expose_state)
        writer = self._writers.get(topic)
        if writer is None:
            writer = self._writers[topic] = _Writer(self._log, topic, self._fence)
        if self._is_instant:
            if writer.error is None:
                await writer.append(drafts)
            self._failed(writer)
            return
        if writer.error is None and writer.full(self._max_drafts, self._max_bytes):
            await writer.wait(lambda: not writer.full(self._max_drafts, self._max_bytes), self._emit_timeout)
        if self._failed(writer):
            return
        writer.put(drafts)

    async def flush(self, topic: Topic) -> None:
        """See `Emitter.flush`."""
        writer = self._writers.get(topic)
        if writer is None:
            return
        target = writer.taken
        await writer.wait(lambda: writer.error is not None or writer.written >= target, self._emit_timeout)
        self._failed(writer)

    async def aclose(self) -> None:
        """Flush every topic; failures are logged."""
        for topic in list(self._writers):
            try:
                await self.flush(topic)
            except EngineError:
                logger.exception("log of %s was not flushed", topic.path)
        self._writers.clear()

    def _failed(self, writer: "_Writer") -> bool:
        if writer.error is None:
            return False
        if self._on_log_failure == "fail":
            if isinstance(writer.error, EngineError):
                raise writer.error
            raise EngineError(f"the log of {writer.topic.path} failed") from writer.error
        if not writer.told:
            writer.told = True
            logger.error("log of %s failed, the run goes on live only: %s", writer.topic.path, writer.error)
        return True


class _Writer:
    """Appends what has gathered, one round trip at a time."""

    __slots__ = (
        "_busy",
        "_changed",
        "_log",
        "_pending",
        "_size",
        "error",
        "fence",
        "taken",
        "told",
        "topic",
        "written",
    )

    def __init__(self, log: EventLog, topic: Topic, fence: int | None) -> None:
        self._log = log
        self.topic = topic
        self.fence = fence
        self.error: Exception | None = None
        self.told = False
        self.taken = 0
        """Drafts that were put in, ever."""
        self.written = 0
        """Drafts that the log has acknowledged, ever."""
        self._pending: list[Draft] = []
        self._size = 0
        self._busy = False
        self._changed: anyio.Event | None = None

    def full(self, drafts: int, size: int) -> bool:
        return self.error is None and (len(self._pending) >= drafts or self._size >= size)

    def put(self, drafts: Sequence[Draft]) -> None:
        self._pending.extend(drafts)
        self._size += sum(len(draft.body) for draft in drafts)
        self.taken += len(drafts)
        if not self._busy:
            self._busy = True
            spawn(self._write, name=f"log writer of {self.topic.path}")

    async def wait(self, condition: Callable[[], bool], timeout: float) -> None:
        with anyio.move_on_after(timeout):
            while not condition():
                self._changed = self._changed or anyio.Event()
                await self._changed.wait()
            return
        if self.error is None:
            self.error = EngineError(f"the log of {self.topic.path} did not take events within {timeout} s")

    async def append(self, drafts: Sequence[Draft]) -> None:
        """Append in the caller's own task: for a log that does not wait."""
        self.taken += len(drafts)
        try:
            await self._append(drafts)
        except Exception as error:
            self._note(error)

    async def _append(self, drafts: Sequence[Draft]) -> None:
        await self._log.append(self.topic, drafts, fence=self.fence)
        self.written += len(drafts)

    def _note(self, error: Exception) -> None:
        """Keep why the log failed."""
        if not isinstance(error, AgentKitError):
            logger.error("log writer of %s failed", self.topic.path, exc_info=error)
        self.error = error

    async def _write(self) -> None:
        try:
            while self._pending and self.error is None:
                drafts, self._pending, self._size = self._pending, [], 0
                await self._append(drafts)
                self._tell()
        except Exception as error:
            self._note(error)
        except BaseException:  # the loop ends: nobody shall wait for a writer that is gone
            self.error = EngineError(f"the log of {self.topic.path} lost its writer: the loop ends")
            raise
        finally:
            self._busy = False
            self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
