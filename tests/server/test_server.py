"""The listening socket, and the guard over connections."""

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import Response

from agentkit.errors import ConfigurationError
from agentkit_server import Settings
from agentkit_server.protocols import HTTPProtocol
from agentkit_server.server import Server, listen, make_server, url_of

pytestmark = pytest.mark.anyio

SETTINGS = Settings(send_timeout=2.5, send_buffer=20_000)


@pytest.mark.skipif(sys.platform != "linux", reason="socket options of Linux")
async def test_accepted_connections_notice_a_peer_that_does_not_read() -> None:
    with listen("127.0.0.1", 0, SETTINGS) as listener:
        listener.setblocking(True)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            timeout = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            buffer = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    assert timeout == 2500
    assert buffer <= 2 * 20_000  # the kernel doubles what is asked


async def test_an_address_that_is_taken_or_strange_is_told() -> None:
    with listen("127.0.0.1", 0, SETTINGS) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"cannot listen on 127.0.0.1:{port} .*--port.*PORT="):
            listen("127.0.0.1", port, SETTINGS)
    with pytest.raises(ConfigurationError, match="is no address"):
        listen("no.such.host.invalid", 0, SETTINGS)


async def test_the_url_is_one_that_a_browser_takes() -> None:
    with listen("127.0.0.1", 0, SETTINGS) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
    with listen("0.0.0.0", 0, SETTINGS) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


class _Connection(HTTPProtocol):
    """A connection that only seems so."""

    def __init__(self, *, is_closing: bool = False, is_full: bool = False) -> None:
        self.aborted = False
        self.drained = 0
        transport = SimpleNamespace(is_closing=lambda: is_closing, abort=self._abort)
        self.transport: Any = transport
        self.flow: Any = SimpleNamespace(write_paused=is_full)

    def _abort(self) -> None:
        self.aborted = True


@pytest.fixture
def server() -> Server:
    """A server that is not running."""
    return make_server(Response(), SETTINGS)


def sweep(server: Server, connection: _Connection, *times: float, drains: bool = False) -> bool:
    """Look at a connection at these times, and tell whether it was aborted."""
    server.server_state.connections.add(connection)
    for now in times:
        connection.drained += drains
        server._sweep(now, 10)
    return connection.aborted


async def test_a_connection_that_makes_no_progress_is_aborted(server: Server) -> None:
    assert not sweep(server, _Connection(is_full=True), 0, 5, 9)
    assert sweep(server, _Connection(is_full=True), 0, 5, 10)


async def test_a_connection_that_closes_for_too_long_is_aborted(server: Server) -> None:
    assert sweep(server, _Connection(is_closing=True), 0, 10)


async def test_a_busy_reader_is_left_alone(server: Server) -> None:
    assert not sweep(server, _Connection(is_full=True), 0, 9, 18, 27, 36, drains=True)


async def test_an_idle_connection_is_left_alone(server: Server) -> None:
    assert not sweep(server, _Connection(), 0, 100, 1000)
