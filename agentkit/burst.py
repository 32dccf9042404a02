"""Read an HTTP body one socket read at a time: all parts that a read completed, in one list.

Not pure: it steps coroutines. The HTTP client hands out a body chunk by chunk, one wake-up each, though a single read of the socket may
hold hundreds of them. What is pulled here is the same iterator, but pulled on for as long as that needs no new read.

How it knows: the response's network stream (a public extension of the HTTP client) gets a gate in front of its `read`. While this reader
steps the iterator, the gate suspends it with a mark of our own before the read begins. With parts in hand the reader keeps the suspended
iterator for the next call and returns the parts; otherwise it lets the read go on. The mark comes before any timeout or cancel scope
of the read is opened, so that nothing of them is left behind in the caller's task. Fallback: where no mark was seen yet (another
transport, or bytes that came with the head) each part is returned by itself, as the client gives it.
"""

import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final, Protocol, runtime_checkable

BODY: Final = "agentkit.body"
"""The response extension in which a transport of our own puts its `Body`, so that nothing of this is needed."""

_ABOUT_TO_READ: Final = object()
"""What a stepped iterator yields where it would read from its socket. It never reaches the event loop."""


@runtime_checkable
class Body(Protocol):
    """A body that can be read as it is read here, without a tower of generators in between."""

    def read(self) -> Awaitable[bytes]:
        """Return all that came since the last read, b"" at the end. It waits no longer than the request's `read` timeout.

        Raises:
            Exception: what the iterator of this body would raise.
        """
        ...


class _Abandoned(Exception):  # noqa: N818 - a signal, not an error
    """Raised inside the iterator, in the place of a read, when the body is left."""


@types.coroutine
def _announce_read() -> Generator[object, None, None]:
    yield _ABOUT_TO_READ


class _Gate:
    """Stands in front of a network stream's `read`, for as long as the connection lives."""

    __slots__ = ("_read", "abandoned", "armed", "proven")

    def __init__(self, read: Callable[..., Awaitable[bytes]]) -> None:
        self._read = read
        self.armed = False
        """True only while a `BurstReader` steps: no read of anybody else can come between."""
        self.abandoned = False
        """True where the body is being left: the next read raises."""
        self.proven = False
        """True once a read of a body was seen to pass here: from then on every one will."""

    async def __call__(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.armed:
            await _announce_read()
        if self.abandoned:
            raise _Abandoned
        return await self._read(max_bytes, timeout)


def _gate(network: Any) -> _Gate | None:
    """Return the gate of a network stream, put there if it has none; None where that cannot be done."""
    try:
        read = network.read
        if not isinstance(read, _Gate):
            read = network.read = _Gate(read)
    except AttributeError:
        return None
    return read


class BurstReader:
    """Reads one body. `next` until it returns b"", then or earlier `aclose`; both from one task."""

    __slots__ = ("_fault", "_gate", "_held", "_parts")

    def __init__(self, parts: AsyncGenerator[bytes], network: object = None) -> None:
        """Read `parts`; `network` is the stream under them, if the transport shows it."""
        self._parts = parts
        self._gate = _gate(network)
        self._held: Any = None
        """A step that is suspended before its read."""
        self._fault: Exception | None = None
        """What the iterator raised after parts that were returned first."""

    async def next(self) -> bytes:
        """Return what came with one read of the socket, b"" at the end. It ends when the iterator's own timeout does.

        Raises:
            Exception: what the iterator raises, if nothing came before it in the same read; otherwise with the next call.
        """
        gate = self._gate
        if gate is None:
            return await anext(self._parts, b"")
        if self._fault is not None:
            raise self._fault
        parts = await self._pull(gate)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """Leave the body: its connection is closed, unless the end was read already.

        The iterator is a tower of generators that do not close each other. So they are not closed but led out: the next read raises
        in its place, and the exception passes through them all. What was read and not given out is dropped on the way.
        """
        step, self._held = self._held, None
        gate = self._gate
        if gate is None:
            await self._parts.aclose()
            return
        gate.abandoned = True
        try:
            while True:
                await (anext(self._parts) if step is None else _finish(step))
                step = None
        except (_Abandoned, StopAsyncIteration):
            pass
        finally:
            gate.abandoned = False

    @types.coroutine
    def _pull(self, gate: _Gate) -> Generator[Any, Any, list[bytes]]:
        """`await` steps of the iterator until one of them would read with parts in hand. (PEP 380, spelt out for one special yield.)"""
        parts: list[bytes] = []
        step, self._held = self._held, None
        value: Any = None
        error: BaseException | None = None
        while True:
            if step is None:
                step = anext(self._parts)
            gate.armed = True
            try:
                mark = step.send(value) if error is None else step.throw(error)
            except StopIteration as done:
                parts.append(done.value)
                if not gate.proven:
                    return parts
                step = value = error = None
                continue
            except StopAsyncIteration:
                return parts
            except Exception as fault:
                if not parts:
                    raise
                self._fault = fault
                return parts
            finally:
                gate.armed = False
            value = error = None
            if mark is _ABOUT_TO_READ:
                gate.proven = True
                if parts:
                    self._held = step
                    return parts
                continue
            try:
                value = yield mark
            except GeneratorExit:
                step.close()
                raise
            except (
                BaseException
            ) as thrown:  # the loop's way to cancel: the iterator must see it where it waits
                error = thrown


@types.coroutine
def _finish(step: Any) -> Generator[Any, Any, bytes]:
    """`await` a step that has begun."""
    result: bytes = yield from step
    return result
