"""A feed and its links: cuts, refusals, losses, ends, on asyncio and trio."""

import itertools
import logging

import anyio
import httpx2
import pytest
from transports.clients.scripted import (
    BREAK,
    END,
    HANG,
    QUICK,
    URL,
    Say,
    Script,
    control,
    ev,
    gap,
    hello,
    read,
    refuse,
)

from agentkit.errors import (
    AccessError,
    ConfigurationError,
    RemoteConnectionError,
    RemoteError,
    WireError,
)
from agentkit_transports.clients import Auth, ClientSettings, Envelope, Feed, Gap, follow

pytestmark = pytest.mark.anyio


def feed_of(script: Script, *, after: str = "earliest", settings: ClientSettings = QUICK, url: str = URL, auth: Auth = None, **more: str) -> Feed:  # fmt: skip
    return follow(url, after=after, settings=settings, client=script.client(), auth=auth, **more)  # type: ignore[arg-type]


async def test_records_come_as_typed_values_until_the_end() -> None:
    script = Script(Say([hello() + ev(1), ev(2, type="app.said"), END]))

    async with feed_of(script) as feed:
        items = [item async for item in feed]

    first, second = items
    assert isinstance(first, Envelope) and isinstance(second, Envelope)
    assert (first.type, first.event.type, first.run, first.data) == (
        "text.delta",
        "text.delta",
        "r",
        {"text": "1"},
    )
    assert (second.type, second.event.type) == ("app.said", "custom")
    assert (feed.ending, feed.cursor, feed.connections, script.open) == ("ended", "e-9", 1, 0)


async def test_a_feed_comes_back_with_its_cursor_and_tells_nothing_twice() -> None:
    script = Script(
        Say([hello(), ev(1, 2)[:-20], BREAK]),
        Say([hello(1, resumed=True) + ev(1, 2), ev(3)]),
        Say([hello(3, resumed=True), ev(4), b": beat\n\n", ev(5) + END]),
    )

    assert await read(feed_of(script)) == [1, 2, 3, 4, 5]
    assert script.cursors == ["earliest", "e-1", "e-3"]
    assert script.asked[1].headers["last-event-id"] == "e-1"
    assert script.open == 0


@pytest.mark.parametrize("cut", [1, 7, 40, 150, 151, 400])
async def test_frames_may_be_cut_anywhere(cut: int) -> None:
    whole = hello() + ev(1, 2, 3) + END
    pieces = [whole[at : at + cut] for at in range(0, len(whole), cut)]

    assert await read(feed_of(Script(Say(pieces)))) == [1, 2, 3]


async def test_it_comes_back_after_error_statuses_and_refused_connections() -> None:
    script = Script(
        httpx2.ConnectError("refused"), refuse(503), refuse(500), refuse(429, {"retry-after": "0"}), refuse(408),
        httpx2.ReadTimeout("silence"), Say([hello(), ev(1), BREAK]), refuse(502), Say([hello(1), ev(2), END]),
    )  # fmt: skip

    assert await read(feed_of(script)) == [1, 2]


async def test_what_a_server_asks_to_wait_is_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    real = anyio.sleep

    async def sleep(delay: float) -> None:
        slept.append(delay)
        await real(0)

    monkeypatch.setattr(anyio, "sleep", sleep)
    script = Script(
        refuse(429, {"retry-after": "7"}), refuse(503, retry_after_ms=3000), Say([hello(), ev(1), control("closing", retry_ms=5000)]),
        Say([hello(1), ev(2), BREAK]), Say([hello(2), END]),
    )  # fmt: skip

    assert await read(feed_of(script)) == [1, 2]
    assert [round(delay) in (want, want + 1) for delay, want in zip(slept, [7, 3, 5, 0], strict=True)] == [
        True
    ] * 4


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, ConfigurationError), (403, AccessError), (404, RemoteError), (410, RemoteError), (501, RemoteError), (302, RemoteError)],
)  # fmt: skip
async def test_a_refusal_for_good_is_raised(status: int, error: type[Exception]) -> None:
    script = Script(refuse(status, code="malformed", detail="what is wrong", field="after"))
    feed = feed_of(script)

    with pytest.raises(error, match="what is wrong"):
        await read(feed)
    assert (feed.ending, script.open) == ("failed", 0)
    assert await read(feed) == []


