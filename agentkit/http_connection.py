"""One HTTP/1.1 connection to a server, and the exchange on it: an asyncio protocol around a parser in C (llhttp, by httptools).

Not pure: it reads and writes a socket. It knows no request and no pool (see `http_transport`), and keeps nothing of what it sent. Its law:
- What one read of the socket brought of a body is one piece, however many chunks of HTTP that was; a reader that is late gets all at once.
- What came is handed out before the fault that ended it.
- A reader that does not come holds the server back: past a bound the socket is not read.
- A connection is used again only if the wire is certain: the request was written whole, the answer has ended, nothing came after it.
Asyncio only, any of its loops.
"""

import asyncio
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import httptools
import httpx2

from agentkit.waiting import Waiting

_READ: Final = 64 * 1024
"""Bytes read at once at most: other runs of the loop wait meanwhile. In a burst 256 KiB were not clearly better or worse."""
_WAITING: Final = 256 * 1024
"""Bytes that wait for the reader before the socket is not read any more; the read that passes the bound comes on top."""
_OVERHEAD: Final = 64 * 1024
"""Bytes in a row that may come without a body's: heads, interim answers, trailers, extensions of a chunk. The parser keeps them."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer."""

    version: bytes
    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class _Fault:
    """What ended an exchange before its time; made into an exception whenever somebody asks."""

    kind: type[httpx2.TransportError]
    text: str
    cause: BaseException | None = None


class _Stop(Exception):  # noqa: N818 - a signal to the parser, which has no other
    """Raised in a callback: what follows is not of this answer."""


def make_buffer() -> memoryview:
    """Return what sockets are read into.

    Into memory of ours, since for a plain protocol asyncio allocates 256 KiB with each read, which the C library gets from the kernel and
    gives back: with little to read, ten times the cost of the read itself. The connections of one loop share one: what came
    is taken before the next read. But not on Windows, where several reads are under way.
    """
    return memoryview(bytearray(_READ))


