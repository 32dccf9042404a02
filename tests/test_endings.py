"""The table of endings: whatever ends a run, it is told once, kept right, and leaves a thread that can be sent again.

Beside each ending: what the run's record says. Checked for all: one terminal event in process and one in the log, no task or thread
left, and the strict rules of `thread_rules` on the thread's next request.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from leftovers import nothing_left_behind
from thread_rules import faults

from agentkit import (
    Agent,
    AgentKitError,
    AgentRun,
    Hooks,
    Message,
    OutputError,
    RunCancelled,
    StepControl,
    ToolContext,
    generate_text,
    has_tool_call,
    tool,
)
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import EngineError, ModelError
from agentkit.events import TERMINAL_TYPES, Event
from agentkit.log import EARLIEST, Draft, Record, Topic
from agentkit.run import CancelMode
from agentkit.testing import Call, Fail, RecordingEmitter, Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Step

pytestmark = pytest.mark.anyio

TOPIC = Topic("", "a", "main")
Act = Callable[[AgentRun, "Gate"], Awaitable[object]]


class Gate:
    """A place where a run is held until it is stopped."""

    def __init__(self) -> None:
        self._reached = anyio.Event()

    async def hold(self, *_: object) -> Any:
        self._reached.set()
        await anyio.sleep_forever()

    async def reached(self) -> None:
        await self._reached.wait()


@dataclass
class Ending:
    """One run: its script and setting, what is done to it, and what shall be known of it."""

    steps: Sequence[Step]
    status: str
    termination: str
    code: str = ""
    setting: Callable[[Gate], dict[str, Any]] = field(default=lambda _: {})
    act: Act | None = None
    again: str = "again"


@tool
async def work() -> str:
    """Work."""
    return "worked"


@tool
async def crash() -> str:
    """Crash."""
    raise ZeroDivisionError("by zero")


@tool(timeout=0.01)
async def late() -> str:
    """Take too long."""
    await anyio.sleep_forever()
    return ""


@tool
def rubbish() -> object:
    """Return what is no JSON."""
    return object()


@tool
def leave() -> str:
    """Leave the process."""
    raise SystemExit(3)


@tool(requires_approval=True)
def risky() -> str:
    """Risk."""
    return "risked"


def raising(*_: object) -> Any:
    raise RuntimeError("broken on purpose")


class BrokenEmitter(RecordingEmitter):
    """Raises what the run must not care about, or must."""

    def __init__(self, error: Exception, at: str = "text.delta") -> None:
        super().__init__()
        self.error, self.at = error, at

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        await super().emit(topic, events)
        if any(event.type == self.at for event in events):
            raise self.error


async def seen(run: AgentRun, type_: str) -> None:
    async for event in run.event_stream:
        if event.type == type_:
            return
    raise AssertionError(f"the run ended without {type_}")


def cancel_at(type_: str, mode: CancelMode = "now") -> Act:
    """Cancel once an event of this type was seen."""

    async def act(run: AgentRun, _: Gate) -> None:
        await seen(run, type_)
        run.cancel("enough", mode=mode)

    return act


async def cancel_held(run: AgentRun, gate: Gate) -> None:
    await gate.reached()
    run.cancel("enough")


async def cancel_at_once(run: AgentRun, _: Gate) -> None:
    run.cancel("enough")


def held_tool(gate: Gate) -> dict[str, Any]:
    async def hold() -> str:
        """Hold."""
        await gate.hold()
        return ""

    return {"tools": [hold, work]}


def shielded_tool(gate: Gate) -> dict[str, Any]:
    async def stubborn(context: ToolContext) -> str:
        """Ignore cancellation for a while, and speak after it."""
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)
            await context.progress("still here")
        return "late"

    return {"tools": [stubborn]}


def compacting(gate: Gate) -> dict[str, Any]:
    return {"compact": gate.hold}


def stop_first() -> Any:
    return once(lambda _: StepControl(stop=True))


def same(messages: Sequence[Message]) -> Sequence[Message]:
    return messages


def asked() -> str:
    """Ask."""
    return ""


def once(function: Callable[..., Any], then: Callable[..., Any] = lambda *_: None) -> Callable[..., Any]:
    """Return a function that is `function` the first time and `then` from then on."""
    calls: list[None] = []

    def call(*args: object) -> Any:
        calls.append(None)
        return (function if len(calls) == 1 else then)(*args)

    return call


FOREVER = Wait(seconds=3600)
CALLS: Step = [Think("hm", "sig"), Call("work", id="a"), Call("hold", id="b")]
BAD, OFF = ("failed", "failed"), ("cancelled", "cancelled")

ENDINGS = {
    # well
    "an answer": Ending(["hi"], "finished", "completed"),
    "a condition": Ending(
        [[Call("work")]],
        "finished",
        "stop_condition",
        setting=lambda _: {"tools": [work], "stop_when": has_tool_call("work")},
    ),
    "a hook stops": Ending(
        [],
        "finished",
        "hook_stop",
        setting=lambda _: {"hooks": Hooks(before_step=stop_first())},
    ),
    "a refusal to go on": Ending(
        [[Call("risky")]],
        "suspended",
        "suspended",
        setting=lambda _: {"tools": [risky], "on_approval": "suspend"},
    ),
    # the provider
    "error before the stream": Ending([[Fail("down")]], *BAD, "model_stream"),
    "exception before the stream": Ending([[Fail(OSError("cut"))]], *BAD, "internal"),
    "error in reasoning": Ending([[Think("hm", "sig"), Think("so"), Fail("down")]], *BAD, "model_stream"),
    "error in text": Ending([[Say("half an"), Fail("down")]], *BAD, "model_stream"),
    "error in a call": Ending(
        [[Call("work", '{"a', cut=True), Fail("down")]],
        *BAD,
        "model_stream",
        setting=lambda _: {"tools": [work]},
    ),
    "error after a whole call": Ending(
        [[Call("work"), Fail("down")]], *BAD, "model_stream", setting=lambda _: {"tools": [work]}
    ),
    "error in the second step": Ending(
        [[Call("work")], [Say("half"), Fail("down")]],
        *BAD,
        "model_stream",
        setting=lambda _: {"tools": [work]},
    ),
    "truncation": Ending([[Say("half"), Fail("cut", kind="truncated")]], *BAD, "model_stream"),
    # limits
    "steps": Ending(
        [[Call("work")]], "failed", "limit", "limit", lambda _: {"tools": [work], "limits": {"steps": 1}}
    ),
    "seconds in the model": Ending(
        [[Say("a"), FOREVER]], "failed", "limit", "limit", lambda _: {"limits": {"seconds": 0.01}}
    ),
    "seconds in a tool": Ending(
        [CALLS], "failed", "limit", "limit", lambda gate: {**held_tool(gate), "limits": {"seconds": 0.01}}
    ),
    # tools never end a run
    "a tool raises": Ending(
        [[Call("crash")], "ok"], "finished", "completed", setting=lambda _: {"tools": [crash]}
    ),
    "a tool takes too long": Ending(
        [[Call("late")], "ok"], "finished", "completed", setting=lambda _: {"tools": [late]}
    ),
    "a tool returns rubbish": Ending(
        [[Call("rubbish")], "ok"], "finished", "completed", setting=lambda _: {"tools": [rubbish]}
    ),
    "a tool exits": Ending(
        [[Call("leave")], "ok"], "finished", "completed", setting=lambda _: {"tools": [leave]}
    ),
    "a call without a tool": Ending(
        [[Call("nope")], "ok"], "finished", "completed", setting=lambda _: {"tools": [work]}
    ),
    "a call that is no JSON": Ending(
        [[Call("work", "{nope")], "ok"], "finished", "completed", setting=lambda _: {"tools": [work]}
    ),
    "two calls of one id": Ending(
        [[Call("work", id="a"), Call("work", id="a")], "ok"],
        "finished",
        "completed",
        setting=lambda _: {"tools": [work]},
    ),
    "a tool ignores cancellation": Ending(
        [[Call("stubborn")]], *OFF, setting=shielded_tool, act=cancel_at("tool_execution.started")
    ),
    # the application's own functions
    "before_step raises": Ending([], *BAD, "hook", lambda _: {"hooks": Hooks(before_step=once(raising))}),
    "after_step raises": Ending(["hi"], *BAD, "hook", lambda _: {"hooks": Hooks(after_step=once(raising))}),
    "before_tool raises": Ending(
        [[Call("work")]],
        *BAD,
        "hook",
        lambda _: {"tools": [work], "hooks": Hooks(before_tool=raising)},
    ),
    "after_tool raises": Ending(
        [[Call("work")]], *BAD, "hook", lambda _: {"tools": [work], "hooks": Hooks(after_tool=raising)}
    ),
    "after_tool returns rubbish": Ending(
        [[Call("work")]],
        *BAD,
        "hook",
        lambda _: {"tools": [work], "hooks": Hooks(after_tool=lambda *_: "no block")},  # type: ignore[arg-type]
    ),
    "a hook injects rubbish": Ending(
        [],
        *BAD,
        "hook",
        lambda _: {"hooks": Hooks(before_step=once(lambda _: StepControl(inject=["no message"])))},  # type: ignore[list-item]
    ),
    "requires_approval raises": Ending(
        [[Call("asked")]], *BAD, "hook", lambda _: {"tools": [tool(requires_approval=raising)(asked)]}
    ),
    "an observer raises": Ending(
        [[Think("hm"), Say("hi")]], "finished", "completed", setting=lambda _: {"on_reasoning_event": raising}
    ),
    "an emitter raises": Ending(
        ["hi"], "finished", "completed", setting=lambda _: {"emitter": BrokenEmitter(ValueError("no"))}
    ),
    "an emitter refuses": Ending(
        ["hi"], *BAD, "engine", lambda _: {"emitter": BrokenEmitter(EngineError("no"))}, again=""
    ),
    "an emitter refuses the end": Ending(
        ["hi"],
        *BAD,
        "engine",
        lambda _: {"emitter": BrokenEmitter(EngineError("no"), "run.finished")},
        again="",
    ),
    "no typed answer": Ending(["{", "{"], *BAD, "output", lambda _: {"output_type": int}, again=""),
    # cancelled, at each place where a run can be
    "cancel at once": Ending([[FOREVER]], *OFF, act=cancel_at_once),
    "cancel in before_step": Ending(
        [], *OFF, setting=lambda gate: {"hooks": Hooks(before_step=once(gate.hold))}, act=cancel_held
    ),
    "cancel in compaction": Ending(
        [], *OFF, setting=lambda g: {"compact": once(g.hold, same)}, act=cancel_held
    ),
    "cancel before the answer": Ending([[FOREVER]], *OFF, act=cancel_at("step.started")),
    "cancel in reasoning": Ending([[Think("hm"), FOREVER]], *OFF, act=cancel_at("reasoning.delta")),
    "cancel after a signature": Ending(
        [[Think("hm", "s"), FOREVER]], *OFF, act=cancel_at("reasoning.signature")
    ),
    "cancel in text": Ending([[Say("half"), FOREVER]], *OFF, act=cancel_at("text.delta")),
    "cancel in a call": Ending(
        [[Call("work", '{"a', cut=True), FOREVER]],
        *OFF,
        setting=lambda _: {"tools": [work]},
        act=cancel_at("tool_call.delta"),
    ),
    "cancel in before_tool": Ending(
        [[Call("work")]],
        *OFF,
        setting=lambda gate: {"tools": [work], "hooks": Hooks(before_tool=gate.hold)},
        act=cancel_held,
    ),
    "cancel in an approval": Ending(
        [[Call("risky")]],
        *OFF,
        setting=lambda _: {"tools": [risky]},
        act=cancel_at("tool_approval.requested"),
    ),
    "cancel softly in an approval": Ending(
        [[Call("risky")]],
        *OFF,
        setting=lambda _: {"tools": [risky]},
        act=cancel_at("tool_approval.requested", "after_step"),
    ),
    "cancel in a tool": Ending([CALLS], *OFF, setting=held_tool, act=cancel_held),
    "cancel in after_tool": Ending(
        [[Call("work")]],
        *OFF,
        setting=lambda gate: {"tools": [work], "hooks": Hooks(after_tool=gate.hold)},
        act=cancel_held,
    ),
    "cancel in after_step": Ending(
        ["hi"], *OFF, setting=lambda gate: {"hooks": Hooks(after_step=once(gate.hold))}, act=cancel_held
    ),
    "cancel in the second step": Ending(
        [[Call("work")], [Say("half"), FOREVER]],
        *OFF,
        setting=lambda _: {"tools": [work]},
        act=cancel_at("text.delta"),
    ),
    "cancel in an observer": Ending(
        [[Think("hm")]],
        *OFF,
        setting=lambda gate: {"on_reasoning_event": gate.hold},
        act=cancel_held,
    ),
    "cancel after the step": Ending(
        [[Say("half"), Wait(0.01)]], *OFF, act=cancel_at("text.delta", "after_step")
    ),
}


async def terminal_records(engine: MemoryEngine, run: str) -> list[str]:
    page = await engine.log.read(TOPIC, EARLIEST, 10_000)
    assert [record.seq for record in page.records] == list(range(1, len(page.records) + 1))
    ends = [r for r in page.records if r.run == run and r.type in TERMINAL_TYPES]
    assert all(r is page.records[-1] or r.run != page.records[-1].run for r in ends)
    return [record.type for record in ends]


async def events_of(run: AgentRun) -> AsyncIterator[Event]:
    try:
        async for event in run.event_stream:
            yield event
    except Exception as error:
        if run._run.error is not error:
            raise


@pytest.mark.parametrize("name", ENDINGS)
async def test_an_ending(name: str) -> None:
    ending = ENDINGS[name]
    gate, engine = Gate(), MemoryEngine()
    model = ScriptedModel(*ending.steps, "again")
    agent = Agent("a", model=model, engine=engine, **ending.setting(gate))

    async with nothing_left_behind():
        with anyio.fail_after(20):
            run = await agent.start("go")
            if ending.act is not None:
                await ending.act(run, gate)
            events = [event async for event in events_of(run)]
            await agent.join()

        record = await agent.get_run(run.id)
        assert record is not None
        assert (record.status, record.termination, record.code) == (
            ending.status,
            ending.termination,
            ending.code,
        )
        told = [event.type for event in events if event.type in TERMINAL_TYPES and event.parent is None]
        expected = [] if ending.status == "suspended" else [f"run.{ending.status}"]
        assert (told, await terminal_records(engine, run.id)) == (expected, expected)
        assert events[-1].type == (expected or ["run.suspended"])[0]
        assert open_blocks(events) == set()
        assert await engine.leases.holder(TOPIC) is None

        plain = Agent("a", model=model, engine=engine)
        if ending.again:
            with anyio.fail_after(20):
                assert await plain.chat("and now?") == ending.again
        else:
            model = ScriptedModel("again")
            assert await Agent("a", model=model, engine=engine).chat("and now?") == "again"
        assert faults(model.requests[-1].messages) == []
    if ending.again:
        model.assert_done()


def open_blocks(events: Sequence[Event]) -> set[str]:
    """Return the blocks that began and were not said to end. A call that broke off has no end of its own: its run tells."""
    blocks: set[str] = set()
    for event in events:
        noun, _, verb = event.type.partition(".")
        if noun in ("text", "reasoning_block", "refusal") and verb == "started":
            blocks.add(event.block)  # type: ignore[union-attr]
        if noun in ("text", "reasoning_block", "refusal") and verb == "finished":
            blocks.remove(event.block)  # type: ignore[union-attr]
    return blocks


# a caller that leaves


async def waiting_agent() -> Agent:
    return Agent("a", model=ScriptedModel([Think("hm", "sig"), Say("half"), FOREVER], "again"))


async def check_left(agent: Agent) -> None:
    await agent.join()
    (record,) = await agent.runs()
    assert (record.status, record.termination, record.message, record.text) == (
        "cancelled",
        "cancelled",
        "the caller left",
        "half",
    )
    engine = agent.engine
    assert isinstance(engine, MemoryEngine)
    assert await terminal_records(engine, record.run) == ["run.cancelled"]
    assert await agent.chat("and now?") == "again"
    model = agent.models[0]
    assert isinstance(model, ScriptedModel)
    assert faults(model.requests[-1].messages) == []


async def text_came(agent: Agent) -> None:
    """Wait until the model has spoken, as the thread's log tells."""
    tail = await agent.engine.log.tail(TOPIC)
    with anyio.fail_after(20):
        while all(r.type != "text.delta" for r in tail.records):  # noqa: ASYNC110 - simpler than its wake callbacks
            await anyio.sleep(0.001)


