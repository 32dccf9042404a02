"""An answer in the making, over real sockets, on both event loops: chunks as they come, and when it is asked again."""

import anyio
import pytest
from provider_server import (
    CLOSE,
    CUT,
    END,
    Gate,
    ProviderServer,
    Script,
    Step,
    answer,
    chunk,
    head,
    stream,
)
from toys import AGAIN, CLIENTS, GOOD, HELLO, REQUEST, ToyDialect, choose, client, collect, data

from agentkit.chunks import ErrorChunk, FinishChunk, TextChunk, UsageChunk
from agentkit.dialects.base import HTTPParts, Target
from agentkit.errors import ModelStatusError
from agentkit.model import ModelRequest, Notice, Retry
from agentkit.pace import RetryPolicy

pytestmark = pytest.mark.anyio


@pytest.fixture(params=CLIENTS)
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(request.param, monkeypatch)


# what comes


async def test_all_chunks_of_one_read_come_in_one_list() -> None:
    gate = Gate()
    many = b"".join(chunk(data(f"text {number}")) for number in range(200))
    with ProviderServer(
        [head(), chunk(data("text first")), gate, many + chunk(data("finish")) + END]
    ) as server:
        with anyio.fail_after(20):
            async with client(server.url).stream(REQUEST) as answer:
                first = await answer.next()
                gate.open()
                lists = []
                while items := await answer.next():
                    lists.append(items)

    assert first == [TextChunk("first")]
    assert [item for items in lists for item in items] == [
        *(TextChunk(str(number)) for number in range(200)),
        FinishChunk("stop"),
    ]
    assert len(lists) < 20


async def test_chunks_are_given_before_the_next_ones_are_sent() -> None:
    gates = [Gate(), Gate(), Gate()]
    steps: list[Step] = [head()]
    for number, gate in enumerate(gates):
        steps += [chunk(data(f"text {number}a")) + chunk(data(f"text {number}b")), gate]
    with ProviderServer([*steps, chunk(data("finish")), END]) as server:
        with anyio.fail_after(20):
            async with client(server.url).stream(REQUEST) as answer:
                for number, gate in enumerate(gates):
                    got: list[object] = []
                    while len(got) < 2:
                        got += await answer.next()
                    assert got == [TextChunk(f"{number}a"), TextChunk(f"{number}b")]
                    gate.open()
                assert await answer.next() == [FinishChunk("stop")]
                assert await answer.next() == []


async def test_json_lines_are_read_where_the_dialect_frames_so() -> None:
    with ProviderServer(
        stream(b"text a\ntext", b" b\nfinish x\n", content_type="application/x-ndjson")
    ) as server:
        got = await collect(client(server.url, ToyDialect("ndjson")))

    assert got == [TextChunk("a"), TextChunk("b"), FinishChunk("stop", "x")]
    assert server.requests[0].headers["accept"] == "application/x-ndjson"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            [b"HTTP/1.0 200 OK\r\n\r\n" + data("text Hello", "finish end"), CLOSE], id="until-close"
        ),
        pytest.param(answer(200, data("text Hello", "finish end"), content_type=""), id="with-length"),
        pytest.param(stream(data("text Hello", "finish end"), content_type="text/html"), id="called-html"),
        pytest.param(
            stream(data("text Hello", "finish end"), content_type="application/json"), id="called-json"
        ),
        pytest.param(
            stream(b"\xef\xbb", b"\xbf\r\n", b": hi\n\n" + data("text Hello", "finish end")), id="bom"
        ),
        pytest.param(stream(*(bytes([b]) for b in data("text Hello", "finish end"))), id="byte-by-byte"),
        pytest.param([b"HTTP/1.1 103 Early\r\nx: y\r\n\r\n", *GOOD], id="early-hints"),
    ],
)
async def test_a_stream_is_read_however_it_is_delivered(script: Script) -> None:
    with ProviderServer(script) as server:
        assert await collect(client(server.url)) == HELLO


