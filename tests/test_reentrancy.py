"""Emitters that come back to the agent that calls them, words from other threads, and words after the end: defined, and never a deadlock."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from agentkit import Agent, CallbackEmitter, EngineError, Event
from agentkit.engine import Engine
from agentkit.engines.memory import MemoryEngine
from agentkit.engines.sqlite import SQLiteEngine
from agentkit.log import EARLIEST, Topic
from agentkit.testing import Say, ScriptedModel, Think

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    made = MemoryEngine() if request.param == "memory" else SQLiteEngine(tmp_path / "log.db")
    yield made
    await made.aclose()


def an_agent(engine: Engine, emitter: CallbackEmitter | None = None) -> Agent:
    model = ScriptedModel([Think("hm", pieces=2), Say("x")], repeat=True)
    return Agent("a", model=model, engine=engine, emitter=emitter)


async def types_of(agent: Agent, thread: str = "main") -> list[str]:
    page = await agent.engine.log.read(Topic("", "a", thread), EARLIEST, 1000)
    return [record.type for record in page.records]


async def test_a_callback_may_say_something_into_the_same_feed(engine: Engine) -> None:
    async def on_event(topic: Topic, event: Event) -> None:
        if event.type == "reasoning.delta":
            await agent.emit("note.made", {"n": 1}, thread=topic.thread)

    agent = an_agent(engine, CallbackEmitter(on_event))
    with anyio.fail_after(20):
        text = await agent.chat("hi")

    types = await types_of(agent)
    assert text == "x"
    assert types.count("note.made") == 2
    assert types.count("run.finished") == 1


async def test_a_callback_may_read_the_feed_and_start_another_run(engine: Engine) -> None:
    read: list[int] = []

    async def on_event(topic: Topic, event: Event) -> None:
        if event.type == "run.finished" and topic.thread == "main":
            page = await agent.engine.log.read(topic, EARLIEST, 1000)
            read.append(len(page.records))
            await agent.chat("again", thread="other")

    agent = an_agent(engine, CallbackEmitter(on_event))
    with anyio.fail_after(20):
        await agent.chat("hi")

    assert read != [0]
    assert (await types_of(agent, "other"))[-1] == "run.finished"


async def test_another_thread_may_say_something(engine: Engine) -> None:
    agent = an_agent(engine)
    ids: list[str] = []
    thread = threading.Thread(target=lambda: ids.append(asyncio.run(agent.emit("from.thread", {}))))
    thread.start()
    with anyio.fail_after(20):
        await asyncio.to_thread(thread.join, 9)

    assert not thread.is_alive()
    assert len(ids) == 1
    assert await types_of(agent) == ["from.thread"]


async def test_after_its_end_an_engine_that_holds_a_file_refuses(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    agent = an_agent(engine)
    await engine.aclose()

    with anyio.fail_after(20):
        with pytest.raises(EngineError, match="closed"):
            await agent.emit("too.late", {})
        with pytest.raises(EngineError, match="closed"):
            await agent.chat("hi")
