"""One timer for many: items that want a call after a while, each at its own moment.

Not pure: it uses the running loop's timer, and only while it holds items. It does not know what a call does.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

_SLOTS: Final = 32
"""Slots of one interval: a call comes up to one slot late, which is well below the jitter."""


class Timed(Protocol):
    """What a wheel holds."""

    due: int
    """The slot in which it stands: the wheel's own note."""


T = TypeVar("T", bound=Timed)


class Wheel(Generic[T]):
    """Calls `fire(item)` once for each item that was added. `fire` may add it again; it must not raise or wait."""

    __slots__ = ("_fire", "_slot", "_slots", "_timer")

    def __init__(self, interval: float, fire: Callable[[T], None]) -> None:
        """Args: interval: seconds, the unit of `add`."""
        self._slot = interval / _SLOTS
        self._fire = fire
        self._slots: dict[int, dict[T, None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True while it holds nothing, and so no timer."""
        return self._timer is None

    def add(self, item: T, earliest: float, latest: float) -> None:
        """Hold an item until its call, at a random moment between so many intervals from now."""
        loop = asyncio.get_running_loop()
        wait = _SLOTS * random.uniform(earliest, latest - 1 / _SLOTS)  # noqa: S311 - jitter, not a secret
        item.due = int(loop.time() / self._slot + wait) + 1
        self._slots.setdefault(item.due, {})[item] = None
        if self._timer is None:
            self._arm(loop)

    def remove(self, item: T) -> None:
        """Let go of an item; one that is not held is no error."""
        slot = self._slots.get(item.due, {})
        if item in slot:
            del slot[item]
            if not slot:
                del self._slots[item.due]
        if not self._slots and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        now = int(loop.time() / self._slot)
        self._timer = loop.call_at((now + 1) * self._slot, self._turn, loop, now + 1)

    def _turn(self, loop: asyncio.AbstractEventLoop, now: int) -> None:
        items = [item for slot in [s for s in self._slots if s <= now] for item in self._slots.pop(slot)]
        self._timer = None
        if self._slots:
            self._arm(loop)
        for item in items:
            self._fire(item)
