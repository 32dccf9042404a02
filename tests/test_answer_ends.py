"""How an answer ends, over real sockets, on both event loops: breaks, silence, leaving, and answers that are no stream."""

import gzip

import anyio
import pytest
from provider_server import (
    CLOSE,
    CUT,
    END,
    STALL,
    Gate,
    ProviderServer,
    Script,
    Step,
    Trickle,
    answer,
    chunk,
    head,
    stream,
)
from toys import AGAIN, CLIENTS, GOOD, HELLO, ONCE, QUICK, REQUEST, ToyDialect, choose, client, collect, data

from agentkit.answer import AnswerStream, Plan
from agentkit.chunks import ErrorChunk, FinishChunk, TextChunk, UsageChunk
from agentkit.content import Usage
from agentkit.dialects.base import Target
from agentkit.errors import ModelConnectionError, ModelStatusError, ModelStreamError
from agentkit.model import Retry
from agentkit.pace import RetryPolicy, Timeouts

pytestmark = pytest.mark.anyio


@pytest.fixture(params=CLIENTS)
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(request.param, monkeypatch)


# breaks and silence


@pytest.mark.parametrize("end", [CUT, CLOSE], ids=["reset", "close"])
async def test_a_break_after_chunks_becomes_an_error_behind_all_that_came(end: Step) -> None:
    gate = Gate()
    script: Script = [head(), chunk(data("text Hello", "later held")) + chunk(b"data: text ha"), gate, end]
    with ProviderServer(script) as server, anyio.fail_after(20):
        async with client(server.url, retry=AGAIN).stream(REQUEST) as answer_:
            first = await answer_.next()
            gate.open()
            rest = await answer_.next()
            end_ = await answer_.next()

    assert (first, end_) == ([TextChunk("Hello")], [])
    assert rest[0] == TextChunk("held")
    assert isinstance(rest[1], ErrorChunk)
    assert (rest[1].kind, rest[1].code, rest[1].retryable, len(rest)) == ("truncated", "connection", True, 2)
    assert rest[1].message.startswith("the stream broke off: ")
    assert len(server.requests) == 1


async def test_a_break_after_the_finish_is_no_error() -> None:
    with ProviderServer([head(), chunk(data("text Hello", "finish end")), CLOSE]) as server:
        assert await collect(client(server.url)) == HELLO


async def test_a_body_that_ends_early_is_truncated() -> None:
    with ProviderServer(stream(data("text Hello"))) as server:
        got = await collect(client(server.url))

    assert got == [TextChunk("Hello"), ErrorChunk("truncated", "toy ended", retryable=True)]


async def test_broken_payload_becomes_an_error_behind_what_came_and_ends_the_reading() -> None:
    with ProviderServer([head(), chunk(data("text Hello", "rubbish", "text never")), STALL]) as server:
        got = await collect(client(server.url))
        await server.peer_left()

    assert got == [TextChunk("Hello"), ErrorChunk("truncated", "toy payload 'rubbish'", "wire")]


async def test_an_event_without_end_is_cut_at_its_bound() -> None:
    megabyte = chunk(b"a" * 2**20)
    with ProviderServer(
        [head(), chunk(data("text Hello")), chunk(b"data: "), *[megabyte] * 17, STALL]
    ) as server:
        got = await collect(client(server.url))
        await server.peer_left()

    assert got[0] == TextChunk("Hello")
    assert (type(got[1]), got[1].code, len(got)) == (ErrorChunk, "wire", 2)


async def test_silence_before_the_answer_is_a_connection_error() -> None:
    timeouts = Timeouts(first_byte=0.05)
    with ProviderServer([STALL]) as server:
        with pytest.raises(ModelConnectionError, match=r"no answer within 0\.05 s") as caught:
            await collect(client(server.url, timeouts=timeouts))
        await server.peer_left()

    assert caught.value.retryable


async def test_a_head_that_trickles_is_silence_too() -> None:
    script: Script = [b"HTTP/1.1 200 OK\r\n", STALL]
    with ProviderServer(script) as server, pytest.raises(ModelConnectionError, match="no answer within"):
        await collect(client(server.url, timeouts=Timeouts(first_byte=0.05)))