async def expire(agent: Agent, scope: anyio.CancelScope) -> None:
    """Let a caller's time be over once the model has spoken."""
    await text_came(agent)
    scope.deadline = anyio.current_time()


@pytest.mark.parametrize("face", ["run", "chat", "stream"])
async def test_a_callers_scope_ends_the_run(face: str) -> None:
    agent = await waiting_agent()

    async def ask() -> None:
        if face == "stream":
            async with agent.stream("go") as pieces:
                async for _ in pieces:
                    pass
        else:
            await (agent.run("go") if face == "run" else agent.chat("go"))

    async with nothing_left_behind():
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await text_came(agent)
                group.cancel_scope.cancel()
        await check_left(agent)


async def test_a_callers_timeout_ends_the_run_and_stays_a_timeout() -> None:
    agent = await waiting_agent()

    async with nothing_left_behind():
        async with anyio.create_task_group() as group:
            with pytest.raises(TimeoutError), anyio.fail_after(20) as scope:
                group.start_soon(expire, agent, scope)
                await agent.run("go")
        await check_left(agent)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("how", ["task", "timeout"])
async def test_asyncios_own_ways_end_the_run(how: str) -> None:
    agent = await waiting_agent()

    async with nothing_left_behind():
        if how == "task":
            task = asyncio.create_task(agent.chat("go"))
            await text_came(agent)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(20) as limit:
                    spoken = asyncio.create_task(text_came(agent))
                    spoken.add_done_callback(lambda _: limit.reschedule(asyncio.get_running_loop().time()))
                    await agent.chat("go")
        await check_left(agent)


