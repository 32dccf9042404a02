"""Runs on threads: what waits, what is decided, what is cut, copied and erased."""

from typing import Any

import anyio
import pytest
from leftovers import nothing_left_behind
from thread_rules import faults

from agentkit import (
    Agent,
    AgentRun,
    ConfigurationError,
    Message,
    ModelConnectionError,
    RunCancelled,
    TextBlock,
    ThreadBusy,
    ThreadExists,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    tool,
)
from agentkit.engines.memory import MemoryEngine
from agentkit.log import EARLIEST, Topic
from agentkit.testing import Call, Say, ScriptedModel, Think, Wait

pytestmark = pytest.mark.anyio

TOPIC = Topic("", "a", "main")
FOREVER = Wait(seconds=3600)


@tool(requires_approval=True)
def risk(what: str = "it") -> str:
    """Risk."""
    return f"risked {what}"


@tool
def work() -> str:
    """Work."""
    return "worked"


async def seen(run: AgentRun, type_: str) -> None:
    async for event in run.event_stream:
        if event.type == type_:
            return
    raise AssertionError(f"the run ended without {type_}")


async def logged(agent: Agent) -> list[str]:
    return [record.type for record in (await agent.engine.log.read(TOPIC, EARLIEST, 10_000)).records]


def results(messages: list[Message]) -> list[tuple[str, str]]:
    return [(b.status, b.text) for m in messages for b in m.content if isinstance(b, ToolResultBlock)]


# approvals


async def test_approvals_of_one_step_are_decided_in_any_order() -> None:
    model = ScriptedModel([Call("risk", {"what": w}, id=w) for w in "abc"], "done")
    agent = Agent("a", model=model, tools=[risk])
    with anyio.fail_after(20):
        run = await agent.start("go")
        asked: dict[str, str] = {}
        async for event in run.event_stream:
            if event.type == "tool_approval.requested":
                asked[event.call] = event.approval  # type: ignore[union-attr]
            if len(asked) == 3:
                break
        assert run.deny(asked["b"], "not b")
        assert run.approve(asked["c"])
        assert run.approve(asked["a"])
        assert not run.deny(asked["a"])
        await run.result()

    assert results(await agent.messages()) == [
        ("ok", "risked a"),
        ("denied", "The call was denied: not b"),
        ("ok", "risked c"),
    ]


async def test_what_was_granted_once_is_asked_again() -> None:
    """Some providers number the calls of each answer from the beginning."""
    model = ScriptedModel([Call("risk", id="call_0")], [Call("risk", id="call_0")], "done")
    agent = Agent("a", model=model, tools=[risk])
    asked: list[str] = []
    with anyio.fail_after(20):
        run = await agent.start("go")
        async for event in run.event_stream:
            if event.type == "tool_approval.requested":
                asked.append(event.approval)  # type: ignore[union-attr]
                (run.approve if len(asked) == 1 else run.deny)(event.approval)  # type: ignore[union-attr]

    assert asked == [f"{run.id}.1.call_0", f"{run.id}.2.call_0"]
    assert [status for status, _ in results(await agent.messages())] == ["ok", "denied"]


async def test_a_sub_agents_call_is_decided_at_its_caller() -> None:
    child = Agent(
        "child", model=ScriptedModel([Call("risk")], "child done"), tools=[risk], description="Risk."
    )
    parent = Agent(
        "a", model=ScriptedModel([Call("child", {"message": "go"})], "done"), tools=[child.as_tool()]
    )
    with anyio.fail_after(20):
        run = await parent.start("go")
        async for event in run.event_stream:
            if event.type == "tool_approval.requested":
                await parent.approve(run.id, event.approval)  # type: ignore[union-attr]

    assert results(await parent.messages()) == [("ok", "child done")]


async def test_agents_that_call_each_other_do_not_go_round() -> None:
    first = Agent(
        "first", model=ScriptedModel([Call("second", {"message": "x"})], "done"), description="One."
    )
    second_model = ScriptedModel([Call("first", {"message": "y"})], "second done")
    second = Agent("second", model=second_model, tools=[first.as_tool()], description="Two.")
    with anyio.fail_after(20):
        assert await first.chat("go", tools=[second.as_tool()]) == "done"

    assert results([second_model.requests[-1].messages[-1]]) == [
        ("error", "first is itself called as a tool: it may not call further agents")
    ]


# suspended