async def test_silence_between_bytes_ends_the_stream() -> None:
    with ProviderServer([head(), chunk(data("text Hello")), STALL]) as server:
        got = await collect(client(server.url, timeouts=Timeouts(idle=0.05)))
        await server.peer_left()

    message = "the stream broke off: nothing came for 0.05 s"
    assert got == [TextChunk("Hello"), ErrorChunk("truncated", message, "timeout", retryable=True)]


@pytest.mark.parametrize(
    "rest", [STALL, Trickle(chunk(b": ping\n\n"), 0.01)], ids=["in-silence", "with-pings"]
)
async def test_a_body_that_stays_open_after_the_finish_is_left(rest: Step) -> None:
    with ProviderServer([head(), chunk(data("text Hello", "finish end")), rest]) as server:
        got = await collect(client(server.url, timeouts=Timeouts(idle=600, linger=0.05)))
        await server.peer_left()

    assert got == HELLO


async def test_what_follows_a_finish_is_still_read() -> None:
    with ProviderServer(stream(data("finish end"), data("usage 7"), data("text more"))) as server:
        got = await collect(client(server.url))

    assert got == [FinishChunk("stop", "end"), UsageChunk(Usage(input_tokens=7)), TextChunk("more")]


async def test_who_still_speaks_after_the_finish_is_waited_for_anew() -> None:
    class Speaker:
        def __init__(self) -> None:
            self.status = 200
            self.headers: dict[str, str] = {}
            self.reads = [data("text a", "finish"), b": ping\n\n", data("text b"), b": ping\n\n", b""]
            self.deadlines: list[float] = []

        async def read(self) -> bytes:
            self.deadlines.append(anyio.current_effective_deadline())
            return self.reads.pop(0)

        async def aclose(self) -> None:
            pass

    speaker = Speaker()

    async def send() -> Speaker:
        return speaker

    timeouts = Timeouts(linger=60)
    plan = Plan(
        ToyDialect(), Target("toys", "bear"), timeouts, ONCE, client("http://localhost:1").faults, send
    )
    got: list[object] = []
    async with AnswerStream(plan) as answer_:
        while items := await answer_.next():
            got += items

    first, finished, pinged, spoken, pinged_again = speaker.deadlines
    assert got == [TextChunk("a"), FinishChunk("stop"), TextChunk("b")]
    assert (first, finished, spoken) == (float("inf"), pinged, pinged_again)
    assert spoken > pinged


async def test_nobody_there_is_a_connection_error() -> None:
    with ProviderServer(GOOD) as server:
        url = server.url
    with pytest.raises(ModelConnectionError, match=f"toys at {url}: ") as caught:
        await collect(client(url))

    assert (caught.value.provider, caught.value.model, caught.value.retryable) == ("toys", "bear", True)


# leaving


@pytest.mark.parametrize("burst", [1, 3], ids=["between-reads", "with-more-in-hand"])
async def test_leaving_closes_the_connection_at_once(burst: int) -> None:
    gate = Gate()
    with ProviderServer(
        [head(), chunk(data("text 0")), gate, chunk(data("text 1")) * burst, STALL]
    ) as server:
        with anyio.fail_after(20):
            async with client(server.url).stream(REQUEST) as answer_:
                await answer_.next()
                gate.open()
                await answer_.next()
            await server.peer_left()
            assert await answer_.next() == []


async def test_leaving_in_a_cancelled_scope_closes_too() -> None:
    with ProviderServer([head(), chunk(data("text 0")), STALL]) as server, anyio.fail_after(20):
        with anyio.CancelScope() as scope:
            async with client(server.url).stream(REQUEST) as answer_:
                await answer_.next()
                scope.cancel()
        await server.peer_left()


async def test_leaving_in_a_cancelled_scope_waits_for_the_closing() -> None:
    class SlowToClose:
        def __init__(self) -> None:
            self.status = 200
            self.headers: dict[str, str] = {}
            self.closed = False

        async def read(self) -> bytes:
            return data("text Hello")

        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            self.closed = True

    exchange = SlowToClose()

    async def send() -> SlowToClose:
        return exchange

    plan = Plan(ToyDialect(), Target("toys", "bear"), QUICK, ONCE, client("http://localhost:1").faults, send)
    with anyio.CancelScope() as scope:
        async with AnswerStream(plan) as answer_:
            await answer_.next()
            scope.cancel()

    assert exchange.closed


