"""Random lives of a thread: deltas, results, steering, decisions, cancels and further runs in any order.

Whatever the order, each run is told to have ended once, in process and in the log, and every request carries a history that follows the
rules. The model and the tools do what the machine says, one thing at a time.
"""

import asyncio
from collections.abc import Sequence
from typing import Self

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from thread_rules import faults

from agentkit import Agent, AgentRun, Message, ToolContext, tool
from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
)
from agentkit.content import Origin
from agentkit.engines.memory import MemoryEngine
from agentkit.events import TERMINAL_TYPES
from agentkit.log import EARLIEST, Topic
from agentkit.model import ModelRequest
from agentkit.run import CancelMode
from agentkit.testing import ScriptedModel

TOPIC = Topic("", "a", "main")
LAST = (
    FinishChunk("stop"),
    FinishChunk("tool_calls"),
    FinishChunk("length"),
    FinishChunk("pause"),
    ErrorChunk("provider", "on purpose", "bad"),
    ErrorChunk("truncated", "on purpose"),
)
MODES: Sequence[CancelMode] = ("now", "after_tools", "after_step")


class Puppet:
    """A model that says what it is told; also its own stream, since one request is at work at a time."""

    def __init__(self) -> None:
        self.origin = Origin("scripted", "puppet", "puppet")
        self.requests: list[tuple[ModelRequest, bool]] = []
        """What was asked, and whether the answer before had paused."""
        self.has_paused = False
        self.index = 0
        self.calls = 0
        self.is_open = False
        self._queue: asyncio.Queue[list[Chunk]] = asyncio.Queue()

    def stream(self, request: ModelRequest) -> Self:
        assert not self.is_open, "two requests of one thread at once"
        self.requests.append((request, self.has_paused))
        self.has_paused = False
        self._queue = asyncio.Queue()
        self.index = 0
        return self

    async def __aenter__(self) -> Self:
        self.is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.is_open = False

    async def next(self) -> list[Chunk]:
        return await self._queue.get()

    def say(self, *chunks: Chunk) -> None:
        self._queue.put_nowait(list(chunks))


