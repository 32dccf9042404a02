"""`--workers 2`: several processes behind one port, over SQLite and Redis. Whom a request reaches is chosen by stopping the other."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from e2e.peers import Follower, start_run
from e2e.servers import Process, process, until
from redis_server import PROGRAM, RedisServer

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.anyio,
    pytest.mark.timeout(180),  # three processes have to begin, each of which imports all there is
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

LEASE = 1.5


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("redis", marks=pytest.mark.full)])
def engine(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    require: Callable[[str, bool, str], None],
) -> Iterator[str]:
    """An engine's URL."""
    folder = tmp_path_factory.mktemp("engine")
    if request.param == "sqlite":
        yield f"sqlite:///{folder / 'log.db'}?lease={LEASE}"
        return
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    server = RedisServer(folder)
    yield f"{server.url}?lease={LEASE}"
    server.kill()


class Cluster:
    """A server of two workers."""

    def __init__(self, parent: Process) -> None:
        self.parent = parent
        self.url = f"http://127.0.0.1:{parent.port}"

    @property
    def workers(self) -> list[int]:
        """The pids of those that serve."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                if (
                    int(after_name[1]) == self.parent.process.pid
                    and after_name[0] != "Z"
                    and self.serves(int(entry.name))
                ):
                    found.append(int(entry.name))
        return sorted(found)

    def serves(self, pid: int) -> bool:
        """Tell whether a worker has begun: it waits for connections with an event loop of its own."""
        links = [os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()]
        return any("eventpoll" in link for link in links)

    @contextlib.contextmanager
    def only(self, worker: int) -> Iterator[None]:
        """Let one worker alone take new connections."""
        others = [pid for pid in self.workers if pid != worker]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    async def post(self, path: str, body: Any = None) -> httpx2.Response:
        async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
            return await http.post(f"{self.url}{path}", json=body if body is not None else {})

    async def delete(self, path: str) -> httpx2.Response:
        async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
            return await http.delete(f"{self.url}{path}")


@contextlib.contextmanager
def two_workers(engine: str, drain: str = "0.3") -> Iterator[Cluster]:
    """Serve from two workers; both have begun."""
    arguments = ("-m", "agentkit_server", "--port", "0", "--workers", "2", "--engine", engine)
    env = {"AGENTKIT_DRAIN_TIMEOUT": drain, "AGENTKIT_FAREWELL_TIMEOUT": "1", "LOCAL": "0"}
    with process(*arguments, env=env) as parent:
        made = Cluster(parent)
        until(lambda: len(made.workers) == 2, 60)
        yield made


@pytest.fixture(scope="module")
def shared(engine: str) -> Iterator[Cluster]:
    """Workers for tests that leave two of them."""
    with two_workers(engine) as made:
        yield made


@pytest.fixture
def cluster(engine: str) -> Iterator[Cluster]:
    """Workers of one test's own."""
    with two_workers(engine) as made:
        yield made


@contextlib.asynccontextmanager
async def following(url: str, **more: Any) -> AsyncIterator[Follower]:
    """Follow a feed; it has been greeted."""
    follower = Follower(url, **more)
    task = asyncio.create_task(follower.follow(until="nothing"))
    try:
        await asyncio.to_thread(until, lambda: bool(follower.events))
        yield follower
        async with asyncio.timeout(15):
            await task
    finally:
        task.cancel()


def has_named(follower: Follower, name: str) -> bool:
    return name in follower.named


def are_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def types(follower: Follower) -> list[str]:
    return [event["type"] for event in follower.events]