async def test_leaving_without_reading_closes_too() -> None:
    with ProviderServer([head(), chunk(data("overloaded x")), STALL]) as server, anyio.fail_after(20):
        async with client(server.url, retry=RetryPolicy(1, 600, 600)).stream(REQUEST) as answer_:
            assert [type(item) for item in await answer_.next()] == [Retry]
            await server.peer_left()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([STALL], id="before-the-head"),
        pytest.param([head(), STALL], id="before-the-body"),
        pytest.param([head(), chunk(data("text a")), STALL], id="in-the-body"),
        pytest.param([head(500), STALL], id="in-an-error-body"),
    ],
)
async def test_cancelling_closes_the_connection_at_once(script: Script) -> None:
    with ProviderServer(script) as server, anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, client(server.url))
            await server.asked()
            tasks.cancel_scope.cancel()
        await server.peer_left()


# answers that are no stream


@pytest.mark.parametrize(
    ("script", "message", "code"),
    [
        pytest.param(
            answer(200, "<html>Sign in</html>", content_type="text/html"),
            r"toys answered 200 without a stream \('text/html'\): '<html>Sign in</html>'",
            "not_a_stream",
            id="html",
        ),
        pytest.param(
            answer(200, {"error": {"message": "out of credit", "type": "billing"}}),
            "toys answered 200 with an error: out of credit",
            "billing",
            id="json-error",
        ),
        pytest.param(
            answer(200, {"error": {"message": "out of credit"}}, content_type="text/event-stream"),
            "toys answered 200 with an error: out of credit",
            "",
            id="json-error-called-stream",
        ),
        pytest.param(
            answer(200, {"choices": [{"message": {"content": "Hello"}}]}),
            r"toys answered 200 without a stream \('application/json'\): '\{\"choices\"",
            "not_a_stream",
            id="whole-answer",
        ),
        pytest.param(
            [head(content_type=""), chunk(b"\n\n  "), chunk(b"<?xml?>"), END],
            "without a stream .no content type.",
            "not_a_stream",
            id="xml-in-pieces",
        ),
        pytest.param(
            stream(gzip.compress(data("text Hello")), content_encoding="gzip"),
            "content-encoding 'gzip', identity was asked for",
            "content_encoding",
            id="gzip",
        ),
    ],
)
async def test_a_status_200_without_a_stream_says_what_came(script: Script, message: str, code: str) -> None:
    with ProviderServer(script) as server, pytest.raises(ModelStreamError, match=message) as caught:
        await collect(client(server.url, retry=AGAIN))

    assert (caught.value.provider_code, caught.value.retryable, len(server.requests)) == (code, False, 1)


async def test_a_gzip_bomb_is_not_unfolded() -> None:
    bomb = gzip.compress(b"\n" * 2**24)
    with ProviderServer([head(content_encoding="gzip"), chunk(bomb), STALL]) as server:
        with pytest.raises(ModelStreamError, match="identity"):
            await collect(client(server.url))
        await server.peer_left()
    with ProviderServer([head(500, content_encoding="gzip"), chunk(bomb), STALL]) as server:
        with pytest.raises(ModelStatusError) as caught:
            await collect(client(server.url))
        await server.peer_left()

    assert caught.value.body == "(content-encoding gzip)"


@pytest.mark.parametrize(
    ("rest", "idle"),
    [
        pytest.param([STALL], 0.1, id="silent"),
        pytest.param([Trickle(chunk(b"x"), 0.01)], 0.1, id="trickle"),
        pytest.param([*[chunk(b"x" * 65536)] * 32, STALL], 600, id="endless"),
    ],
)
async def test_an_error_body_is_bounded_in_time_and_size(rest: list[Step], idle: float) -> None:
    with ProviderServer([head(400), chunk(b"x" * 4000), *rest]) as server:
        with pytest.raises(ModelStatusError) as caught:
            await collect(client(server.url, timeouts=Timeouts(idle=idle)))
        await server.peer_left()

    assert caught.value.body == "x" * 2048


async def test_an_error_carries_request_id_and_wished_wait() -> None:
    script = answer(429, {"error": {"message": "slow"}}, request_id="req_1", retry_after="7")
    with ProviderServer(script) as server, pytest.raises(ModelStatusError) as caught:
        await collect(client(server.url))

    error = caught.value
    assert (error.request_id, error.retry_after, error.retryable) == ("req_1", 7.0, True)
    assert (error.provider, error.model, error.status) == ("toys", "bear", 429)
    assert error.body == '{"error": {"message": "slow"}}'
