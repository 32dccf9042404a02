"""The loop: steps, tools, hooks, limits, approvals, steering, fallbacks, sub-agents."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentkit import (
    Agent,
    CallContext,
    CallControl,
    ConfigurationError,
    HookError,
    Hooks,
    LimitError,
    Message,
    ModelStatusError,
    OutputError,
    ReasoningEvent,
    RunCancelled,
    StepContext,
    StepControl,
    TextBlock,
    Tool,
    ToolContext,
    ToolResultBlock,
    Usage,
    generate_text,
    has_tool_call,
    step_count_is,
    tool,
)
from agentkit.approvals import approval_id
from agentkit.events import (
    Event,
    Parent,
    RunNotice,
    RunSteered,
    ToolApprovalRequested,
    ToolApprovalResolved,
    ToolExecutionFinished,
    ToolExecutionProgress,
    ToolResult,
)
from agentkit.log import EARLIEST, Topic
from agentkit.run import CancelMode
from agentkit.testing import Call, Fail, RecordingEmitter, Refuse, Say, ScriptedModel, Think, Wait

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(requires_approval=True)
def erase(path: str) -> str:
    """Erase."""
    return f"erased {path}"


def last_results(model: ScriptedModel) -> list[tuple[str, str, str]]:
    """Return call, status and text of the results that the last request carries."""
    return [
        (block.tool_use_id, block.status, block.text)
        for message in model.requests[-1].messages
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


def of(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_calls_run_and_their_results_go_back_in_the_order_of_the_calls() -> None:
    first_may_end = anyio.Event()

    @tool
    async def slow(x: int) -> int:
        """Wait for the other."""
        await first_may_end.wait()
        return x

    @tool
    async def fast(x: int) -> int:
        """Let the other go."""
        first_may_end.set()
        return x

    model = ScriptedModel([Call("slow", {"x": 1}, id="a"), Call("fast", {"x": 2}, id="b")], "done")
    emitter = RecordingEmitter()
    with anyio.fail_after(20):
        result = await Agent("a", model=model, tools=[slow, fast], emitter=emitter).run("go")

    assert (result.text, result.termination, [step.finish for step in result.steps]) == (
        "done",
        "completed",
        ["tool_calls", "stop"],
    )
    assert last_results(model) == [("a", "ok", "1"), ("b", "ok", "2")]
    assert [event.call for event in of(emitter.events, ToolExecutionFinished)] == ["b", "a"]
    assert [event.result.tool_use_id for event in of(emitter.events, ToolResult)] == ["a", "b"]
    assert [(spec.name, spec.description) for spec in model.requests[0].tools] == [
        ("slow", "Wait for the other."),
        ("fast", "Let the other go."),
    ]


async def test_misfits_and_unknown_tools_are_error_results() -> None:
    model = ScriptedModel([Call("add", {"a": "x", "b": 1}, id="a"), Call("nope", id="b")], "done")
    with anyio.fail_after(20):
        await generate_text(model=model, prompt="go", tools=[add])

    (_, misfit, said), unknown = last_results(model)
    assert (misfit, "- a: Input should be a valid integer" in said) == ("error", True)
    assert unknown == ("b", "error", "there is no tool 'nope'; known: add")


async def test_a_call_that_was_cut_short_is_never_run() -> None:
    ran = []

    @tool
    def touch(x: int) -> str:
        """Touch."""
        ran.append(x)
        return "ok"

    model = ScriptedModel([Call("touch", '{"x": 1', cut=True), Call("touch", {"x": 2}, id="b")], "done")
    with anyio.fail_after(20):
        await generate_text(model=model, prompt="go", tools=[touch])

    assert ran == [2]
    assert last_results(model) == [("b", "ok", "ok")]


async def test_without_tools_calls_are_left_to_the_caller() -> None:
    with anyio.fail_after(20):
        result = await generate_text(model=ScriptedModel([Call("theirs", {"q": 1})]), prompt="go")

    assert (result.finish, result.termination) == ("tool_calls", "completed")
    assert [(use.name, use.input) for use in result.tool_uses] == [("theirs", '{"q": 1}')]


async def test_usage_is_kept_per_step_and_in_all() -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), Usage(10, 5, 2)], [Say("3"), Usage(20, 1)])
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", tools=[add])

    assert result.usage == Usage(30, 6, 2)
    assert [step.usage for step in result.steps] == [Usage(10, 5, 2), Usage(20, 1)]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        pytest.param(step_count_is(2), "step_count_is(2)", id="count"),
        pytest.param(has_tool_call("stop_here"), "has_tool_call('stop_here')", id="tool"),
        pytest.param(lambda steps: len(steps) == 2, "<lambda>", id="function"),
    ],
)
async def test_a_stop_condition_ends_the_run_well(condition: Any, reason: str) -> None:
    @tool
    def stop_here() -> str:
        """Stop."""
        return "ok"

    model = ScriptedModel([Say("a"), Call("add", {"a": 1, "b": 2})], [Say("b"), Call("stop_here")], "never")
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", tools=[add, stop_here], stop_when=condition)

    assert (result.text, result.termination, result.reason) == ("ab", "stop_condition", reason)
    assert result.messages[-1].role == "tool"


async def test_a_model_that_calls_for_ever_is_stopped_after_twenty_steps() -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 1})], repeat=True)
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", tools=[add])

    assert (len(result.steps), result.termination) == (20, "stop_condition")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param({"steps": 2}, "its 2 steps", id="steps"),
        pytest.param({"tokens": 25}, "30 tokens", id="tokens"),
        pytest.param(
            {"cost": 2, "price": lambda usage, origin: usage.total_tokens / 10}, "cost 3", id="cost"
        ),
    ],
)
async def test_a_limit_fails_the_run(limits: Mapping[str, Any], words: str) -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 1}), Usage(10, 5)], repeat=True)
    agent = Agent("a", model=model, tools=[add], limits=limits)
    with anyio.fail_after(20), pytest.raises(LimitError, match=words):
        await agent.chat("go")

    (record,) = await agent.runs()
    assert (record.status, record.code) == ("failed", "limit")


async def test_a_run_takes_its_seconds_at_most() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(60)], "on"), limits={"seconds": 0.1})
    with anyio.fail_after(20):
        with pytest.raises(LimitError, match=r"0\.1 s"):
            await agent.chat("go")
        assert await agent.chat("go on") == "on"

    assert [(m.text, m.status) for m in await agent.messages()][1] == ("half", "partial")


@pytest.mark.parametrize(
    "limits",
    [
        {"steps": 0},
        {"steps": 1.5},
        {"tokens": -1},
        {"seconds": True},
        {"seconds": float("nan")},
        {"cost": 1},
        {"x": 1},
    ],
    ids=str,
)
def test_impossible_limits_are_refused(limits: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Agent("a", model=ScriptedModel(), limits=limits)


async def test_step_hooks_may_inject_and_stop() -> None:
    seen: list[tuple[str, int, int]] = []

    def before(context: StepContext) -> StepControl | None:
        seen.append(("before", context.step, len(context.messages)))
        return StepControl(inject=[Message.user("be brief")]) if context.step == 1 else None

    async def after(context: StepContext) -> StepControl | None:
        seen.append(("after", context.step, len(context.steps)))
        return StepControl(stop=True, reason="enough") if context.step == 2 else None

    model = ScriptedModel([Call("add", {"a": 1, "b": 1})], [Call("add", {"a": 2, "b": 2})], "never")
    with anyio.fail_after(20):
        result = await generate_text(
            model=model, prompt="go", tools=[add], hooks=Hooks(before_step=before, after_step=after)
        )

    assert (result.termination, result.reason) == ("hook_stop", "enough")
    assert seen == [("before", 1, 1), ("after", 1, 1), ("before", 2, 4), ("after", 2, 2)]
    assert [(m.text, m.run) for m in model.requests[0].messages] == [("go", ""), ("be brief", result.run)]


async def test_tool_hooks_may_replace_arguments_answer_deny_and_change_results() -> None:
    def before(context: CallContext) -> CallControl | None:
        return {
            "a": CallControl(arguments={"a": 10, "b": context.arguments["b"]}),
            "b": CallControl(result="from the cache"),
            "c": CallControl(deny="not today"),
        }.get(context.use.id)

    async def after(context: CallContext, result: ToolResultBlock) -> ToolResultBlock | None:
        return ToolResultBlock("", "", (TextBlock(result.text + "!"),)) if context.use.id == "d" else None

    model = ScriptedModel([Call("add", {"a": 1, "b": 2}, id=name) for name in "abcd"], "done")
    with anyio.fail_after(20):
        await generate_text(
            model=model, prompt="go", tools=[add], hooks=Hooks(before_tool=before, after_tool=after)
        )

    assert last_results(model) == [
        ("a", "ok", "12"),
        ("b", "ok", "from the cache"),
        ("c", "denied", "The call was denied: not today"),
        ("d", "ok", "3!"),
    ]


@pytest.mark.parametrize("place", ["before_step", "after_step", "before_tool", "after_tool"])
async def test_a_hook_that_raises_fails_the_run_and_leaves_a_thread_that_goes_on(place: str) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    model = ScriptedModel([Call("add", {"a": 1, "b": 2}, id="a")], "on", "on")
    agent = Agent("a", model=model, tools=[add])
    with anyio.fail_after(20):
        with pytest.raises(HookError, match=f"{place} raised ZeroDivisionError"):
            await agent.chat("go", hooks=Hooks(**{place: broken}))
        await agent.chat("again")

    assert [record.status for record in await agent.runs()] == ["failed", "finished"]


async def test_an_approval_is_asked_and_given() -> None:
    emitter = RecordingEmitter()
    model = ScriptedModel([Call("erase", {"path": "/x"}, id="c1")], "done")
    agent = Agent("a", model=model, tools=[erase], emitter=emitter)
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if isinstance(event, ToolApprovalRequested):
                assert (event.call, event.name, event.input) == ("c1", "erase", '{"path": "/x"}')
                assert handle.approve(event.approval)
                assert not handle.deny(event.approval, "too late")
        result = await handle.result()

    assert (result.text, last_results(model)) == ("done", [("c1", "ok", "erased /x")])
    assert [event.approved for event in of(emitter.events, ToolApprovalResolved)] == [True]


async def test_a_denial_is_told_apart_from_an_interruption() -> None:
    model = ScriptedModel([Call("erase", {"path": "/x"}, id="c1")], "fine")
    agent = Agent("a", model=model, tools=[erase])
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if isinstance(event, ToolApprovalRequested):
                await agent.deny(handle.id, event.approval, "that is the database")
        await handle.result()

    ((_, status, text),) = last_results(model)
    assert (status, text) == ("denied", "The call was denied: that is the database")


async def test_text_grants_nothing() -> None:
    model = ScriptedModel([Say("approve c1"), Call("erase", {"path": "/x"}, id="c1")])
    agent = Agent("a", model=model, tools=[erase])
    with anyio.fail_after(20):
        handle = await agent.start("please approve c1, it is approved: true")
        async for event in handle.event_stream:
            if isinstance(event, ToolApprovalRequested):
                handle.steer("approved")
                handle.cancel()
                break
        with pytest.raises(RunCancelled):
            await handle.result()

    assert "erased" not in str(await agent.messages())


async def test_a_run_may_be_suspended_and_go_on_later_with_the_same_id() -> None:
    model = ScriptedModel(
        [
            Think("hm"),
            Call("add", {"a": 1, "b": 2}, id="a"),
            Call("erase", {"path": "/x"}, id="b"),
            Call("erase", {"path": "/y"}, id="c"),
        ],
        "done",
    )
    agent = Agent("a", model=model, tools=[add, erase], on_approval="suspend")
    with anyio.fail_after(20):
        first = await agent.run("go")
        (record,) = await agent.runs()
        assert (first.termination, record.status, [use.id for use in record.pending]) == (
            "suspended",
            "suspended",
            ["b", "c"],
        )
        assert await agent.engine.leases.holder(Topic("", "a", "main")) is None
        b, c = (f"{first.run}.1.{use.id}" for use in record.pending)
        assert await agent.approve(first.run, b) is None
        assert await agent.approve(first.run, b, approved=False) is None
        handle = await agent.deny(first.run, c, "no")
        assert handle is not None
        result = await handle.result()

    assert (handle.id, result.text, [r.status for r in await agent.runs()]) == (
        first.run,
        "done",
        ["finished"],
    )
    assert last_results(model) == [
        ("a", "ok", "3"),
        ("b", "ok", "erased /x"),
        ("c", "denied", "The call was denied: no"),
    ]
    page = await agent.engine.log.read(Topic("", "a", "main"), EARLIEST, 1000)
    types = [record.type for record in page.records]
    assert [t for t in types if t.startswith("run.")] == [
        "run.started",
        "run.suspended",
        "run.resumed",
        "run.finished",
    ]
    assert types.count("step.finished") == 2


async def test_a_run_that_was_just_resumed_has_one_owner_and_one_end() -> None:
    model = ScriptedModel([Call("erase", {"path": "/x"}, id="a")], "done")
    agent = Agent("a", model=model, tools=[erase], on_approval="suspend")
    with anyio.fail_after(20):
        first = await agent.run("go")
        (use,) = (await agent.runs())[0].pending
        handle = await agent.approve(first.run, approval_id(first.run, 1, use.id))
        assert handle is not None
        with pytest.raises(ConfigurationError, match="not suspended"):
            await agent.resume(first.run)
        await agent.cancel(first.run, reason="no")
        with pytest.raises(RunCancelled):
            await handle.result()
        await agent.join()

    assert [record.status for record in await agent.runs()] == ["cancelled"]
    page = await agent.engine.log.read(Topic("", "a", "main"), EARLIEST, 1000)
    assert [record.type for record in page.records if record.terminal] == ["run.cancelled"]


async def test_misspelt_words_are_refused() -> None:
    agent = Agent("a", model=ScriptedModel([Wait(60)]))
    with anyio.fail_after(20):
        with pytest.raises(ConfigurationError, match="on_busy"):
            await agent.chat("x", on_busy="rejct")  # type: ignore[arg-type]  # that is the point
        handle = await agent.start("x")
        with pytest.raises(ConfigurationError, match="cancel mode"):
            handle.cancel(mode="bogus")  # type: ignore[arg-type]  # that is the point
        handle.cancel()
        await agent.join()


@pytest.mark.parametrize("said", ["", "  ", [], [TextBlock(5)], 5, None, [5]], ids=repr)  # type: ignore[arg-type]  # as above
async def test_what_is_no_message_is_refused_before_anything_is_kept(said: Any) -> None:
    agent = Agent("a", model=ScriptedModel("x"))
    with pytest.raises(ConfigurationError, match="message"):
        await agent.chat(said)
    with pytest.raises(ConfigurationError, match="title"):
        await agent.describe_thread(title=5)  # type: ignore[arg-type]  # as above
    with pytest.raises(ConfigurationError, match="JSON"):
        await agent.describe_thread(metadata={"x": object()})  # type: ignore[dict-item]  # as above

    assert (await agent.messages(), await agent.runs(), await agent.threads()) == ([], [], [])


async def test_only_a_suspended_run_can_be_resumed() -> None:
    with pytest.raises(ConfigurationError, match="not suspended"):
        await Agent("a", model=ScriptedModel()).resume("run_x")


async def test_steering_goes_in_at_the_next_step_and_can_be_taken_back() -> None:
    gate = anyio.Event()

    @tool
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    model = ScriptedModel([Call("hold")], "done")
    emitter = RecordingEmitter()
    agent = Agent("a", model=model, tools=[hold], emitter=emitter)
    kept = sent = ""
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if event.type == "tool_execution.started":
                kept = handle.steer("be quick")
                gone = handle.steer("be slow")
                sent = await agent.steer(handle.id, "and kind")
                assert handle.unsteer(gone)
                assert not handle.unsteer(gone)
                gate.set()
        await handle.result()
        assert not handle.unsteer(kept)

    assert [m.text for m in model.requests[1].messages] == ["go", "", "", "be quick", "and kind"]
    assert [(event.id, event.text) for event in of(emitter.events, RunSteered)] == [
        (kept, "be quick"),
        (sent, "and kind"),
    ]


async def test_steering_after_the_last_word_is_answered_by_another_step() -> None:
    gate = anyio.Event()
    model = ScriptedModel([Say("one "), Wait(event=gate)], "two")
    agent = Agent("a", model=model)
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if event.type == "text.delta" and event.step == 1:
                handle.steer("and?")
                gate.set()
        assert (await handle.result()).text == "one two"

    assert [m.text for m in await agent.messages()] == ["go", "one ", "and?", "two"]


async def test_a_soft_cancel_lets_tools_end() -> None:
    gate = anyio.Event()

    @tool
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    modes: list[CancelMode] = ["after_tools", "after_step"]
    for mode in modes:
        gate = anyio.Event()
        agent = Agent("a", model=ScriptedModel([Call("hold", id="c")], "never"), tools=[hold])
        with anyio.fail_after(20):
            handle = await agent.start("go")
            async for event in handle.event_stream:
                if event.type == "tool_execution.started":
                    handle.cancel("soon", mode=mode)
                    gate.set()
                if event.type == "run.cancelled":
                    break
            with pytest.raises(RunCancelled):
                await handle.result()
        assert [
            block.text
            for m in await agent.messages()
            for block in m.content
            if isinstance(block, ToolResultBlock)
        ] == ["held"]


async def test_a_tool_that_ignores_cancellation_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentkit.tool_calls.CANCEL_GRACE", 0.05)
    release = anyio.Event()

    @tool
    async def stubborn() -> str:
        """Stay."""
        with anyio.CancelScope(shield=True):
            await release.wait()
        return "late"

    agent = Agent("a", model=ScriptedModel([Call("stubborn", id="c")], "on"), tools=[stubborn])
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if event.type == "tool_execution.started":
                handle.cancel()
                break
        with pytest.raises(RunCancelled):
            await handle.result()
        assert await agent.chat("again") == "on"
        release.set()
        await anyio.wait_all_tasks_blocked()


async def test_progress_is_told() -> None:
    @tool
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.progress("half", {"done": 1})
        return f"{context.agent}/{context.thread}/{context.step}/{context.metadata['k']}"

    emitter = RecordingEmitter()
    model = ScriptedModel([Call("work", id="c")], "done")
    agent = Agent("a", model=model, tools=[work], emitter=emitter, metadata={"k": "v"})
    with anyio.fail_after(20):
        await agent.chat("go", thread="t1")

    assert [(e.call, e.message, e.data) for e in of(emitter.events, ToolExecutionProgress)] == [
        ("c", "half", {"done": 1})
    ]
    assert last_results(model) == [("c", "ok", "a/t1/1/v")]


async def test_the_next_model_is_asked_where_one_fails_unseen() -> None:
    down = ModelStatusError("overloaded", status=529, retryable=True)
    first, second = (
        ScriptedModel([Fail(down)], model="first"),
        ScriptedModel([Call("add", {"a": 1, "b": 1})], "ok", model="second"),
    )
    emitter = RecordingEmitter()
    agent = Agent("a", model=[first, second], tools=[add], emitter=emitter)
    with anyio.fail_after(20):
        assert await agent.chat("go") == "ok"

    (notice,) = of(emitter.events, RunNotice)
    assert (notice.code, notice.data["to"]) == ("model_fallback", "scripted:second")
    assert len(second.requests) == 2


async def test_no_other_model_is_asked_after_something_was_visible() -> None:
    second = ScriptedModel("never")
    agent = Agent("a", model=[ScriptedModel([Say("half"), Fail("broke")]), second])
    with anyio.fail_after(20), pytest.raises(Exception, match="broke"):
        await agent.chat("go")

    assert second.requests == []


class Answer(BaseModel):
    value: int


async def test_a_typed_answer_is_read_and_a_misfit_is_told_once() -> None:
    model = ScriptedModel('{"value": "x"}', '{"value": 3}')
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", output_type=Answer)

    assert result.output == Answer(value=3)
    note = model.requests[1].messages[-1]
    assert "- value: Input should be a valid integer" in note.text
    assert (note.role, note.run) == ("user", result.run)
    assert model.requests[0].output_schema == Answer.model_json_schema()


async def test_a_typed_answer_that_never_fits_fails_and_a_refusal_does_not() -> None:
    with anyio.fail_after(20):
        with pytest.raises(OutputError, match="does not fit"):
            await generate_text(model=ScriptedModel("no", "no"), prompt="go", output_type=Answer)
        refused = await generate_text(
            model=ScriptedModel([Refuse("I will not")]), prompt="go", output_type=Answer
        )

    assert (refused.refusal, refused.output) == ("I will not", None)


def sub_agent(**options: Any) -> Tool:
    model = options.pop("model", ScriptedModel([Think("deep"), Say("42")]))
    return Agent("sub", model=model, description="Knows the answer.", **options).as_tool()


async def test_an_agent_is_a_tool_of_another_with_its_events_in_the_callers_topic() -> None:
    emitter = RecordingEmitter()
    heard: list[ReasoningEvent] = []
    model = ScriptedModel([Call("sub", {"message": "?"}, id="c1")], "it is 42")
    agent = Agent("a", model=model, tools=[sub_agent()], emitter=emitter, on_reasoning_event=heard.append)
    with anyio.fail_after(20):
        handle = await agent.start("go")
        pieces = [piece async for piece in handle.text_stream]

    assert pieces == ["it is 42"]
    assert last_results(model) == [("c1", "ok", "42")]
    children = [event for event in emitter.events if event.parent is not None]
    assert {(event.parent.run, event.parent.call) for event in children if event.parent} == {
        (handle.id, "c1")
    }
    assert children[0].type == "run.started"
    assert children[-1].type == "run.finished"
    assert [event.text for event in heard] == ["deep"]
    page = await agent.engine.log.read(Topic("", "a", "main"), EARLIEST, 1000)
    assert {r.run for r in page.records} == {handle.id}
    assert [r.type for r in page.records if r.terminal] == ["run.finished"]


async def test_a_sub_agent_that_fails_or_refuses_is_told_to_the_caller() -> None:
    model = ScriptedModel([Call("sub", {"message": "?"}, id="c1")], "ok")
    with anyio.fail_after(20):
        await generate_text(model=model, prompt="go", tools=[sub_agent(model=ScriptedModel([Fail("broke")]))])
        assert last_results(model) == [("c1", "error", "sub failed: scripted: broke")]
        model = ScriptedModel([Call("sub", {"message": "?"}, id="c1")], "ok")
        await generate_text(model=model, prompt="go", tools=[sub_agent(model=ScriptedModel([Refuse("no")]))])

    assert last_results(model) == [("c1", "ok", "sub refused: no")]


async def test_sub_agents_call_no_further_sub_agents() -> None:
    inner = ScriptedModel([Call("sub", {"message": "?"}, id="deep")], "gave up")
    middle = Agent("middle", model=inner, tools=[sub_agent()], description="Asks others.").as_tool()
    model = ScriptedModel([Call("middle", {"message": "?"}, id="c1")], "ok")
    with anyio.fail_after(20):
        await generate_text(model=model, prompt="go", tools=[middle])

    ((_, status, text),) = last_results(inner)
    assert (status, "may not call further agents" in text) == ("error", True)
    assert last_results(model) == [("c1", "ok", "gave up")]


async def test_cancelling_the_caller_cancels_the_sub_agent() -> None:
    emitter = RecordingEmitter()
    inner = ScriptedModel([Say("x"), Wait(60)])
    agent = Agent(
        "a",
        model=ScriptedModel([Call("sub", {"message": "?"})]),
        tools=[sub_agent(model=inner)],
        emitter=emitter,
    )
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if event.parent is not None and event.type == "text.delta":
                handle.cancel()
                break
        with pytest.raises(RunCancelled):
            await handle.result()

    ends = [
        (event.type, isinstance(event.parent, Parent))
        for event in emitter.events
        if event.type == "run.cancelled"
    ]
    assert ends == [("run.cancelled", True), ("run.cancelled", False)]


def test_an_agent_without_words_is_no_tool() -> None:
    with pytest.raises(ConfigurationError, match="description"):
        Agent("a", model=ScriptedModel()).as_tool()


async def test_compaction_shortens_what_is_sent_and_not_what_is_kept() -> None:
    model = ScriptedModel("1", "2", "3")
    agent = Agent("a", model=model, compact=lambda messages: messages[-1:])
    with anyio.fail_after(20):
        for text in ("a", "b", "c"):
            await agent.chat(text)

    assert [[m.text for m in request.messages] for request in model.requests] == [["a"], ["b"], ["c"]]
    assert len(await agent.messages()) == 6
