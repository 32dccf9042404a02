"""A server whose agent asks before it acts."""

from typing import Literal

import anyio

from agentkit import Agent, tool
from agentkit.log import EARLIEST
from agentkit.testing import Call, ScriptedModel
from agentkit_server import Application, create_app


@tool(requires_approval=True)
def risk() -> str:
    """Risk."""
    return "risked"


def make_app(on_approval: Literal["wait", "suspend"] = "wait") -> Application:
    """Return a server with the agent `risky`."""
    model = ScriptedModel([Call("risk", id="c")], "done")
    return create_app([Agent("risky", model=model, tools=[risk], on_approval=on_approval)])


async def asked(app: Application, run: str, thread: str = "t1") -> str:
    """Wait until the run asks, and return the approval's id."""
    tail = await app.service.engine.log.tail(app.service.topic("risky", thread))
    while not any(record.type == "tool_approval.requested" for record in tail.after(EARLIEST, 99).records):  # noqa: ASYNC110
        await anyio.sleep(0.001)
    return f"{run}.1.c"
