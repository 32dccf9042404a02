import gc
import logging
from collections.abc import Sequence
from functools import partial

import anyio
import pytest

from agentkit import (
    Agent,
    ConfigurationError,
    Message,
    ModelStreamError,
    ReasoningEvent,
    RunCancelled,
    TextBlock,
    ThinkingBlock,
    ThreadBusy,
    ThreadExists,
)
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import EngineError
from agentkit.events import Event, Reasoning, TextDelta
from agentkit.log import EARLIEST, Draft, Record, Topic
from agentkit.testing import Call, Fail, RecordingEmitter, Refuse, Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Part

pytestmark = pytest.mark.anyio

TERMINAL = ("run.finished", "run.failed", "run.cancelled")


async def logged(agent: Agent, thread: str = "main") -> list[str]:
    page = await agent.engine.log.read(Topic("", agent.name, thread), EARLIEST, 10_000)
    return [record.type for record in page.records]


async def test_chat_and_stream_give_visible_text_only() -> None:
    script: list[Part] = [
        Think("hidden", signature="sig"),
        Say("Hello ", pieces=2),
        Think("more"),
        Say("world"),
    ]
    agent = Agent("a", model=ScriptedModel(script, script))
    with anyio.fail_after(20):
        assert await agent.chat("hi") == "Hello world"
        pieces = [piece async for piece in agent.stream("hi")]

    assert pieces == ["Hel", "lo ", "world"]


async def test_a_reasoning_event_reaches_callback_emitter_and_log() -> None:
    heard: list[ReasoningEvent] = []
    emitter = RecordingEmitter()
    model = ScriptedModel([Think("hm", signature="sig"), Say("a")])
    agent = Agent("a", model=model, on_reasoning_event=heard.append, emitter=emitter)
    with anyio.fail_after(20):
        await agent.chat("hi")

    expected = [
        ReasoningEvent("delta", "scripted", "hm"),
        ReasoningEvent("signature", "scripted", None, {"signature": "sig", "format": "scripted"}),
    ]
    assert heard == expected
    assert [event.event for event in emitter.events if isinstance(event, Reasoning)] == expected
    assert (await logged(agent)).count("reasoning") == 2


async def test_signatures_stay_out_of_the_log_and_in_the_thread() -> None:
    agent = Agent("a", model=ScriptedModel([Think("hm", signature="s3cret"), Say("a")]))
    with anyio.fail_after(20):
        await agent.chat("hi")

    page = await agent.engine.log.read(Topic("", "a", "main"), EARLIEST, 100)
    assert not any(b"s3cret" in record.wire for record in page.records)
    assert [block.signature for message in await agent.messages() for block in message.thinking] == ["s3cret"]


async def test_the_order_of_a_run_in_the_log() -> None:
    agent = Agent("a", model=ScriptedModel([Think("hm"), Say("a")]))
    with anyio.fail_after(20):
        await agent.chat("hi")

    assert await logged(agent) == [
        "run.started",
        "step.started",
        "reasoning_block.started",
        "reasoning",
        "reasoning_block.finished",
        "text.started",
        "text.delta",
        "text.finished",
        "step.finished",
        "run.finished",
    ]


async def test_a_thread_remembers_and_threads_do_not_mix() -> None:
    model = ScriptedModel("one", "two", "three")
    agent = Agent("a", model=model, system="be kind")
    with anyio.fail_after(20):
        await agent.chat("first")
        await agent.chat("second")
        await agent.chat("other", thread="t2")

    assert [message.text for message in model.requests[1].messages] == ["first", "one", "second"]
    assert [message.text for message in model.requests[2].messages] == ["other"]
    assert {request.system for request in model.requests} == {"be kind"}
    assert [record.thread for record in await agent.threads()] == ["main", "t2"]


async def test_a_refusal_is_told_apart() -> None:
    agent = Agent("a", model=ScriptedModel([Refuse("I will not.")], [Refuse("No.")]))
    with anyio.fail_after(20):
        assert await agent.chat("hi") == ""
        result = await agent.run("hi")

    assert (result.text, result.refusal, result.finish) == ("", "No.", "refusal")


