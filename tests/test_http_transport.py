"""The fast transport over real sockets, on both of asyncio's loops, beside the stock transport."""

import asyncio
import contextlib
import gc
import re
import select
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from certificates import self_signed
from leftovers import nothing_left_behind
from provider_server import CLOSE, CUT, END, STALL, Gate, ProviderServer, Script, Trickle, answer, chunk, head

from agentkit import http_transport
from agentkit.burst import BODY, Body
from agentkit.http_transport import FastTransport

pytestmark = pytest.mark.anyio

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
OK = b"HTTP/1.1 200 OK\r\n"
HELLO: Script = [OK + b"content-length: 5\r\n\r\nhello"]
TIMES = {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": 5.0}


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


def post(url: str, *, times: dict[str, float] | None = None, **more: Any) -> httpx2.Request:
    more.setdefault("content", b"say")
    return httpx2.Request(
        more.pop("method", "POST"),
        url,
        extensions={"timeout": TIMES | (times or {}), **more.pop("extensions", {})},
        **more,
    )


async def ask(transport: httpx2.AsyncBaseTransport, request: httpx2.Request) -> tuple[int, bytes, str]:
    """Return status and body of an answer, or what went wrong, as the name of its exception."""
    status, body = 0, b""
    try:
        with anyio.fail_after(20):
            got = await transport.handle_async_request(request)
            status = got.status_code
            try:
                assert isinstance(got.stream, httpx2.AsyncByteStream)
                async for part in got.stream:
                    body += part
            finally:
                await got.aclose()
    except httpx2.TransportError as error:
        return status, body, type(error).__name__
    return status, body, ""


@contextlib.asynccontextmanager
async def fast(trust: ssl.SSLContext = PLAIN) -> AsyncIterator[FastTransport]:
    async with FastTransport(trust) as transport:
        yield transport
    assert transport._open == set()


# as the stock transport


SCRIPTS: dict[str, Script] = {
    "length": HELLO,
    "chunks": [head(), chunk(b"he"), chunk(b"llo"), END],
    "trailers": [head(), chunk(b"hello"), b"0\r\nx-sum: 1\r\n\r\n"],
    "interim": [b"HTTP/1.1 102 Wait\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", *HELLO],
    "until-close": [OK + b"\r\n", b"hello", CLOSE],
    "no-content": [b"HTTP/1.1 204 No\r\n\r\n"],
    "not-modified": [b"HTTP/1.1 304 Not\r\ncontent-length: 5\r\n\r\n"],
    "redirect": answer(302, "away", location="/elsewhere", set_cookie="a=1"),
    "coded": answer(200, b"\x1f\x8b raw", content_encoding="gzip"),
    "error": answer(500, "broken"),
    "nothing": [CLOSE],
    "half-a-head": [b"HTTP/1.1 200 OK\r\nx: ", CLOSE],
    "not-http": [b"SSH-2.0-OpenSSH\r\n", CLOSE],
    "endless-head": [OK + b"x: " + b"y" * 200_000, STALL],
    "cut-head": [CUT],
    "cut-short": [OK + b"content-length: 9\r\n\r\nhello", CLOSE],
    "cut-chunks": [head(), chunk(b"hello"), CLOSE],
    "bad-chunk": [head(), chunk(b"hello"), b"zz\r\n", STALL],
    "two-lengths": [OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nhello"],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_an_answer_or_its_fault_is_the_stock_transports(script: Script) -> None:
    with ProviderServer(script) as server:
        async with fast() as transport, httpx2.AsyncHTTPTransport(verify=PLAIN) as stock:
            ours, theirs = [await ask(one, post(server.url)) for one in (transport, stock)]

    assert ours == theirs


async def test_a_reset_in_a_body_keeps_what_came() -> None:
    gate = Gate()
    with ProviderServer([head(), chunk(b"hello"), gate, CUT]) as server:
        async with fast() as transport:
            got = await transport.handle_async_request(post(server.url))
            body = got.extensions[BODY]
            first = await body.read()
            gate.open()
            with pytest.raises(httpx2.ReadError), anyio.fail_after(20):
                await body.read()
            await got.aclose()

    assert first == b"hello"


async def test_an_answer_to_head_has_no_body() -> None:
    with ProviderServer([OK + b"content-length: 5\r\n\r\n"]) as server:
        async with fast() as transport:
            got = await ask(transport, post(server.url, method="HEAD"))

    assert got == (200, b"", "")


async def test_the_head_is_handed_on_as_it_came() -> None:
    with ProviderServer([b"HTTP/1.1 404 Not Here\r\nX-One: 1\r\ncontent-length: 0\r\n\r\n"]) as server:
        async with fast() as transport:
            got = await transport.handle_async_request(post(server.url))
            await got.aclose()

    assert got.headers.raw == [(b"X-One", b"1"), (b"content-length", b"0")]
    assert (got.reason_phrase, got.http_version) == ("Not Here", "HTTP/1.1")
    assert isinstance(got.extensions[BODY], Body)
    with pytest.raises(httpx2.StreamClosed):
        await got.extensions[BODY].read()


# requests


async def streamed(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("content", "headers", "body"),
    [
        pytest.param(b"", {}, b"", id="none"),
        pytest.param(b"say", {}, b"say", id="bytes"),
        pytest.param(b"x" * 3_000_000, {}, b"x" * 3_000_000, id="long"),
        pytest.param((b"one", b"", b"two"), {}, b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", id="chunks"),
        pytest.param((b"one", b"two"), {"content-length": "6"}, b"onetwo", id="stream-of-a-length"),
        pytest.param((), {}, b"0\r\n\r\n", id="no-chunks"),
    ],
)
async def test_a_request_is_written_as_the_stock_transport_writes_it(
    content: Any, headers: dict[str, str], body: bytes
) -> None:
    with ProviderServer(HELLO) as server:
        async with fast() as transport, httpx2.AsyncHTTPTransport(verify=PLAIN) as stock:
            for one in (transport, stock, transport):
                said = streamed(*content) if isinstance(content, tuple) else content
                request = post(f"{server.url}/p%20q?a=b", content=said, headers={"x-own": "1"} | headers)
                assert await ask(one, request) == (200, b"hello", "")

    ours, theirs, again = server.requests
    assert ours == theirs == again
    assert (ours.path, ours.body, server.connections) == ("/p%20q?a=b", body, 2)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        pytest.param({"content": b"x", "headers": {"content-length": "2"}}, "Too little", id="short"),
        pytest.param({"content": b"xxx", "headers": {"content-length": "2"}}, "Too much", id="long"),
        pytest.param({"headers": {"content-length": "few"}}, "no number", id="no-number"),
        pytest.param({"headers": {"x": "a\r\nb: c"}}, "a header holds", id="line-break"),
        pytest.param({"headers": {"x y": "a"}}, "a header holds", id="name"),
        pytest.param({"method": "PO ST"}, "the method", id="method"),
    ],
)
async def test_a_request_that_cannot_be_is_not_sent(request_: dict[str, Any], said: str) -> None:
    with ProviderServer(HELLO) as server:
        async with fast() as transport:
            with pytest.raises(httpx2.LocalProtocolError, match=said):
                await transport.handle_async_request(post(server.url, **request_))

    assert server.requests == []


async def test_only_http_is_spoken() -> None:
    async with fast() as transport:
        with pytest.raises(httpx2.UnsupportedProtocol):
            await transport.handle_async_request(post("ftp://127.0.0.1/"))


async def test_the_trace_tells_when_the_request_is_written() -> None:
    gate, said = Gate(), []

    async def trace(name: str, _: object) -> None:
        said.append(name)
        gate.open()

    with ProviderServer([gate, *HELLO]) as server:
        async with fast() as transport:
            got = await ask(transport, post(server.url, extensions={"trace": trace}))

    assert (got, said) == ((200, b"hello", ""), ["http11.receive_response_headers.started"])


async def test_an_answer_that_comes_before_the_request_is_whole_is_taken() -> None:
    """The server reads the head only, refuses, and lets the rest wait: no need to write it to anybody."""
    with deaf_server(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno") as url:
        async with fast() as transport:
            got = await ask(transport, post(url, content=b"x" * 30_000_000))
            assert transport._idle == []

    assert got == (413, b"no", "")


# timeouts


@contextlib.contextmanager
def deaf_server(said: bytes = b"") -> Iterator[str]:
    """A server that reads next to nothing and says `said`. Yields its URL."""
    done = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(said)
                done.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_server_that_does_not_read_is_a_write_timeout() -> None:
    with deaf_server() as url:
        async with fast() as transport:
            got = await ask(transport, post(url, content=b"x" * 30_000_000, times={"write": 0.05}))

    assert got == (0, b"", "WriteTimeout")


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        pytest.param([STALL], (0, b"", "ReadTimeout"), id="head"),
        pytest.param([head(), chunk(b"hello"), STALL], (200, b"hello", "ReadTimeout"), id="body"),
    ],
)
async def test_a_server_that_says_nothing_is_a_read_timeout(script: Script, wanted: object) -> None:
    with ProviderServer(script) as server:
        async with fast() as transport:
            assert await ask(transport, post(server.url, times={"read": 0.05})) == wanted
            await server.peer_left()


async def test_a_connection_that_does_not_stand_in_time_is_a_connect_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(host: str, port: int) -> socket.socket:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(http_transport, "dial", never)
    async with fast() as transport:
        assert await ask(transport, post("http://127.0.0.1:1", times={"connect": 0.01})) == (
            0,
            b"",
            "ConnectTimeout",
        )


async def test_a_handshake_that_does_not_end_is_a_connect_timeout() -> None:
    with deaf_server() as url:
        async with nothing_left_behind(), fast() as transport:
            got = await ask(transport, post(url.replace("http", "https"), times={"connect": 0.05}))

    assert got == (0, b"", "ConnectTimeout")


async def test_without_timeouts_there_are_none() -> None:
    with ProviderServer(HELLO) as server:
        async with fast() as transport:
            request = httpx2.Request("GET", server.url)
            assert await ask(transport, request) == (200, b"hello", "")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "name.invalid", "x" * 70 + ".invalid"])