async def test_pings_alone_are_not_given_out() -> None:
    with ProviderServer(
        stream(b": ping\n\n", b": ping\n\n", data("text Hello"), b": x\n\n", data("finish end"))
    ) as server:
        assert await collect(client(server.url)) == HELLO


# retries


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_a_transient_status_is_asked_again_and_told(status: int) -> None:
    busy = answer(status, {"error": {"message": "busy"}})
    with ProviderServer(busy, busy, GOOD) as server:
        got = await collect(client(server.url, retry=AGAIN))

    told = f"toys answered {status}: busy"
    assert got == [Retry(2, 0, str(status), told), Retry(3, 0, str(status), told), *HELLO]
    assert len(server.requests) == 3
    assert server.requests[0].body == server.requests[2].body


async def test_a_retry_is_told_before_its_wait() -> None:
    with ProviderServer(answer(503, ""), GOOD) as server, anyio.fail_after(20):
        async with client(server.url, retry=RetryPolicy(1, 600, 600)).stream(REQUEST) as answer_:
            (retry,) = await answer_.next()
            with anyio.move_on_after(0.05) as waiting:
                await answer_.next()

    assert isinstance(retry, Retry)
    assert waiting.cancelled_caught
    assert 300 <= retry.delay <= 600
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        pytest.param("0.004", 0.004, id="seconds"),
        pytest.param("1000000000", 0.01, id="absurd"),
        pytest.param("Mon, 01 Jan 2001 00:00:00 GMT", 0, id="past-date"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", 0.01, id="far-date"),
        pytest.param("-5", 0, id="negative"),
        pytest.param("soon", 0, id="words"),
    ],
)
async def test_the_wait_that_the_provider_asks_for_is_kept_within_bounds(value: str, delay: float) -> None:
    with ProviderServer(answer(429, "", retry_after=value), GOOD) as server, anyio.fail_after(20):
        async with client(server.url, retry=RetryPolicy(1, 0, 0.01)).stream(REQUEST) as answer_:
            first = await answer_.next()
            second = await answer_.next()

    assert [type(item) for item in first] == [Retry]
    assert first[0] == Retry(2, delay, "429", "toys answered 429: Too Many Requests")
    assert second == HELLO


async def test_retries_end() -> None:
    down = answer(500, {"error": {"message": "down"}})
    with ProviderServer(down) as server, pytest.raises(ModelStatusError, match="500: down") as caught:
        await collect(client(server.url, retry=AGAIN))

    assert (caught.value.status, caught.value.retryable, len(server.requests)) == (500, True, 3)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(answer(400, {"error": {"message": "no"}}), id="400"),
        pytest.param(answer(404, {"error": {"message": "no"}}), id="404"),
        pytest.param(answer(422, {"error": {"message": "no"}}), id="422"),
        pytest.param(answer(429, {"error": {"message": "quota", "again": False}}), id="dialect-says-no"),
        pytest.param(answer(503, "", x_should_retry="false"), id="server-says-no"),
    ],
)
async def test_what_asking_again_cannot_mend_is_not_asked_again(script: Script) -> None:
    with ProviderServer(script) as server, pytest.raises(ModelStatusError) as caught:
        await collect(client(server.url, retry=AGAIN))

    assert (caught.value.retryable, len(server.requests)) == (False, 1)


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        pytest.param([CLOSE], "model_connection", id="no-answer"),
        pytest.param([b"HTTP/1.1 200 OK\r\nconte", CUT], "model_connection", id="half-a-head"),
        pytest.param([b"SSH-2.0-x\r\n\r\n", CLOSE], "model_connection", id="not-http"),
        pytest.param([head(), CUT], "model_connection", id="reset-before-body"),
        pytest.param([head(), chunk(b": ping\n\n"), CLOSE], "model_connection", id="closed-before-chunk"),
        pytest.param([head(), chunk(b"data: te"), CUT], "model_connection", id="half-an-event"),
        pytest.param([head(), b"zz\r\n", CLOSE], "model_connection", id="bad-chunk-size"),
        pytest.param([head(), chunk(data("usage 3")), CUT], "model_connection", id="only-usage"),
        pytest.param(stream(b": ping\n\n"), "truncated", id="empty-stream"),
        pytest.param(stream(data("overloaded busy")), "overloaded", id="error-first"),
        pytest.param(
            stream(data("usage 3"), data("overloaded busy", "finish")), "overloaded", id="error-after-usage"
        ),
        pytest.param(
            stream(data("failed abort"), data("overloaded busy")),
            "overloaded",
            id="error-after-a-finish-that-says-so",
        ),
        pytest.param(
            answer(200, {"error": {"message": "x", "type": "busy", "again": True}}),
            "busy",
            id="json-error-200",
        ),
    ],
)
async def test_a_fault_before_the_first_chunk_is_asked_again(broken: Script, code: str) -> None:
    with ProviderServer(broken, GOOD) as server:
        got = await collect(client(server.url, retry=AGAIN))

    retries = [item for item in got if isinstance(item, Retry)]
    assert [(retry.attempt, retry.code) for retry in retries] == [(2, code)]
    said = [item for item in got if item != FinishChunk("error", "abort")]
    assert [item for item in said if not isinstance(item, Retry | UsageChunk)] == HELLO


