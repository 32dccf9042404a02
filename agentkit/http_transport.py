"""The HTTP client's fast transport: HTTP/1.1 on asyncio's own streams and a parser in C.

Not pure: it connects. Asyncio only; `fast` decides who gets it, and says why it is there. What stays the stock transport's way: its
exceptions, timeouts, TLS context and limits, headers as they are; no cookies, no redirects, no decompression, no proxy, no HTTP/2. No
exception's text and no `repr` holds a URL or a header.
"""

import asyncio
import re
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

import anyio
import httpx2
from anyio.lowlevel import checkpoint

from agentkit.burst import BODY, Body
from agentkit.dial import dial
from agentkit.http_connection import Connection, make_buffer

_KEEPALIVE: Final = 30.0
"""Seconds that an idle connection is kept, as with the stock transport."""
_KEPT: Final = 20
"""Idle connections at most, as with the stock transport."""
_TURNS: Final = 100
"""Turns of the event loop that closing waits for what was aborted: it takes one or two, and a broken loop must not hold the caller."""
_JOINED: Final = 64 * 1024
"""Bytes of a body's first piece that are written in one with the head: more are not worth the copy."""
_SENT: Final = "http11.receive_response_headers.started"
"""The stock transport's word, in its `trace` extension, for: the request is written, the answer is awaited. The only one that is said."""
_TOKEN: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")
_BREAKING: Final = re.compile(rb"[\x00\r\n]")
"""What would begin another line in a head, or end it."""


class _Address(NamedTuple):
    """Where a connection goes: what has to be equal for another request to use it."""

    host: str
    port: int
    name: str | None
    """The name that its certificate has to hold; None without TLS."""


class _Idle(NamedTuple):
    until: float
    """By the loop's clock."""
    address: _Address
    connection: Connection


class FastTransport(httpx2.AsyncBaseTransport):
    """Sends requests. Make it in the event loop that uses it."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        """Connect nothing yet; `trust` is the TLS context of all connections, and offers HTTP/1.1 from now on."""
        self._loop = asyncio.get_running_loop()
        self._trust = trust
        trust.set_alpn_protocols(["http/1.1"])
        self._buffer = make_buffer()
        self._open: set[Connection] = set()
        self._idle: list[_Idle] = []
        """The one that waits longest first."""
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer once its head is there. The timeouts are those of the `timeout` extension: connect, write, read.

        Raises:
            httpx2.TransportError: as the stock transport.
        """
        address = _address(request)
        head = _request_head(request)
        times = request.extensions.get("timeout", {})
        connection = self._take(address) or await self._connect(address, times.get("connect"))
        try:
            await _send(connection, request, head, times.get("write"))
            trace = request.extensions.get("trace")
            if trace is not None:
                await trace(_SENT, {})
            got = await connection.head(times.get("read"))
        except BaseException:
            connection.close()
            raise
        body = _Body(connection, times.get("read"), lambda: self._release(address, connection))
        return httpx2.Response(
            got.status,
            headers=got.headers,
            stream=body,
            extensions={"http_version": got.version, "reason_phrase": got.reason, BODY: body},
        )

    async def aclose(self) -> None:
        """Close all connections, also those of answers that are being made; it waits for the event loop only."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        self._idle.clear()
        for connection in list(self._open):
            connection.close()
        for _ in range(_TURNS):
            if not self._open:
                return
            await checkpoint()

    async def _connect(self, address: _Address, seconds: float | None) -> Connection:
        """Return a new connection.

        Raises:
            httpx2.ConnectTimeout: it does not stand after `seconds`: name look-up, TCP and TLS together.
            httpx2.ConnectError: nobody is there, or nobody that can be trusted.
        """
        try:
            with anyio.move_on_after(seconds):
                connected = await dial(address.host, address.port)
                try:
                    _, connection = await self._loop.create_connection(
                        self._make,
                        sock=connected,
                        ssl=self._trust if address.name is not None else None,
                        server_hostname=address.name,
                    )
                except BaseException:
                    connected.close()
                    raise
                if not connection.is_lost:  # if it is, its first use will tell
                    self._open.add(connection)
                return connection
        except (OSError, UnicodeError) as error:  # a name that no name server could know is the latter
            raise httpx2.ConnectError(str(error)) from error
        raise httpx2.ConnectTimeout(f"no connection within {seconds} s")

    def _make(self) -> Connection:
        buffer = make_buffer() if sys.platform == "win32" else self._buffer
        return Connection(self._loop, buffer, self._forget)

    def _take(self, address: _Address) -> Connection | None:
        """Return an idle connection, the one that was used last, or None; what has gone stale is closed."""
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place].address != address:
                continue
            until, _, connection = self._idle.pop(place)
            if until > self._loop.time() and connection.can_serve:
                connection.begin()
                return connection
            connection.close()
        return None

    def _release(self, address: _Address, connection: Connection) -> None:
        if not connection.release():
            return
        if len(self._idle) >= _KEPT:
            connection.close()
            return
        self._idle.append(_Idle(self._loop.time() + _KEEPALIVE, address, connection))
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(_KEEPALIVE, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle for too long, and come again for the next."""
        now = self._loop.time()
        while self._idle and self._idle[0].until <= now:
            self._idle.pop(0).connection.close()
        self._sweep_timer = self._loop.call_at(self._idle[0].until, self._sweep) if self._idle else None

    def _forget(self, lost: Connection) -> None:
        self._open.discard(lost)
        self._idle = [one for one in self._idle if one.connection is not lost]