async def test_nobody_there_is_a_connect_error_without_the_url(host: str) -> None:
    async with fast() as transport:
        with pytest.raises(httpx2.ConnectError) as caught, anyio.fail_after(20):
            await transport.handle_async_request(post(f"http://{host}/?key=secret-123"))

    error = caught.value
    assert str(error)
    assert "secret-123" not in f"{error} {error!r} {error.__cause__} {transport!r}"


# what is kept


async def test_a_whole_answer_leaves_its_connection_for_the_next_of_the_same_address() -> None:
    with ProviderServer(HELLO) as server:
        async with fast() as transport:
            for _ in range(3):
                assert await ask(transport, post(server.url)) == (200, b"hello", "")
            await ask(transport, post(server.url.replace("127.0.0.1", "localhost")))

    assert (len(server.requests), server.connections) == (4, 2)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello"], id="close"),
        pytest.param([b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello"], id="http-1.0"),
        pytest.param([OK + b"content-length: 5\r\n\r\nhello" + OK + b"\r\n"], id="surplus"),
        pytest.param([OK + b"\r\nhello", CLOSE], id="until-close"),
    ],
)
async def test_a_connection_that_is_not_certain_is_not_used_again(script: Script) -> None:
    with ProviderServer(script) as server:
        async with fast() as transport:
            for _ in range(2):
                assert await ask(transport, post(server.url)) == (200, b"hello", "")

    assert server.connections == 2


