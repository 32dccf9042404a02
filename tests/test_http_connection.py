"""The protocol of a connection, without sockets: bytes in, an answer out."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_server import END, chunk, head

from agentkit import http_connection
from agentkit.http_connection import Connection, make_buffer

T = TypeVar("T")

pytestmark = pytest.mark.pure

OK = b"HTTP/1.1 200 OK\r\n"
BUFFER = make_buffer()
INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
TRAILERS = b"0\r\nx-checksum: 1\r\nx-more: 2\r\n\r\n"


class FakeTransport(asyncio.Transport):
    """Takes note of what is asked of it. `_Socket` under it never has anything to read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.written = b""
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.asked.append(f"limits {high}")

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")

    def abort(self) -> None:
        self.asked.append("abort")

    def is_closing(self) -> bool:
        return "abort" in self.asked


class Wire:
    """A connection and its transport, with a request that is written."""

    def __init__(self, *, sent: bool = True) -> None:
        self.lost: list[Connection] = []
        self.transport = FakeTransport()
        self.connection = Connection(asyncio.get_running_loop(), BUFFER, self.lost.append)
        self.connection.connection_made(self.transport)
        if sent:
            self.connection.finish()

    def feed(self, *reads: bytes) -> "Wire":
        for read in reads:
            buffer = self.connection.get_buffer(-1)
            for at in range(0, len(read), len(buffer)):
                part = read[at : at + len(buffer)]
                buffer[: len(part)] = part
                self.connection.buffer_updated(len(part))
                buffer[: len(part)] = bytes(len(part))  # another connection's may come at once
        return self

    def end(self, error: Exception | None = None) -> "Wire":
        self.connection.connection_lost(error)
        return self

    async def pieces(self) -> list[bytes]:
        """Return what is read, up to the end."""
        found = []
        while piece := await self.connection.read(5):
            found.append(piece)
        return found

    async def all(self) -> tuple[int, bytes, str]:
        """Return the status, the body, and what broke it off."""
        got, body = await self.connection.head(5), b""
        try:
            while piece := await self.connection.read(5):
                body += piece
        except httpx2.TransportError as error:
            return got.status, body, type(error).__name__
        return got.status, body, ""


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


# the bytes