async def test_a_reader_of_one_worker_follows_a_run_of_the_other_and_has_a_say_in_it(
    shared: Cluster,
) -> None:
    first, second = shared.workers
    thread = "/v1/agents/scripted/threads/t1"
    with shared.only(first):
        reading = following(f"{shared.url}{thread}/events?after=earliest")
        follower = await reading.__aenter__()
        assert types(follower) == ["stream.hello"]
    with shared.only(second):
        run = await start_run(shared.url, "scripted", "t1")
    await asyncio.to_thread(until, lambda: "reasoning" in follower.named)

    with shared.only(first):
        steered = await shared.post(f"{thread}/runs/{run}/steer", {"input": "and then?"})
    await asyncio.to_thread(until, lambda: "run.steered" in follower.named, 15)
    with shared.only(first):
        cancelled = await shared.post(f"{thread}/runs/{run}/cancel", {"reason": "enough"})
    await asyncio.to_thread(until, lambda: "run.cancelled" in follower.named)
    with shared.only(second):
        deleted = await shared.delete(thread)
    await reading.__aexit__(None, None, None)

    assert [one.status_code for one in (steered, cancelled, deleted)] == [202, 202, 204]
    assert follower.events[-2]["data"]["reason"] == "enough"
    assert follower.events[-1]["data"] == {"reason": "deleted"}
    assert follower.ended_cleanly
    seqs = [event["seq"] for event in follower.events if "seq" in event]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_a_call_is_approved_at_the_other_worker(shared: Cluster) -> None:
    first, second = shared.workers
    thread = "/v1/agents/approval/threads/t1"
    async with following(f"{shared.url}{thread}/events?after=earliest") as follower:
        with shared.only(second):
            run = await start_run(shared.url, "approval", "t1")
        await asyncio.to_thread(until, lambda: "tool_approval.requested" in follower.named)
        asked = next(one for one in follower.events if one["type"] == "tool_approval.requested")
        with shared.only(first):
            path = f"{thread}/runs/{run}/approvals/{asked['data']['approval']}"
            answer = await shared.post(path, {"approved": True})
        await asyncio.to_thread(until, lambda: "run.finished" in follower.named, 15)
        await shared.delete(thread)

    assert answer.status_code == 202
    resolved = next(one for one in follower.events if one["type"] == "tool_approval.resolved")
    assert resolved["data"]["approved"] is True


async def test_a_worker_that_was_killed_is_replaced_and_its_run_has_failed_once(shared: Cluster) -> None:
    first, second = shared.workers
    thread = "/v1/agents/scripted/threads/t1"
    with shared.only(first):
        reading = following(f"{shared.url}{thread}/events?after=earliest")
        follower = await reading.__aenter__()
    with shared.only(second):
        run = await start_run(shared.url, "scripted", "t1")
    await asyncio.to_thread(until, lambda: "reasoning" in follower.named)

    os.kill(second, signal.SIGKILL)
    await asyncio.to_thread(until, lambda: "run.failed" in follower.named, 4 * LEASE + 5)
    await asyncio.to_thread(until, lambda: len(shared.workers) == 2, 30)
    (fresh,) = set(shared.workers) - {first}
    with shared.only(fresh):
        chat = await shared.post(f"{thread}/chat", {"message": "hello"})
    await anyio.sleep(LEASE)  # whoever would tell it twice has had the time
    await shared.delete(thread)
    await reading.__aexit__(None, None, None)

    failed = [one for one in follower.events if one["type"] == "run.failed"]
    assert [(one["run"], one["data"]["code"]) for one in failed] == [(run, "owner_lost")]
    assert chat.status_code == 200


async def test_one_signal_drains_all_workers_and_their_watchers_are_told(shared: Cluster) -> None:
    workers = shared.workers  # the last test that shares them
    thread = f"{shared.url}/v1/agents/scripted/threads"
    readings, followers = [], []
    for worker, name in zip(workers, ("a", "b"), strict=True):
        with shared.only(worker):
            readings.append(following(f"{thread}/{name}/events?after=earliest"))
            followers.append(await readings[-1].__aenter__())
            await start_run(shared.url, "scripted", name)
    for follower in followers:
        await asyncio.to_thread(until, partial(has_named, follower, "reasoning"))

    status, said = await asyncio.to_thread(shared.parent.end)
    for reading in readings:
        await reading.__aexit__(None, None, None)

    assert status == 0, said
    assert "Traceback" not in said
    for follower in followers:
        assert types(follower)[-2:] == ["run.cancelled", "stream.closing"]
        assert follower.events[-2]["data"]["reason"] == "the server stops"
    assert are_gone(workers)


@pytest.mark.full
async def test_a_second_signal_ends_all_at_once(engine: str) -> None:
    with two_workers(engine, drain="60") as cluster:
        idle, stuck = workers = cluster.workers
        with cluster.only(stuck):
            await start_run(cluster.url, "scripted", "t1")
        with cluster.only(idle):  # the other one cannot end in order
            cluster.parent.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(until, lambda: are_gone([idle]))  # so the first signal was heard
            begun = time.monotonic()
            status, _ = await asyncio.to_thread(cluster.parent.end)

    assert status == -signal.SIGTERM
    print(f"ended after {time.monotonic() - begun:.2f} s")
    await asyncio.to_thread(until, lambda: are_gone(workers))


@pytest.mark.full
async def test_workers_whose_parent_was_killed_end_in_order(cluster: Cluster) -> None:
    workers = cluster.workers
    async with following(f"{cluster.url}/v1/agents/scripted/threads/t1/events") as follower:
        cluster.parent.process.kill()

    assert types(follower)[-1] == "stream.closing"
    assert follower.ended_cleanly
    await asyncio.to_thread(until, lambda: are_gone(workers))