async def test_a_request_that_says_close_is_the_last_of_its_connection() -> None:
    with ProviderServer(HELLO) as server:
        async with fast() as transport:
            for _ in range(2):
                await ask(transport, post(server.url, headers={"connection": "close"}))

    assert server.connections == 2


@pytest.mark.parametrize("seen", [True, False], ids=["the-loop-saw-it", "it-waits-in-the-socket"])
@pytest.mark.parametrize("said", [CLOSE, b"HTTP/1.1 408 Late\r\n\r\n"], ids=["closed", "a-word"])
async def test_a_kept_connection_on_which_the_server_spoke_is_not_taken(said: Any, seen: bool) -> None:
    gate = Gate()
    with ProviderServer([*HELLO, gate, said], HELLO) as server:
        async with fast() as transport:
            await ask(transport, post(server.url))
            [kept] = [one.connection for one in transport._idle]
            assert kept._transport is not None
            descriptor = kept._transport.get_extra_info("socket").fileno()
            gate.open()
            if seen:
                with anyio.fail_after(20):
                    while transport._idle:  # noqa: ASYNC110 - nobody tells
                        await anyio.sleep(0.001)
            else:  # this blocks the loop: it cannot have seen what came meanwhile
                wait_readable(descriptor)
            assert await ask(transport, post(server.url)) == (200, b"hello", "")

    assert server.connections == 2