async def test_an_error_first_is_given_out_when_retries_are_used_up() -> None:
    with ProviderServer(stream(data("overloaded busy", "finish e"))) as server:
        got = await collect(client(server.url, retry=RetryPolicy(1, 0)))

    error = ErrorChunk("provider", "busy", "overloaded", retryable=True)
    assert got == [Retry(2, 0, "overloaded", "busy"), error, FinishChunk("stop", "e")]
    assert len(server.requests) == 2


async def test_an_attempt_knows_nothing_of_the_one_before() -> None:
    with ProviderServer(stream(data("overloaded busy", "finish e")), stream(data("text Hello"))) as server:
        got = await collect(client(server.url, retry=AGAIN))

    cut = ErrorChunk("truncated", "toy ended", retryable=True)
    assert got == [Retry(2, 0, "overloaded", "busy"), TextChunk("Hello"), cut]


async def test_nothing_is_asked_again_after_the_first_chunk() -> None:
    with ProviderServer(stream(data("text Hello"), data("overloaded busy"))) as server:
        got = await collect(client(server.url, retry=AGAIN))

    assert got == [
        TextChunk("Hello"),
        ErrorChunk("provider", "busy", "overloaded", retryable=True),
        ErrorChunk("truncated", "toy ended", retryable=True),
    ]
    assert len(server.requests) == 1


# a second try


class ForgivingDialect(ToyDialect):
    """Leaves its `say` out where that is refused."""

    def second_try(self, request: ModelRequest, target: Target, status: int, body: str) -> HTTPParts | None:
        if (status, "say" in body) != (400, True):
            return None
        return HTTPParts(
            "/v1/toy", {"model": target.model}, notices=(Notice("left_out", "say was left out"),)
        )


REFUSED = answer(400, {"error": {"message": "do not say that"}})


async def test_what_is_refused_is_left_out_in_one_second_try_that_is_told() -> None:
    with ProviderServer(REFUSED, GOOD) as server:
        got = await collect(client(server.url, ForgivingDialect()))

    assert got == [Notice("left_out", "say was left out"), *HELLO]
    assert [request.json for request in server.requests] == [
        {"model": "bear", "say": "hi"},
        {"model": "bear"},
    ]


async def test_there_is_no_third_try() -> None:
    with ProviderServer(REFUSED) as server, pytest.raises(ModelStatusError, match="do not say that"):
        await collect(client(server.url, ForgivingDialect(), retry=AGAIN))

    assert len(server.requests) == 2


async def test_a_refusal_of_another_kind_gets_no_second_try() -> None:
    with ProviderServer(answer(400, {"error": {"message": "no"}})) as server, pytest.raises(ModelStatusError):
        await collect(client(server.url, ForgivingDialect(), retry=AGAIN))

    assert len(server.requests) == 1
