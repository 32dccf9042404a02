"""The HTTP client's transport over aiohttp.

Not pure: it connects. Asyncio only; `fast` decides who gets it. What stays the stock transport's way: timeouts, TLS context, limits, headers
as they are, no cookies, no redirects, no decompression, its exceptions.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
import httpx2
from yarl import URL

_KEEPALIVE: Final = 30.0
"""Seconds that an idle connection is kept, as with the stock transport."""
_BUFFER: Final = 64 * 1024
"""Bytes that wait for a reader before the connection is paused, twice that at most."""
_AUTO_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_SENT: Final = "http11.receive_response_headers.started"
"""The stock transport's word, in its `trace` extension, for: the request is written, the answer is awaited."""


class AioTransport(httpx2.AsyncBaseTransport):
    """Sends requests through an aiohttp session. Make it in the event loop that uses it."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        connector = aiohttp.TCPConnector(ssl=trust, limit=0, keepalive_timeout=_KEEPALIVE)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTO_HEADERS,
            trust_env=False,
            read_bufsize=_BUFFER,
            max_line_size=64 * 1024,  # about what the stock transport takes
            max_field_size=64 * 1024,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer once its head is there.

        Raises:
            httpx2.TransportError: as the stock transport.
        """
        times = request.extensions.get("timeout", {})
        timeout = aiohttp.ClientTimeout(
            total=None,
            connect=times.get("connect"),
            sock_connect=times.get("connect"),
            sock_read=times.get("read"),
        )
        with _translated(request):
            answer = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=[(name.decode("ascii"), value.decode()) for name, value in request.headers.raw],
                data=_body(request),
                timeout=timeout,
                allow_redirects=False,
            )
        return httpx2.Response(
            answer.status,
            headers=list(answer.raw_headers),
            stream=_Answer(answer, request),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (answer.reason or "").encode("utf-8", "replace"),
            },
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


async def _body(request: httpx2.Request) -> AsyncIterator[bytes]:
    """Yield the request's body, and tell when it is written: aiohttp asks on once the socket took what came before."""
    stream = request.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    async for part in stream:
        yield part
    trace = request.extensions.get("trace")
    if trace is not None:
        await trace(_SENT, {})


class _Answer(httpx2.AsyncByteStream):
    """A body: one item a read of the socket."""

    def __init__(self, answer: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._answer = answer
        self._request = request
        self._idle: float | None = request.extensions.get("timeout", {}).get("read")
        connection = answer.connection
        if connection is not None and connection.protocol is not None:
            lost = connection.protocol.closed
            if lost is not None:
                lost.add_done_callback(self._on_lost)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = self._answer.content.readany
        with _translated(self._request):
            while True:
                async with asyncio.timeout(
                    self._idle
                ):  # aiohttp drops its own where it cannot parse what came
                    data = await read()
                if not data:
                    return
                yield data

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end: then it waits for the next request."""
        self._answer.close()

    def _on_lost(self, lost: "asyncio.Future[None]") -> None:
        """Tell a reader that waits: where a body breaks its framing, aiohttp closes the connection and says nothing to it."""
        if not lost.cancelled():
            lost.exception()  # or the loop complains that nobody asked
        content = self._answer.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the body broke off or its framing is not HTTP"))


@contextmanager
def _translated(request: httpx2.Request) -> Iterator[None]:
    """Raise what the stock transport raises."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error), request=request) from error
    except TimeoutError as error:
        raise httpx2.ReadTimeout(str(error), request=request) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error), request=request) from error
    except aiohttp.ClientResponseError as error:  # its text holds the URL
        raise httpx2.RemoteProtocolError(error.message, request=request) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError) as error:
        raise httpx2.RemoteProtocolError(str(error), request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(str(error), request=request) from error