async def test_a_broken_stream_raises_and_keeps_what_came() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Fail("overloaded", retryable=True)]))
    with anyio.fail_after(20), pytest.raises(ModelStreamError, match="overloaded") as caught:
        await agent.chat("hi")

    assert (caught.value.retryable, caught.value.partial.text) == (True, "half")
    assert [(m.role, m.status, m.text) for m in await agent.messages()] == [
        ("user", "complete", "hi"),
        ("assistant", "partial", "half"),
    ]
    assert (await logged(agent))[-3:] == ["text.delta", "text.finished", "run.failed"]
    (record,) = await agent.runs()
    assert (record.status, record.code, record.retryable, record.text) == (
        "failed",
        "model_stream",
        True,
        "half",
    )


async def test_an_event_stream_gives_one_terminal_event_and_then_raises() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Fail("no")]))
    types: list[str] = []
    with anyio.fail_after(20):
        handle = await agent.start("hi")
        with pytest.raises(ModelStreamError):
            async for event in handle.event_stream:
                types.append(event.type)

    assert [type_ for type_ in types if type_ in TERMINAL] == ["run.failed"]
    assert types[-1] == "run.failed"


async def test_a_cancelled_caller_cancels_the_run() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(60)], "again"))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.chat, "hi")
            while "text.delta" not in await logged(agent):  # noqa: ASYNC110 - simpler than its wake callbacks
                await anyio.sleep(0.001)
            group.cancel_scope.cancel()

    assert (await logged(agent))[-1] == "run.cancelled"
    with anyio.fail_after(20):
        assert await agent.chat("go on") == "again"
    assert [m.text for m in await agent.messages()] == ["hi", "half", "go on", "again"]


async def test_closing_a_stream_stops_its_run() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(60)]))
    with anyio.fail_after(20):
        stream = agent.stream("hi")
        assert await stream.__anext__() == "half"
        await stream.aclose()

    assert (await agent.runs())[0].status == "cancelled"


async def test_dropping_a_stream_stops_its_run() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(60)]))
    with anyio.fail_after(20):
        stream = agent.stream("hi")
        assert await stream.__anext__() == "half"
        del stream
        gc.collect()
        await agent.join()

    assert (await agent.runs())[0].status == "cancelled"


async def test_a_started_run_goes_on_without_watchers() -> None:
    gate = anyio.Event()
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(event=gate), Say(" and half")]))
    with anyio.fail_after(20):
        async with agent:
            handle = await agent.start("hi")
            run = handle.id
            del handle
            gc.collect()
            gate.set()

    record = await agent.get_run(run)
    assert record is not None
    assert (record.status, record.text) == ("finished", "half and half")


async def test_a_consumer_that_leaves_changes_nothing_for_the_others() -> None:
    gate = anyio.Event()
    agent = Agent("a", model=ScriptedModel([Say("one"), Wait(event=gate), Say("two")]))
    with anyio.fail_after(20):
        handle = await agent.start("hi")
        async with handle.event_stream as first:
            async for event in first:
                if isinstance(event, TextDelta):
                    break
        gate.set()
        assert [piece async for piece in handle.text_stream] == ["one", "two"]


async def test_cancel_ends_a_run_once_with_its_reason() -> None:
    agent = Agent("a", model=ScriptedModel([Say("half"), Wait(60)]))
    with anyio.fail_after(20):
        handle = await agent.start("hi")
        async for event in handle.event_stream:
            if isinstance(event, TextDelta):
                await agent.cancel(handle.id, reason="enough")
                handle.cancel("twice")
                break
        with pytest.raises(RunCancelled) as caught:
            await handle.result()

    assert (caught.value.reason, caught.value.partial.text) == ("enough", "half")
    types = await logged(agent)
    assert [type_ for type_ in types if type_ in TERMINAL] == ["run.cancelled"]
    await agent.cancel(handle.id)
    await agent.cancel("run_unknown")


async def test_a_busy_thread_queues_in_order() -> None:
    gate = anyio.Event()
    agent = Agent("a", model=ScriptedModel([Say("1"), Wait(event=gate)], "2", "3"))
    with anyio.fail_after(20):
        runs = [await agent.start(f"m{n}") for n in range(3)]
        await anyio.wait_all_tasks_blocked()
        assert [record.status for record in await agent.runs()] == ["running", "queued", "queued"]
        gate.set()
        texts = [(await run.result()).text for run in runs]

    assert texts == ["1", "2", "3"]
    assert [m.text for m in await agent.messages()] == ["m0", "1", "m1", "2", "m2", "3"]