async def suspended(*steps: Any) -> tuple[Agent, str, str]:
    """Return an agent with a suspended run, the run's id and its approval's id."""
    model = ScriptedModel([Say("I ask. "), Call("risk", id="c"), Usage(5, 5)], *steps)
    agent = Agent("a", model=model, tools=[risk, work], on_approval="suspend")
    result = await agent.run("go")
    return agent, result.run, f"{result.run}.1.c"


async def test_text_and_usage_of_a_resumed_run_are_of_all_of_it() -> None:
    agent, run, approval = await suspended([Say("Done."), Usage(3, 1)])
    with anyio.fail_after(20):
        handle = await agent.approve(run, approval)
        assert handle is not None
        result = await handle.result()

    assert (result.text, result.usage.total_tokens) == ("I ask. Done.", 14)
    record = await agent.get_run(run)
    assert record is not None
    assert (record.text, record.usage, record.pending) == ("I ask. Done.", result.usage, ())


async def test_limits_and_conditions_count_over_a_suspension() -> None:
    agent, run, approval = await suspended([Call("work")], "never")
    with anyio.fail_after(20):
        record = await agent.get_run(run)
        assert record is not None
        handle = await agent.resume(run, limits={"steps": 1})
        again = await handle.result()
        assert again.termination == "suspended"  # its call was asked for again
        handle_or_none = await agent.approve(run, approval)
        assert handle_or_none is not None
        result = await handle_or_none.result(), approval

    assert result[0].termination == "completed"


async def test_a_suspended_run_can_be_cancelled() -> None:
    agent, run, _ = await suspended("again")
    async with nothing_left_behind():
        with anyio.fail_after(20):
            await agent.cancel(run, reason="never mind")
        record = await agent.get_run(run)
        assert record is not None
        assert (record.status, record.termination, record.message) == ("cancelled", "cancelled", "never mind")
        assert (record.text, (await logged(agent))[-1]) == ("I ask. ", "run.cancelled")
        assert "risked" not in str(await agent.messages())
        assert await agent.chat("and now?") == "again"


async def test_a_thread_that_went_on_cancels_its_suspended_run() -> None:
    agent, run, approval = await suspended([Call("work")], "went on")
    with anyio.fail_after(20):
        assert await agent.chat("something else") == "went on"
        handle = await agent.approve(run, approval)
        assert handle is not None
        with pytest.raises(RunCancelled) as caught:
            await handle.result()

    assert caught.value.reason == "the thread went on without this run"
    assert "risked" not in str(await agent.messages())


async def test_a_run_is_resumed_once_whoever_decides() -> None:
    agent, run, approval = await suspended("done")
    with anyio.fail_after(20):
        handle = await agent.approve(run, approval)
        assert handle is not None
        with pytest.raises(ConfigurationError, match="not suspended"):
            await agent.resume(run)  # it goes on in this agent already
        other = await agent.bind(agent.engine).resume(run)  # as another process would
        ends: list[str] = []
        for one in (handle, other):  # whichever takes the thread first
            try:
                ends.append((await one.result()).text)
            except ConfigurationError as error:
                ends.append(str(error))

    assert sorted(ends) == ["I ask. done", f"run {run} is not suspended any more"]
    assert (await logged(agent)).count("run.finished") == 1
    record = await agent.get_run(run)
    assert record is not None
    assert record.status == "finished"


# copies, ends and what may get in


@pytest.mark.parametrize("count", range(6))
async def test_a_fork_may_be_cut_anywhere(count: int) -> None:
    model = ScriptedModel([Call("work"), Call("work")], "done", "again")
    agent = Agent("a", model=model, tools=[work])
    with anyio.fail_after(20):
        await agent.chat("go")
        await agent.fork("copy", count=count)
        assert len(await agent.messages(thread="copy")) == min(count, 4)
        assert await agent.chat("and now?", thread="copy") == "again"

    assert faults(model.requests[-1].messages) == []
    assert len(await agent.messages()) == 4


async def test_a_fork_needs_a_thread_of_its_own() -> None:
    agent = Agent("a", model=ScriptedModel("hi", [Say("x"), FOREVER]))
    with anyio.fail_after(20):
        await agent.chat("go")
        with pytest.raises(ThreadExists, match="has messages already"):
            await agent.fork("main")
        async with agent.stream("go", thread="other") as stream:
            await anext(stream)
            with pytest.raises(ThreadBusy, match="has a run already"):
                await agent.fork("other")