def wait_readable(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(5000), "the server said nothing"


async def test_an_idle_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "_KEEPALIVE", 0.01)
    with ProviderServer(HELLO) as server:
        async with fast() as transport:
            for _ in range(2):
                await ask(transport, post(server.url))
                with anyio.fail_after(20):
                    while transport._open:  # noqa: ASYNC110 - nobody tells
                        await anyio.sleep(0.001)
            assert (transport._idle, transport._sweep_timer) == ([], None)

    assert server.connections == 2


async def test_one_that_has_been_idle_too_long_is_not_taken_though_it_is_there() -> None:
    with ProviderServer(HELLO) as server:
        async with fast() as transport:
            await ask(transport, post(server.url))
            transport._idle = [one._replace(until=0.0) for one in transport._idle]
            await ask(transport, post(server.url))

    assert server.connections == 2


async def test_so_many_idle_connections_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "_KEPT", 2)
    gate = Gate()
    with ProviderServer([gate, *HELLO]) as server:
        async with fast() as transport:
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(ask, transport, post(server.url))
                await server.asked(4)
                gate.open()
            assert len(transport._idle) == 2


# leaving


async def test_a_body_that_is_left_closes_its_connection() -> None:
    with ProviderServer([head(), chunk(b"hello"), STALL]) as server:
        async with nothing_left_behind(), fast() as transport:
            got = await transport.handle_async_request(post(server.url))
            assert await got.extensions[BODY].read() == b"hello"
            await got.aclose()
            await server.peer_left()


