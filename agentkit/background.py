"""The one place that owns work which outlives its caller.

Not pure: it starts tasks. It knows neither runs nor logs. On asyncio a task in a held set, on trio a system task; either way an error
of the work is kept in its handle and logged, never raised into a stranger.
"""

import contextvars
import logging
import sys
from collections.abc import Awaitable, Callable

import anyio

logger = logging.getLogger("agentkit")


class Work:
    """A handle on spawned work: cancel it, join it."""

    __slots__ = ("_call_soon", "_done", "_is_cancelled", "_scope", "error", "name")

    def __init__(self, name: str, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self.name = name
        self.error: BaseException | None = None
        """What the work raised, or None."""
        self._is_cancelled = False
        self._scope: anyio.CancelScope | None = (
            None  # made by the work: a loop's callback, which may spawn, cannot
        )
        self._done = anyio.Event()
        self._call_soon = call_soon

    @property
    def done(self) -> bool:
        """True once the work has ended, whatever the end."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Ask the work to stop, from the loop that runs it; returns at once."""
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def cancel_soon(self) -> None:
        """Ask the work to stop, from anywhere: another thread, or the collector of dropped objects."""
        try:
            self._call_soon(self.cancel)
        except RuntimeError:
            pass  # the loop is gone, and the work with it

    async def join(self) -> None:
        """Wait until the work has ended. It ends when the work does: cancel first for a bound."""
        await self._done.wait()

    async def _run(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                if self._is_cancelled:
                    self._scope.cancel()
                await work()
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt, SystemExit, GeneratorExit):
            raise  # the loop's own matter: it ends
        except BaseException as error:  # trio ends the whole process where a system task lets one out
            self.error = error
            logger.exception("background work %s failed", self.name)
        finally:
            self._done.set()


_held: set[object] = set()
"""Asyncio keeps only weak references to its tasks."""


def spawn(work: Callable[[], Awaitable[object]], *, name: str) -> Work:
    """Start `work` in the running loop and return its handle. A callback of an asyncio loop may do so too.

    Raises:
        RuntimeError: no loop is running.
    """
    asyncio = sys.modules.get("asyncio")  # where its loop runs it is there; importing it would take long
    try:
        loop = asyncio.get_running_loop() if asyncio is not None else None
    except RuntimeError:
        loop = None
    if loop is None:
        return _spawn_trio(work, name)
    handle = Work(name, lambda call: None if loop.is_closed() else _ignore(loop.call_soon_threadsafe(call)))
    task = loop.create_task(handle._run(work), name=name)
    _held.add(task)
    task.add_done_callback(_held.discard)
    return handle


def _ignore(_: object) -> None:
    return None


def _spawn_trio(work: Callable[[], Awaitable[object]], name: str) -> Work:
    trio = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{name}: no event loop is running")
    handle = Work(name, trio.lowlevel.current_trio_token().run_sync_soon)

    async def system_task() -> None:
        # trio cancels system tasks when the main task ends; a Cancelled that leaves here is trio's own to catch.
        await handle._run(work)

    # As on asyncio: what a caller has set (a trace) holds in the work too.
    trio.lowlevel.spawn_system_task(system_task, name=name, context=contextvars.copy_context())
    return handle
