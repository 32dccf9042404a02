"""Clients for tests: raw and rude ones on sockets, and polite ones that follow a feed; a proxy that cuts."""

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import httpx2

from agentkit.sse import SSEDecoder


class Raw:
    """A socket whose receive buffer is small, and which reads only when told."""

    def __init__(self, port: int, *, buffer: int = 4096) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, data: str | bytes) -> None:
        """Send it all."""
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def read(self, size: int = 65536) -> bytes:
        """Return some bytes; b"" at the end, and where the peer has reset."""
        try:
            return self.socket.recv(size)
        except ConnectionError:
            return b""

    def read_until(self, mark: bytes) -> bytes:
        """Return what comes up to a mark, and maybe more."""
        out = b""
        while mark not in out:
            piece = self.read(1024)
            assert piece, f"ended before {mark!r}: {out[-200:]!r}"
            out += piece
        return out

    def read_all(self) -> bytes:
        """Return what comes up to the end."""
        out = bytearray()
        while piece := self.read():
            out += piece
        return bytes(out)

    def is_cut(self) -> bool:
        """Tell whether the peer has dropped this connection; nothing is read."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return info[0] != 1  # TCP_ESTABLISHED

    def get(self, target: str) -> None:
        """Ask for something."""
        self.send(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n")

    def post(self, target: str, body: str) -> None:
        """Post JSON."""
        self.send(
            f"POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        )

    def upgrade(self, target: str = "/v1/ws") -> None:
        """Open a WebSocket, and read its welcome."""
        key = base64.b64encode(os.urandom(16)).decode()
        self.send(
            f"GET {target} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\nsec-websocket-protocol: agentkit.v1\r\n\r\n"
        )
        assert b"101 Switching" in self.read_until(b"\r\n\r\n")

    def frame(self, data: bytes, *, opcode: int = 1, fin: bool = True) -> None:
        """Send one masked frame."""
        size = len(data)
        head = bytes([opcode | (128 if fin else 0)])
        head += bytes([128 | size]) if size < 126 else bytes([128 | 126]) + size.to_bytes(2, "big")
        self.send(head + b"\0\0\0\0" + data)

    def say(self, **words: Any) -> None:
        """Send one text frame of JSON."""
        self.frame(json.dumps(words).encode())


class Follower:
    """A polite client of one feed.

    Attributes:
        events: the envelopes and control frames that came.
        last_id: the last id that a frame had.
        named: the frames' names, in step with `events`.
    """

    def __init__(self, url: str, *, last_id: str = "", key: str = "") -> None:
        self.url = url
        self._key = key
        self.events: list[dict[str, Any]] = []
        self.named: list[str] = []
        self.last_id = last_id
        self.status = 0
        self.ended_cleanly = False

    async def follow(self, *, until: str = "stream.end") -> Self:
        """Read until a type has come, or the stream has ended."""
        headers = {"accept": "text/event-stream"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if self.last_id:
            headers["last-event-id"] = self.last_id
        decoder = SSEDecoder()
        self.ended_cleanly = False
        try:
            async with (
                httpx2.AsyncClient(trust_env=False, timeout=10) as client,
                client.stream("GET", self.url, headers=headers) as answer,
            ):
                self.status = answer.status_code
                async for data in answer.aiter_raw():
                    for frame in decoder.feed(data):
                        self.named.append(frame.event)
                        self.events.append(json.loads(frame.data))
                        self.last_id = frame.id or self.last_id
                        if self.events[-1]["type"] == until:
                            return self
                self.ended_cleanly = True
        except httpx2.TransportError:
            pass  # the link broke; the caller comes back
        return self

    @property
    def records(self) -> list[dict[str, Any]]:
        """What came of the log."""
        return [event for event in self.events if "seq" in event]

    @property
    def seqs(self) -> list[int]:
        """Their numbers."""
        return [record["seq"] for record in self.records]


async def start_run(url: str, agent: str, thread: str, text: str = "hello") -> str:
    """Start a run and return its id."""
    async with httpx2.AsyncClient(trust_env=False, timeout=10) as client:
        answer = await client.post(f"{url}/v1/agents/{agent}/threads/{thread}/runs", json={"input": text})
    assert answer.status_code == 202, answer.text
    run: str = answer.json()["run"]
    return run


class Proxy:
    """A TCP proxy that cuts each connection after so many bytes from the server, as long as `cuts` lasts."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self._target = port
        self._cuts = cuts
        self.port = 0
        self.connections = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = self._cuts.pop(0) if self._cuts else 1 << 60
        upstream, out = await asyncio.open_connection("127.0.0.1", self._target)

        async def up() -> None:
            while data := await reader.read(65536):
                out.write(data)
            out.close()

        task = asyncio.create_task(up())
        try:
            while left > 0 and (data := await upstream.read(min(left, 65536))):
                left -= len(data)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            task.cancel()
            writer.transport.abort()
            out.transport.abort()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Serve."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
