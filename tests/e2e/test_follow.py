"""`follow` against a real server: over links that cut, stall and reset, over a restart, beside others."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from e2e import servers
from e2e.links import Link
from e2e.peers import start_run
from e2e.servers import Running, process, running, until

from agentkit.errors import ConfigurationError, RemoteError, WireError
from agentkit_transports.clients import ClientSettings, Envelope, Feed, Gap, Transport, connect_agent, follow

QUICK = ClientSettings(first_delay=0.005, longest_delay=0.05, connect_timeout=2, idle_timeout=2)
BOTH: list[Transport] = ["sse", "websocket"]

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One server for this file; each test has a thread of its own."""
    with running() as one:
        yield one


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    """A thread of the test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]


def url_of(base: str, thread: str, agent: str = "quick") -> str:
    return f"{base}/v1/agents/{agent}/threads/{thread}"


async def read(feed: Feed, until: str = "", seconds: float = 20) -> list[dict[str, Any] | Gap]:
    """Return what comes to the feed's end, or to a type."""
    out: list[dict[str, Any] | Gap] = []
    async with asyncio.timeout(seconds), feed:
        async for item in feed:
            out.append(item if isinstance(item, Gap) else dict(item.members))
            if isinstance(item, Envelope) and item.type == until:
                break
    return out


async def whole(server: Running, thread: str, run: str, agent: str = "quick") -> list[dict[str, Any] | Gap]:
    return await read(follow(url_of(server.url, thread, agent), after="earliest", run=run, settings=QUICK))


@pytest.mark.parametrize("transport", BOTH)
async def test_a_run_is_followed_to_its_end(server: Running, thread: str, transport: Transport) -> None:
    feed = follow(url_of(server.url, thread), after="earliest", transport=transport, settings=QUICK)
    following = asyncio.create_task(read(feed, "run.finished"))
    run = await start_run(server.url, "quick", thread)

    live = await following

    assert [item["seq"] for item in live if isinstance(item, dict)] == list(range(1, len(live) + 1))
    again = follow(url_of(server.url, thread), after="earliest", run=run, transport=transport, settings=QUICK)
    assert await read(again) == live
    assert again.ending == "ended"


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_run_is_followed_on_trio_too(server: Running, thread: str) -> None:
    run = await start_run(server.url, "quick", thread)
    url = url_of(server.url, thread)
    seen: list[int] = []

    with anyio.fail_after(20):
        async with follow(url, after="earliest", run=run, settings=QUICK) as feed:
            seen = [item.seq async for item in feed if isinstance(item, Envelope)]
        with pytest.raises(ConfigurationError, match="asyncio"):
            await anext(follow(url, transport="websocket"))
        agent = connect_agent(f"{server.url}/v1/agents/quick", settings=QUICK)
        assert await agent.chat("hello", thread=f"{thread}2"[-100:]) == "and here it is"

    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.faults
@pytest.mark.parametrize("transport", BOTH)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 20))])
async def test_a_link_that_cuts_stalls_and_resets_loses_and_doubles_nothing(
    server: Running, thread: str, transport: Transport, seed: int
) -> None:
    rng = random.Random(seed)
    async with Link(server.port, rng=rng, faults=12, most=3000).open() as link:
        run = await start_run(server.url, "quick", thread)
        feed = follow(
            url_of(link.url, thread), after="earliest", run=run, transport=transport, settings=QUICK
        )
        broken = await read(feed)

    assert link.cuts >= 3
    assert broken == await whole(server, thread, run)


@pytest.mark.faults
@pytest.mark.parametrize("transport", BOTH)
async def test_a_link_that_is_silent_is_given_up(server: Running, thread: str, transport: Transport) -> None:
    settings = ClientSettings(first_delay=0.005, longest_delay=0.05, idle_timeout=0.6)
    async with Link(server.port, rng=random.Random(0), stall_after=2500).open() as link:
        run = await start_run(server.url, "quick", thread)
        feed = follow(
            url_of(link.url, thread), after="earliest", run=run, transport=transport, settings=settings
        )
        broken = await read(feed)

    assert feed.connections > 1
    assert broken == await whole(server, thread, run)


FULL = pytest.mark.full


