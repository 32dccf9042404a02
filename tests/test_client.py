"""StreamingClient over real sockets, on both event loops: what is sent, where to, and what is shared."""

import gc
import logging
import ssl
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from certificates import self_signed
from provider_server import (
    END,
    STALL,
    Gate,
    ProviderServer,
    Script,
    answer,
    chunk,
    head,
    stream,
)
from toys import AGAIN, CLIENTS, GOOD, HELLO, KEY, REQUEST, ToyDialect, choose, client, collect, data

from agentkit.chunks import TextChunk
from agentkit.client import StreamingClient
from agentkit.content import Message, Origin
from agentkit.dialects.base import Target
from agentkit.errors import (
    ConfigurationError,
    ModelConnectionError,
    ModelError,
    ModelStatusError,
)
from agentkit.faults import Key
from agentkit.model import ModelRequest, Notice, Retry
from agentkit.pace import Timeouts

pytestmark = pytest.mark.anyio


@pytest.fixture(params=CLIENTS)
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(request.param, monkeypatch)


# what is sent


async def test_a_request_carries_path_body_and_headers_once() -> None:
    dialect = ToyDialect(headers={"X-Beta": "on"})
    with ProviderServer(GOOD) as server:
        model = client(
            f"{server.url}/base/v1/", dialect, headers={"x-own": "mine", "authorization": "Basic x"}
        )
        got = await collect(model)

    request = server.requests[0]
    wanted = {
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "authorization": "Basic x",
        "x-beta": "on",
        "x-own": "mine",
    }
    assert got == HELLO
    assert (request.method, request.path) == ("POST", "/base/v1/toy?x=1")
    assert {name: request.headers.get(name) for name in wanted} == wanted
    assert request.json == {"model": "bear", "say": "hi"}


async def test_a_key_is_sent_in_the_dialects_header() -> None:
    with ProviderServer(GOOD) as server:
        await collect(client(server.url))

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_half_surrogates_leave_as_replacement_characters() -> None:
    with ProviderServer(GOOD) as server:
        await collect(StreamingClient(ToyDialect(), Target("toys", "a\ud83d b\ud83d\ude00"), server.url))

    assert server.requests[0].body.decode() == '{"model":"a\ufffd b\U0001f600","say":"hi"}'


async def test_nothing_is_sent_before_the_stream_is_entered() -> None:
    with ProviderServer(GOOD) as server:
        model = client(server.url)
        model.stream(REQUEST)

        assert await collect(model) == HELLO

    assert (len(server.requests), server.connections) == (1, 1)


def test_what_the_dialect_cannot_say_is_refused_by_stream() -> None:
    with pytest.raises(ConfigurationError, match="temperature"):
        client("http://localhost:1").stream(ModelRequest([Message.user("x")], temperature=1))


async def test_notices_come_before_the_request_is_made() -> None:
    notice = Notice("left_out", "something")
    with ProviderServer(GOOD) as server:
        async with client(server.url, ToyDialect(notices=(notice,))).stream(REQUEST) as answer:
            assert await answer.next() == (notice,)
            assert server.requests == []
            assert await answer.next() == HELLO


def test_origin_names_dialect_provider_and_model() -> None:
    assert client("http://localhost:1").origin == Origin("toy", "toys", "bear", "")


# what is shared


async def test_a_whole_answer_leaves_its_connection_for_the_next() -> None:
    with ProviderServer(GOOD) as server:
        model = client(server.url)

        assert [await collect(model) for _ in range(3)] == [HELLO] * 3

    assert (server.connections, len(server.requests)) == (1, 3)


async def test_many_answers_at_once() -> None:
    gate = Gate()
    got: list[list[Any]] = []

    async def one() -> None:
        got.append(await collect(model))

    with ProviderServer([head(), gate, chunk(data("text Hello", "finish end")), END]) as server:
        model = client(server.url)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(one)
            await server.asked(20)
            gate.open()

    assert got == [HELLO] * 20


def test_a_second_event_loop_gets_its_own_client_without_a_warning(anyio_backend: str) -> None:
    with ProviderServer(GOOD) as server:
        model = client(server.url)
        got = [anyio.run(collect, model, backend=anyio_backend) for _ in range(2)]
        gc.collect()  # what was left open would warn here

    assert got == [HELLO, HELLO]
    assert server.connections == 2