@pytest.mark.parametrize("phase", ["connect", "handshake", "write", "head", "body"])
async def test_a_cancelled_request_closes_its_connection(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = anyio.Event()

    async def never(host: str, port: int) -> socket.socket:
        arrived.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def told() -> AsyncIterator[bytes]:
        arrived.set()
        while True:
            yield b"x" * 1_000_000

    async def use(url: str) -> None:
        got = await transport.handle_async_request(post(url, content=told() if phase == "write" else b"say"))
        async with contextlib.aclosing(got):
            await got.extensions[BODY].read()
            arrived.set()
            await got.extensions[BODY].read()

    with contextlib.ExitStack() as stack:
        server, url = None, ""
        match phase:
            case "connect":
                monkeypatch.setattr(http_transport, "dial", never)
                url = "http://127.0.0.1:1"
            case "handshake":
                url = stack.enter_context(deaf_server()).replace("http", "https")
            case "write":
                url = stack.enter_context(deaf_server())
            case _:
                script: Script = [STALL] if phase == "head" else [head(), chunk(b"hello"), STALL]
                server = stack.enter_context(ProviderServer(script))
                url = server.url
        async with nothing_left_behind(), fast() as transport, anyio.create_task_group() as tasks:
            tasks.start_soon(use, url)
            with anyio.fail_after(20):
                if phase == "head":
                    assert server is not None
                    await server.asked()
                elif phase == "handshake":
                    await anyio.wait_all_tasks_blocked()
                else:
                    await arrived.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        if server is not None:
            await server.peer_left()


async def test_closing_the_transport_closes_what_is_under_way() -> None:
    with ProviderServer([head(), chunk(b"hello"), STALL]) as server:
        async with fast() as transport:
            got = await transport.handle_async_request(post(server.url))
            assert await got.extensions[BODY].read() == b"hello"
        with pytest.raises(httpx2.ReadError):
            await got.extensions[BODY].read()
        await got.aclose()
        await server.peer_left()


async def test_a_slow_reader_holds_its_server_back() -> None:
    with ProviderServer([head(), Trickle(chunk(b"x" * 65_536), 0)]) as server:
        async with fast() as transport:
            got = await transport.handle_async_request(post(server.url))
            with anyio.fail_after(20):
                [kept] = transport._open
                while not kept._is_paused:  # noqa: ASYNC110 - nobody tells
                    await anyio.sleep(0.001)
            waiting = len(await got.extensions[BODY].read())
            await got.extensions[BODY].read()
            await got.aclose()

    assert waiting < 1_000_000


@pytest.mark.parametrize("uvloop", [False, True])
def test_a_second_event_loop_has_its_own(uvloop: bool) -> None:
    if uvloop:
        pytest.importorskip("uvloop")

    async def once() -> object:
        transport = FastTransport(PLAIN)
        try:
            return await ask(transport, post(server.url))
        finally:
            await transport.aclose()

    with ProviderServer(HELLO) as server:
        got = [anyio.run(once, backend_options={"use_uvloop": uvloop}) for _ in range(2)]
        gc.collect()  # what was left open would warn here

    assert got == [(200, b"hello", "")] * 2


# TLS and addresses


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1,DNS:toys.example")


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def test_a_stream_over_tls_is_the_same(tls: ssl.SSLContext, certificate: Path) -> None:
    long = [head(), *(chunk(b"%05d" % n) for n in range(20_000)), END]
    names: list[object] = []
    tls.sni_callback = lambda _, name, __: names.append(name)
    trust = ssl.create_default_context(cafile=certificate)
    with ProviderServer(long, HELLO, tls=tls) as server:
        async with fast(trust) as transport:
            first = await ask(transport, post(server.url))
            [kept] = transport._open
            assert kept._transport is not None
            spoken = kept._transport.get_extra_info("ssl_object").selected_alpn_protocol()
            second = await ask(transport, post(server.url, content=b"x" * 3_000_000))
            third = await ask(transport, post(server.url, extensions={"sni_hostname": "toys.example"}))

    assert first == (200, b"".join(b"%05d" % n for n in range(20_000)), "")
    assert second == third == (200, b"hello", "")
    assert (spoken, server.connections, names) == ("http/1.1", 2, [None, "toys.example"])


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        pytest.param([head(), chunk(b"hello"), CLOSE], (200, b"hello", "RemoteProtocolError"), id="closed"),
        pytest.param([OK + b"\r\nhello", CLOSE], (200, b"hello", ""), id="until-close"),
        pytest.param([CLOSE], (0, b"", "RemoteProtocolError"), id="nothing"),
    ],
)
async def test_ends_over_tls(script: Script, wanted: object, tls: ssl.SSLContext, certificate: Path) -> None:
    with ProviderServer(script, tls=tls) as server:
        async with fast(ssl.create_default_context(cafile=certificate)) as transport:
            got = await ask(transport, post(server.url))

    assert got == wanted


@pytest.mark.parametrize("problem", ["unknown", "another-name"])
async def test_who_cannot_be_trusted_is_a_connect_error(
    problem: str, tls: ssl.SSLContext, certificate: Path
) -> None:
    trust = ssl.create_default_context(cafile=None if problem == "unknown" else certificate)
    with ProviderServer(HELLO, tls=tls) as server:
        url = f"https://{'localhost' if problem == 'another-name' else '127.0.0.1'}:{server.port}"
        async with nothing_left_behind(), fast(trust) as transport:
            with pytest.raises(httpx2.ConnectError) as caught, anyio.fail_after(20):
                await transport.handle_async_request(post(url))

    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert server.requests == []


async def test_a_server_without_tls_is_a_connect_error() -> None:
    with deaf_server(b"HTTP/1.1 400 Bad\r\n\r\n") as url:
        async with nothing_left_behind(), fast() as transport:
            with pytest.raises(httpx2.ConnectError) as caught, anyio.fail_after(20):
                await transport.handle_async_request(post(url.replace("http", "https")))

    assert isinstance(caught.value.__cause__, ssl.SSLError)


async def test_an_address_of_the_sixth_version(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK + b"content-length: 5\r\nconnection: close\r\n\r\nhello")
        writer.close()

    asked: list[bytes] = []
    port = listener.getsockname()[1]
    async with await asyncio.start_server(serve, sock=listener), fast() as transport:
        got = await ask(transport, post(f"http://[::1]:{port}/", method="GET", content=b""))

    assert got == (200, b"hello", "")
    assert re.search(rb"(?i)host: \[::1\]:%d\r\n" % port, asked[0])
