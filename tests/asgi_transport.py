"""An ASGI application as an HTTP transport whose answers come while they are made: feeds too."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from asgi import Exchange, scope_of


class ASGIStream(httpx2.AsyncBaseTransport):
    """Carries requests to an application in process.

    Attributes:
        requests: what was asked: method and path.
        breaks: bytes after which the next answers break off, in turn; 0 for before their head.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self.requests: list[tuple[str, str]] = []
        self.breaks: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.raw_path.decode()
        self.requests.append((request.method, path))
        limit = self.breaks.pop(0) if self.breaks else None
        headers = dict(request.headers.items())
        exchange = Exchange(self._app, scope_of(request.method, path, headers), [await request.aread()])
        await exchange.__aenter__()
        await exchange.begun()
        if limit == 0:
            exchange.leave()
            raise httpx2.ReadError("the link broke")
        return httpx2.Response(exchange.status, headers=exchange.headers, stream=_Body(exchange, limit))

    def client(self) -> httpx2.AsyncClient:
        """Return a client that asks the application."""
        return httpx2.AsyncClient(transport=self)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, exchange: Exchange, limit: int | None) -> None:
        self._exchange = exchange
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange, sent = self._exchange, 0
        while not (exchange.ended and sent == len(exchange.body)):
            if sent == len(exchange.body):
                exchange._changed.clear()
                await asyncio.wait_for(exchange._changed.wait(), 10)
                continue
            piece = exchange.body[sent:]
            if self._limit is not None and sent + len(piece) >= self._limit:
                exchange.leave()
                raise httpx2.ReadError("the link broke")
            sent += len(piece)
            yield piece

    async def aclose(self) -> None:
        await self._exchange.__aexit__(None)
