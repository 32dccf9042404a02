"""Feeds over SSE: where they begin, what they hold, how they end."""

import json
from typing import Any

import anyio
import pytest
from asgi import client, get

from agentkit.envelope import draft_all
from agentkit.events import TextDelta
from agentkit_server import Application

pytestmark = pytest.mark.anyio

THREAD = "/v1/agents/planner/threads/t1"
HELD = "/v1/agents/held/threads/t1"


async def run_to_end(app: Application, thread: str = THREAD) -> str:
    async with client(app) as http:
        run: str = (await http.post(f"{thread}/runs", json={"input": "hello"})).json()["run"]
        await http.get(f"{thread}/runs/{run}?wait=5")
    return run


async def start(app: Application, thread: str) -> str:
    async with client(app) as http:
        run: str = (await http.post(f"{thread}/runs", json={"input": "hello"})).json()["run"]
    return run


async def test_a_thread_that_was_never_used_is_a_feed_that_waits(app: Application) -> None:
    async with get(app, f"{THREAD}/events") as feed:
        hello = json.loads((await feed.next()).data)
        await run_to_end(app)
        events = await feed.until("run.finished")

    assert (feed.status, hello["data"]["head"]) == (200, 0)
    assert [event["seq"] for event in events] == list(range(1, 13))


async def test_the_headers_are_those_of_a_stream(app: Application) -> None:
    async with get(app, f"{THREAD}/events") as feed:
        await feed.begun()

    wanted = ("content-type", "cache-control", "x-accel-buffering")
    assert [feed.headers[name] for name in wanted] == ["text/event-stream; charset=utf-8", "no-store", "no"]


async def test_frames_are_named_and_reasoning_is_one_name(app: Application) -> None:
    await run_to_end(app)
    async with get(app, f"{THREAD}/events?types=reasoning&after=earliest") as feed:
        await feed.next()
        frames = [await feed.next() for _ in range(5)]

    assert [frame.event for frame in frames] == [
        "reasoning_block.started", "reasoning", "reasoning", "reasoning", "reasoning_block.finished",
    ]  # fmt: skip
    data = [json.loads(frame.data) for frame in frames]
    assert data[1]["data"] == {"kind": "delta", "provider": "scripted", "text": "first ", "data": {}}
    assert data[3]["data"] == {"kind": "signature", "provider": "scripted", "data": {"bytes": 24}}
    assert [frame.id for frame in frames] == [one["id"] for one in data]


async def test_the_header_wins_over_the_query(app: Application) -> None:
    await run_to_end(app)
    async with get(app, f"{THREAD}/events?after=earliest") as feed:
        events = await feed.until("run.finished")
    place = events[5]

    async with get(app, f"{THREAD}/events?after=earliest", {"last-event-id": place["id"]}) as again:
        rest = await again.until("run.finished")

    assert rest[0]["data"]["resumed"] is True
    assert rest[1:] == events[6:]


async def test_a_feed_begins_now_unless_told(app: Application) -> None:
    await run_to_end(app)
    async with get(app, f"{THREAD}/events") as feed:
        hello = json.loads((await feed.next()).data)

    assert (hello["data"]["after"], hello["data"]["head"]) == (12, 12)


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("types=text", ["text.started", "text.delta", "text.finished"]),
        ("types=run,image", ["run.started", "run.finished"]),
        (
            "kinds=signature&types=reasoning",
            ["reasoning_block.started", "reasoning", "reasoning_block.finished"],
        ),
    ],
)
async def test_filters_choose_types_and_kinds(app: Application, query: str, types: list[str]) -> None:
    run = await run_to_end(app)
    async with get(app, f"{THREAD}/events?run={run}&after=earliest&{query}") as feed:
        events = await feed.until("stream.end")

    assert [event["type"] for event in events if not event["type"].startswith("stream.")] == types


async def test_frames_without_names_all_reach_onmessage(app: Application) -> None:
    await run_to_end(app)
    async with get(app, f"{THREAD}/events?after=earliest&named=0") as feed:
        frames = [await feed.next() for _ in range(13)]

    assert {frame.event for frame in frames} == {""}


async def test_the_feed_of_a_run_ends_with_it(app: Application, gate: anyio.Event) -> None:
    run = await start(app, HELD)
    async with get(app, f"{HELD}/events?run={run}&after=earliest") as feed:
        await feed.until("reasoning")
        gate.set()
        events = await feed.until("stream.end")
        await feed.finished()

    assert events[-2]["type"] == "run.finished"


async def test_the_feed_of_a_run_that_is_over_says_so_to_who_came_late(app: Application) -> None:
    run = await run_to_end(app)
    async with get(app, f"{THREAD}/events?run={run}") as feed:
        events = await feed.until("stream.end")
        await feed.finished()

    assert [event["type"] for event in events] == ["stream.hello", "stream.end"]


