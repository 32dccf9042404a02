"""Runs and their owners, over processes: who dies is told, signals arrive, keys hold. On SQLite and on Redis."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anyio
import pytest
from redis_server import PROGRAM, RedisServer

from agentkit import Agent, AgentRun, AlreadyStarted, RunCancelled, tool
from agentkit.engine import Engine
from agentkit.engines.url import open_engine
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, Record, Topic
from agentkit.model import ModelRequest, ModelStream
from agentkit.testing import Call, ScriptedModel, Wait
from agentkit.testing.engine_stand import follow

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

OWNER = Path(__file__).with_name("owner.py")
WATCHER = Path(__file__).with_name("watcher.py")
TOPIC = Topic("", "a", "main")
LEASE = 0.6


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", "redis"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, require: Callable[[str, bool, str], None]
) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'log.db'}?lease={LEASE}"
        return
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    server = RedisServer(tmp_path)
    yield f"{server.url}?lease={LEASE}"
    server.kill()


async def own(url: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a process that owns a run, and return it with the run's id."""
    process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, str(OWNER), url], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with anyio.fail_after(20):
        line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
    process.stdout.close()
    return process, line.decode().strip()


async def records_until_end(engine: Engine) -> list[Record]:
    tail = await engine.log.tail(TOPIC)
    while True:
        page = await engine.log.read(TOPIC, EARLIEST, 100)
        if page.records and page.records[-1].terminal:
            return list(page.records)
        await follow(tail, page.cursor, 1)


async def test_a_run_whose_process_was_killed_has_failed_once_for_everyone(url: str) -> None:
    process, run = await own(url)
    engines = [open_engine(url) for _ in range(3)]
    try:
        tails = [await engine.log.tail(TOPIC) for engine in engines]
        process.send_signal(signal.SIGKILL)
        process.wait(5)
        with anyio.fail_after(20):
            seen = [await records_until_end(engine) for engine in engines]
        await anyio.sleep(LEASE)  # whoever would tell it twice has had the time

        agent = Agent("a", model=ScriptedModel("on"), engine=engines[1])
        record = await agent.get_run(run)
        assert record is not None
        assert (record.status, record.code, record.retryable) == ("failed", "owner_lost", True)
        assert seen[0] == seen[1] == seen[2]
        assert [r.type for r in seen[0] if r.terminal] == ["run.failed"]
        assert json.loads(seen[0][-1].body)["data"]["code"] == "owner_lost"
        assert [tail.head for tail in tails] == [len(seen[0])] * 3
        assert await engines[2].leases.holder(TOPIC) is None
        with anyio.fail_after(20):
            assert await agent.chat("again") == "on"
    finally:
        for engine in engines:
            await engine.aclose()


async def test_a_run_in_another_process_can_be_cancelled(url: str) -> None:
    process, run = await own(url)
    engine = open_engine(url)
    try:
        agent = Agent("a", model=ScriptedModel(), engine=engine)
        await agent.cancel(run, reason="enough")
        with anyio.fail_after(20):
            last = (await records_until_end(engine))[-1]

        assert (last.type, last.run) == ("run.cancelled", run)
        assert json.loads(last.body)["data"]["reason"] == "enough"
    finally:
        process.kill()
        process.wait(5)
        await engine.aclose()


async def test_a_suspended_run_holds_no_lease_and_goes_on_in_another_engine(url: str) -> None:
    first, second = open_engine(url), open_engine(url)

    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    def agent(engine: Engine, *turns: Sequence[Call] | str) -> Agent:
        return Agent("a", model=ScriptedModel(*turns), tools=[act], on_approval="suspend", engine=engine)

    try:
        with anyio.fail_after(20):
            result = await agent(first, [Call("act")]).run("go")
            assert result.termination == "suspended"
            assert await second.leases.holder(TOPIC) is None
            await first.aclose()
            other = agent(second, "done")
            record = await other.get_run(result.run)
            assert record is not None
            (call,) = record.pending
            handle = await other.approve(result.run, f"{result.run}.{record.step}.{call.id}")
            assert handle is not None
            assert (await handle.result()).text == "done"
        page = await second.log.read(TOPIC, EARLIEST, 100)
        assert [r.type for r in page.records if r.terminal] == ["run.finished"]
    finally:
        await first.aclose()
        await second.aclose()


async def test_a_key_has_one_run_over_all_engines(url: str) -> None:
    engines = [open_engine(url), open_engine(url)]
    try:
        with anyio.fail_after(20):
            agents = [
                Agent("a", model=ScriptedModel([Wait(seconds=60)]), engine=engine) for engine in engines
            ]
            run = await agents[0].start("go", idempotency_key="k")
            for agent in agents:
                for on_busy in ("queue", "reject"):
                    with pytest.raises(AlreadyStarted) as caught:
                        await agent.start("go", idempotency_key="k", on_busy=on_busy)
                    assert caught.value.run == run.id
            run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
    finally:
        for engine in engines:
            await engine.aclose()


async def test_who_asks_twice_at_once_gets_one_run_and_never_a_busy_thread(url: str) -> None:
    engines = [open_engine(url), open_engine(url)]
    agents = [Agent("a", model=ScriptedModel("ok", repeat=True), engine=engine) for engine in engines]
    runs: dict[str, set[str]] = {}

    async def ask(agent: Agent, thread: str) -> None:
        try:
            run = (await agent.start("go", thread=thread, idempotency_key="k", on_busy="reject")).id
        except AlreadyStarted as error:
            run = error.run
        runs.setdefault(thread, set()).add(run)

    try:
        with anyio.fail_after(20):
            for number in range(15):
                async with anyio.create_task_group() as group:
                    for agent in agents * 2:
                        group.start_soon(ask, agent, f"t{number}")
            for agent in agents:
                await agent.join()
    finally:
        for engine in engines:
            await engine.aclose()

    assert [len(found) for found in runs.values()] == [1] * 15


