"""Taking a thread: a run at work is not waited for, one that has ended and still tells so is."""

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from agentkit import Agent, ThreadBusy, threads
from agentkit.engine import Lease
from agentkit.engines.memory import MemoryEngine, MemoryLeases
from agentkit.history import RunRecord, RunStatus
from agentkit.log import Topic
from agentkit.testing import ScriptedModel
from agentkit.threads import take_thread

pytestmark = pytest.mark.anyio

TOPIC = Topic("", "a", "main")


class Lingering(MemoryLeases):
    """Leases that are given back only once somebody has asked for the thread twice."""

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__(engine.log)
        self.asked = 0
        self.may_go = anyio.Event()

    async def acquire(self, topic: Topic, run: str, *, wait: bool) -> Lease | None:
        lease = await super().acquire(topic, run, wait=wait)
        self.asked += lease is None
        if self.asked == 2:
            self.may_go.set()
        return lease

    async def release(self, lease: Lease) -> None:
        await self.may_go.wait()
        await super().release(lease)


@pytest.fixture
def engine() -> MemoryEngine:
    engine = MemoryEngine()
    engine.leases = Lingering(engine)
    return engine


async def hold(engine: MemoryEngine, status: RunStatus) -> Lease:
    lease = await engine.leases.acquire(TOPIC, "run_before", wait=False)
    assert lease is not None
    await engine.threads.put_run(TOPIC, RunRecord("run_before", status, time.time()))
    return lease


@pytest.mark.parametrize("status", ["finished", "failed", "cancelled", "suspended"])
async def test_a_run_that_has_ended_is_waited_for(engine: MemoryEngine, status: RunStatus) -> None:
    lease = await hold(engine, status)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(engine.leases.release, lease)
            taken = await take_thread(engine, TOPIC, "run_next")

    assert taken is not None
    assert taken.fence > lease.fence


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_run_at_work_is_not_waited_for(engine: MemoryEngine, status: RunStatus) -> None:
    await hold(engine, status)

    assert await take_thread(engine, TOPIC, "run_next") is None


async def test_who_holds_a_thread_without_a_record_is_not_waited_for(engine: MemoryEngine) -> None:
    assert await engine.leases.acquire(TOPIC, "fork_x", wait=False)

    assert await take_thread(engine, TOPIC, "run_next") is None


async def test_a_run_that_never_lets_go_is_not_waited_for_without_end(
    engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LET_GO_TIMEOUT", 0.05)
    await hold(engine, "finished")

    with anyio.fail_after(20):
        assert await take_thread(engine, TOPIC, "run_next") is None


async def started(agent: Agent) -> str:
    return (await (await agent.start("two", on_busy="reject")).result()).text


async def chatted(agent: Agent) -> str:
    return await agent.chat("two", on_busy="reject")


@pytest.mark.parametrize("say", [started, chatted])
async def test_who_answers_as_soon_as_the_end_is_seen_finds_no_busy_thread(
    engine: MemoryEngine, say: Callable[[Agent], Awaitable[str]]
) -> None:
    agent = Agent("a", model=ScriptedModel("first", "second"), engine=engine)
    answer = ""
    with anyio.fail_after(20):
        run = await agent.start("one")
        async for event in run.event_stream:
            if event.type == "run.finished":
                try:
                    answer = await say(agent)
                except ThreadBusy:
                    engine.leases.may_go.set()  # type: ignore[attr-defined]  # of Lingering
                    raise
        await agent.join()

    assert answer == "second"