# keys


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("key", "hint", "said"),
    [
        pytest.param(Key.of(KEY), "", r"with the key that was passed as key=", id="passed"),
        pytest.param(("TOY_KEY", KEY), "TOY_KEY", r"with the key from TOY_KEY", id="environment"),
        pytest.param(None, "TOY_KEY", r"no key was sent; set TOY_KEY", id="none"),
        pytest.param("", "", r"no key was sent", id="blank"),
    ],
)
async def test_a_refused_key_is_told_by_where_it_came_from(
    status: int, key: Any, hint: str, said: str
) -> None:
    if isinstance(key, tuple):
        source, text = key
        key = Key.of(text)
        key = Key(key.secret, source)
    script = answer(status, {"error": {"message": "bad key"}})
    with ProviderServer(script) as server, pytest.raises(ModelStatusError) as caught:
        await collect(client(server.url, key=key, key_hint=hint))

    assert str(caught.value) == f"toys answered {status}: bad key ({said})"
    assert caught.value.retryable is False


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(answer(401, {"error": {"message": f"bad key {KEY}"}}), id="message"),
        pytest.param(answer(401, "x" * 2040 + KEY), id="at-the-cut"),
        pytest.param(answer(200, f"<p>{KEY}</p>"), id="html"),
        pytest.param(answer(200, {"error": {"message": KEY}}), id="json-200"),
        pytest.param(answer(302, "", location=f"http://elsewhere/?key={KEY}"), id="location"),
        pytest.param(answer(500, KEY, x_request_id=KEY), id="request-id"),
    ],
)
async def test_an_echoed_key_stays_secret(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ProviderServer(script) as server:
        model = client(server.url)
        with pytest.raises(ModelError) as caught:
            await collect(model)

    error = caught.value
    # At this level the HTTP client's library logs the answer's headers as they came; that is the server's echo, not our word.
    logged = [line for line in caplog.messages if not line.startswith("receive_response_headers.complete")]
    shown = [str(error), repr(error), repr(vars(error)), repr(model), repr(vars(model)), *logged]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert [text for text in shown if KEY[:8] in text] == []


async def test_a_key_echoed_in_a_retryable_first_error_is_masked_in_the_retry() -> None:
    with ProviderServer(stream(data(f"overloaded {KEY}")), GOOD) as server:
        got = await collect(client(server.url, retry=AGAIN))

    assert got[0] == Retry(2, 0, "overloaded", "[key]")


@pytest.mark.parametrize("key", ["a\nb", "secret\n", " secret", "schlüssel", "k\x00"], ids=repr)
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(
        ConfigurationError, match="the key that was passed as key= must be visible ASCII"
    ) as caught:
        client("http://localhost:1", key=key)

    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "headers", [{"x y": "1"}, {"x": "a\r\nb: c"}, {"x": "ü"}], ids=["name", "line-break", "non-ascii"]
)
def test_headers_that_cannot_be_sent_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        client("http://localhost:1", headers=headers)
    with pytest.raises(ConfigurationError):
        client("http://localhost:1", ToyDialect(headers=headers)).stream(REQUEST)


# where it goes


async def test_a_redirect_is_an_error_and_the_key_goes_nowhere_else() -> None:
    with (
        ProviderServer(GOOD) as other,
        ProviderServer(answer(307, "", location=f"{other.url}/v1/toy")) as server,
        pytest.raises(
            ModelStatusError, match=f"toys answered 307, a redirect to '{other.url}/v1/toy'"
        ) as caught,
    ):
        await collect(client(server.url, retry=AGAIN))

    assert (caught.value.status, caught.value.retryable) == (307, False)
    assert (other.connections, len(server.requests)) == (0, 1)


async def test_a_proxy_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with ProviderServer(GOOD) as server:
        assert await collect(client(server.url)) == HELLO


async def test_another_transport_serves_without_sockets() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=data("text Hello", "finish end")
        )

    def transport() -> httpx2.MockTransport:
        return httpx2.MockTransport(handle)

    assert await collect(client("https://toys.example", transport=transport)) == HELLO


async def test_a_connect_timeout_says_how_long() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectTimeout("late")

    model = client(
        "https://toys.example", transport=lambda: httpx2.MockTransport(handle), timeouts=Timeouts(connect=3)
    )
    with pytest.raises(ModelConnectionError, match="no connection within 3 s"):
        await collect(model)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, with its key, in one file."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_an_unknown_certificate_is_refused_and_not_asked_again(tls: ssl.SSLContext) -> None:
    refused = pytest.raises(ModelConnectionError, match="certificate verify failed")
    with ProviderServer(GOOD, tls=tls) as server, refused as caught:
        await collect(client(server.url, retry=AGAIN))

    assert caught.value.retryable is False
    assert server.requests == []


async def test_a_trusted_certificate_carries_a_stream(tls: ssl.SSLContext, certificate: Path) -> None:
    trust = ssl.create_default_context(cafile=certificate)

    def transport() -> httpx2.AsyncHTTPTransport:
        return httpx2.AsyncHTTPTransport(verify=trust)

    with ProviderServer(GOOD, [head(), chunk(data("text a")), STALL], tls=tls) as server:
        model = client(server.url, transport=transport)
        first = await collect(model)
        with anyio.fail_after(20):
            async with model.stream(REQUEST) as answer_:
                second = await answer_.next()
            await server.peer_left()

    assert (first, second, server.connections) == (HELLO, [TextChunk("a")], 1)