async def test_a_token_is_asked_for_once_more() -> None:
    tokens = (f"token-{number}" for number in itertools.count())
    script = Script(refuse(401), Say([hello(), ev(1), BREAK]), refuse(401), Say([hello(1), ev(2), END]))

    assert await read(feed_of(script, auth=lambda: next(tokens))) == [1, 2]
    sent = [request.headers["authorization"] for request in script.asked]
    assert sent == ["Bearer token-0", "Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_a_token_that_is_refused_twice_is_an_error_that_does_not_hold_it() -> None:
    async def ask() -> str:
        await anyio.lowlevel.checkpoint()
        return "secret-token"

    script = Script(refuse(401, detail="no"), refuse(401, detail="no"))

    with pytest.raises(AccessError) as caught:
        await read(feed_of(script, auth=ask))
    assert caught.value.status == 401
    assert "secret-token" not in repr(caught.value) + str(caught.value.__context__)
    with pytest.raises(AccessError):
        await read(feed_of(Script(refuse(401)), auth="fixed"))


async def test_losses_are_values_of_their_own() -> None:
    script = Script(
        Say([hello(9, head=9), gap(1, 4, "trimmed", "e-4"), ev(5, 6)]),
        Say([hello(0, epoch="f", head=2), gap(1, 0, "epoch", "f-0"), ev(1, epoch="f")]),
        Say([hello(0, epoch="f"), gap(2, 5, "future", "f-0"), ev(1, 2, epoch="f"), control("end", "f-2")]),
    )

    assert await read(feed_of(script)) == [
        Gap("trimmed", 1, 4, "e-4"), 5, 6, Gap("epoch", 1, 0, "f-0"), 1, Gap("future", 2, 5, "f-0"), 1, 2,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([hello(), ev(1, 3)], id="skipped"),
        pytest.param([hello(1), ev(3)], id="skipped-at-the-start"),
        pytest.param([hello(), ev(1), ev(1, epoch="f")], id="another-epoch"),
        pytest.param([hello(), ev(1, 2), ev(5, first=2)], id="overlapping"),
        pytest.param([hello(), b'data: {"id":"e-1","seq":2,"type":"x"}\n\n'], id="two-numbers"),
        pytest.param([hello(), b"data: {\n\n"], id="no-json"),
        pytest.param([hello(), b"data: " + b"x" * 20_000 + b"\n\n"], id="too-large"),
    ],
)
async def test_a_broken_contract_is_an_error(pieces: list[bytes]) -> None:
    script = Script(Say(pieces))
    feed = feed_of(script)

    with pytest.raises(WireError):
        await read(feed)
    assert (feed.ending, script.open) == ("failed", 0)


async def test_numbers_may_be_skipped_where_not_all_is_wanted_or_shown() -> None:
    filtered = Script(Say([hello() + ev(2, 7), control("position", "e-9"), BREAK]), Say([hello(9), END]))
    hidden = Script(Say([hello(exposure="none") + ev(2, 7), END]))

    assert await read(feed_of(filtered, types="text")) == [2, 7]
    assert filtered.cursors == ["earliest", "e-9"]
    assert await read(feed_of(hidden)) == [2, 7]


async def test_merged_records_stand_for_all_that_they_hold() -> None:
    script = Script(Say([hello(), ev(1), ev(5, first=2), BREAK]), Say([hello(5), ev(6), END]))

    assert await read(feed_of(script, url=f"{URL}?merge=1")) == [1, "2-5", 6]
    assert script.asked[0].url.params["merge"] == "1"


async def test_an_answer_of_204_and_a_deleted_thread_end_it() -> None:
    ended = feed_of(Script(Say([], 204)))
    deleted = feed_of(Script(Say([hello(), ev(1), control("end", "f-0", reason="deleted")])))

    assert (await read(ended), ended.ending) == ([], "ended")
    assert (await read(deleted), deleted.ending) == ([1], "deleted")


async def test_it_gives_up_only_if_told_to(caplog: pytest.LogCaptureFixture) -> None:
    settings = ClientSettings(first_delay=0.01, longest_delay=0.01, give_up_after=0.05)
    script = Script(*[httpx2.ConnectError("refused") for _ in range(100)])

    with caplog.at_level(logging.WARNING), pytest.raises(RemoteConnectionError, match=r"0\.05 s: refused"):
        await read(feed_of(script, settings=settings))
    assert 2 < len(script.asked) < 100


async def test_a_caller_that_is_cancelled_may_go_on_and_misses_nothing() -> None:
    script = Script(Say([hello(), ev(1), HANG]), Say([hello(1), ev(2), END]))
    feed = feed_of(script)

    first = await read(feed, 1)
    with anyio.move_on_after(0.02) as scope:
        await anext(feed)

    assert (first, scope.cancelled_caught) == ([1], True)
    assert await read(feed) == [2]
    assert script.open == 0


async def test_a_feed_that_is_left_lets_go() -> None:
    script = Script(Say([hello(), ev(1), HANG]))

    async with feed_of(script) as feed:
        assert await read(feed, 1) == [1]

    assert (feed.ending, script.open) == ("left", 0)
    assert await read(feed) == []


@pytest.mark.parametrize(
    "url",
    ["http://h/v1/agents/a", "ftp://h/v1/agents/a/threads/t", "h/v1/agents/a/threads/t", f"{URL}?token=x", f"{URL}?after=what",
     "http://user:pass@h/v1/agents/a/threads/t"],
)  # fmt: skip
async def test_an_impossible_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        follow(url)
    assert "pass@" not in str(caught.value)


async def test_an_answer_that_is_no_event_stream_is_an_error() -> None:
    script = Script(Say([b"<html>"], 200, {"content-type": "text/html"}))

    with pytest.raises(WireError, match="text/html"):
        await read(feed_of(script))
