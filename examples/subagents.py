"""Sub-agents: an agent as a tool of another. Runs without a key: `python examples/subagents.py`."""

import asyncio
import os

from agentkit import Agent, Model
from agentkit.testing import Call, Say, ScriptedModel, Think
from agentkit.testing.scripted import Step


def model(*script: Step) -> Model | str:
    return "anthropic:claude-sonnet-4-5" if "ANTHROPIC_API_KEY" in os.environ else ScriptedModel(*script)


async def main() -> None:
    historian = Agent(
        "historian",
        model=model([Think("Which bridge? The one in Paris."), Say("It was opened in 1607.")]),
        description="Knows when things were built. Ask one question at a time.",
    )
    guide = Agent(
        "guide",
        model=model([Call("historian", {"message": "When was the Pont Neuf opened?"})], "Over 400 years."),
        tools=[historian.as_tool()],
    )
    run = await guide.start("How old is the oldest bridge of Paris?")
    async for event in run.event_stream:
        who = "guide" if event.parent is None else "  historian"
        if event.type in ("reasoning.delta", "text.delta"):
            print(f"{who}: {event.event.text if event.type == 'reasoning.delta' else event.text}")
    print(f"{(await run.usage).total_tokens} tokens in all")


asyncio.run(main())
