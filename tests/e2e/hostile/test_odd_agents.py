"""Part E of the threats, on a server in a process of its own: tools that stand still, loops without end, callbacks that raise, and
who is not alone with a run. See `lines`."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets
from e2e.hostile.undisturbed import SECONDS, ask, is_well, odd_server, undisturbed
from e2e.peers import Follower, Raw, start_run
from e2e.servers import Process

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `napper` is woken."""
    return tmp_path_factory.mktemp("odd")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Process]:
    """One server for this file."""
    with odd_server(folder) as one:
        yield one


@pytest.fixture
def server(shared: Process, folder: Path) -> Iterator[Process]:
    """The server; nothing is left of an attack, once all who slept are awake."""
    (folder / "wake").unlink(missing_ok=True)
    with undisturbed(shared):
        yield shared
        (folder / "wake").touch()


def records(server: Process, agent: str, thread: str, run: str) -> list[dict[str, Any]]:
    """Return the records of a run, up to its end."""
    url = f"http://127.0.0.1:{server.port}/v1/agents/{agent}/threads/{thread}/events?run={run}&after=earliest"
    return asyncio.run(asyncio.wait_for(Follower(url).follow(), SECONDS)).records


def status(server: Process, path: str) -> str:
    word: str = ask(server, "GET", path).json()["status"]
    return word


async def test_50_a_function_that_stands_still_holds_nobody_else(server: Process, folder: Path) -> None:
    path = "/v1/agents/napper/threads/nap/runs"
    run = await start_run(f"http://127.0.0.1:{server.port}", "napper", "nap")
    with Raw(server.port) as idle:
        idle.get("/v1/agents/quick/threads/idle/events")
        idle.read_until(b"stream.hello")
        assert is_well(server)
        for _ in range(3):
            idle.read_until(b"\n:")  # signs of life go on
        meanwhile = status(server, f"{path}/{run}")
    (folder / "wake").touch()
    after = await asyncio.to_thread(records, server, "napper", "nap", run)

    assert meanwhile == "running"
    assert after[-1]["type"] == "run.finished"


async def test_87_a_function_that_cannot_be_stopped_does_not_hold_the_end_of_its_run(server: Process) -> None:
    path = "/v1/agents/napper/threads/stop/runs"
    run = await start_run(f"http://127.0.0.1:{server.port}", "napper", "stop")
    watch = Follower(f"http://127.0.0.1:{server.port}/v1/agents/napper/threads/stop/events?after=earliest")
    await asyncio.wait_for(watch.follow(until="tool_call.started"), SECONDS)

    assert ask(server, "POST", f"{path}/{run}/cancel").status_code in (200, 202)
    ended = await asyncio.to_thread(records, server, "napper", "stop", run)

    assert [one["type"] for one in ended if one["type"].startswith("run.")] == [
        "run.started",
        "run.cancelled",
    ]


async def test_86_of_many_who_cancel_at_once_and_again_one_end_comes(server: Process) -> None:
    url = f"http://127.0.0.1:{server.port}"
    for number in range(4):  # before it has begun, and later
        thread = f"race-{number}"
        run = await start_run(url, "held", thread)
        if number % 2:
            feed = f"{url}/v1/agents/held/threads/{thread}/events?after=earliest"
            await asyncio.wait_for(Follower(feed).follow(until="reasoning"), SECONDS)
        path = f"/v1/agents/held/threads/{thread}/runs/{run}/cancel"
        async with (
            httpx2.AsyncClient(base_url=url, trust_env=False, timeout=SECONDS) as http,
            websockets.connect(
                f"ws://127.0.0.1:{server.port}/v1/ws",
                subprotocols=[websockets.Subprotocol("agentkit.v1")],
                proxy=None,
            ) as link,
        ):
            asked = asyncio.gather(*(http.post(path) for _ in range(10)))
            for rid in range(10):
                frame = {"op": "cancel", "rid": str(rid), "agent": "held", "thread": thread, "run": run}
                await link.send(json.dumps(frame))
            answers = await asked
            heard = [json.loads(await asyncio.wait_for(link.recv(), SECONDS))["op"] for _ in range(10)]
        ended = await asyncio.to_thread(records, server, "held", thread, run)
        again = ask(server, "POST", path)

        assert {one.status_code for one in (*answers, again)} <= {200, 202}
        assert heard == ["ok"] * 10
        assert [one["type"] for one in ended if one["type"].startswith("run.")][1:] == ["run.cancelled"]
        assert ended[-1]["type"] == "run.cancelled"


async def test_90_a_model_that_never_stops_to_call_is_stopped(server: Process) -> None:
    run = await start_run(f"http://127.0.0.1:{server.port}", "endless", "loop")
    ended = await asyncio.to_thread(records, server, "endless", "loop", run)

    assert (ended[-1]["type"], ended[-1]["data"]["code"]) == ("run.failed", "limit")
    assert [one["type"] for one in ended].count(
        "run.finished"
    ) == 0  # what a tool's result looks like is no event


async def test_92_a_callback_that_raises_each_time_costs_no_record(server: Process, folder: Path) -> None:
    run = await start_run(f"http://127.0.0.1:{server.port}", "noisy", "raise")
    ended = await asyncio.to_thread(records, server, "noisy", "raise", run)

    assert ended[-1]["type"] == "run.finished"
    assert [one["seq"] for one in ended] == list(range(1, len(ended) + 1))
    assert "this callback never works" in (folder / "log").read_text()
