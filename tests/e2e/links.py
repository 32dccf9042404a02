"""A link that breaks: a TCP proxy that cuts in the middle of frames, resets, stalls, delays and tears bytes into pieces."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self

_WHOLE = 1 << 60


class Link:
    """A proxy in front of a server of this machine.

    Attributes:
        target: the server's port; may be changed while it serves.
        cuts: how many connections it has cut.
        connections: how many came.
        port: its own.
        url: the same.
    """

    def __init__(
        self, target: int, *, rng: random.Random | None = None, faults: int = 0, most: int = 3000, stall_after: int = 0
    ) -> None:  # fmt: skip
        """Make a link.

        Args:
            target: the server's port.
            rng: where its whims come from.
            faults: how many connections it spoils; those after it are whole.
            most: bytes from the server that a spoilt connection lets through at most; the half of them at least reach past a head.
            stall_after: the first connection falls silent after so many bytes, and stays open.
        """
        self.target = target
        self.cuts = 0
        self.connections = 0
        self.port = 0
        self._rng = rng or random.Random(0)
        self._faults = faults
        self._most = most
        self._stall_after = stall_after
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    def spoil(self, faults: int) -> None:
        """Spoil the next connections, and cut those that are open: a browser would go on with them."""
        self._faults = self.connections + faults
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.cut_all)

    def cut_all(self) -> None:
        """Reset every connection now."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        spoilt = self.connections <= self._faults
        left = self._rng.randrange(self._most) if spoilt else _WHOLE
        try:
            upstream, out = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, out}
        up = asyncio.create_task(_pour(reader, out))
        try:
            await self._down(upstream, writer, left, torn=spoilt)
        except ConnectionError:
            pass
        finally:
            up.cancel()
            if spoilt and self._rng.random() < 0.5:
                writer.close()  # a clean end at a wrong place; else a reset, which takes what is on its way with it
            else:
                writer.transport.abort()
            out.transport.abort()
            self._writers -= {writer, out}

    async def _down(
        self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int, *, torn: bool
    ) -> None:
        passed = 0
        while left > 0:
            data = await upstream.read(min(left, self._rng.choice((1, 17, 400)) if torn else 65536))
            if not data:
                return
            left -= len(data)
            passed += len(data)
            writer.write(data)
            await writer.drain()
            if torn and self._rng.random() < 0.05:
                await asyncio.sleep(0.002)
            if self._stall_after and self.connections == 1 and passed > self._stall_after:
                await self._over.wait()
        self.cuts += 1

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Serve."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        try:
            yield self
        finally:
            server.close()
            self._over.set()
            self.cut_all()
            await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except ConnectionError:
        pass


@contextmanager
def linked(target: int, *, seed: int = 1, faults: int = 8, most: int = 3000) -> Iterator[Link]:
    """A link in a thread, for tests that have no loop of their own."""
    link = Link(target, rng=random.Random(seed), faults=faults, most=most)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with link.open():
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="link")
    thread.start()
    assert ready.wait(5)
    try:
        yield link
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(5)
        loop.close()