async def test_a_busy_thread_may_reject_or_interrupt() -> None:
    agent = Agent("a", model=ScriptedModel([Say("1"), Wait(60)], "2"))
    with anyio.fail_after(20):
        first = await agent.start("m0")
        async for event in first.event_stream:
            if isinstance(event, TextDelta):
                break
        with pytest.raises(ThreadBusy):
            await agent.start("m1", on_busy="reject")
        with pytest.raises(ThreadBusy):
            await agent.chat("m1", on_busy="reject")
        assert await agent.chat("m2", on_busy="interrupt") == "2"
        with pytest.raises(RunCancelled, match="cancelled"):
            await first.result()

    assert [m.text for m in await agent.messages()] == ["m0", "1", "m2", "2"]


async def test_a_run_cancelled_in_the_queue_ends_once_and_leaves_the_queue() -> None:
    gate = anyio.Event()
    agent = Agent("a", model=ScriptedModel([Say("1"), Wait(event=gate)], "3"))
    with anyio.fail_after(20):
        first, second, third = [await agent.start(f"m{n}") for n in range(3)]
        await anyio.wait_all_tasks_blocked()
        second.cancel("changed my mind")
        with pytest.raises(RunCancelled):
            await second.result()
        gate.set()
        assert [(await run.result()).text for run in (first, third)] == ["1", "3"]

    assert [m.text for m in await agent.messages()] == ["m0", "1", "m2", "3"]


async def test_what_observers_raise_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RecordingEmitter):
        async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
            raise RuntimeError("emitter")

    def observe(event: ReasoningEvent) -> None:
        raise RuntimeError("observer")

    agent = Agent(
        "a", model=ScriptedModel([Think("t"), Say("ok")]), on_reasoning_event=observe, emitter=Broken()
    )
    with caplog.at_level(logging.ERROR, "agentkit"), anyio.fail_after(20):
        assert await agent.chat("hi") == "ok"

    assert "on_reasoning_event failed" in caplog.text
    assert "Broken failed to emit" in caplog.text


async def test_a_log_that_fails_fails_the_run_and_tells_in_process() -> None:
    engine = MemoryEngine()

    async def append(topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None) -> list[Record]:
        raise EngineError("disk full")

    engine.log.append = append  # type: ignore[method-assign]  # a fault on purpose
    agent = Agent("a", model=ScriptedModel("x"), engine=engine)
    types = []
    with anyio.fail_after(20):
        handle = await agent.start("hi")
        with pytest.raises(EngineError, match="disk full"):
            async for event in handle.event_stream:
                types.append(event.type)

    assert types[-1] == "run.failed"
    (record,) = await agent.runs()
    assert (record.status, record.code) == ("failed", "engine")
    assert await engine.leases.holder(Topic("", "a", "main")) is None


async def test_emit_publishes_an_application_event_between_runs() -> None:
    agent = Agent("a", model=ScriptedModel("x"))
    with anyio.fail_after(20):
        first = await agent.emit("app.note", {"n": 1})
        await agent.chat("hi")

    page = await agent.engine.log.read(Topic("", "a", "main"), EARLIEST, 1)
    assert [(record.id, record.type) for record in page.records] == [(first, "app.note")]


@pytest.mark.parametrize(
    "type_",
    ["reasoning", "run.mine", "text.delta", "tool", "tool_call.x", "tool.x", "error", "open", "message", "stream.x", "state.x",
     "image", "step.x", "refusal.x", "reasoning_block.x", "reasoning.delta", "Upper", "1x", "", "a" * 65, "a b", "custom"],
)  # fmt: skip
async def test_emit_refuses_the_runtimes_own_and_malformed_names(type_: str) -> None:
    agent = Agent("a", model=ScriptedModel())
    with pytest.raises(ConfigurationError):
        await agent.emit(type_, {})


async def test_emit_refuses_data_that_is_too_large_or_no_json() -> None:
    agent = Agent("a", model=ScriptedModel())
    for data in ("x" * 65 * 1024, float("nan")):
        with pytest.raises(ConfigurationError):
            await agent.emit("app.note", data)
    assert await agent.emit("toolbox.opened", "x" * 60_000) != ""


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a/b", "a b", "a" * 129, "ä", "a\n"])
async def test_names_that_do_not_fit_a_path_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="agent name"):
        Agent(name, model=ScriptedModel())
    with pytest.raises(ConfigurationError, match="thread"):
        await Agent("a", model=ScriptedModel()).messages(thread=name)


