"""Who gets the fast transport, and that nobody behind it notices. (The tests of `client` and `answer` run with it too.)"""

import ssl
import sys
from importlib import metadata

import anyio
import httpx2
import pytest
from provider_server import ProviderServer, Trickle, chunk, head
from toys import GOOD, HELLO, ONCE, REQUEST, client, collect, data

from agentkit import fast
from agentkit.client import HTTPExchange
from agentkit.content import Message
from agentkit.errors import ConfigurationError, ModelConnectionError
from agentkit.fast import transport_for
from agentkit.http_transport import FastTransport
from agentkit.model import ModelRequest
from agentkit.pace import Timeouts
from agentkit.providers import connect

pytestmark = pytest.mark.anyio

TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def chosen(wanted: bool | None = None, *, proxies: bool = False) -> type | None:
    found = transport_for(wanted, TRUST, proxies=proxies)
    return None if found is None else type(found)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def is_not_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests may be run with it turned off; here it is asked for."""
    monkeypatch.delenv(fast.VARIABLE, raising=False)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_it_is_taken_on_asyncio_and_nowhere_else(anyio_backend: str) -> None:
    assert chosen() is (FastTransport if anyio_backend == "asyncio" else None)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_insisting_on_it_is_no_error_on_trio() -> None:
    with ProviderServer(GOOD) as server:
        assert await collect(client(server.url, fast=True)) == HELLO


async def test_an_argument_or_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(False) is None

    monkeypatch.setenv("AGENTKIT_FAST", "0")

    assert chosen(None) is None
    assert chosen(True) is FastTransport


async def test_behind_a_proxy_the_stock_transport_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")

    assert chosen(proxies=True) is None
    assert chosen() is FastTransport


async def test_insisting_without_httptools_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "is_installed", lambda: False)

    assert chosen(None) is None
    with pytest.raises(ConfigurationError, match="agentkit-live\\[fast\\]"):
        chosen(True)


@pytest.mark.parametrize(
    ("version", "will_do"),
    [(None, False), ("0.6.4", False), ("0.7.1", True), ("0.10.0", True), ("1.0", True)],
)
def test_an_old_httptools_of_somebody_else_will_not_do(
    version: str | None, will_do: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", of)

    assert fast.is_installed.__wrapped__() is will_do


async def test_without_httptools_the_stock_transport_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "httptools"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(fast, "is_installed", lambda: False)
    with ProviderServer(GOOD) as server:
        assert await collect(client(server.url)) == HELLO

    assert "httptools" not in sys.modules


@pytest.mark.parametrize("wanted", [True, False])
async def test_connect_hands_the_wish_on_and_the_client_reads_without_layers(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[HTTPExchange] = []
    init = HTTPExchange.__init__

    def noted(self: HTTPExchange, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]  # handed on as they came
        made.append(self)

    monkeypatch.setattr(HTTPExchange, "__init__", noted)
    with ProviderServer(GOOD) as server:
        model = connect("compatible:m", base_url=server.url, fast=wanted)
        async with model.stream(REQUEST) as answer:
            await answer.next()

    assert [one._burst is None for one in made] == [wanted]


async def test_the_wire_is_the_stock_transports() -> None:
    with ProviderServer(GOOD) as server:
        for wanted in (True, False):
            await collect(client(server.url, fast=wanted, headers={"x-own": "mine"}))

    one, other = server.requests
    assert one == other


async def test_a_long_request_is_written_whole_before_its_answer_is_awaited() -> None:
    request = ModelRequest([Message.user("x" * 3_000_000)])
    with ProviderServer(GOOD) as server:
        assert await collect(client(server.url, fast=True), request) == HELLO

    assert len(server.requests[0].json["say"]) == 3_000_000


async def test_nobody_there_is_a_connection_error() -> None:
    with pytest.raises(ModelConnectionError) as caught:
        await collect(client("http://127.0.0.1:1", fast=True))

    assert isinstance(caught.value.__cause__, httpx2.ConnectError)


async def test_a_slow_reader_holds_its_provider_back() -> None:
    """An answer of any size waits in the socket, not in our memory."""
    with ProviderServer([head(), Trickle(chunk(data("text " + "x" * 65536)), 0)]) as server:
        with anyio.fail_after(20):
            async with client(server.url, fast=True, retry=ONCE, timeouts=Timeouts(linger=0.1)).stream(
                REQUEST
            ) as got:
                first = await got.next()
                await anyio.sleep(0.3)
                second = await got.next()

    assert first
    assert sum(len(getattr(c, "text", "")) for c in second) < 4 * 1024 * 1024