async def test_generate_text_ends_with_its_caller() -> None:
    async with nothing_left_behind():
        with anyio.move_on_after(0.05) as scope:
            await generate_text(model=ScriptedModel([Say("half"), FOREVER]), prompt="go")

    assert scope.cancelled_caught


# shutdown


async def test_joining_with_cancel_ends_what_is_going_on_and_what_waits() -> None:
    engine = MemoryEngine()
    agent = Agent("a", model=ScriptedModel([Say("half"), FOREVER], "again"), engine=engine)
    async with nothing_left_behind():
        with anyio.fail_after(20):
            runs = [await agent.start("go"), await agent.start("wait")]
            await seen(runs[0], "text.delta")
            await agent.join(cancel=True)

        assert [(r.status, r.message) for r in await agent.runs()] == [
            ("cancelled", "the agent was closed")
        ] * 2
        for run in runs:
            assert await terminal_records(engine, run.id) == ["run.cancelled"]
        assert await agent.chat("and now?") == "again"


def test_the_end_of_the_loop_ends_a_started_run(anyio_backend: str) -> None:
    engine = MemoryEngine()
    agent = Agent("a", model=ScriptedModel([Say("half"), FOREVER], "again"), engine=engine)

    async def begin() -> str:
        run = await agent.start("go")
        await seen(run, "text.delta")
        return run.id

    run = anyio.run(begin, backend=anyio_backend)

    async def look() -> tuple[list[str], str, str]:
        record = await agent.get_run(run)
        assert record is not None
        return await terminal_records(engine, run), record.status, record.text

    assert anyio.run(look, backend=anyio_backend) == (["run.cancelled"], "cancelled", "half")
    assert anyio.run(agent.chat, "and now?", backend=anyio_backend) == "again"