class Answering:
    """A model that makes calls, and says "done" to their results: any process may go on with it."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self.origin = ScriptedModel().origin

    def stream(self, request: ModelRequest) -> ModelStream:
        """See `Model`."""
        step: Sequence[Call] | str = "done" if request.messages[-1].role == "tool" else self._calls
        return ScriptedModel(step).stream(request)


async def test_decisions_in_several_processes_at_once_all_count(url: str) -> None:
    engines = [open_engine(url) for _ in range(3)]

    @tool(requires_approval=True)
    def act(number: int) -> str:
        """Act."""
        return f"acted {number}"

    agents = [
        Agent(
            "a",
            model=Answering([Call("act", {"number": n}) for n in range(3)]),
            tools=[act],
            on_approval="suspend",
            engine=engine,
        )
        for engine in engines
    ]
    resumed: list[AgentRun] = []

    async def approve(agent: Agent, run: str, approval: str) -> None:
        handle = await agent.approve(run, approval, thread=thread)
        if handle is not None:
            resumed.append(handle)

    try:
        with anyio.fail_after(30):
            for number in range(5):
                thread = f"t{number}"
                result = await agents[0].run("go", thread=thread)
                record = await agents[0].get_run(result.run, thread=thread)
                assert record is not None
                async with anyio.create_task_group() as group:
                    for agent, call in zip(agents, record.pending, strict=True):
                        group.start_soon(approve, agent, result.run, f"{result.run}.{record.step}.{call.id}")
                (handle,) = resumed
                resumed.clear()
                assert (await handle.result()).text == "done"
    finally:
        for engine in engines:
            await engine.aclose()


@pytest.mark.parametrize("key", ["", "k"], ids=["put", "claimed"])
@pytest.mark.parametrize("holder", [False, True], ids=["free", "held"])
async def test_a_run_whose_process_died_before_it_asked_for_its_thread_has_failed(
    url: str, key: str, holder: bool
) -> None:
    first, second = open_engine(url), open_engine(url)
    record = RunRecord("run_lost", "queued", time.time())
    beating = anyio.Event()
    try:
        lease = await second.leases.acquire(TOPIC, "run_other", wait=False) if holder else None
        assert (lease is not None) == holder
        if key:
            await first.threads.claim(TOPIC, key, record)
        else:
            await first.threads.put_run(TOPIC, record)
        await first.aclose()  # its process is gone

        async def beat() -> None:
            while lease is not None and not beating.is_set():
                await second.leases.renew(lease)
                await anyio.sleep(LEASE / 3)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(beat)
                (last,) = await records_until_end(second)
                beating.set()
        found = await second.threads.get_run(TOPIC, "run_lost")
        if lease is not None:
            await second.leases.renew(lease)  # it was not touched
    finally:
        await first.aclose()
        await second.aclose()

    assert (last.type, last.run) == ("run.failed", "run_lost")
    assert json.loads(last.body)["data"]["code"] == "owner_lost"
    assert found is not None
    assert (found.status, found.code) == ("failed", "owner_lost")


async def test_a_run_that_asked_for_its_thread_is_not_lost_however_long_it_waits(url: str) -> None:
    engine = open_engine(url)
    agent = Agent("a", model=ScriptedModel([Wait(seconds=3 * LEASE)], "done"), engine=engine)
    try:
        with anyio.fail_after(20):
            first, second = await agent.start("one"), await agent.start("two")
            assert [(await run.result()).termination for run in (first, second)] == ["completed"] * 2
    finally:
        await engine.aclose()


async def test_deleting_a_thread_stops_its_run_and_ends_its_watchers_elsewhere(url: str) -> None:
    owner, run = await own(url)
    watchers = [
        subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            [sys.executable, str(WATCHER), url, protocol], stdout=subprocess.PIPE, text=True
        )
        for protocol in ("native", "native.socket")
    ]
    engine = open_engine(url)
    try:
        for watcher in watchers:
            assert watcher.stdout is not None
            with anyio.fail_after(30):
                while run not in await anyio.to_thread.run_sync(
                    watcher.stdout.readline, abandon_on_cancel=True
                ):
                    pass
        agent = Agent("a", model=ScriptedModel("anew"), engine=engine)
        old = (await engine.log.tail(TOPIC)).epoch
        with anyio.fail_after(30):
            await agent.delete_thread()
            said = [
                [
                    json.loads(line)
                    for line in (await anyio.to_thread.run_sync(watcher.communicate))[0].splitlines()
                ]
                for watcher in watchers
            ]
        assert (await agent.messages(), await agent.runs()) == ([], [])
        assert (await engine.log.read(TOPIC, EARLIEST, 10)).records == []
        await agent.chat("again")
        assert (await engine.log.read(TOPIC, EARLIEST, 1)).records[0].epoch != old
    finally:
        owner.kill()
        owner.wait()
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
        await engine.aclose()

    for lines in said:
        assert lines[-1] == "ended"
        assert '"reason":"deleted"' in lines[-2]
        assert "run.cancelled" in "".join(lines[:-1])
