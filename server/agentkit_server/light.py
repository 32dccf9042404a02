"""Events and queues that weigh little while nobody waits.

Why: asyncio's keep a `deque` each, 760 bytes whether anybody waits or not, and uvicorn makes four of them for a request and five for a
socket: a sixth of what an idle reader holds. These have the methods that uvicorn calls, and no others; `protocols` puts them in the place
of its own, which work as well.
"""

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class LightEvent:
    """An `asyncio.Event` that makes room for waiters when somebody waits."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiters: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake all who wait."""
        self._is_set = True
        for waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Unset it: who waits from now on waits for the next `set`."""
        self._is_set = False

    async def wait(self) -> None:
        """Return once it is set, by `set`; a cancelled wait leaves nothing behind."""
        if self._is_set:
            return
        waiter = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)
            if not self._waiters:
                self._waiters = None


class LightQueue(Generic[T]):
    """An `asyncio.Queue` without bounds, for one that gets. What is put in has a bound of its own: uvicorn pauses reading."""

    __slots__ = ("_filled", "_items")

    def __init__(self) -> None:
        self._items: list[T] = []
        self._filled = LightEvent()

    def empty(self) -> bool:
        """Tell whether there is nothing to get."""
        return not self._items

    def put_nowait(self, item: T) -> None:
        """Put an item in."""
        self._items.append(item)
        self._filled.set()

    async def get(self) -> T:
        """Return the oldest item as soon as there is one; a cancelled wait takes none."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        return self._items.pop(0)


class LightPipeline(list[T]):
    """Requests that wait for the answer to one before them: hardly ever any."""

    __slots__ = ()

    def appendleft(self, item: T) -> None:
        """Put the latest in; `pop` takes the oldest."""
        self.insert(0, item)
