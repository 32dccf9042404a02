"""The transport over aiohttp: when it is taken, and that nobody behind it notices. (The tests of `client` and `answer` run with it too.)"""

import ssl

import anyio
import httpx2
import pytest
from provider_server import END, ProviderServer, Trickle, answer, chunk, head
from toys import GOOD, HELLO, ONCE, REQUEST, client, collect, data

from agentkit import fast
from agentkit.aio_transport import AioTransport, _translated
from agentkit.content import Message
from agentkit.errors import ConfigurationError, ModelConnectionError
from agentkit.fast import transport_for
from agentkit.model import ModelRequest
from agentkit.pace import Timeouts

pytestmark = pytest.mark.anyio

TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def chosen(wanted: bool | None = None, *, proxies: bool = False) -> type | None:
    found = transport_for(wanted, TRUST, proxies=proxies)
    return None if found is None else type(found)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_it_is_taken_on_asyncio_and_nowhere_else(anyio_backend: str) -> None:
    transport = transport_for(None, TRUST, proxies=False)

    assert (type(transport) is AioTransport) == (anyio_backend == "asyncio")
    if transport is not None:
        await transport.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_insisting_on_it_is_no_error_on_trio() -> None:
    with ProviderServer(GOOD) as server:
        assert await collect(client(server.url, fast=True)) == HELLO


async def test_an_argument_or_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(False) is None

    monkeypatch.setenv("AGENTKIT_FAST", "0")

    assert chosen(None) is None
    insisted = transport_for(True, TRUST, proxies=False)
    assert insisted is not None
    await insisted.aclose()


async def test_behind_a_proxy_the_stock_transport_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")

    assert chosen(proxies=True) is None
    direct = transport_for(None, TRUST, proxies=False)
    assert direct is not None
    await direct.aclose()


def test_insisting_without_aiohttp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "is_installed", lambda: False)

    assert chosen(None) is None
    with pytest.raises(ConfigurationError, match="agentkit-live\\[fast\\]"):
        chosen(True)


async def test_the_wire_is_the_stock_transports() -> None:
    with ProviderServer(GOOD) as server:
        for wanted in (True, False):
            await collect(client(server.url, fast=wanted, headers={"x-own": "mine"}))

    one, other = server.requests
    assert (one.method, one.path, one.body) == (other.method, other.path, other.body)
    assert one.headers == other.headers


async def test_a_compressed_body_is_left_as_it_is() -> None:
    with ProviderServer(answer(200, b"\x1f\x8b raw", content_encoding="gzip")) as server:
        async with (
            httpx2.AsyncClient(transport=AioTransport(TRUST)) as http,
            http.stream("POST", server.url, json={}) as got,
        ):
            raw = b"".join([part async for part in got.aiter_raw()])

    assert raw == b"\x1f\x8b raw"


async def test_cookies_and_redirects_are_nobodys_business() -> None:
    away = [head(302, location="/elsewhere", set_cookie="a=1"), chunk(b"gone"), END]
    request = httpx2.Request("POST", "http://localhost", json={})
    with ProviderServer(away, GOOD) as server:
        request.url = httpx2.URL(server.url)
        transport = AioTransport(TRUST)
        answers = [await transport.handle_async_request(request) for _ in range(2)]
        for answered in answers:
            await answered.aclose()
        await transport.aclose()

    assert [answer.status_code for answer in answers] == [302, 200]
    assert [asked.path for asked in server.requests] == ["/", "/"]
    assert "cookie" not in server.requests[1].headers


async def test_a_long_request_is_written_whole_before_its_answer_is_awaited() -> None:
    request = ModelRequest([Message.user("x" * 3_000_000)])
    with ProviderServer(GOOD) as server:
        assert await collect(client(server.url, fast=True), request) == HELLO

    assert len(server.requests[0].json["say"]) == 3_000_000


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        ("ConnectionTimeoutError", httpx2.ConnectTimeout),
        ("SocketTimeoutError", httpx2.ReadTimeout),
        ("ServerDisconnectedError", httpx2.RemoteProtocolError),
        ("ClientPayloadError", httpx2.RemoteProtocolError),
        ("ClientOSError", httpx2.ReadError),
        ("ClientConnectionResetError", httpx2.ReadError),
    ],
)
async def test_its_errors_are_the_stock_transports(raised: str, wanted: type[Exception]) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    request = httpx2.Request("GET", "http://localhost")

    with pytest.raises(wanted), _translated(request):
        raise vars(aiohttp)[raised]("why")


async def test_nobody_there_is_a_connection_error() -> None:
    with pytest.raises(ModelConnectionError) as caught:
        await collect(client("http://127.0.0.1:1", fast=True))

    assert isinstance(caught.value.__cause__, httpx2.ConnectError)


async def test_a_slow_reader_holds_its_provider_back() -> None:
    """An answer of any size waits in the socket, not in our memory."""
    with ProviderServer([head(), Trickle(chunk(data("text " + "x" * 65536)), 0)]) as server:
        with anyio.fail_after(8):
            async with client(server.url, fast=True, retry=ONCE, timeouts=Timeouts(linger=0.1)).stream(
                REQUEST
            ) as got:
                first = await got.next()
                await anyio.sleep(0.3)
                second = await got.next()

    assert first
    assert sum(len(getattr(c, "text", "")) for c in second) < 4 * 1024 * 1024