class _Body(httpx2.AsyncByteStream, Body):
    """A body: one item a read of the socket."""

    def __init__(self, connection: Connection, seconds: float | None, release: Callable[[], None]) -> None:
        self._connection: Connection | None = connection
        self._seconds = seconds
        self._release = release

    def read(self) -> Awaitable[bytes]:
        """See `Body`."""
        if self._connection is None:
            raise httpx2.StreamClosed
        return self._connection.read(self._seconds)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def aclose(self) -> None:
        """Close the connection, unless its answer has come to its end: then it waits for the next request."""
        if self._connection is not None:
            self._connection = None
            self._release()


def _address(request: httpx2.Request) -> _Address:
    url = request.url
    if url.scheme not in ("http", "https"):
        raise httpx2.UnsupportedProtocol(f"only http and https can be requested, not {url.scheme[:200]!r}")
    host = url.raw_host.decode("ascii")
    if url.scheme == "http":
        return _Address(host, url.port or 80, None)
    name = request.extensions.get("sni_hostname") or host
    return _Address(host, url.port or 443, name)


def _request_head(request: httpx2.Request) -> bytes:
    """Return the request's line and headers, and the empty line behind them.

    Raises:
        httpx2.LocalProtocolError: one of them would not stay where it belongs.
    """
    method, target = request.method.encode("ascii", "replace"), request.url.raw_path
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise httpx2.LocalProtocolError("the method or the URL holds a character that no request has")
    lines = [b"%b %b HTTP/1.1\r\n" % (method, target)]
    for name, value in request.headers.raw:
        if not _TOKEN.fullmatch(name) or _BREAKING.search(value):
            raise httpx2.LocalProtocolError("a header holds a character that no header has")
        lines.append(b"%b: %b\r\n" % (name, value))
    lines.append(b"\r\n")
    return b"".join(lines)


async def _send(connection: Connection, request: httpx2.Request, head: bytes, seconds: float | None) -> None:
    """Write the request; where its answer comes first, the rest is left.

    Raises:
        httpx2.WriteTimeout: the server did not take a piece for `seconds`.
        httpx2.LocalProtocolError: the body is not as long as its header says.
    """
    connection.skips_body = request.method == "HEAD"
    parts = _framed(request)
    try:
        async for part in parts:
            if head and len(part) <= _JOINED:
                part, head = head + part, b""  # noqa: PLW2901 - one write, one packet
            if (head and not await connection.write(head, seconds)) or not await connection.write(
                part, seconds
            ):
                return
            head = b""
    finally:
        await parts.aclose()
    if head and not await connection.write(head, seconds):
        return
    if request.headers.get("connection", "").lower() != "close":
        connection.finish()


async def _framed(request: httpx2.Request) -> AsyncGenerator[bytes]:
    """Yield the body as it is written: in chunks or, checked, of the length that its header says.

    Raises:
        httpx2.LocalProtocolError: it is not as long.
    """
    is_chunked = "chunked" in request.headers.get("transfer-encoding", "").lower()
    length = request.headers.get("content-length", "0")
    if not length.isdecimal():
        raise httpx2.LocalProtocolError("Content-Length is no number")
    left = int(length)
    stream = request.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    parts = aiter(stream)
    try:
        async for part in parts:
            if is_chunked and part:
                yield b"%x\r\n%b\r\n" % (len(part), part)
            elif part:
                left -= len(part)
                if left < 0:
                    raise httpx2.LocalProtocolError("Too much data for declared Content-Length")
                yield part
    finally:
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()
    if is_chunked:
        yield b"0\r\n\r\n"
    elif left:
        raise httpx2.LocalProtocolError("Too little data for declared Content-Length")
