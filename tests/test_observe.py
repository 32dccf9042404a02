"""Observers: asked once a run, step and call; what they raise changes nothing."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import anyio
import pytest

from agentkit import Agent, ConfigurationError, ModelStreamError, RunCancelled, Usage, generate_text, tool
from agentkit.observe import CallSight, Observer, RunSight, StepSight
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think, Wait

pytestmark = pytest.mark.anyio

PLACE: ContextVar[str] = ContextVar("place", default="")


@tool
def where() -> str:
    """Say where we are."""
    return PLACE.get()


class Recorder(Observer):
    """Remembers what it was told, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.runs: list[RunSight] = []
        self.steps: list[StepSight] = []
        self.calls: list[CallSight] = []

    @contextmanager
    def _in(self, name: str) -> Iterator[None]:
        self.said.append(f"+{name}")
        token = PLACE.set(name)
        yield
        PLACE.reset(token)
        self.said.append(f"-{name}")

    def run(self, sight: RunSight) -> AbstractContextManager[object]:
        self.runs.append(sight)
        return self._in(f"run {sight.agent}")

    def step(self, sight: StepSight) -> AbstractContextManager[object]:
        self.steps.append(sight)
        return self._in(f"step {sight.step}")

    def call(self, sight: CallSight) -> AbstractContextManager[object]:
        self.calls.append(sight)
        return self._in(f"call {sight.name}")

    def headers(self) -> Mapping[str, str]:
        return {"traceparent": PLACE.get()}


async def test_a_run_its_steps_and_calls_are_seen_in_their_order_with_what_they_gave() -> None:
    seen = Recorder()
    model = ScriptedModel([Think("hm"), Call("where"), Usage(3, 4)], [Say("done", pieces=4), Usage(5, 6)])
    agent = Agent("a", model=model, tools=[where], observers=[seen])

    with anyio.fail_after(20):
        result = await agent.run("hi", thread="t", owner="o")

    assert seen.said == [
        "+run a", "+step 1", "-step 1", "+call where", "-call where", "+step 2", "-step 2", "-run a",
    ]  # fmt: skip
    (run,) = seen.runs
    assert (run.run, run.thread, run.owner, run.end, run.error) == (result.run, "t", "o", "completed", None)
    assert (run.usage, run.steps) == (Usage(8, 10), 2)
    assert 0 < run.began <= seen.steps[0].began <= seen.steps[0].ended <= run.ended
    first, second = seen.steps
    assert first.first_reasoning is not None
    assert first.first_text is None
    assert second.first_text is not None
    assert second.answer is not None
    assert second.answer.text == "done"
    assert (first.usage, second.finish) == (Usage(3, 4), "stop")
    (call,) = seen.calls
    assert call.result is not None
    assert call.result.text == "call where"  # the tool ran inside of the observer's context
    assert [request.trace for request in model.requests] == [
        {"traceparent": "step 1"},
        {"traceparent": "step 2"},
    ]


async def test_an_observer_is_not_asked_of_deltas() -> None:
    asked = 0

    class Counter(Observer):
        def __getattribute__(self, name: str) -> object:
            nonlocal asked
            asked += name != "__class__"
            return super().__getattribute__(name)

    counts = []
    for pieces in (1, 1000):
        asked = 0
        await Agent("a", model=ScriptedModel([Say("x" * 1000, pieces=pieces)]), observers=[Counter()]).chat(
            "hi"
        )
        counts.append(asked)

    assert counts[0] == counts[1]


async def test_how_a_run_went_wrong_is_told() -> None:
    seen = Recorder()
    agent = Agent("a", model=ScriptedModel([Say("we"), Fail("broke")]), observers=[seen])
    with anyio.fail_after(20), pytest.raises(ModelStreamError) as caught:
        await agent.chat("hi")

    assert (seen.runs[0].end, seen.runs[0].error) == ("failed", caught.value)
    assert seen.steps[0].error is caught.value
    assert seen.steps[0].answer is not None
    assert seen.steps[0].answer.status == "partial"


async def test_a_cancelled_run_is_told_and_every_context_is_left() -> None:
    seen = Recorder()
    agent = Agent("a", model=ScriptedModel([Say("we"), Wait(3600)]), observers=[seen])
    with anyio.fail_after(20):
        run = await agent.start("hi")
        async for event in run.event_stream:
            if event.type == "text.delta":
                run.cancel("enough")
                break
        with pytest.raises(RunCancelled):
            await run.result()

    assert seen.said == ["+run a", "+step 1", "-step 1", "-run a"]
    assert seen.runs[0].end == "cancelled"


async def test_a_sub_agents_run_is_seen_inside_of_its_call() -> None:
    seen = Recorder()
    inner = Agent("inner", model=ScriptedModel("42"), description="Knows.")
    agent = Agent(
        "a",
        model=ScriptedModel([Call("inner", {"message": "?"})], "done"),
        tools=[inner.as_tool()],
        observers=[seen],
    )
    with anyio.fail_after(20):
        await agent.chat("hi")

    assert seen.said[3:7] == ["+call inner", "+run inner", "+step 1", "-step 1"]
    assert [run.depth for run in seen.runs] == [0, 1]


async def test_a_run_without_a_thread_is_seen_too() -> None:
    seen = Recorder()
    with anyio.fail_after(20):
        await generate_text(model=ScriptedModel("hello"), prompt="hi", observers=[seen])

    assert seen.said == ["+run ", "+step 1", "-step 1", "-run "]


async def test_an_observer_that_raises_changes_nothing_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Recorder):
        def step(self, sight: StepSight) -> AbstractContextManager[object]:
            raise ValueError("broken")

        @contextmanager
        def _in(self, name: str) -> Iterator[None]:
            yield
            raise ValueError("broken at its end")

        def headers(self) -> Mapping[str, str]:
            raise ValueError("broken headers")

    seen = Recorder()
    agent = Agent("a", model=ScriptedModel("hello"), observers=[Broken(), seen])
    with anyio.fail_after(20), caplog.at_level(logging.ERROR, "agentkit"):
        assert await agent.chat("hi") == "hello"

    assert len([record for record in caplog.records if record.exc_info]) == 3
    assert seen.said == ["+run a", "+step 1", "-step 1", "-run a"]


def test_what_is_no_observer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="observers is a list of Observer objects"):
        Agent("a", model=ScriptedModel(), observers=[print])  # type: ignore[list-item]
