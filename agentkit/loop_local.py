"""One object per key and running event loop, closed when its loop ends.

Not pure: it asks for the running loop. For what holds sockets, which belong to the loop that opened them: a second `asyncio.run` makes a
new object, and the old one went with its loop, without a warning about open sockets. It knows nothing of what it keeps, but `aclose`.

How an object learns of its loop's end: both asyncio (`asyncio.run`, `Runner`, `anyio.run`, uvicorn) and trio close the async generators
that were begun in them, while the loop still runs. A loop that is closed by hand, without `shutdown_asyncgens`, does not tell; what was
left in it is let go when the next loop comes by.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.lowlevel import current_token


class Closable(Protocol):
    """What can be kept here."""

    async def aclose(self) -> None:
        """Close what it holds."""
        ...


T = TypeVar("T", bound=Closable)


class _Loop(Generic[T]):
    """What is kept for one loop."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, T] = {}
        self.guard: AsyncGenerator[None] | None = None


class LoopLocal(Generic[T]):
    """A table of objects, by loop and key."""

    def __init__(self) -> None:
        self._loops: dict[object, _Loop[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the running loop's object for `key`; it is made on first use. It does not wait for anything."""
        loop = current_token().native_token
        mine = self._loops.get(loop)
        if mine is None:
            self._forget_closed_loops()
            mine = self._loops[loop] = _Loop()
            mine.guard = self._until_loop_ends(loop)
            await anext(mine.guard)
        kept = mine.kept.get(key)
        if kept is None:
            kept = mine.kept[key] = make()
        return kept

    def take(self, key: Hashable) -> T | None:
        """Return the running loop's object for `key` and forget it, or None; closing it is the caller's."""
        mine = self._loops.get(current_token().native_token)
        return mine.kept.pop(key, None) if mine is not None else None

    def find(self, key: Hashable) -> T | None:
        """Return the running loop's object for `key`, or None."""
        mine = self._loops.get(current_token().native_token)
        return mine.kept.get(key) if mine is not None else None

    async def _until_loop_ends(self, loop: object) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            mine = self._loops.pop(loop, None)
            with anyio.CancelScope(shield=True):
                for kept in mine.kept.values() if mine else ():
                    await kept.aclose()

    def _forget_closed_loops(self) -> None:
        asyncio = sys.modules.get("asyncio")  # none of its loops ran where it is not there
        if asyncio is None:
            return
        for loop in list(self._loops):
            if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed():
                self._loops.pop(loop, None)
