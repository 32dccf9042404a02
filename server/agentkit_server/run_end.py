"""Wait for the end of a run, by its thread's log."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from agentkit.log import NOW, Tail

PAGE: Final = 256
"""Records that are looked through before the loop gets its turn."""


async def until_end(tail: Tail, run: str, has_ended: Callable[[], Awaitable[bool]]) -> None:
    """Return once a run has ended: its record is written before its terminal event is told.

    Args:
        tail: of the run's thread.
        run: its id.
        has_ended: asked at first, and whenever the log tells an end or has a gap.
    """
    woken = anyio.Event()

    def wake() -> None:
        woken.set()

    stop = tail.on_wake(wake)
    try:
        cursor = tail.after(NOW, 0).cursor
        while not await has_ended():
            told = False
            while not told:
                await woken.wait()
                woken = anyio.Event()
                page = tail.after(cursor, PAGE)
                while page.records and not told:
                    cursor = page.cursor
                    told = any(record.terminal and record.run == run for record in page.records)
                    page = tail.after(cursor, PAGE)
                    await anyio.lowlevel.checkpoint()
                told = told or page.gap is not None
                cursor = page.cursor
    finally:
        stop()
