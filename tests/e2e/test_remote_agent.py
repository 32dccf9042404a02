"""A remote agent over a link that breaks: one run, the whole text, whatever the link does."""

import asyncio
import random
from collections.abc import Iterator

import pytest
from e2e.links import Link
from e2e.servers import Running, running

from agentkit_transports.clients import ClientSettings, Transport, connect_agent

QUICK = ClientSettings(first_delay=0.005, longest_delay=0.05, call_timeout=10, idle_timeout=2)
BOTH: list[Transport] = ["sse", "websocket"]

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.faults]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as one:
        yield one


@pytest.mark.parametrize("transport", BOTH)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12))])
async def test_a_stream_over_a_broken_link_is_whole_and_one_run(
    server: Running, transport: Transport, seed: int
) -> None:
    thread = f"{transport}-{seed}"
    async with Link(server.port, rng=random.Random(seed), faults=10, most=2500).open() as link:
        agent = connect_agent(f"{link.url}/v1/agents/quick", transport=transport, settings=QUICK)
        async with asyncio.timeout(40):
            async with agent.stream("hello", thread=thread) as text:
                pieces = [piece async for piece in text]
            run = (await agent.runs(thread=thread))[0]
            kinds = [event.type async for event in agent.watch(run.run, thread=thread).event_stream]
            runs = await agent.runs(thread=thread)

    assert "".join(pieces) == "and here it is"
    assert [one.status for one in runs] == ["finished"]
    whole = connect_agent(f"{server.url}/v1/agents/quick", settings=QUICK).watch(run.run, thread=thread)
    assert kinds == [event.type async for event in whole.event_stream]
    assert (kinds[0], kinds[-1], len(set(kinds)) > 6) == ("run.started", "run.finished", True)
    assert link.connections >= 10