# a log or a store that fails


def fail_append(engine: MemoryEngine, when: Callable[[int, Sequence[Draft]], bool]) -> None:
    """Make the log refuse an append where `when(its number from 0, its drafts)` says so."""
    append, count = engine.log.append, [0]

    async def failing(topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None) -> list[Record]:
        count[0] += 1
        if when(count[0] - 1, drafts):
            raise EngineError("disk full")
        return await append(topic, drafts, fence=fence)

    engine.log.append = failing  # type: ignore[method-assign]  # a fault on purpose


@pytest.mark.parametrize(
    ("when", "logged"),
    [
        pytest.param(lambda n, _: n == 0, ["run.failed"], id="first"),
        pytest.param(lambda n, _: n == 1, ["run.failed"], id="in-the-middle"),
        pytest.param(
            lambda _, drafts: any(d.type == "run.finished" for d in drafts), ["run.failed"], id="at-the-end"
        ),
        pytest.param(lambda _, __: True, [], id="always"),
    ],
)
async def test_a_log_that_fails_is_told_once(when: Any, logged: list[str]) -> None:
    engine = MemoryEngine()
    fail_append(engine, when)
    model = ScriptedModel([Think("hm"), Call("work"), Say("x", pieces=3)], "done")
    agent = Agent("a", model=model, engine=engine, tools=[work])
    with anyio.fail_after(20):
        run = await agent.start("go")
        events = [event.type async for event in events_of(run)]
        await agent.join()

    record = await agent.get_run(run.id)
    assert record is not None
    assert (record.status, record.termination, record.code) == ("failed", "failed", "engine")
    assert [type_ for type_ in events if type_ in TERMINAL_TYPES] == ["run.failed"]
    assert events[-1] == "run.failed"
    assert await terminal_records(engine, run.id) == logged
    assert await engine.leases.holder(TOPIC) is None


