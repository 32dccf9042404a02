"""The SSE stream over ASGI: what its client sees from hello to the last byte."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from agentkit.errors import EngineError
from agentkit.log import EARLIEST, NOW, Cursor, Draft, Topic
from agentkit.sse import ServerSentEvent, SSEDecoder
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub, HubSettings
from agentkit_transports.sse import SSEFeed, open_feed

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


def events(body: bytes) -> list[ServerSentEvent]:
    return SSEDecoder().feed(body)


def control(event: ServerSentEvent) -> tuple[str, Any, str | None]:
    data = json.loads(event.data)
    assert sorted(data) == ["data", "type", "v"]
    assert event.event == ""
    return data["type"], data["data"], event.id


async def feed_of(
    hub: Hub,
    topic: Topic,
    cursor: Cursor = NOW,
    view: View | None = None,
    *,
    given: bool = False,
    over: bool = False,
) -> SSEFeed | None:
    async def has_ended() -> bool:
        return over

    return await open_feed(hub, topic, view or View(), cursor, given=given, has_ended=has_ended)


def running(feed: SSEFeed | None, peer: Any) -> asyncio.Task[None]:
    assert feed is not None
    return asyncio.create_task(feed.run(peer.scope, peer.receive, peer.send))


async def test_a_stream_says_hello_and_then_what_is_appended(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    log.put(make_draft(), make_draft())
    peer = make_peer()
    task = running(await feed_of(hub, topic), peer)
    await settled()

    log.put(make_draft("reasoning", kind="delta", text="hm"))
    await settled()
    peer.leave()
    await task

    hello, record = events(peer.body)
    assert control(hello) == ("stream.hello", {"epoch": "E", "after": 2, "head": 2, "resumed": False}, "E-2")
    assert hello.retry is not None
    assert 1000 <= hello.retry <= 4000
    assert (record.event, record.id) == ("reasoning", "E-3")
    assert json.loads(record.data) == {
        "v": 1,
        "id": "E-3",
        "seq": 3,
        "type": "reasoning",
        "agent": "planner",
        "thread": "t1",
        "run": "r1",
        "data": {"text": "hm", "kind": "delta"},
    }


@pytest.mark.parametrize(
    ("cursor", "wanted"),
    [
        pytest.param(EARLIEST, [("stream.hello", 0, False, "E-0")], id="earliest"),
        pytest.param(Cursor("E", 1), [("stream.hello", 1, True, "E-1")], id="an id"),
        pytest.param(
            Cursor("E", 9),
            [("stream.hello", 3, False, "E-3"), ("stream.gap", 4, 9, "future", "E-3")],
            id="future",
        ),
        pytest.param(
            Cursor("X", 2),
            [("stream.hello", 0, False, "E-0"), ("stream.gap", 0, 0, "epoch", "E-0")],
            id="epoch",
        ),
    ],
)
async def test_the_first_words_tell_the_place_and_the_loss(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_peer: Any,
    settled: Settled,
    cursor: Cursor,
    wanted: list[Any],
) -> None:
    log.put(*[make_draft() for _ in range(3)])
    peer = make_peer()
    task = running(await feed_of(hub, topic, cursor, given=True), peer)
    await settled()
    peer.leave()
    await task

    seen: list[Any] = []
    for event in events(peer.body):
        if event.event == "":
            name, data, event_id = control(event)
            seen.append(
                (name, data["after"], data["resumed"], event_id)
                if name == "stream.hello"
                else (name, data["from"], data["to"], data["reason"], event_id)
            )
    assert seen == wanted
    records = [event.id for event in events(peer.body) if event.event]
    assert records == [f"E-{seq}" for seq in range(int(wanted[-1][-1][2:]) + 1, 4)]


async def test_a_run_feed_ends_with_a_clean_close(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    peer = make_peer()
    task = running(await feed_of(hub, topic, view=View(run="r1")), peer)
    await settled()

    log.put(make_draft(), make_draft("run.finished", terminal=True))
    with anyio.fail_after(20):
        await task

    assert control(events(peer.body)[-1]) == ("stream.end", {}, "E-2")
    assert [one["more_body"] for one in peer.messages][-1] is False
    assert all(one["more_body"] for one in peer.messages[:-1])


@pytest.mark.parametrize(
    ("cursor", "given", "over", "types", "status"),
    [
        pytest.param(Cursor("E", 3), True, True, (), 204, id="at its end"),
        pytest.param(Cursor("E", 5), True, True, (), 204, id="behind its end"),
        pytest.param(NOW, True, True, (), 204, id="now, asked for"),
        pytest.param(Cursor("E", 2), True, True, (), 200, id="before its end"),
        pytest.param(Cursor("E", 2), True, True, ("text",), 204, id="nothing of it is wanted"),
        pytest.param(EARLIEST, True, True, (), 200, id="from the earliest"),
        pytest.param(Cursor("E", 9), True, True, (), 200, id="a gap would follow"),
        pytest.param(Cursor("X", 3), True, True, (), 200, id="another epoch's place"),
        pytest.param(NOW, False, True, (), 200, id="no cursor"),
        pytest.param(Cursor("E", 5), True, False, (), 200, id="still running"),
    ],
)
async def test_204_if_and_only_if_nothing_would_follow(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    cursor: Cursor,
    given: bool,
    over: bool,
    types: tuple[str, ...],
    status: int,
) -> None:
    log.put(
        make_draft(),
        make_draft(),
        make_draft("run.finished", terminal=True),
        make_draft(run="r2"),
        make_draft(run="r2"),
    )

    feed = await feed_of(hub, topic, cursor, View(run="r1", types=types), given=given, over=over)

    assert (200 if feed else 204) == status


async def test_a_feed_without_cursor_of_a_run_that_is_over_ends_at_once(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any
) -> None:
    log.put(make_draft(), make_draft("run.finished", terminal=True))
    peer = make_peer()

    with anyio.fail_after(20):
        await running(await feed_of(hub, topic, view=View(run="r1"), over=True), peer)

    assert [control(event)[0] for event in events(peer.body)] == ["stream.hello", "stream.end"]


async def test_a_run_that_ends_between_asking_and_reading_is_not_missed(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any
) -> None:
    async def has_ended() -> bool:
        log.put(make_draft("run.finished", terminal=True))
        return False

    feed = await open_feed(hub, topic, View(run="r1"), NOW, given=False, has_ended=has_ended)
    peer = make_peer()
    with anyio.fail_after(20):
        await running(feed, peer)

    assert [event.id for event in events(peer.body)] == ["E-0", "E-1", "E-1"]


async def test_a_feed_that_is_never_run_holds_nothing(hub: Hub, topic: Topic) -> None:
    for _ in range(50):
        await feed_of(hub, topic)

    assert hub.is_idle


@pytest.mark.parametrize("when", ["before anything", "while it waits", "while it replays"])
async def test_a_client_that_leaves_leaves_nothing_behind(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled, when: str
) -> None:
    log.put(*[make_draft() for _ in range(1000)])
    peer = make_peer()
    task = running(await feed_of(hub, topic, NOW if when == "while it waits" else EARLIEST), peer)
    if when == "while it waits":
        await settled()
    elif when == "while it replays":
        await peer.until(lambda: len(peer.messages) > 1)

    peer.leave()
    with anyio.fail_after(20):
        await task

    assert len(peer.messages) < 10
    assert hub.is_idle


@pytest.mark.parametrize("turns", range(5))
async def test_a_drain_beside_a_runs_end_lets_the_feed_say_which(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled, turns: int
) -> None:
    peer = make_peer()
    task = running(await feed_of(hub, topic, view=View(run="r1")), peer)
    await settled()

    log.put(make_draft(), make_draft("run.finished", terminal=True))
    for _ in range(turns):
        await asyncio.sleep(0)
    with anyio.fail_after(20):
        assert await hub.drain() == 0
        await task

    names = [control(event)[0] for event in events(peer.body) if not event.event]
    assert names[1:] in (["stream.end"], ["stream.closing"])
    assert peer.messages[-1]["more_body"] is False


async def test_a_drain_closes_cleanly_and_says_when_to_come_back(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    peers = [make_peer() for _ in range(5)]
    tasks = [running(await feed_of(hub, topic), peer) for peer in peers]
    await settled()

    with anyio.fail_after(20):
        assert await hub.drain() == 0
        await asyncio.gather(*tasks)

    for peer in peers:
        closing = events(peer.body)[-1]
        name, data, event_id = control(closing)
        assert (name, event_id) == ("stream.closing", None)
        assert 1000 <= data["retry_ms"] <= 4000
        assert closing.retry == data["retry_ms"]
        assert peer.messages[-1]["more_body"] is False
    assert len({events(peer.body)[-1].retry for peer in peers}) > 1


async def test_a_protocol_without_a_farewell_breaks_its_connections(
    hub: Hub, topic: Topic, make_peer: Any, settled: Settled
) -> None:
    peer = make_peer()
    task = running(await feed_of(hub, topic, NOW, View("ai_sdk", run="r1")), peer)
    await settled()

    with anyio.fail_after(20):
        assert await hub.drain() == 0
        await task

    assert peer.aborted
    assert all(message.get("more_body", True) for message in peer.messages)


async def test_a_stream_opened_while_draining_is_sent_away(hub: Hub, topic: Topic, make_peer: Any) -> None:
    await hub.drain()
    peer = make_peer()

    with anyio.fail_after(20):
        await running(await feed_of(hub, topic), peer)

    assert [control(event)[0] for event in events(peer.body)] == ["stream.hello", "stream.closing"]
    assert peer.messages[-1]["more_body"] is False


async def test_a_stuck_client_is_cut_and_does_not_hold_a_drain(
    log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    hub = Hub(log, settings=HubSettings(send_timeout=30.0))
    stuck, good = make_peer(), make_peer()
    tasks = [running(await feed_of(hub, topic), peer) for peer in (stuck, good)]
    await settled()
    stuck.is_stuck = True
    log.put(make_draft())
    await settled()

    with anyio.fail_after(20):
        assert await hub.drain(grace=0.05) == 1
        await asyncio.gather(*tasks)

    assert (stuck.aborted, good.aborted) == (True, False)
    assert hub.is_idle


@pytest.mark.parametrize("has_abort", [True, False], ids=["abort", "no abort"])
async def test_a_client_that_takes_nothing_is_cut(
    log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled, has_abort: bool
) -> None:
    hub = Hub(log, settings=HubSettings(send_timeout=0.05))
    peer = make_peer()
    if not has_abort:
        peer.scope["extensions"] = {}
    task = running(await feed_of(hub, topic), peer)
    await settled()
    peer.is_stuck = True

    log.put(make_draft())
    with anyio.fail_after(20):
        await task

    assert peer.aborted is has_abort
    assert all(one["more_body"] for one in peer.messages)
    assert (hub.is_idle, hub.stats.cuts) == (True, 1)


async def test_a_log_that_fails_closes_the_stream_and_the_client_comes_back(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any
) -> None:
    log.ring = 2
    log.put(*[make_draft() for _ in range(10)])
    feed = await feed_of(hub, topic, Cursor("E", 3), given=True)
    log.error = EngineError("no disk")
    peer = make_peer()

    with anyio.fail_after(20):
        await running(feed, peer)

    assert [control(event)[0] for event in events(peer.body)] == ["stream.hello", "stream.closing"]


async def test_a_cancelled_stream_does_not_end_its_body(
    hub: Hub, topic: Topic, make_peer: Any, settled: Settled
) -> None:
    peer = make_peer()
    task = running(await feed_of(hub, topic), peer)
    await settled()

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()
    assert all(one["more_body"] for one in peer.messages)
    assert hub.is_idle


async def test_a_client_that_is_gone_in_the_middle_of_a_send_ends_the_stream(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    peer = make_peer()

    async def send(message: Any) -> None:
        if len(peer.messages) > 0:
            raise ConnectionResetError("gone")
        await peer.send(message)

    feed = await feed_of(hub, topic)
    assert feed is not None
    task = asyncio.create_task(feed.run(peer.scope, peer.receive, send))
    await settled()
    log.put(make_draft())

    with anyio.fail_after(20):
        await task

    assert hub.is_idle


async def test_the_last_piece_comes_after_a_send_that_was_under_way(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_peer: Any, settled: Settled
) -> None:
    peer = make_peer()

    async def send(message: Any) -> None:
        if b"text.delta" in message["body"]:
            try:
                await asyncio.get_running_loop().create_future()
            finally:  # a server that has begun to write does not stop in the middle
                peer.messages.append(dict(message))
        await peer.send(message)

    feed = await feed_of(hub, topic)
    assert feed is not None
    task = asyncio.create_task(feed.run(peer.scope, peer.receive, send))
    await settled()
    log.put(make_draft())
    await settled()

    with anyio.fail_after(20):
        await hub.drain()
        await task

    assert [one["more_body"] for one in peer.messages] == [True, True, False]
    assert b"stream.closing" in peer.messages[-1]["body"]


async def test_signs_of_life_are_comments(log: Any, topic: Topic, make_peer: Any) -> None:
    hub = Hub(log, settings=HubSettings(heartbeat=0.03))
    peer = make_peer()
    task = running(await feed_of(hub, topic), peer)

    with anyio.fail_after(20):
        await peer.until(lambda: peer.body.endswith(b"\n:\n\n:\n\n"))
    peer.leave()
    await task

    assert len(events(peer.body)) == 1
