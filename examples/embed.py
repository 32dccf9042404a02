"""An agent inside a program of your own, without a server: several watchers of one run. `python examples/embed.py` needs no key."""

import asyncio
import os
from collections.abc import AsyncIterable

from agentkit import Agent, CallbackEmitter, Event, Model, ReasoningEvent
from agentkit.log import EARLIEST, Topic
from agentkit.testing import Say, ScriptedModel, Think


def model() -> Model | str:
    if "ANTHROPIC_API_KEY" in os.environ:
        return "anthropic:claude-sonnet-4-5"
    return ScriptedModel([Think("A greeting.", signature="c2ln"), Say("Hello from a script.", pieces=3)])


def on_reasoning(event: ReasoningEvent) -> None:
    """Hear the reasoning and nothing else."""
    print(f"[{event.provider}] {event.kind}: {event.text or ''}")


def on_event(topic: Topic, event: Event) -> None:
    """Hear everything that any run of the agent does."""
    if event.type in ("run.started", "run.finished"):
        print(f"{topic.path}: {event.type}")


async def main() -> None:
    agent = Agent(
        "assistant", model=model(), on_reasoning_event=on_reasoning, emitter=CallbackEmitter(on_event)
    )
    async with agent:  # leaving it waits for what is still going on
        run = await agent.start("Hello", thread="morning")
        pieces, result = await asyncio.gather(collect(run.text_stream), run.result())
        assert "".join(pieces) == result.text
        print(result.text)

        topic = Topic("", "assistant", "morning")
        page = await agent.engine.log.read(topic, EARLIEST, 1000)  # the same, for who comes later
        print(f"{len(page.records)} records, the last is {page.records[-1].type}")


async def collect(stream: AsyncIterable[str]) -> list[str]:
    return [piece async for piece in stream]


asyncio.run(main())
