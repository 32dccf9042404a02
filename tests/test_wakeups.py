"""How often a run wakes the event loop, counted and not timed: once for each read of its provider, however much that brought."""

import asyncio
from asyncio import events
from collections.abc import Sequence
from typing import Self

import pytest

from agentkit import Agent
from agentkit.chunks import BlockEndChunk, Chunk, FinishChunk, TextChunk
from agentkit.content import Origin
from agentkit.deltas import Deltas
from agentkit.engines.memory import MemoryEngine
from agentkit.log import EARLIEST, Topic
from agentkit.model import ModelRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Callbacks of its loop are what is counted."""
    return "asyncio"


class Reads:
    """A model whose every read waits for the loop once, and brings some deltas."""

    origin = Origin("p", "m", "d")

    def __init__(self, reads: int, deltas: int) -> None:
        self.left = reads
        self.deltas = deltas

    def stream(self, request: ModelRequest) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is held."""

    async def next(self) -> Sequence[Chunk]:
        if self.left < 0:
            return []
        self.left -= 1
        if self.left < 0:
            return [BlockEndChunk(), FinishChunk("stop")]
        loop = asyncio.get_running_loop()
        data = loop.create_future()
        loop.call_soon(data.set_result, None)
        await data
        return [TextChunk("eleven char") for _ in range(self.deltas)]


async def callbacks(reads: int, deltas: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many callbacks the loop ran for one answer that somebody waits for."""
    count = 0
    run = events.Handle._run

    def counted(handle: events.Handle) -> None:
        nonlocal count
        count += 1
        run(handle)

    engine = MemoryEngine()
    agent = Agent("a", model=Reads(reads, deltas), engine=engine)
    with monkeypatch.context() as patch:
        patch.setattr(events.Handle, "_run", counted)
        await (await agent.start("hi")).result()

    page = await engine.log.read(Topic("", "a", "main"), EARLIEST, 100_000)
    assert [record.type for record in page.records].count("text.delta") == reads * deltas
    return count


@pytest.mark.parametrize("deltas", [1, 100])
async def test_a_read_costs_the_wake_up_that_it_is(deltas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few = await callbacks(10, deltas, monkeypatch)
    many = await callbacks(110, deltas, monkeypatch)

    # The data comes, and the run goes on: no task of a log, none of who waits for the end.
    assert (many - few) // 100 == 2


async def test_deltas_that_nobody_looks_at_become_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    make = Deltas.event

    def counted(deltas: Deltas, at: int) -> object:
        nonlocal made
        made += 1
        return make(deltas, at)

    monkeypatch.setattr(Deltas, "event", counted)

    await callbacks(10, 100, monkeypatch)

    assert made <= 10 + 1  # the last of each read is looked at, and the block's first
