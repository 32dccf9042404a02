import anyio
import pytest

from agentkit import (
    Agent,
    ConfigurationError,
    ModelConnectionError,
    ModelStreamError,
    Usage,
    generate_text,
    stream_text,
)
from agentkit.reasoning import ReasoningSetting
from agentkit.testing import Call, Fail, RecordingEmitter, Refuse, Say, ScriptedModel, Think, Wait

pytestmark = pytest.mark.anyio


async def test_parts_come_as_the_events_of_a_real_model() -> None:
    model = ScriptedModel(
        [Think("let me", "sig", pieces=2), Say("one "), Think("see", summary=True), Say("two")]
    )
    with anyio.fail_after(20):
        events = [event async for event in stream_text(model=model, prompt="hi").event_stream if event.step]

    assert [event.type for event in events] == [
        "step.started",
        "reasoning_block.started",
        "reasoning.delta",
        "reasoning.delta",
        "reasoning.signature",
        "reasoning_block.finished",
        "text.started",
        "text.delta",
        "text.finished",
        "reasoning_block.started",
        "reasoning.summary",
        "reasoning_block.finished",
        "text.started",
        "text.delta",
        "text.finished",
        "step.finished",
    ]


async def test_a_step_that_nobody_asked_for_is_an_error() -> None:
    script = ScriptedModel("one", "two")
    with pytest.raises(AssertionError, match="1 of 2 scripted steps were not asked for"), script as model:
        await generate_text(model=model, prompt="hi")


async def test_the_first_failure_is_the_one_to_see() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel("never"):
        raise ZeroDivisionError


async def test_a_request_that_the_script_does_not_expect_is_an_error() -> None:
    with ScriptedModel("one") as model:
        await generate_text(model=model, prompt="hi")
        with pytest.raises(ConfigurationError, match="unexpected request 2: the script has 1 steps"):
            await generate_text(model=model, prompt="hi")


async def test_a_repeating_script_never_ends() -> None:
    with ScriptedModel("one", "two", repeat=True) as model:
        said = [(await generate_text(model=model, prompt="hi")).text for _ in range(3)]

    assert said == ["one", "two", "one"]


async def test_what_was_asked_is_there_to_look_at() -> None:
    model = ScriptedModel("one", "two")
    await generate_text(model=model, prompt="hi", reasoning={"effort": "high"})
    await generate_text(model=model, prompt="ho")

    assert model.reasoning == [ReasoningSetting(effort="high"), None]
    assert [request.messages[-1].text for request in model.requests] == ["hi", "ho"]


async def test_usage_and_refusals() -> None:
    model = ScriptedModel([Refuse("I would rather not"), Usage(3, 4, reasoning_tokens=2)])
    result = await generate_text(model=model, prompt="hi")

    assert (result.text, result.refusal, result.finish) == ("", "I would rather not", "refusal")
    assert result.usage == Usage(3, 4, reasoning_tokens=2)


async def test_failures_in_the_middle() -> None:
    gone = ModelConnectionError("gone", provider="scripted")
    model = ScriptedModel([Say("ha"), Fail("overloaded", "529", retryable=True)], [Say("ho"), Fail(gone)])
    with pytest.raises(ModelStreamError) as caught:
        await generate_text(model=model, prompt="hi")
    with pytest.raises(ModelConnectionError) as other:
        await generate_text(model=model, prompt="hi")

    error = caught.value
    assert (error.provider_code, error.retryable, error.partial.text) == ("529", True, "ha")
    assert other.value is gone


async def test_waiting_ends_when_the_test_says_so() -> None:
    gate = anyio.Event()
    text = stream_text(model=ScriptedModel([Say("a"), Wait(event=gate), Say("b")]), prompt="hi").text_stream
    with anyio.fail_after(20):
        first = await anext(text)
        gate.set()
        rest = [piece async for piece in text]

    assert (first, rest) == ("a", ["b"])


async def test_a_delay_gives_one_delta_at_a_time() -> None:
    model = ScriptedModel([Say("abcd", pieces=4)], delay=0.001)
    with anyio.fail_after(20):
        assert [piece async for piece in stream_text(model=model, prompt="hi")] == ["a", "b", "c", "d"]


async def test_the_recording_emitter_keeps_everything() -> None:
    emitter = RecordingEmitter()
    agent = Agent("a", model=ScriptedModel([Call("nope")], "done"), emitter=emitter)
    with anyio.fail_after(20):
        await agent.chat("hi")

    assert emitter.types[0] == "run.started"
    assert emitter.types[-1] == "run.finished"
    assert {topic.path for topic in emitter.topics} == {"agents/a/threads/main"}
    assert emitter.flushes > 0
