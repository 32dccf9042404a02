"""A thousand runs at once in one process."""

import anyio
import pytest
from leftovers import nothing_left_behind

from agentkit import Agent, RunCancelled, tool
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import ModelStreamError
from agentkit.events import TERMINAL_TYPES
from agentkit.log import EARLIEST, Topic
from agentkit.model import ModelRequest
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import ScriptedStream, Step

pytestmark = pytest.mark.anyio

COUNT = 1000


@tool
async def work() -> str:
    """Work."""
    await anyio.lowlevel.checkpoint()
    return "worked"


ENDS: dict[str, list[Step]] = {
    "finished": [[Think("hm", "sig"), Say("a"), Call("work")], [Say("done", pieces=4)]],
    "failed": [[Think("hm"), Say("half"), Fail("on purpose")]],
    "cancelled": [[Say("half"), Wait(seconds=3600)]],
}


class Many(ScriptedModel):
    """Plays for each thread the script that its first message names."""

    def stream(self, request: ModelRequest) -> ScriptedStream:
        asked = next(m.text for m in request.messages if m.role == "user")
        done = sum(m.role == "assistant" for m in request.messages)
        return ScriptedModel(ENDS[asked][done]).stream(request)


async def test_a_thousand_runs_at_once_end_right() -> None:
    engine = MemoryEngine()
    agent = Agent("a", model=Many(), tools=[work], engine=engine)
    names = [list(ENDS)[number % 3] for number in range(COUNT)]
    ended: dict[str, int] = dict.fromkeys(ENDS, 0)

    async def one(number: int) -> None:
        name = names[number]
        run = await agent.start(name, thread=f"t{number}")
        if name == "cancelled":
            async for event in run.event_stream:
                if event.type == "text.delta":
                    break
            run.cancel()
        try:
            await run.result()
        except (ModelStreamError, RunCancelled):
            pass
        record = await agent.get_run(run.id, thread=f"t{number}")
        page = await engine.log.read(Topic("", "a", f"t{number}"), EARLIEST, 999)
        types = [r.type for r in page.records if r.type in TERMINAL_TYPES]
        assert record is not None
        assert (record.status, types, page.records[-1].type) == (name, [f"run.{name}"], f"run.{name}")
        ended[name] += 1

    async with nothing_left_behind():
        with anyio.fail_after(50):
            async with anyio.create_task_group() as group:
                for number in range(COUNT):
                    group.start_soon(one, number)
            await agent.join()

    assert ended == {"finished": 334, "failed": 333, "cancelled": 333}