WHOLE = {
    "chunks": (head() + chunk(b"one") + chunk(b"two" * 9) + END, b"one" + b"two" * 9),
    "trailers": (head() + chunk(b"one") + TRAILERS, b"one"),
    "length": (OK + b"content-length: 5\r\n\r\nhello", b"hello"),
    "interim": (INTERIM + b"HTTP/1.1 100 Continue\r\n\r\n" + head() + chunk(b"x") + END, b"x"),
    "extension": (head() + b"3;a=b\r\none\r\n" + END, b"one"),
    "line-feeds": (OK.replace(b"\r", b"") + b"content-length: 2\n\nhi", b"hi"),
    "no-reason": (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
    "coded-in-chunks": (OK + b"transfer-encoding: gzip, chunked\r\n\r\n" + chunk(b"x") + END, b"x"),
}


@pytest.mark.parametrize(("wire", "body"), WHOLE.values(), ids=WHOLE)
def test_an_answer_cut_anywhere_is_the_same_answer(wire: bytes, body: bytes) -> None:
    async def cut(place: int) -> tuple[int, bytes, str, bool]:
        it = Wire().feed(wire[:place], wire[place:]) if place > 0 else Wire().feed(wire)
        return *await it.all(), it.connection.release()

    async def everywhere() -> set[tuple[int, bytes, str, bool]]:
        bytewise = Wire().feed(*(bytes([byte]) for byte in wire))
        found = {(*await bytewise.all(), bytewise.connection.release())}
        return found | {await cut(place) for place in range(len(wire))}

    assert run(everywhere()) == {(200, body, "", True)}


@settings(max_examples=40)
@given(
    st.lists(st.binary(min_size=1, max_size=300), max_size=20),
    st.lists(st.integers(1, 200), min_size=1, max_size=8),
)
def test_any_chunks_in_any_reads_are_the_same_body(parts: list[bytes], sizes: list[int]) -> None:
    wire = head() + b"".join(map(chunk, parts)) + END

    async def read() -> tuple[int, bytes, str]:
        it, left, turn = Wire(), wire, 0
        while left:
            size = sizes[turn % len(sizes)]
            it.feed(left[:size])
            left, turn = left[size:], turn + 1
        return await it.all()

    assert run(read()) == (200, b"".join(parts), "")


def test_what_one_read_brought_is_one_piece() -> None:
    async def pieces() -> list[bytes]:
        it = Wire().feed(head() + chunk(b"a") + chunk(b"b"))
        first = await it.connection.read(5)
        it.feed(chunk(b"c") + chunk(b"d") + chunk(b"e"))
        second = await it.connection.read(5)
        it.feed(chunk(b"f"), chunk(b"g") + END)
        return [first, second, *await it.pieces()]

    assert run(pieces()) == [b"ab", b"cde", b"fg"]


def test_the_head_is_given_as_it_came_and_trailers_are_not_of_it() -> None:
    async def take() -> object:
        it = Wire().feed(INTERIM + b"HTTP/1.0 404 Not", b" Here\r\nX-One: 1\r\nx-one: \xe4\r\n\r\n")
        return await it.connection.head(5)

    assert run(take()) == http_connection.Head(
        b"HTTP/1.0", 404, b"Not Here", [(b"X-One", b"1"), (b"x-one", b"\xe4")]
    )


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body_end_with_their_head(status: int) -> None:
    async def take() -> tuple[object, bool]:
        it = Wire().feed(b"HTTP/1.1 %d No\r\ncontent-length: 5\r\n\r\n" % status)
        return await it.all(), it.connection.release()

    assert run(take()) == ((status, b"", ""), True)


@pytest.mark.parametrize(
    "rest", [b"content-length: 5\r\n\r\n", b"content-length: 5\r\n\r\nhello", b"\r\n"], ids=repr
)
def test_an_answer_to_head_has_no_body_and_its_connection_goes(rest: bytes) -> None:
    async def take() -> tuple[object, bool]:
        it = Wire()
        it.connection.skips_body = True
        return await it.feed(OK + rest).all(), it.connection.release()

    assert run(take()) == ((200, b"", ""), False)


@pytest.mark.parametrize("upgrade", [b"", b"connection: upgrade\r\nupgrade: x\r\n"])
def test_other_protocols_are_not_spoken(upgrade: bytes) -> None:
    async def take() -> tuple[object, bool]:
        it = Wire().feed(b"HTTP/1.1 101 Switching\r\n" + upgrade + b"\r\nraw bytes")
        return await it.all(), it.connection.release()

    assert run(take()) == ((101, b"", ""), False)


# ends and faults


@pytest.mark.parametrize("coding", [b"", b"transfer-encoding: gzip\r\n"], ids=["none", "gzip"])
def test_a_body_without_a_length_ends_with_its_connection(coding: bytes) -> None:
    async def take() -> tuple[object, bool]:
        it = Wire().feed(OK + coding + b"\r\nhel", b"lo").end()
        return await it.all(), it.connection.release()

    assert run(take()) == ((200, b"hello", ""), False)


BROKEN = {
    "short-length": (OK + b"content-length: 9\r\n\r\nhello", None, "RemoteProtocolError"),
    "short-chunks": (head() + chunk(b"hello"), None, "RemoteProtocolError"),
    "reset": (OK + b"\r\nhello", ConnectionResetError("reset"), "ReadError"),
    "framing": (head() + chunk(b"hello") + b"zz\r\n", None, "RemoteProtocolError"),
    "huge-chunk": (head() + chunk(b"hello") + b"fffffffffffffffff\r\n", None, "RemoteProtocolError"),
    "endless-trailers": (head() + chunk(b"hello") + b"0\r\nx: " + b"y" * 70_000, None, "RemoteProtocolError"),
}


@pytest.mark.parametrize(("wire", "error", "wanted"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("size", [1_000_000, 7], ids=["one-read", "many-reads"])
def test_what_came_before_a_fault_is_kept(
    wire: bytes, error: Exception | None, wanted: str, size: int
) -> None:
    async def take() -> tuple[object, bool]:
        it = Wire().feed(*(wire[at : at + size] for at in range(0, len(wire), size))).end(error)
        return await it.all(), it.connection.release()

    assert run(take()) == ((200, b"hello", wanted), False)


@pytest.mark.parametrize(
    ("wire", "error", "wanted"),
    [
        pytest.param(b"", None, httpx2.RemoteProtocolError, id="silence"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx: ", None, httpx2.RemoteProtocolError, id="half-a-head"),
        pytest.param(INTERIM, None, httpx2.RemoteProtocolError, id="interim-only"),
        pytest.param(b"", ConnectionResetError("reset"), httpx2.ReadError, id="reset"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", None, httpx2.RemoteProtocolError, id="another-protocol"),
        pytest.param(OK + b"x: " + b"y" * 70_000, None, httpx2.RemoteProtocolError, id="endless-head"),
        pytest.param(INTERIM * 2_000, None, httpx2.RemoteProtocolError, id="endless-interims"),
        pytest.param(
            OK + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            None,
            httpx2.RemoteProtocolError,
            id="two-lengths",
        ),
    ],
)
def test_without_a_head_there_is_an_error(
    wire: bytes, error: Exception | None, wanted: type[Exception]
) -> None:
    async def take() -> None:
        it = Wire().feed(*(wire[at : at + 4096] for at in range(0, len(wire), 4096)))
        await it.end(error).connection.head(5)

    with pytest.raises(wanted):
        run(take())


def test_a_head_of_any_usual_size_is_taken() -> None:
    async def take() -> object:
        headers = b"".join(b"x-%d: %b\r\n" % (n, b"y" * 1000) for n in range(50))
        return await Wire().feed(OK, headers, b"content-length: 2\r\n\r\nhi").all()

    assert run(take()) == (200, b"hi", "")


def test_a_fault_is_told_as_often_as_somebody_asks() -> None:
    async def take() -> list[str]:
        it = Wire().feed(OK + b"content-length: 9\r\n\r\n").end()
        said = []
        for _ in range(2):
            with pytest.raises(httpx2.RemoteProtocolError) as caught:
                await it.connection.read(5)
            said.append(str(caught.value))
        return said

    text = "peer closed connection without sending complete message body (less than its content-length)"
    assert run(take()) == [text, text]


# waiting


def test_a_reader_that_does_not_come_holds_the_server_back() -> None:
    async def take() -> tuple[list[str], int, list[str]]:
        it = Wire().feed(head())
        part = chunk(b"x" * 65_000)
        fed = 0
        while "pause" not in it.transport.asked:
            it.feed(part)
            fed += 1
        paused = list(it.transport.asked)
        got = await it.connection.read(5)
        assert len(got) == fed * 65_000
        return paused, fed, it.transport.asked

    paused, fed, asked = run(take())
    assert (paused, asked) == (["limits 1", "pause"], ["limits 1", "pause", "resume"])
    assert fed * 65_000 < 400_000


def test_a_connection_that_is_being_closed_is_not_paused() -> None:
    """uvloop would raise."""

    async def take() -> tuple[list[str], object]:
        it = Wire().feed(head() + chunk(b"x" * 255_000))
        it.feed(chunk(b"y" * 10_000) + b"zz\r\n")
        return it.transport.asked, await it.all()

    wanted = (200, b"x" * 255_000 + b"y" * 10_000, "RemoteProtocolError")
    assert run(take()) == (["limits 1", "abort"], wanted)


def test_many_reads_set_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take() -> int:
        loop, timers = asyncio.get_running_loop(), 0
        it = Wire()
        call_at = loop.call_at

        def counted(*args: Any, **more: Any) -> Any:
            nonlocal timers
            timers += 1
            return call_at(*args, **more)

        monkeypatch.setattr(loop, "call_at", counted)
        it.feed(head())
        for _ in range(100):
            loop.call_soon(it.feed, chunk(b"x"))
            assert await it.connection.read(60) == b"x"
        it.feed(END)
        it.connection.release()
        return timers

    assert run(take()) == 1


@pytest.mark.parametrize("what", ["head", "body", "request"])
def test_a_wait_ends_when_its_time_is_over(what: str) -> None:
    async def take() -> list[str]:
        it = Wire()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):  # a wait that was left does not count for the next
                await it.connection.head(0.01)
        match what:
            case "head":
                with pytest.raises(httpx2.ReadTimeout):
                    await it.connection.head(0.01)
            case "body":
                it.feed(head())
                with pytest.raises(httpx2.ReadTimeout):
                    await it.connection.read(0.01)
            case _:
                it.connection.pause_writing()
                with pytest.raises(httpx2.WriteTimeout):
                    await it.connection.write(b"x", 0.01)
        return it.transport.asked

    assert run(take()) == ["limits 1", "abort"]


def test_the_timer_of_a_wait_that_is_over_ends_no_other() -> None:
    async def take() -> bytes:
        it = Wire().feed(head())
        loop = asyncio.get_running_loop()
        loop.call_soon(it.feed, chunk(b"a"))
        first = await it.connection.read(0.01)
        loop.call_later(0.05, it.feed, chunk(b"b"))  # by then the timer has fired
        second = await it.connection.read(60)
        with pytest.raises(httpx2.ReadTimeout):
            await it.connection.read(0.01)  # before it fires again
        return first + second

    assert run(take()) == b"ab"


def test_a_wait_that_is_cancelled_loses_nothing() -> None:
    async def take() -> bytes:
        it = Wire().feed(head())
        reading = asyncio.ensure_future(it.connection.read(5))
        await asyncio.sleep(0)
        it.feed(chunk(b"kept"))
        reading.cancel()
        await asyncio.wait([reading])
        return await it.connection.read(5)

    assert run(take()) == b"kept"


# writing


def test_writing_waits_until_the_socket_took_it() -> None:
    async def take() -> tuple[bool, bytes]:
        it = Wire(sent=False)
        it.connection.pause_writing()
        asyncio.get_running_loop().call_soon(it.connection.resume_writing)
        return await it.connection.write(b"data", 5), it.transport.written

    assert run(take()) == (True, b"data")


def test_an_answer_that_comes_first_ends_the_writing() -> None:
    async def take() -> tuple[bool, bool, bytes, object, bool]:
        it = Wire(sent=False)
        it.connection.pause_writing()
        asyncio.get_running_loop().call_soon(it.feed, OK + b"content-length: 2\r\n\r\nno")
        first = await it.connection.write(b"data", 5)
        second = await it.connection.write(b"more", 5)
        return first, second, it.transport.written, await it.all(), it.connection.release()

    assert run(take()) == (False, False, b"data", (200, b"no", ""), False)


# keeping


KEPT = {
    "clean": (OK + b"content-length: 2\r\n\r\nhi", True),
    "old-but-kept": (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi", True),
    "old": (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", False),
    "close": (OK + b"connection: close\r\ncontent-length: 2\r\n\r\nhi", False),
    "surplus": (OK + b"content-length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\nforged", False),
    "surplus-that-is-not-http": (OK + b"content-length: 2\r\n\r\nhi!!", False),
}


@pytest.mark.parametrize(("wire", "kept"), KEPT.values(), ids=KEPT)
def test_a_connection_is_kept_only_where_the_wire_is_certain(wire: bytes, kept: bool) -> None:
    async def take() -> tuple[object, bool, bool]:
        it = Wire().feed(wire)
        return await it.all(), it.connection.release(), "abort" not in it.transport.asked

    assert run(take()) == ((200, b"hi", ""), kept, kept)


@pytest.mark.parametrize("reason", ["later-surplus", "unsent", "request", "idle", "lost", "unread"])
def test_what_makes_a_connection_unfit_later(reason: str) -> None:
    async def take() -> tuple[bool, bool]:
        it = Wire(sent=reason != "request")
        it.feed(OK + b"content-length: 2\r\n\r\nh" + (b"" if reason == "unread" else b"i"))
        await it.connection.read(5)
        match reason:
            case "later-surplus":
                it.feed(b"HTTP/1.1 200 OK\r\n\r\n")
            case "unsent":
                it.transport.unsent = 1
            case "lost":
                it.end()
            case _:
                pass
        kept = it.connection.release()
        if reason == "idle":
            it.feed(b"x")
        return kept, it.transport.is_closing()

    assert run(take()) == (reason == "idle", True)


def test_the_next_answer_of_a_kept_connection_knows_nothing_of_the_last() -> None:
    async def take() -> list[object]:
        it = Wire()
        found: list[object] = []
        for body in (b"one", b"two"):
            it.feed(OK + b"content-length: 3\r\n\r\n" + body)
            found.append(await it.all())
            assert it.connection.release()
            it.connection.begin()
            it.connection.finish()
        return found

    assert run(take()) == [(200, b"one", ""), (200, b"two", "")]


def test_a_paused_connection_that_is_kept_reads_on() -> None:
    async def take() -> tuple[bool, list[str]]:
        it = Wire().feed(OK + b"content-length: 300000\r\n\r\n", b"x" * 300_000)
        return it.connection.release(), it.transport.asked

    assert run(take()) == (True, ["limits 1", "pause", "resume"])


def test_closing_wakes_who_waits() -> None:
    async def take() -> list[Connection]:
        it = Wire()
        asyncio.get_running_loop().call_soon(it.connection.close)
        with pytest.raises(httpx2.ReadError):
            await it.connection.head(5)
        assert it.end().lost == [it.connection]
        return [it.connection] if it.connection.is_lost else []

    assert len(run(take())) == 1


def test_many_connections_may_share_what_they_read_into() -> None:
    async def take() -> list[object]:
        one, other = Wire(), Wire()
        for byte in head() + chunk(b"text") + END:
            one.feed(bytes([byte]))
            other.feed(bytes([byte]))
        assert one.connection.get_buffer(-1) is other.connection.get_buffer(-1)
        return [await one.all(), await other.all()]

    assert run(take()) == [(200, b"text", "")] * 2
