"""How much one may have and all together: open streams, runs at once, threads; and when an open stream has to end.

Counted in this process. Who is over a bound gets 429, before anything has begun. A stream ends when its identity does, when it is old,
when the session that it came with is closed here, or when a look finds that it was closed elsewhere, or that its owner may no longer see
what it watches.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import Final

import anyio

from agentkit.background import spawn
from agentkit.engine import Engine
from agentkit.log import Topic
from agentkit_server.identity import Identity
from agentkit_server.settings import Settings
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.session import CloseCode

logger = logging.getLogger("agentkit.server")

MAX_KNOWN: Final = 10_000
"""Of whom anything is remembered between two requests."""
PAGE: Final = 256
"""Threads that are counted at a time."""

Watched = Callable[[], Iterable[Topic]]
"""What a stream watches now."""
Stop = Callable[[CloseCode, str], None]
"""Ends a stream: its code, and a sentence for people."""


class Stay:
    """One open stream: counted while it lasts, and told when it has to end."""

    __slots__ = ("_old_at", "_stays", "_stop", "_timer", "identity", "watched")

    def __init__(self, stays: "Stays", identity: Identity | None) -> None:
        self._stays = stays
        self.identity = identity
        self.watched: Watched = tuple
        self._stop: Stop | None = None
        self._old_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, stop: Stop, watched: Watched) -> None:
        """Say how the stream is ended, and what it watches. From now on it may be."""
        self._stop, self.watched = stop, watched
        seconds = self._stays.settings.stream_age * random.uniform(0.9, 1.1)  # noqa: S311 - jitter, not a secret
        self._old_at = asyncio.get_running_loop().time() + seconds
        self._set_timer()
        self._stays.look()

    def renew(self, identity: object) -> None:
        """Note who it is, for the first time or again.

        Raises:
            ProblemError: 429, it has too many streams.
        """
        if not isinstance(identity, Identity):
            raise TypeError("a socket's identity is an Identity")
        self._stays.count(self.identity, -1)
        try:
            self._stays.admit(identity)
        except ProblemError:
            self._stays.count(self.identity, 1)
            raise
        self._stays.count(identity, 1)
        self.identity = identity
        self._set_timer()
        self._stays.look()

    def end(self, code: CloseCode, reason: str) -> None:
        """End the stream, unless it ends already."""
        if self._stop is not None:
            self._stop(code, reason)

    def leave(self) -> None:
        """The stream is over. Again changes nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._stop = None
        self._stays.forget(self)

    def _set_timer(self) -> None:
        """Set the one timer to what comes first: the stream's age, or the end of who it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stop is None:
            return
        loop = asyncio.get_running_loop()
        at, code, reason = self._old_at, CloseCode.MAX_AGE, "come back with your cursor"
        if self.identity is not None and self.identity.expires is not None:
            expires_at = loop.time() + max(self.identity.expires - self._stays.clock(), 0.0)
            if expires_at < at:
                at, code, reason = expires_at, CloseCode.TOKEN_EXPIRED, "the token expired"
        self._timer = loop.call_at(at, self.end, code, reason)


class Stays:
    """All open streams of a server."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        may_watch: Callable[[Identity, Topic], Awaitable[bool]] | None,
        is_open: Callable[[str], Awaitable[bool]],
    ) -> None:
        """Begin with none.

        Args:
            settings: bounds and times.
            clock: seconds since the epoch.
            may_watch: tells whether somebody may still read a topic; None where everybody may everything.
            is_open: tells whether a session has not been closed.
        """
        self.settings = settings
        self.clock = clock
        self._may_watch = may_watch
        self._is_open = is_open
        self._all: dict[Stay, None] = {}
        self._each: Counter[tuple[str, str]] = Counter()
        self._unknown = 0
        self._woken: anyio.Event | None = None
        """Set to end the task that looks; None where there is none."""

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, identity: Identity | None) -> Stay:
        """Count a stream; `Stay.leave` has to follow.

        Args:
            identity: whose; None for a socket that has not said so yet.

        Raises:
            ProblemError: 429.
        """
        self.demand_room(identity)
        stay = Stay(self, identity)
        self._all[stay] = None
        self.count(identity, 1)
        return stay

    def demand_room(self, identity: Identity | None) -> None:
        """Refuse one stream too many, before anything is begun for it.

        Raises:
            ProblemError: 429.
        """
        if len(self._all) >= self.settings.connections:
            raise _too_many("connections", "the server has as many streams as it may")
        self.admit(identity)

    @contextmanager
    def waiting(self, identity: Identity) -> Iterator[None]:
        """Count a request that waits as a stream.

        Raises:
            ProblemError: 429.
        """
        stay = self.enter(identity)
        try:
            yield
        finally:
            stay.leave()

    def admit(self, identity: Identity | None) -> None:
        """Refuse somebody who has as many streams as one may.

        Raises:
            ProblemError: 429.
        """
        if identity is None:
            if self._unknown >= self.settings.unknown_sockets:
                raise _too_many("connections", "too many sockets that have not said hello")
        elif not identity.is_anyone and self._each[identity.key] >= self.settings.connections_each:
            raise _too_many("connections", f"you may have {self.settings.connections_each} streams at once")

    def count(self, identity: Identity | None, number: int) -> None:
        """Add to what somebody has."""
        if identity is None:
            self._unknown += number
            return
        self._each[identity.key] += number
        if self._each[identity.key] <= 0:
            del self._each[identity.key]

    def forget(self, stay: Stay) -> None:
        """Let go of a stream."""
        if stay in self._all:
            del self._all[stay]
            self.count(stay.identity, -1)
        if not self._all and self._woken is not None:
            self._woken.set()

    def end_session(self, session: str) -> None:
        """End what a session has opened here; "" is none."""
        for stay in tuple(self._all) if session else ():
            if stay.identity is not None and stay.identity.session == session:
                stay.end(CloseCode.TOKEN_EXPIRED, "the session was closed")

    def look(self) -> None:
        """Have a task look from time to time, for as long as there are streams."""
        if self._may_watch is not None and self._woken is None and self._all:
            self._woken = anyio.Event()
            spawn(self._look, name="rights of those who watch")

    async def _look(self) -> None:
        woken = self._woken
        assert woken is not None
        while self._all:
            with anyio.move_on_after(self.settings.recheck):
                await woken.wait()
            woken = self._woken = anyio.Event()
            await self._check_sessions()
            for stay in tuple(self._all):
                await self._check(stay)
                await anyio.lowlevel.checkpoint()  # ten thousand of them are not to hold up everybody
        self._woken = None

    async def _check_sessions(self) -> None:
        """End what was opened with sessions that were closed, maybe elsewhere. Each is looked up once."""
        sessions = {stay.identity.session for stay in self._all if stay.identity is not None}
        for session in sessions - {""}:
            try:
                if not await self._is_open(session):
                    self.end_session(session)
            except Exception:  # of any engine; rights are looked at all the same
                logger.exception("sessions could not be looked up")
                return

    async def _check(self, stay: Stay) -> None:
        """End a stream whose time is over (clocks may have been set), or whose owner may not see what it watches."""
        identity, may_watch = stay.identity, self._may_watch
        if identity is None or may_watch is None:
            return
        try:
            if identity.expires is not None and self.clock() >= identity.expires:
                stay.end(CloseCode.TOKEN_EXPIRED, "the token expired")
            elif not all([await may_watch(identity, topic) for topic in tuple(stay.watched())]):
                stay.end(CloseCode.TOKEN_EXPIRED, "your rights have changed")
        except Exception:  # somebody's own `authorize`
            logger.exception("a stream's rights could not be checked, so it is ended")
            stay.end(CloseCode.TOKEN_EXPIRED, "your rights cannot be checked")


