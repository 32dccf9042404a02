"""Which of a host's addresses is connected to."""

import asyncio
import socket
from typing import Any

import anyio
import pytest

from agentkit import dial as room
from agentkit.dial import dial

pytestmark = pytest.mark.anyio

SIX, FOUR = socket.AF_INET6, socket.AF_INET


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Network:
    """Addresses that behave as a test says, instead of sockets: `refused`, `silent`, anything else connects."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **addresses: str) -> None:
        self.addresses = addresses
        self.tried: list[str] = []
        self.made: list[socket.socket] = []
        self.silence = anyio.Event()
        monkeypatch.setattr(room, "_look_up", self.look_up)
        monkeypatch.setattr(room, "_connect", self.connect)

    async def look_up(self, host: str, port: int) -> list[Any]:
        return [(FOUR, name) for name in self.addresses]

    async def connect(self, where: Any) -> socket.socket:
        name = where[1]
        self.tried.append(name)
        match self.addresses[name]:
            case "refused":
                raise ConnectionRefusedError(f"{name} refused")
            case "silent":
                await self.silence.wait()
            case _:
                pass
        self.made.append(socket.socket())
        return self.made[-1]

    def open(self) -> int:
        return sum(one.fileno() != -1 for one in self.made)


async def test_addresses_of_both_families_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(*args: Any, **more: Any) -> list[Any]:
        found = [(SIX, "a"), (SIX, "b"), (SIX, "c"), (FOUR, "d"), (FOUR, "e")]
        return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in found]

    class Loop:
        getaddrinfo = staticmethod(look_up)

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)

    found = await room._look_up("toys.example", 443)

    assert [address for _, address in found] == ["a", "d", "b", "e", "c"]


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", FOUR), ("::1", SIX)])
async def test_an_address_is_not_looked_up(host: str, family: int) -> None:
    found = await room._look_up(host, 80)

    assert [(one, address[:2]) for one, address in found] == [(family, (host, 80))]


async def test_the_first_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, a="refused", b="works", c="works")

    with anyio.fail_after(20):
        (await dial("toys.example", 443)).close()

    assert network.tried == ["a", "b"]


async def test_one_that_keeps_silent_does_not_hold_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_HEAD_START", 0.01)
    network = Network(monkeypatch, a="silent", b="works")

    with anyio.fail_after(20):
        (await dial("toys.example", 443)).close()

    assert network.tried == ["a", "b"]
    assert (len(network.made), network.open()) == (1, 0)


async def test_where_all_fail_the_first_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, a="refused", b="refused")

    with pytest.raises(ConnectionRefusedError, match="a refused"):
        await dial("toys.example", 443)

    assert network.tried == ["a", "b"]


@pytest.mark.parametrize("addresses", [["a"], ["a", "b"]], ids=["one", "two"])
async def test_a_dial_that_is_left_leaves_no_socket(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, **dict.fromkeys(addresses, "silent"))

    with anyio.move_on_after(0.01) as scope:
        await dial("toys.example", 443)

    assert scope.cancelled_caught
    assert network.open() == 0


async def test_a_real_socket_is_connected_and_does_not_block() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with anyio.fail_after(20):
            connected = await dial("localhost", port)
        with connected:
            assert connected.getpeername() == ("127.0.0.1", port)
            assert not connected.getblocking()


async def test_nobody_there_is_an_error_and_no_socket_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(ConnectionRefusedError):
        await dial("127.0.0.1", port)
