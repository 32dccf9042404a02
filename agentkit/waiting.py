"""Waiting for news, again and again, each time with a limit: one timer for all the waits.

Asyncio only. Why: a timer made and cancelled with each wait costs as much as the wait. Here it stays, and is moved when it fires.
"""

import asyncio
import math


class Waiting:
    """What one task waits with for the news of one source."""

    __slots__ = ("_deadline", "_loop", "_timer", "_timer_at", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[bool] | None = None
        """Resolved with True when something has happened, False when the time is over."""
        self._deadline = math.inf
        """When the waiting ends, by the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    async def wait(self, seconds: float | None) -> bool:
        """Return True once `wake` was called, False where it was not for `seconds`; None: without a limit."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        if seconds is None:
            self._deadline = math.inf
        else:
            self._deadline = deadline = self._loop.time() + seconds
            if self._timer is None or deadline < self._timer_at:
                self._start(deadline)
        try:
            return await waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Something has happened; without effect where nobody waits."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(True)

    def stop(self) -> None:
        """Let the timer go: nobody will wait for now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, when: float) -> None:
        self.stop()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        """The timer fires: the wait that it was set for may be long over."""
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._deadline <= self._timer_at:
            waiter.set_result(False)
        elif self._deadline < math.inf:
            self._start(self._deadline)