async def test_what_came_is_kept_though_the_log_fails_in_the_middle() -> None:
    engine = MemoryEngine()
    fail_append(engine, lambda _, drafts: any(d.type == "text.delta" for d in drafts))
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(0.05), Say(" more")]), engine=engine)
    with anyio.fail_after(20), pytest.raises(EngineError):
        await agent.chat("go")

    assert [m.text for m in await agent.messages()] == ["go", "half more"]


@pytest.mark.parametrize("error", [EngineError("disk full"), RuntimeError("a bug")], ids=["engine", "bug"])
async def test_a_store_that_fails_is_told_once(error: Exception) -> None:
    engine = MemoryEngine()
    extend = engine.threads.extend

    async def failing(topic: Topic, messages: Sequence[Message], *, fence: int | None = None) -> None:
        if messages[0].role == "assistant":
            raise error
        await extend(topic, messages, fence=fence)

    engine.threads.extend = failing  # type: ignore[method-assign]  # a fault on purpose
    agent = Agent("a", model=ScriptedModel("hi"), engine=engine)
    with anyio.fail_after(20):
        run = await agent.start("go")
        events = [event.type async for event in events_of(run)]

    assert [type_ for type_ in events if type_ in TERMINAL_TYPES] == ["run.failed"]
    assert await terminal_records(engine, run.id) == ["run.failed"]
    assert await engine.leases.holder(TOPIC) is None


