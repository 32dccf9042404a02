"""Tools: plain functions that a model may call. Runs without a key: `python examples/tools.py`."""

import asyncio
import os
from typing import Annotated, Literal

from pydantic import Field

from agentkit import Agent, Model, ToolContext, tool
from agentkit.testing import Call, ScriptedModel, Think


@tool
def convert(
    amount: Annotated[float, Field(gt=0, description="How much to convert.")],
    to: Literal["EUR", "USD"] = "EUR",
) -> dict[str, float | str]:
    """Convert Swiss francs at today's rate."""
    rate = {"EUR": 1.07, "USD": 1.25}[to]
    return {"amount": round(amount * rate, 2), "currency": to}


@tool(timeout=5, max_concurrency=2)
async def search(query: str, context: ToolContext) -> list[str]:
    """Search the house's notes.

    Args:
        query: a few words.
    """
    await context.progress("searching", {"query": query})
    return [f"note about {query}"]


def model() -> Model | str:
    """Return a real model where there is a key, and one that follows a script elsewhere."""
    if "ANTHROPIC_API_KEY" in os.environ:
        return "anthropic:claude-sonnet-4-5"
    return ScriptedModel(
        [
            Think("Two things to look up; they do not depend on each other."),
            Call("convert", {"amount": 100, "to": "USD"}),
            Call("search", {"query": "travel"}),
        ],
        "100 francs are 125 dollars, and there is a note about travel.",
    )


async def main() -> None:
    agent = Agent("traveller", model=model(), tools=[convert, search])
    run = await agent.start("What are 100 francs in dollars? And what do my notes say about travel?")
    async for event in run.event_stream:
        if event.type == "reasoning.delta":
            print(f"[thinking] {event.event.text}")
        elif event.type == "tool_execution.progress":
            print(f"[{event.name}] {event.message}")
        elif event.type == "tool_result":
            print(f"[{event.result.name}] {event.result.status}: {event.result.text}")
        elif event.type == "text.delta":
            print(event.text, end="")
    print()


asyncio.run(main())
