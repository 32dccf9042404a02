"""Watch a run in process: any number of iterators over one list of events.

No iterator pulls the provider: a run is pushed by its one owner, and a consumer that leaves changes nothing for the others.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Generic, Self, TypeVar

import anyio

from agentkit.background import Work
from agentkit.content import Usage
from agentkit.deltas import Deltas, EventBatch, Part, parts_of
from agentkit.errors import RunCancelled
from agentkit.events import Event, TextDelta
from agentkit.run_spec import RunResult

T = TypeVar("T")


class EventBuffer:
    """The events of one run: appended by its owner, read by cursors."""

    __slots__ = ("_changed", "_ended", "closed", "error", "parts", "result")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        """What was told: events, and `Deltas` that stand for many."""
        self.closed = False
        self.result: RunResult | None = None
        self.error: BaseException | None = None
        """What a reader gets raised after the last event."""
        self._changed: anyio.Event | None = None
        self._ended: anyio.Event | None = None

    @property
    def events(self) -> list[Event]:
        """All events, made anew."""
        return list(EventBatch(self.parts))

    def extend(self, events: Sequence[Event]) -> None:
        """Add events and wake the readers."""
        self.parts += parts_of(events)
        self._wake()

    def close(self, result: RunResult | None, error: BaseException | None) -> None:
        """No event will follow."""
        self.closed = True
        self.result = result
        self.error = error
        self._wake()
        if self._ended is not None:
            self._ended.set()

    async def join(self) -> None:
        """Return once it is closed: who wants the end only is not woken by what comes before. It ends when the run does."""
        if not self.closed:
            self._ended = self._ended or anyio.Event()
            await self._ended.wait()

    async def wait(self) -> None:
        """Return after the next change. It ends when the run does."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class Later(Generic[T]):
    """A value that is there when the run has ended: `await` it, as often as you like."""

    __slots__ = ("_get",)

    def __init__(self, get: Callable[[], Awaitable[T]]) -> None:
        self._get = get

    def __await__(self) -> Generator[object, None, T]:
        return self._get().__await__()


class RunStream:
    """A run that is going on: its events, its text, its end.

    It starts on first use, in the loop that uses it. Use it as an async context manager, or just drop it: leaving or dropping it stops
    the run, unless it was made `detached`.
    """

    def __init__(self, start: Callable[[EventBuffer], Work], *, detached: bool = False) -> None:
        self._start = start  # must not hold this object: dropping it is how a caller leaves
        self._detached = detached
        self._buffer = EventBuffer()
        self._work: Work | None = None

    async def __aenter__(self) -> Self:
        self.begin()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        work = getattr(self, "_work", None)
        if work is not None and not self._detached and not work.done:
            work.cancel_soon()

    def begin(self) -> Work:
        """Start the run if it has not started."""
        if self._work is None:
            self._work = self._start(self._buffer)
        return self._work

    async def aclose(self) -> None:
        """Stop the run if it goes on, and wait for its end. A detached run goes on."""
        if self._work is not None and not self._detached:
            self._work.cancel()
            with anyio.CancelScope(shield=True):
                await self._work.join()

    @property
    def event_stream(self) -> "EventIterator":
        """A new iterator over all events from the first: exactly one terminal event, then what `result` raises."""
        return EventIterator(self)

    @property
    def text_stream(self) -> "TextIterator":
        """A new iterator over the visible text: never reasoning, by construction."""
        return TextIterator(self)

    def __aiter__(self) -> "TextIterator":
        return self.text_stream

    async def result(self) -> RunResult:
        """Return how the run ended.

        A caller that is cancelled here leaves the run alone.

        Raises:
            AgentKitError: the run failed.
            RunCancelled: it was stopped.
        """
        self.begin()
        await self._buffer.join()
        if self._buffer.error is not None:
            raise self._buffer.error
        if self._buffer.result is None:
            raise RunCancelled(reason="the loop ended")
        return self._buffer.result

    @property
    def text(self) -> Later[str]:
        """`await` it: the visible text."""
        return Later(self._text)

    async def _text(self) -> str:
        return (await self.result()).text

    @property
    def usage(self) -> Later[Usage]:
        """`await` it: tokens of all steps."""
        return Later(self._usage)

    async def _usage(self) -> Usage:
        return (await self.result()).usage

    @property
    def refusal(self) -> Later[str | None]:
        """`await` it: the model's words for why it would not answer, or None."""
        return Later(self._refusal)

    async def _refusal(self) -> str | None:
        return (await self.result()).refusal

    @property
    def finish(self) -> Later[str]:
        """`await` it: why the model stopped."""
        return Later(self._finish)

    async def _finish(self) -> str:
        return (await self.result()).finish


class EventIterator:
    """A cursor over the events of a run. Leaving it early changes nothing for other iterators."""

    __slots__ = ("_at", "_closed", "_next", "stream")

    def __init__(self, stream: RunStream) -> None:
        self.stream = stream
        self._next = 0
        """The part that comes next."""
        self._at = 0
        """Where in it, if it stands for many."""
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._closed = True

    async def __anext__(self) -> Event:
        if self._closed:
            raise StopAsyncIteration
        self.stream.begin()
        buffer = self.stream._buffer
        while self._next >= len(buffer.parts):
            if buffer.closed:
                self._closed = True
                if buffer.error is not None:
                    raise buffer.error
                raise StopAsyncIteration
            await buffer.wait()
        part = buffer.parts[self._next]
        if isinstance(part, Deltas):
            event = part.event(self._at)
            self._at += 1
            if self._at < len(part.texts):
                return event
            self._at = 0
            part = event
        self._next += 1
        return part


class TextIterator:
    """The `text.delta` events of a run, and nothing else."""

    __slots__ = ("_events", "_owns")

    def __init__(self, stream: RunStream, *, owns: bool = False) -> None:
        self._events = EventIterator(stream)
        self._owns = owns
        """True where leaving this iterator stops the run (`Agent.stream`)."""

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave."""
        await self._events.__aexit__()
        if self._owns:
            await self._events.stream.aclose()

    async def __anext__(self) -> str:
        async for event in self._events:
            if isinstance(event, TextDelta) and event.parent is None:
                return event.text
        raise StopAsyncIteration
