"""A provider of the tests: a TCP server that answers each request with bytes that the test wrote, at the pace that the test sets.

It runs in threads with blocking sockets, so it serves any event loop, and no loop's fault is its fault. Nothing is parsed but the request,
nothing is added to an answer: whatever a server can do wrong is one list of steps away.

    with ProviderServer([head(), chunk(b"data: 1\\n\\n"), CUT]) as server:
        StreamingClient(dialect, target, server.url)
        ...
        assert server.requests[0].json == {...}
"""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import anyio
import anyio.to_thread

PATIENCE = 10.0
"""Seconds until a step that waits for a test gives up."""


@dataclass(frozen=True)
class Cut:
    """Break the connection off with a reset."""


@dataclass(frozen=True)
class Close:
    """Close the connection: a clean end where the body has no other."""


@dataclass(frozen=True)
class Stall:
    """Send nothing more until the peer leaves."""


@dataclass
class Gate:
    """Go on when the test calls `open`."""

    event: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        self.event.set()


@dataclass(frozen=True)
class Trickle:
    """Send the same bytes again and again, until the peer leaves."""

    data: bytes
    interval: float
    """Seconds between them."""


CUT, CLOSE, STALL = Cut(), Close(), Stall()
Step: TypeAlias = bytes | Cut | Close | Stall | Gate | Trickle
Script: TypeAlias = Sequence[Step]


def head(status: int = 200, *, content_type: str = "text/event-stream", **headers: str) -> bytes:
    """The head of a chunked answer; `_` in a header's name is a `-`, and an empty value leaves the header out."""
    lines = {"content-type": content_type, "transfer-encoding": "chunked"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status} Whatever\r\n{text}\r\n".encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"
"""The end of a chunked body."""


def stream(*parts: bytes | str, **headers: str) -> list[Step]:
    """A whole answer of status 200: each part a chunk, then the end."""
    return [head(200, **headers), *(chunk(p.encode() if isinstance(p, str) else p) for p in parts), END]


def answer(status: int, body: bytes | str | Mapping[str, Any], **headers: str) -> list[Step]:
    """A whole answer with a length; a mapping becomes JSON."""
    headers.setdefault("content_type", "application/json")
    data = (
        body
        if isinstance(body, bytes)
        else body.encode()
        if isinstance(body, str)
        else json.dumps(body).encode()
    )
    return [head(status, transfer_encoding="", content_length=str(len(data)), **headers), data]


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    """As it came: of one in chunks, with their sizes."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ProviderServer:
    """Serves scripts in turn, one a request; the last one serves all further requests too."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.left = threading.Semaphore(0)
        """Released each time a peer leaves an answer that was not whole."""
        self._scripts = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Condition()
        self._stopping = threading.Event()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def asked(self, count: int = 1) -> None:
        """Return when so many requests have come in all."""
        assert await anyio.to_thread.run_sync(self._wait_asked, count), f"{len(self.requests)} requests came"

    def _wait_asked(self, count: int) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: len(self.requests) >= count, PATIENCE)

    async def peer_left(self) -> None:
        """Return when a peer has left an answer that was not whole."""
        left = await anyio.to_thread.run_sync(lambda: self.left.acquire(timeout=PATIENCE))
        assert left, "nobody left"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        _shut(self._listener)  # wakes the thread that accepts
        with self._lock:
            for connection in self._open:
                _shut(connection)
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listener.close()

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._serve, connection)

    def _serve(self, raw: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self._open.add(raw)
        connection = raw
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._open.discard(raw)
                    self._open.add(connection)
            while (request := _read_request(connection)) is not None:
                with self._lock:
                    script = self._scripts[min(len(self.requests), len(self._scripts) - 1)]
                    self.requests.append(request)
                    self._lock.notify_all()
                if not self._play(connection, script):
                    return
        except OSError:
            self.left.release()  # the peer left, or the test is over
        finally:
            with self._lock:
                self._open.discard(connection)
                self._open.discard(raw)
            connection.close()

    def _play(self, connection: socket.socket, script: Script) -> bool:
        """Send an answer and tell whether the connection may serve another."""
        for step in script:
            match step:
                case bytes():
                    connection.sendall(step)
                case Gate():
                    assert step.event.wait(PATIENCE), "the test did not open the gate"
                case Cut():
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
                case Close():
                    return False
                case Trickle():
                    while not self._stopping.wait(step.interval):
                        connection.sendall(step.data)
                case Stall():
                    if not connection.recv(1):
                        self.left.release()
                    return False
        return True


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was shut already


def _read_request(connection: socket.socket) -> Request | None:
    """Return the next request of a connection, None where the peer sends none."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    text, _, rest = bytes(data).partition(b"\r\n\r\n")
    first, *lines = text.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = bytearray(rest)
    length, chunked = (
        int(headers.get("content-length", "0")),
        "chunked" in headers.get("transfer-encoding", ""),
    )
    while len(body) < length or (chunked and not body.endswith(END)):
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    return Request(method, path, headers, bytes(body))