class Life(RuleBasedStateMachine):
    """One thread."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.engine = MemoryEngine()
        self.model = Puppet()
        self.at_work: dict[str, asyncio.Future[str]] = {}
        self.runs: list[AgentRun] = []
        self.steered: list[tuple[AgentRun, str]] = []

        @tool
        async def work(context: ToolContext) -> str:
            """Work."""
            future = self.at_work[context.call] = asyncio.get_running_loop().create_future()
            try:
                return str(await future)
            finally:
                del self.at_work[context.call]

        @tool(requires_approval=True)
        async def risk() -> str:
            """Risk."""
            return "risked"

        self.agent = Agent("a", model=self.model, engine=self.engine, tools=[work, risk])

    @initialize()
    def begin(self) -> None:
        self.start()

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(60):
                await asyncio.sleep(0)

        self.runner.run(turns())

    # runs

    @precondition(lambda self: len(self.runs) < 5)
    @rule()
    def start(self) -> None:
        self.runs.append(self.runner.run(self.agent.start("go")))
        self.settle()

    @rule(which=st.integers(0, 4), mode=st.sampled_from(MODES))
    def cancel(self, which: int, mode: CancelMode) -> None:
        self.runner.run(self.agent.cancel(self.runs[which % len(self.runs)].id, mode=mode))
        self.settle()

    @rule(which=st.integers(0, 4))
    def steer(self, which: int) -> None:
        run = self.runs[which % len(self.runs)]
        if not run._run.is_over:
            self.steered.append((run, run.steer("by the way")))
        self.settle()

    @precondition(lambda self: self.steered)
    @rule()
    def unsteer(self) -> None:
        run, steering = self.steered.pop()
        run.unsteer(steering)

    # the model

    @precondition(lambda self: self.model.is_open)
    @rule(kind=st.sampled_from(["text", "thinking", "signed"]), ends=st.booleans())
    def delta(self, kind: str, ends: bool) -> None:
        index = self.model.index
        if kind == "text":
            self.model.say(TextChunk("word ", index))
        else:
            self.model.say(ThinkingChunk("hm", "sig" if kind == "signed" else "", "scripted", index=index))
        if ends or kind == "signed":
            self.model.say(BlockEndChunk(index))
        self.model.index += 1
        self.settle()

    @precondition(lambda self: self.model.is_open)
    @rule(
        name=st.sampled_from(["work", "risk", "nope", ""]),
        arguments=st.sampled_from(["{}", "", '{"x": 1}', "{nope", "[]"]),
        whole=st.booleans(),
        again=st.booleans(),
    )
    def call(self, name: str, arguments: str, whole: bool, again: bool) -> None:
        self.model.calls += not again
        self.model.say(ToolUseChunk(f"c{self.model.calls}", name, arguments, self.model.index))
        if whole:
            self.model.say(BlockEndChunk(self.model.index))
        self.model.index += 1
        self.settle()

    @precondition(lambda self: self.model.is_open)
    @rule(last=st.sampled_from(LAST))
    def finish(self, last: FinishChunk | ErrorChunk) -> None:
        self.model.has_paused = last == FinishChunk("pause")
        self.model.say(last)
        self.model.say()
        self.settle()

    # tools and people

    @precondition(lambda self: self.at_work)
    @rule(raises=st.booleans(), which=st.integers(0, 9))
    def end_tool(self, raises: bool, which: int) -> None:
        future = list(self.at_work.values())[which % len(self.at_work)]
        if raises:
            future.set_exception(ValueError("on purpose"))
        else:
            future.set_result("worked")
        self.settle()

    @precondition(lambda self: any(run._run.approvals.waiting for run in self.runs))
    @rule(approved=st.booleans())
    def decide(self, approved: bool) -> None:
        run = next(run for run in self.runs if run._run.approvals.waiting)
        approval = run._run.approvals.waiting[0]
        self.runner.run(self.agent.approve(run.id, approval, approved=approved, reason="so"))
        self.settle()

    # what always holds

    @invariant()
    def requests_follow_the_rules(self) -> None:
        for request, is_pause in self.model.requests[-2:]:
            messages = list(request.messages)
            if is_pause and messages[-1].role == "assistant":
                messages.append(Message.user("it goes on where the model paused"))
            assert faults(messages) == []

    def teardown(self) -> None:
        async def look() -> None:
            with anyio.fail_after(20):
                await self.agent.join(cancel=True)
            records = (await self.engine.log.read(TOPIC, EARLIEST, 100_000)).records
            for run in self.runs:
                told = [e for e in run._buffer.events if e.type in TERMINAL_TYPES]
                logged = [r for r in records if r.run == run.id and r.type in TERMINAL_TYPES]
                last = [r for r in records if r.run == run.id][-1]
                kept = await self.agent.get_run(run.id)
                assert kept is not None
                assert len(told) == len(logged) == 1
                assert (logged[0], told[0]) == (last, run._buffer.events[-1])
                assert logged[0].type == told[0].type == f"run.{kept.status}"
                assert kept.termination in ("completed", "stop_condition", "failed", "cancelled")
            assert await self.engine.leases.holder(TOPIC) is None
            assert self.at_work == {}
            final = ScriptedModel("again")
            assert await Agent("a", model=final, engine=self.engine).chat("and now?") == "again"
            assert faults(final.requests[-1].messages) == []

        try:
            self.runner.run(look())
            assert asyncio.all_tasks(self.runner.get_loop()) == set()
        finally:
            self.runner.close()


def test_a_thread_and_its_runs_end_right_in_any_order() -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=40, stateful_step_count=25))


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_thread_and_its_runs_end_right_in_very_many_orders() -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=300, stateful_step_count=50))
