"""Whether a piece of work left something running: tasks of the event loop, threads, sockets.

Not here: what a test of its own starts and forgets. That is the test's fault, and is found just the same.
"""

import asyncio
import gc
import sys
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

POOLS = ("AnyIO worker thread", "Trio thread", "asyncio_")
"""Idle workers that the event loop keeps for the next call."""


def tasks() -> set[object]:
    """Return all tasks of the running loop, of trio also the system's."""
    trio = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        return set(asyncio.all_tasks())
    found: set[object] = set()
    todo = [trio.lowlevel.current_root_task()]
    while todo:
        task = todo.pop()
        found.add(task)
        todo += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def threads() -> set[threading.Thread]:
    """Return the threads that are not idle workers of a pool."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith(POOLS)}


@asynccontextmanager
async def nothing_left_behind(seconds: float = 5.0) -> AsyncIterator[None]:
    """Fail where tasks or threads that the body started are still there `seconds` after it, or where it dropped a socket."""
    tasks_before, threads_before = tasks(), threads()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    try:
        with anyio.fail_after(seconds):
            while tasks() - tasks_before or threads() - threads_before:  # noqa: ASYNC110 - nobody tells when a task is gone
                await anyio.sleep(0.001)
    except TimeoutError:
        left = [str(one) for one in (tasks() - tasks_before) | (threads() - threads_before)]
        raise AssertionError(f"left behind: {left}") from None
    assert [str(warning.message) for warning in said if warning.category is ResourceWarning] == []
