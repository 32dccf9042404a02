"""A process that owns a run for ever, for tests to kill: `python owner.py URL`. It prints the run's id once the run is under way."""

import sys

import anyio

from agentkit import Agent
from agentkit.engines.url import open_engine
from agentkit.testing import Say, ScriptedModel, Wait


async def main(url: str) -> None:
    model = ScriptedModel([Say("so far"), Wait(seconds=3600)])
    agent = Agent("a", model=model, engine=open_engine(url))
    run = await agent.start("go")
    with anyio.move_on_after(60):
        async for event in run.event_stream:
            if event.type == "text.delta":
                print(run.id, flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