async def test_a_run_that_never_got_its_thread_leaves_no_trace_in_it() -> None:
    agent = await waiting_agent()
    with anyio.fail_after(20):
        run = await agent.start("go")
        with pytest.raises(AgentKitError, match="has a run already"):
            await agent.chat("me too", on_busy="reject")
        run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()

    assert [record.run for record in await agent.runs()] == [run.id]
    page = await agent.engine.log.read(TOPIC, EARLIEST, 999)
    assert {record.run for record in page.records} == {run.id}


async def test_a_typed_answer_that_never_fits_has_a_whole_thread() -> None:
    model = ScriptedModel("{", "{", "again")
    agent = Agent("a", model=model)
    with anyio.fail_after(20):
        with pytest.raises(OutputError):
            await agent.run("go", output_type=int)
        assert await agent.chat("and now?") == "again"

    assert faults(model.requests[-1].messages) == []


@pytest.mark.parametrize("inside", [False, True], ids=["a tool", "a sub-agent's tool"])
async def test_a_straggler_says_nothing_after_the_end(inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentkit.tool_calls.CANCEL_GRACE", 0.01)
    begun, release, spoken = anyio.Event(), anyio.Event(), anyio.Event()

    @tool
    async def stubborn(context: ToolContext) -> str:
        """Ignore cancellation, and speak much later."""
        with anyio.CancelScope(shield=True):
            begun.set()
            await release.wait()
            await context.progress("still here")
            spoken.set()
        return "late"

    engine = MemoryEngine()
    agent = Agent("a", model=ScriptedModel([Call("stubborn")]), tools=[stubborn], engine=engine)
    if inside:
        child = Agent("child", model=agent.models[0], tools=[stubborn], description="Works.")
        caller = ScriptedModel([Call("child", {"message": "go"})])
        agent = Agent("a", model=caller, tools=[child.as_tool()], engine=engine)
    async with nothing_left_behind():
        with anyio.fail_after(20):
            run = await agent.start("go")
            await begun.wait()
            run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
            release.set()
            await spoken.wait()

        assert run._buffer.events[-1].type == "run.cancelled"
        page = await engine.log.read(TOPIC, EARLIEST, 999)
        assert page.records[-1].type == "run.cancelled"


async def test_an_emitter_that_refuses_a_bad_end_is_told_of_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    emitter = BrokenEmitter(EngineError("no"), "run.failed")
    agent = Agent("a", model=ScriptedModel([Fail("it broke")]), emitter=emitter)

    with anyio.fail_after(20), pytest.raises(ModelError):
        await agent.chat("hi")

    assert "the agent's own emitter did not take the end of run" in caplog.text
