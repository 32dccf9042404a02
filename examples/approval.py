"""Approval: a person decides a call before it runs, here and now or later. Runs without a key: `python examples/approval.py`."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from agentkit import Agent, Model, tool
from agentkit.approvals import approval_id
from agentkit.testing import Call, ScriptedModel


def is_far(arguments: Mapping[str, Any]) -> bool:
    """Tell whether a person must agree; the arguments have been checked."""
    return bool(arguments["path"].startswith("/"))


@tool(requires_approval=is_far)
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def model() -> Model | str:
    if "ANTHROPIC_API_KEY" in os.environ:
        return "anthropic:claude-sonnet-4-5"
    return ScriptedModel(
        [Call("delete", {"path": "notes.txt"}), Call("delete", {"path": "/etc/hosts"})],
        "I deleted notes.txt. You did not want /etc/hosts deleted, so it stays.",
    )


async def decide_at_once() -> None:
    """Let the run wait while somebody is asked."""
    agent = Agent("janitor", model=model(), tools=[delete])
    run = await agent.start("Delete notes.txt and /etc/hosts.")
    async for event in run.event_stream:
        if event.type == "tool_approval.requested":
            print(f"? {event.name} {event.input}: denied")
            run.deny(event.approval, "not outside of this folder")
        elif event.type == "tool_result":
            print(f"{event.result.status}: {event.result.text}")
    print(await run.text)


async def decide_later() -> None:
    """Let the run stop, and go on when somebody has decided: with a durable engine even after a restart."""
    agent = Agent("janitor", model=model(), tools=[delete], on_approval="suspend")
    result = await agent.run("Delete notes.txt and /etc/hosts.")
    if result.termination != "suspended":  # a real model may have asked for nothing that needs a person
        print(result.text)
        return
    record = await agent.get_run(result.run)
    assert record is not None
    print(f"{record.status}: {[call.input for call in record.pending]}")
    for call in record.pending:
        resumed = await agent.deny(result.run, approval_id(result.run, record.step, call.id), "no")
        if resumed is not None:  # it was the last decision that the run waited for
            print(await resumed.text)


async def main() -> None:
    await decide_at_once()
    await decide_later()


asyncio.run(main())