class Rate:
    """So many a second for each, over time, and so many at once."""

    def __init__(
        self, rate: float, burst: int, said: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nobody.

        Args:
            rate: a second.
            burst: at once.
            said: what who has had its share is told.
            clock: seconds, from a clock that does not jump.
        """
        self._rate = rate
        self._burst = float(burst)
        self._said = said
        self._clock = clock
        self._left: dict[tuple[str, str], tuple[float, float]] = {}
        """Of each: what it had left, and when."""

    def take(self, identity: Identity) -> None:
        """Take one.

        Raises:
            ProblemError: 429, there is none left; it says when there is.
        """
        now = self._clock()
        left, seen = self._left.get(identity.key, (self._burst, now))
        left = min(left + (now - seen) * self._rate, self._burst)
        if left < 1:
            milliseconds = ceil((1 - left) / self._rate * 1000)
            raise ProblemError(Problem(429, "too_many_requests", self._said, retry_after_ms=milliseconds))
        if len(self._left) >= MAX_KNOWN:
            self._left.clear()
        self._left[identity.key] = left - 1, now


class RunLimits:
    """Runs at once, and threads, by owner."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._all = 0
        self._each: Counter[str] = Counter()
        self._threads: Counter[tuple[str, str]] = Counter()

    def admit(self, owner: str) -> None:
        """Refuse one run too many.

        Raises:
            ProblemError: 429.
        """
        if self._all >= self._settings.runs:
            raise _too_many("runs", "the server has as many runs as it may")
        if owner and self._each[owner] >= self._settings.runs_each:
            raise _too_many("runs", f"you may have {self._settings.runs_each} runs at once")

    def begin(self, owner: str) -> None:
        """Count a run."""
        self._all += 1
        self._each[owner] += 1

    def end(self, owner: str) -> None:
        """Count it no more."""
        self._all -= 1
        self._each[owner] -= 1
        if self._each[owner] <= 0:
            del self._each[owner]

    @contextmanager
    def beginning(self, owner: str) -> Iterator[None]:
        """Keep a place for a run while it is being started.

        Raises:
            ProblemError: 429.
        """
        self.admit(owner)
        self.begin(owner)
        try:
            yield
        finally:
            self.end(owner)

    async def admit_thread(self, engine: Engine, topic: Topic) -> None:
        """Refuse one new thread too many. They are counted once, then remembered, and counted again before anybody is refused.

        Raises:
            ProblemError: 429.
            EngineError: they cannot be counted.
        """
        if not topic.owner or (await engine.log.tail(topic)).head > 0:
            return
        key, most = (topic.owner, topic.agent), self._settings.threads_each
        if len(self._threads) >= MAX_KNOWN:
            self._threads.clear()  # they are counted again
        if key not in self._threads or self._threads[key] >= most:
            self._threads[key] = await _count_threads(engine, topic, most)
        if self._threads[key] >= most:
            raise _too_many("threads", f"you may have {most} threads with an agent; delete one")
        self._threads[key] += 1


async def _count_threads(engine: Engine, topic: Topic, most: int) -> int:
    """Return how many threads an owner has with an agent; no further than `most`."""
    found, after = 0, ""
    while found < most:
        page = await engine.threads.threads(topic.owner, topic.agent, after=after, limit=PAGE)
        if not page:
            break
        found, after = found + len(page), page[-1].thread
    return found


def _too_many(what: str, detail: str) -> ProblemError:
    return ProblemError(Problem(429, f"too_many_{what}", detail, retry_after_ms=5000))
