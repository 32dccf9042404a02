"""Clients and a server that asks who one is: over both transports, with tokens that run out."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from e2e.servers import QUICK, Running, agents

from agentkit.errors import AccessError, RemoteError
from agentkit_server import APIKeys, create_app
from agentkit_server.auth_keys import new_key, parse_keys
from agentkit_transports.clients import ClientSettings, Transport, connect_agent, follow

BOTH: list[Transport] = ["sse", "websocket"]
SETTINGS = ClientSettings(first_delay=0.005, longest_delay=0.05, call_timeout=2)

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Guarded:
    """A server, and keys of two people."""

    server: Running
    ann: str
    ben: str

    def path(self, thread: str) -> str:
        return f"{self.server.url}/v1/agents/quick/threads/{thread}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    (ann, first), (ben, second) = new_key("ann"), new_key("ben")
    server = Running(
        create_app(agents(), settings=QUICK, auth=APIKeys(parse_keys(f"{first}\n{second}"))), QUICK
    )
    server.start()
    yield Guarded(server, ann, ben)
    server.stop()


@pytest.mark.parametrize("transport", BOTH)
async def test_who_is_not_known_is_told_so(guarded: Guarded, transport: Transport) -> None:
    for auth in (None, "wrong", lambda: "wrong"):
        feed = follow(guarded.path("t"), auth=auth, transport=transport, settings=SETTINGS)
        with pytest.raises(AccessError) as caught:
            async with asyncio.timeout(20):
                await anext(feed)
        assert caught.value.status in (401, 4500, 4502)
        assert "wrong" not in str(caught.value)
    with pytest.raises(AccessError):
        await connect_agent(guarded.server.url, agent="quick", settings=SETTINGS).chat("hello")


@pytest.mark.parametrize("transport", BOTH)
async def test_a_token_that_was_refused_is_asked_for_again(guarded: Guarded, transport: Transport) -> None:
    async def fresh() -> str:
        asked.append(1)
        return "stale" if len(asked) == 1 else guarded.ann

    asked: list[int] = []
    url = f"{guarded.server.url}/v1/agents/quick"
    agent = connect_agent(url, auth=fresh, transport=transport, settings=SETTINGS)

    async with asyncio.timeout(10):
        text = await agent.chat("hello", thread=transport)
        feed = agent.events(thread=transport, after="earliest")
        async with feed:
            first = await anext(feed)

    assert text == "and here it is"
    assert (first.id.endswith("-1"), len(asked)) == (True, 2)


async def test_threads_are_their_owners(guarded: Guarded) -> None:
    url = f"{guarded.server.url}/v1/agents/quick"
    ann, ben = (connect_agent(url, auth=key, settings=SETTINGS) for key in (guarded.ann, guarded.ben))
    run = await ann.start("hello", thread="mine")
    await run.result()

    assert await ben.messages(thread="mine") == []
    assert await ben.get_run(run.id, thread="mine") is None
    with pytest.raises(RemoteError):
        await ben.cancel(run.id, thread="mine")