async def test_deleting_stops_what_runs_and_what_waits() -> None:
    agent = Agent("a", model=ScriptedModel([Say("x"), FOREVER], "never", "again"))
    async with nothing_left_behind():
        with anyio.fail_after(20):
            running, queued = await agent.start("one"), await agent.start("two")
            await seen(running, "text.delta")
            await agent.delete_thread()
            for run in (running, queued):
                with pytest.raises(RunCancelled) as caught:
                    await run.result()
                assert caught.value.reason == "the thread was deleted"

        assert (await agent.messages(), await agent.runs(), await logged(agent)) == ([], [], [])


async def test_deleting_forgets_what_is_suspended() -> None:
    agent, run, approval = await suspended("again")
    with anyio.fail_after(20):
        await agent.delete_thread()
        assert await agent.approve(run, approval) is None
        with pytest.raises(ConfigurationError, match="not suspended"):
            await agent.resume(run)
        assert await agent.chat("hello") == "again"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "user", "content": "x"}, id="dict"),
        pytest.param(Message("robot", ()), id="role"),  # type: ignore[arg-type]
        pytest.param(Message("user", "text"), id="content"),  # type: ignore[arg-type]
        pytest.param(Message("user", (ToolUseBlock("a", "b", "{}"),)), id="call of a user"),
        pytest.param(Message("tool", (TextBlock("x"),)), id="text of a tool"),
        pytest.param(Message("assistant", (ToolResultBlock("a", "b", ()),)), id="result of a model"),
    ],
)
async def test_nothing_of_a_wrong_type_gets_into_a_thread(message: Any) -> None:
    engine = MemoryEngine()
    with pytest.raises(ConfigurationError):
        await engine.threads.extend(TOPIC, [Message.user("fine"), message])

    assert await engine.threads.messages(TOPIC) == []


async def test_steering_that_did_not_go_in_is_told() -> None:
    agent = Agent("a", model=ScriptedModel([Say("x"), FOREVER]))
    with anyio.fail_after(20):
        run = await agent.start("go")
        await seen(run, "text.delta")
        steering = run.steer("and another thing")
        run.cancel()
        with pytest.raises(RunCancelled):
            notices = [e async for e in run.event_stream if e.type == "run.notice"]
            raise AssertionError(notices)
        (notice,) = [e for e in run._buffer.events if e.type == "run.notice"]
        with pytest.raises(ConfigurationError, match="has ended"):
            run.steer("too late")

    assert (notice.code, notice.data) == ("steering_unused", {"ids": [steering]})  # type: ignore[union-attr]


# what watchers get


async def test_a_large_result_is_whole_in_the_thread_and_short_in_the_log() -> None:
    text = "x" * 200_000
    model = ScriptedModel([Call("large")], "done")

    @tool
    def large() -> str:
        """Say much."""
        return text

    agent = Agent("a", model=model, tools=[large])
    with anyio.fail_after(20):
        await agent.chat("go")

    assert results(await agent.messages()) == [("ok", text)]
    assert results(list(model.requests[-1].messages)) == [("ok", text)]
    records = (await agent.engine.log.read(TOPIC, EARLIEST, 999)).records
    (told,) = [record for record in records if record.type == "tool_result"]
    assert b'"truncated":true' in told.body
    assert len(told.body) < 1000


async def test_an_observer_that_hangs_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agentkit.generate.OBSERVER_TIMEOUT", 0.01)
    calls: list[object] = []

    async def hang(event: object) -> None:
        calls.append(event)
        await anyio.sleep_forever()

    agent = Agent("a", model=ScriptedModel([Think("abcd", pieces=4), Say("hi")]), on_reasoning_event=hang)
    async with nothing_left_behind():
        with anyio.fail_after(20):
            assert await agent.chat("go") == "hi"

    assert len(calls) == 1
    assert "not called again" in caplog.text


async def test_no_block_is_discarded_where_another_model_goes_on() -> None:
    down = ModelConnectionError("down", provider="scripted")

    class Down(ScriptedModel):
        """Not there."""

        def stream(self, request: Any) -> Any:
            raise down

    agent = Agent("a", model=[Down(), ScriptedModel([Think("hm"), Say("hi")])])
    with anyio.fail_after(20):
        run = await agent.start("go")
        events = [event async for event in run.event_stream]

    began = [e.block for e in events if e.type in ("text.started", "reasoning_block.started")]  # type: ignore[union-attr]
    assert began == [f"{run.id}.1.0", f"{run.id}.1.1"]
    assert [e.type for e in events if e.type in ("step.retrying", "run.notice")] == ["run.notice"]


async def test_leaving_the_callers_scope_keeps_a_started_run_going() -> None:
    agent = Agent("a", model=ScriptedModel("done"))
    with anyio.fail_after(20):
        run = await agent.start("go")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await run.result()
        assert await run.text == "done"