@pytest.mark.faults
@pytest.mark.parametrize(
    ("kept", "transport"),
    [
        pytest.param(True, "sse", id="file-sse"),
        pytest.param(False, "websocket", id="memory-websocket", marks=FULL),
        pytest.param(True, "websocket", id="file-websocket", marks=FULL),
        pytest.param(False, "sse", id="memory-sse", marks=FULL),
    ],
)
async def test_a_restart_goes_on_where_the_log_is_kept_and_is_told_where_not(
    tmp_path: Path, transport: Transport, kept: bool
) -> None:
    env = {"AGENTKIT_ENGINE": f"sqlite:///{tmp_path}/log.db?lease=1" if kept else "memory://"}
    with process(servers.__file__, env=env) as first:
        async with Link(first.port).open() as link, asyncio.timeout(50):
            address = url_of(link.url, "t")
            async with follow(address, after="earliest", transport=transport, settings=QUICK) as feed:
                await start_run(link.url, "quick", "t")
                before = await until_end(feed)
                await asyncio.to_thread(first.kill)
                with process(servers.__file__, env=env) as second:
                    link.target = second.port
                    # The killed process may have kept the thread's lease: wait until it has run out.
                    agent = connect_agent(f"{link.url}/v1/agents/quick", settings=QUICK)
                    await agent.start("hello", thread="t", on_busy="queue")
                    after = await until_end(feed)

    numbers = [item.seq for item in (*before, *after) if isinstance(item, Envelope)]
    gaps = [item for item in (*before, *after) if isinstance(item, Gap)]
    count = len(before)
    if kept:
        assert (numbers, gaps) == (list(range(1, numbers[-1] + 1)), [])
    else:
        assert [gap.reason for gap in gaps] == ["epoch"]
        assert numbers == [*range(1, count + 1), *range(1, len(after))]


async def until_end(feed: Feed) -> list[Envelope | Gap]:
    """Return what comes up to the end of a run."""
    out: list[Envelope | Gap] = []
    while not out or not isinstance(out[-1], Envelope) or out[-1].type != "run.finished":
        out.append(await anext(feed))
    return out


def covered(items: list[dict[str, Any] | Gap]) -> list[int]:
    """The numbers that came or were told lost."""
    return [
        seq
        for item in items
        for seq in (range(item.first, item.last + 1) if isinstance(item, Gap) else [item["seq"]])
    ]


@pytest.mark.parametrize("transport", BOTH)
async def test_a_slow_reader_is_cut_comes_back_and_is_told_what_it_has_lost(
    server: Running, thread: str, transport: Transport
) -> None:
    run = await start_run(server.url, "flood", thread)
    address = url_of(server.url, thread, "flood")
    slow = follow(address, after="earliest", run=run, transport=transport, settings=QUICK)
    cuts = server.app.service.hub.stats.cuts
    seen: list[dict[str, Any] | Gap] = []
    async with slow:
        async with asyncio.timeout(10):
            await anext(slow)
            seen.append({"seq": 1})
        quick = follow(address, after="earliest", run=run, transport=transport, settings=QUICK)
        fast = await read(quick)
        await asyncio.to_thread(until, lambda: server.app.service.hub.stats.cuts > cuts)
        seen += await read(slow)

    assert covered(seen) == covered(fast) == list(range(1, len(covered(fast)) + 1))
    assert slow.connections > 1
    records = {item["seq"]: item for item in fast if isinstance(item, dict)}
    assert [
        item for item in seen[1:] if isinstance(item, dict) and item != records.get(item["seq"], item)
    ] == []


@pytest.mark.parametrize("transport", BOTH)
async def test_an_event_that_is_too_large_is_an_error(
    server: Running, thread: str, transport: Transport
) -> None:
    run = await start_run(server.url, "flood", thread)
    settings = ClientSettings(max_event_size=4096)

    with pytest.raises(WireError):
        await read(
            follow(url_of(server.url, thread, "flood"), after="earliest", run=run, transport=transport, settings=settings)
        )  # fmt: skip


@pytest.mark.parametrize("transport", BOTH)
async def test_what_does_not_exist_is_an_error(server: Running, transport: Transport) -> None:
    with pytest.raises(RemoteError) as caught:
        await read(follow(url_of(server.url, "t", "nobody"), transport=transport, settings=QUICK))
    assert caught.value.status == 404