class Connection(asyncio.BufferedProtocol):
    """A connection. `begin`, `write`, `head`, `read`, then `release`; all from one task at a time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, buffer: memoryview, on_lost: "Callable[[Connection], None]"
    ) -> None:
        """Serve one connection of `loop`.

        Args:
            loop: the running one.
            buffer: what the socket is read into, at most so many bytes at once; see `make_buffer`.
            on_lost: called once, when the connection is closed.
        """
        self._buffer = buffer
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._is_lost = False
        self._waiting = Waiting(loop)
        self._is_blocked = False
        """True while the socket does not take what was written."""
        self._is_paused = False
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        """The parser's word for a piece of the body: not a function of ours, since there is one for each chunk."""
        self.begin()  # some servers speak first: "503, we are full"

    def begin(self) -> None:
        """Begin another exchange on a connection that was released."""
        self.skips_body = False
        """True where the answer has a head only, whatever it says (to HEAD)."""
        self._head: Head | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._fault: _Fault | None = None
        self._ended = False
        self._is_sent = False
        self._is_reusable = False
        self._pending = self._overhead = 0
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # As forgiving as the stock transport: a line may end with LF alone, a header hold any character, a chunk's size be padded.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    @property
    def is_lost(self) -> bool:
        """True once it is closed."""
        return self._is_lost

    @property
    def can_serve(self) -> bool:
        """True where the server has said nothing since the last answer: neither a word nor goodbye."""
        transport = self._transport
        if self._is_lost or transport is None or transport.is_closing():
            return False
        descriptor: int = transport.get_extra_info("socket").fileno()
        return not _is_readable(descriptor)

    # the exchange

    async def write(self, data: bytes, seconds: float | None) -> bool:
        """Write, and return when the socket took it all: True; or False where the answer, or a fault, leaves no sense in writing more.

        Raises:
            httpx2.WriteTimeout: it took longer than `seconds`.
        """
        if self._is_over or self._transport is None:
            return False
        self._transport.write(data)
        while self._is_blocked and not self._is_over:
            if not await self._waiting.wait(seconds):
                raise self._give_up(httpx2.WriteTimeout, "the request could not be written in time")
        return not self._is_blocked

    def finish(self) -> None:
        """Say that the request was written whole."""
        self._is_sent = True

    async def head(self, seconds: float | None) -> Head:
        """Return the head of the answer; interim ones (1xx) are passed over.

        Raises:
            httpx2.TransportError: none came, or none that is HTTP. `httpx2.ReadTimeout`: nothing came for `seconds`.
        """
        while self._head is None:
            await self._next(seconds)
        return self._head

    async def read(self, seconds: float | None) -> bytes:
        """Return all that has come of the body, b"" at its end. It waits for at most `seconds`.

        Raises:
            httpx2.TransportError: as `head`, once everything before it was returned.
        """
        parts = self._parts
        while not parts:
            if self._ended:
                return b""
            await self._next(seconds)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._pending = 0
        if self._is_paused:
            self._resume()
        return data

    def release(self) -> bool:
        """End the exchange and tell whether the connection may carry another one; if not, it is closed."""
        transport = self._transport
        certain = self._ended and self._is_sent and self._is_reusable and not self._is_lost
        if not certain or transport is None or transport.is_closing() or transport.get_write_buffer_size():
            self.close()
            return False
        self._parser = None
        self._parts.clear()
        self._waiting.stop()
        if self._is_paused:
            self._resume()
        return True

    def close(self) -> None:
        """Close it, whatever is under way; what waits in it is woken by a `ReadError`."""
        if not self._ended and self._fault is None:
            self._fault = _Fault(httpx2.ReadError, "the connection was closed")
        self._waiting.stop()
        if self._transport is not None:
            self._transport.abort()  # a clean close would wait for a peer that does not read
        self._waiting.wake()

    # what asyncio says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._transport = cast("asyncio.Transport", transport)  # of a stream protocol it is
        # So that `write` returns when all is with the kernel. Not 0: asyncio's TLS would pause for an empty buffer.
        self._transport.set_write_buffer_limits(high=1)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the protocol's signature
        """See `asyncio.BufferedProtocol`."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        parser = self._parser
        if parser is None or self._ended or self._fault is not None:  # nobody asked
            self._is_reusable = False
            self.close()
            return
        try:
            parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserUpgrade:
            self._is_reusable = False
        except httptools.HttpParserError as error:
            self._is_reusable = False
            if not self._ended:
                self._fail(f"the answer is not HTTP: {error}")
        if self._parts:
            self._overhead = 0
            self._pending += nbytes
            if self._pending > _WAITING and not self._is_paused:
                self._pause()
        elif not self._ended:
            self._overhead += nbytes
            if self._overhead > _OVERHEAD and self._fault is None:
                self._fail(f"{self._overhead} bytes came without any of a body, limit is {_OVERHEAD}")
        self._waiting.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._is_lost = True
        self._parser = None  # it holds us, and we hold it
        self._waiting.stop()
        if not self._ended and self._fault is None:
            self._fault = self._lost(exc)
        self._waiting.wake()
        self._on_lost(self)

    def pause_writing(self) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._is_blocked = True

    def resume_writing(self) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._is_blocked = False
        self._waiting.wake()

    # what the parser says

    def on_message_begin(self) -> None:
        """Stop where something comes behind the answer."""
        if self._ended:
            raise _Stop

    def on_status(self, reason: bytes) -> None:
        """Take a piece of the reason."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one of the trailers is let go."""
        if self._head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the head, unless it is an interim one."""
        parser = self._parser
        assert parser is not None
        status = parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._headers, self._reason = [], b""
            return
        version = f"HTTP/{parser.get_http_version()}".encode()
        self._head = Head(version, status, self._reason, self._headers)
        if self.skips_body or status == 101:
            self._ended = True
            raise _Stop  # what comes behind is no body, and the parser would take it for one
        self._is_reusable = parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """Take note of the end, unless it is that of an interim answer."""
        if self._head is not None:
            self._ended = True

    # news

    @property
    def _is_over(self) -> bool:
        return self._head is not None or self._fault is not None

    async def _next(self, seconds: float | None) -> None:
        """Wait for news of the answer.

        Raises:
            httpx2.TransportError: there will be none.
        """
        fault = self._fault
        if fault is not None:
            raise fault.kind(fault.text) from fault.cause
        if not await self._waiting.wait(seconds):
            raise self._give_up(httpx2.ReadTimeout, "nothing came in time")

    # faults

    def _give_up(self, kind: type[httpx2.TransportError], text: str) -> httpx2.TransportError:
        self._fault = _Fault(kind, text)
        self.close()
        return kind(text)

    def _fail(self, text: str) -> None:
        self._fault = _Fault(httpx2.RemoteProtocolError, text)
        self.close()

    def _lost(self, error: Exception | None) -> _Fault | None:
        """Return what the loss of the connection means to the exchange; None where it is the body's end."""
        if error is not None:
            return _Fault(httpx2.ReadError, str(error), error)
        if self._head is None:
            return _Fault(httpx2.RemoteProtocolError, "Server disconnected without sending a response.")
        coding = b""
        for name, value in self._head.headers:
            match name.lower():
                case b"transfer-encoding":
                    coding = value.rpartition(b",")[2].strip().lower()
                case b"content-length":
                    coding = b"length"
        if coding not in (b"chunked", b"length"):
            self._ended = True
            return None
        what = "incomplete chunked read" if coding == b"chunked" else "less than its content-length"
        text = f"peer closed connection without sending complete message body ({what})"
        return _Fault(httpx2.RemoteProtocolError, text)

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._is_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


def _is_readable(descriptor: int) -> bool:
    """Tell whether something waits in a socket; of an idle one that can only be its end."""
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()  # `select` knows no descriptor from 1024 on
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