async def test_a_thread_may_be_called_as_front_ends_call_their_chats() -> None:
    agent = Agent("a", model=ScriptedModel())

    for name in ("__LOCALID_4x7", "-V1StGXR8_Z5", "~9"):
        assert await agent.messages(thread=name) == []


async def test_options_of_a_call_go_before_those_of_the_agent() -> None:
    model = ScriptedModel("1", "2", "3")
    agent = Agent("a", model=model, reasoning={"budget": 1024}, max_tokens=10)
    with anyio.fail_after(20):
        await agent.chat("x")
        await agent.chat("x", reasoning={"effort": "high"}, max_tokens=20)
        await agent.run("x")

    assert [
        (r.reasoning and (r.reasoning.budget, r.reasoning.effort), r.max_tokens) for r in model.requests
    ] == [
        ((1024, None), 10),
        ((None, "high"), 20),
        ((1024, None), 10),
    ]


def test_impossible_options_are_refused_at_once() -> None:
    for wrong in (
        {"reasoning": {"x": 1}},
        {"limits": {"steps": 0}},
        {"nonsense": 1},
        {"on_approval": "later"},
        {"tools": [3]},
    ):
        with pytest.raises(ConfigurationError):
            Agent("a", model=ScriptedModel(), **wrong)


async def test_a_thread_can_be_forked_described_and_deleted() -> None:
    agent = Agent("a", model=ScriptedModel("1", "2"))
    with anyio.fail_after(20):
        await agent.chat("x")
        await agent.fork("copy", count=1)
        await agent.describe_thread(thread="copy", title="A copy", metadata={"k": 1})
        await agent.chat("y", thread="copy")
        with pytest.raises(ThreadExists):
            await agent.fork("copy")
        before = (await agent.engine.log.tail(Topic("", "a", "main"))).epoch
        await agent.delete_thread()

    assert [m.text for m in await agent.messages(thread="copy")] == ["x", "y", "2"]
    assert [(t.thread, t.title, t.metadata) for t in await agent.threads()] == [("copy", "A copy", {"k": 1})]
    assert (await agent.messages(), await logged(agent)) == ([], [])
    assert (await agent.engine.log.tail(Topic("", "a", "main"))).epoch != before


async def test_leaving_the_agent_joins_its_runs_and_an_error_stops_them() -> None:
    agent = Agent("a", model=ScriptedModel([Say("x"), Wait(60)]))
    with anyio.fail_after(20), pytest.raises(ValueError, match="mine"):
        async with agent:
            await agent.start("hi")
            await anyio.wait_all_tasks_blocked()
            raise ValueError("mine")

    assert (await agent.runs())[0].status == "cancelled"


async def test_blocks_are_an_input_too() -> None:
    model = ScriptedModel("x")
    with anyio.fail_after(20):
        await Agent("a", model=model).chat([TextBlock("look"), TextBlock("here")])

    assert model.requests[0].messages == [Message.user([TextBlock("look"), TextBlock("here")])]


async def test_the_thread_keeps_thinking_with_its_origin() -> None:
    model = ScriptedModel([Think("hm", signature="s", state='{"a":1}')])
    agent = Agent("a", model=model)
    with anyio.fail_after(20):
        await agent.chat("x")

    assert (await agent.messages())[1].content == (
        ThinkingBlock("hm", "s", '{"a":1}', "scripted", "scripted", origin=model.origin),
    )


async def test_one_agent_serves_many_threads_at_once() -> None:
    model = ScriptedModel(*["x"] * 50)
    agent = Agent("a", model=model)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(partial(agent.chat, "hi", thread=f"t{number}"))

    assert len(await agent.threads(limit=100)) == 50


async def test_a_cancelled_tool_leaves_a_thread_that_can_be_sent() -> None:
    async def forever() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    model = ScriptedModel([Call("forever", id="c1")], "after")
    agent = Agent("a", model=model, tools=[forever])
    with anyio.fail_after(20):
        handle = await agent.start("go")
        async for event in handle.event_stream:
            if event.type == "tool_execution.started":
                handle.cancel()
                break
        with pytest.raises(RunCancelled):
            await handle.result()
        await agent.chat("and now?")

    assert [(m.role, [b.type for b in m.content]) for m in model.requests[1].messages] == [
        ("user", ["text"]),
        ("assistant", ["tool_use"]),
        ("tool", ["tool_result"]),
        ("user", ["text"]),
    ]