async def test_204_if_and_only_if_a_cursor_was_given_and_nothing_follows(app: Application) -> None:
    run = await run_to_end(app)
    async with get(app, f"{THREAD}/events?run={run}&after=earliest") as feed:
        events = await feed.until("stream.end")
    last, before = events[-2]["id"], events[-3]["id"]

    async with client(app) as http:
        over = await http.get(f"{THREAD}/events?run={run}", headers={"last-event-id": last})
        rest = await http.get(f"{THREAD}/events?run={run}", headers={"last-event-id": before})

    assert (over.status_code, over.content) == (204, b"")
    assert rest.status_code == 200
    assert "run.finished" in rest.text


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        pytest.param("old-7", "epoch", id="another epoch"),
        pytest.param("{epoch}-99", "future", id="the future"),
    ],
)
async def test_a_cursor_that_is_no_longer_good_is_a_gap_not_an_error(
    app: Application, cursor: str, reason: str
) -> None:
    await run_to_end(app)
    async with get(app, f"{THREAD}/events") as feed:
        epoch = json.loads((await feed.next()).data)["data"]["epoch"]

    async with get(app, f"{THREAD}/events", {"last-event-id": cursor.format(epoch=epoch)}) as feed:
        events = await feed.until("stream.gap")

    assert events[0]["data"]["resumed"] is False
    assert events[1]["data"]["reason"] == reason


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        pytest.param("after=5", {}, "after", id="no epoch"),
        pytest.param("after=E-1e3", {}, "after", id="an exponent"),
        pytest.param("after=E-99999999999999999", {}, "after", id="too many digits"),
        pytest.param("after=E--1", {}, "after", id="a sign"),
        pytest.param("after=now&after=earliest", {}, "after", id="twice"),
        pytest.param("", {"last-event-id": "x" * 10_000}, "last-event-id", id="a long id"),
        pytest.param("", {"last-event-id": "\xff-1"}, "last-event-id", id="not ASCII"),
        pytest.param("types=Text", {}, "types", id="no type"),
        pytest.param("types=" + ",".join(f"a{n}" for n in range(33)), {}, "types", id="33 types"),
        pytest.param("kinds=thought", {}, "kinds", id="no kind"),
        pytest.param("run=a%0Ab", {}, "run", id="a line break in a run"),
        pytest.param("named=yes", {}, "named", id="no bit"),
        pytest.param("merge=2", {}, "merge", id="no bit of merge"),
    ],
)
async def test_what_cannot_be_read_is_a_400_before_the_stream(
    app: Application, query: str, headers: dict[str, str], field: str
) -> None:
    async with get(app, f"{THREAD}/events?{query}", headers) as feed:
        await feed.finished()

    assert (feed.status, feed.json()["field"]) == (400, field)
    assert feed.headers["content-type"] == "application/problem+json"


async def test_a_long_log_comes_in_few_frames_for_who_asks(app: Application) -> None:
    topic = app.service.topic("planner", "t1")
    words = [f"{n} " for n in range(2000)]
    events = [TextDelta("r", 1, 1.5e9, "r.1.0", word) for word in words]
    await app.service.engine.log.append(topic, draft_all(topic, events))
    async with get(app, f"{THREAD}/events?after=earliest&merge=1") as feed:
        await feed.next()
        merged = [json.loads((await feed.next()).data) for _ in range(2)]
    async with get(app, f"{THREAD}/events?merge=1", {"last-event-id": merged[0]["id"]}) as feed:
        await feed.next()
        again = json.loads((await feed.next()).data)

    assert [(one["first"], one["seq"]) for one in merged] == [(1, 1024), (1025, 2000)]
    assert "".join(one["data"]["text"] for one in merged) == "".join(words)
    assert again == merged[1]


async def test_head_answers_like_get_and_subscribes_to_nothing(app: Application) -> None:
    for _ in range(50):
        async with get(app, f"{THREAD}/events", method="HEAD") as feed:
            await feed.finished()
            assert (feed.status, feed.body) == (200, b"")
            assert feed.headers["content-type"].startswith("text/event-stream")

    assert app.service.hub.is_idle


async def test_clients_that_leave_leave_nothing_behind(app: Application, gate: anyio.Event) -> None:
    run = await start(app, HELD)
    for target in ("events", f"events?run={run}&after=earliest", "events?types=text", "events?after=old-7"):
        async with get(app, f"{HELD}/{target}") as feed:
            await feed.next()
    gate.set()

    assert app.service.hub.is_idle


@pytest.mark.parametrize(
    ("exposure", "kinds"), [("summary", set()), ("none", set()), ("full", {"delta", "signature"})]
)
async def test_the_operator_decides_how_much_reasoning_goes_out(
    app: Application, exposure: Any, kinds: set[str]
) -> None:
    app.service.settings = app.service.settings.model_copy(update={"exposure": exposure})
    run = await run_to_end(app)
    async with get(app, f"{THREAD}/events?run={run}&after=earliest") as feed:
        events = await feed.until("stream.end")

    assert {event["data"]["kind"] for event in events if event["type"] == "reasoning"} == kinds
