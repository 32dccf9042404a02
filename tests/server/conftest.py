"""A small server in process: two agents on a memory engine, whose answers a test can hold back."""

from collections.abc import AsyncIterator

import anyio
import pytest

from agentkit.agent import Agent
from agentkit.testing import Fail, Refuse, Say, ScriptedModel, Think, Wait
from agentkit_server import Application, Settings, create_app

QUICK = Settings(
    drain_timeout=0.2,
    farewell_timeout=0.3,
    send_timeout=0.4,
    body_size=2000,
    chat_timeout=0.3,
    retry_ms=(1, 2),
)


@pytest.fixture
def anyio_backend() -> str:
    """The server runs on asyncio."""
    return "asyncio"


@pytest.fixture
def gate() -> anyio.Event:
    """`held` goes on when it is set."""
    return anyio.Event()


@pytest.fixture
async def app(gate: anyio.Event) -> AsyncIterator[Application]:
    """`planner` answers at once; `held` waits in its answer; `failing` and `refusing` do. All runs end with the test."""
    made = create_app(
        [
            Agent(
                "planner",
                model=ScriptedModel(
                    [Think("first think", signature="c2VjcmV0LXNpZ25hdHVyZQ==", pieces=2), Say("then speak")],
                    repeat=True,
                ),
                description="Plans.",
            ),
            Agent("held", model=ScriptedModel([Think("hm"), Wait(event=gate), Say("done")], repeat=True)),
            Agent(
                "failing", model=ScriptedModel([Say("so far"), Fail("it broke", retryable=True)], repeat=True)
            ),
            Agent("refusing", model=ScriptedModel([Refuse("I will not")], repeat=True)),
        ],
        settings=QUICK,
    )
    yield made
    gate.set()
    await made.aclose()
