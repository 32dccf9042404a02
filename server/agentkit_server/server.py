"""`serve()`: our own listening socket, uvicorn's loop, a guard over connections that are stuck, and the drain.

It serves any ASGI application; what `create_app` made in it is drained. A signal stops it: readers are told, runs end, stuck peers are cut.
A second signal ends the process at once.
"""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from math import ceil
from types import FrameType
from typing import Any

import anyio
import uvicorn

from agentkit.errors import ConfigurationError
from agentkit_server.beside import Beside
from agentkit_server.ending import Drain
from agentkit_server.protocols import HTTPProtocol, ServerConfig, WebSocketProtocol
from agentkit_server.settings import Settings

logger = logging.getLogger("agentkit.server")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
WS_MAX_SIZE = 64 * 1024
"""Bytes of one message from a socket: what a session takes. Over it: close 1009."""
BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn's server: it drains before it closes, and cuts connections that make no progress."""

    config: ServerConfig

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self._stuck: dict[object, tuple[int, float]] = {}
        """Connections that close or are full: how often they had drained, and since when that has not changed."""
        self.beside: list[Beside] = []
        """Further listeners, which live as long as this server."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Let SIGINT and SIGTERM stop the server, and give them back at the end. The process then ends as usual, with status 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the shape of a handler
        """Begin to stop; the second time, die of the signal."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and watch over the connections."""
        await super().startup(sockets=sockets)
        self._guard = asyncio.get_running_loop().create_task(self._guard_connections(), name="guard")
        for beside in self.beside:
            beside.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then close as uvicorn does."""
        try:
            async with anyio.create_task_group() as group:
                for drain in self.config.drains:
                    group.start_soon(self._drain, drain)
            await super().shutdown(sockets=sockets)
        finally:
            self._guard.cancel()
            for beside in self.beside:
                await beside.stop()
            for connection in list(self.server_state.connections):
                connection.transport.abort()

    async def _drain(self, drain: Drain) -> None:
        try:
            await drain()
        except Exception:
            logger.exception("an application did not drain")

    async def _guard_connections(self) -> None:
        """Abort what is stuck: ASGI's close waits until the peer has read everything, which may be never."""
        timeout = self.config.settings.send_timeout
        while True:
            await asyncio.sleep(min(1.0, timeout / 4))
            self._sweep(asyncio.get_running_loop().time(), timeout)

    def _sweep(self, now: float, timeout: float) -> None:
        """Abort who has been closing, or full without a pause in it, for longer than `timeout` seconds."""
        stuck: dict[object, tuple[int, float]] = {}
        for connection in list(self.server_state.connections):
            if not isinstance(connection, HTTPProtocol | WebSocketProtocol) or not connection.is_stuck:
                continue
            drained, since = self._stuck.get(connection, (connection.drained, now))
            if drained != connection.drained:
                since = now
            if now - since >= timeout:
                connection.transport.abort()
            else:
                stuck[connection] = connection.drained, since
        self._stuck = stuck


def serve(app: Any, host: str = "127.0.0.1", port: int = 8000, settings: Settings | None = None) -> None:
    """Serve an ASGI application until a signal stops it.

    Args:
        app: what `create_app` returns, or any application.
        host: an address or name of this machine.
        port: 0 takes a free one.
        settings: timers and bounds.

    Raises:
        ConfigurationError: the address cannot be had.
    """
    settings = settings or Settings()
    listener = listen(host, port, settings)
    make_server(app, settings).run(sockets=[listener])


def make_server(app: Any, settings: Settings) -> Server:
    """Return a server for `app`; `run(sockets=[listen(…)])` serves, setting `should_exit` stops it.

    Args:
        app: an ASGI application. What `create_app` made in it, at any depth, is drained before connections are closed.
        settings: timers and bounds.
    """
    config = ServerConfig(
        app,
        settings,
        http=HTTPProtocol,
        ws=WebSocketProtocol,
        loop="auto",
        ws_max_size=WS_MAX_SIZE,
        ws_ping_interval=settings.ping_interval,
        ws_ping_timeout=settings.ping_timeout,
        ws_per_message_deflate=False,  # three times the memory of a connection, and bombs
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=ceil(settings.farewell_timeout),
        backlog=BACKLOG,
        access_log=False,
        log_config=None,
        server_header=False,
    )
    return Server(config)


def listen(host: str, port: int, settings: Settings) -> socket.socket:
    """Return a bound socket whose connections notice a peer that does not read.

    Raises:
        ConfigurationError: the address cannot be had; the message says how to choose another.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise ConfigurationError(f"{host!r} is no address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit these. Without them a peer that stops reading holds 4 MB of the kernel's memory, and for ever.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer)
        if sys.platform == "linux":
            listener.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ceil(settings.send_timeout * 1000)
            )
        listener.bind(address)
        listener.listen(BACKLOG)  # with SO_REUSEADDR, a port that is taken shows only here
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another port: --port N, or make demo PORT=N"
        ) from None
    return listener


def listen_near(host: str, port: int, settings: Settings, *, tries: int) -> socket.socket:
    """Return a bound socket on the first of `tries` ports from `port` on that can be had: each worker's own.

    Raises:
        ConfigurationError: none of them can.
    """
    for number in range(port, port + tries - 1):
        try:
            return listen(host, number, settings)
        except ConfigurationError:
            pass  # another worker's
    return listen(host, port + tries - 1, settings)


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket, as a browser on this machine writes it."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
