"""An emitter of your own: reasoning goes to a file, one line a block, whoever watches. `python examples/custom_emitter.py` needs no key."""

import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentkit import Agent, Event, Model
from agentkit.log import Topic
from agentkit.testing import Say, ScriptedModel, Think


def model() -> Model | str:
    if "ANTHROPIC_API_KEY" in os.environ:
        return "anthropic:claude-sonnet-4-5"
    return ScriptedModel(
        [Think("They want a number. ", pieces=3), Say("Seven.")], [Think("Still seven."), Say("Seven again.")]
    )


class ReasoningDiary:
    """Writes each thinking block to a file once it is whole. Signatures and opaque state stay out of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blocks: dict[str, list[str]] = {}

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        """Take a run's events, in order. The run waits for this, so it should be quick."""
        for event in events:
            match event.type:
                case "reasoning.delta" | "reasoning.summary":
                    self._blocks.setdefault(event.block, []).append(event.event.text or "")
                case "reasoning_block.finished":
                    said = "".join(self._blocks.pop(event.block, []))
                    line = json.dumps({"thread": topic.thread, "run": event.run, "reasoning": said})
                    with self._path.open("a") as diary:
                        diary.write(line + "\n")

    async def flush(self, topic: Topic) -> None:
        """Nothing waits to be written."""

    async def aclose(self) -> None:
        """Nothing is held."""


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        diary = Path(folder) / "diary.jsonl"
        agent = Agent("assistant", model=model(), emitter=ReasoningDiary(diary))
        await agent.chat("A number, please", thread="morning")
        await agent.chat("And another", thread="evening")
        print(diary.read_text(), end="")


if __name__ == "__main__":
    asyncio.run(main())
