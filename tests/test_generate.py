import gc
import inspect

import anyio
import pytest

from agentkit import (
    ConfigurationError,
    ModelStreamError,
    ReasoningEvent,
    Usage,
    WireError,
    generate_text,
    stream_text,
)
from agentkit.events import TextDelta
from agentkit.testing import Fail, Say, ScriptedModel, Think, Wait

pytestmark = pytest.mark.anyio


async def test_generate_text_returns_the_whole_answer() -> None:
    model = ScriptedModel([Think("hm"), Say("Hello"), Usage(3, 4, 1)])
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="hi", system="s")

    assert (result.text, result.usage, result.finish, result.termination) == (
        "Hello",
        Usage(3, 4, 1),
        "stop",
        "completed",
    )
    assert [block.thinking for block in result.thinking] == ["hm"]
    assert [message.text for message in model.requests[0].messages] == ["hi"]


async def test_several_consumers_share_one_request() -> None:
    model = ScriptedModel([Think("hm"), Say("Hello", pieces=2)])
    result = stream_text(model=model, prompt="hi")
    texts: list[str] = []
    types: list[str] = []

    async def read_text() -> None:
        texts.extend([piece async for piece in result.text_stream])

    async def read_events() -> None:
        types.extend([event.type async for event in result.event_stream])

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(read_text)
            group.start_soon(read_events)
        late = [event.type async for event in result.event_stream]
        assert (await result.text, await result.finish, await result.refusal) == ("Hello", "stop", None)
        assert (await result.usage).total_tokens == 0

    assert len(model.requests) == 1
    assert texts == ["Hel", "lo"]
    assert types == late
    assert types[-1] == "run.finished"


async def test_nothing_is_asked_before_the_first_use() -> None:
    model = ScriptedModel("x")
    stream_text(model=model, prompt="hi")
    await anyio.wait_all_tasks_blocked()

    assert model.requests == []


async def test_observers_hear_reasoning_while_text_is_read() -> None:
    heard: list[ReasoningEvent] = []

    async def observe(event: ReasoningEvent) -> None:
        heard.append(event)

    result = stream_text(
        model=ScriptedModel([Think("a", summary=True), Say("b")]), prompt="x", on_reasoning_event=observe
    )
    with anyio.fail_after(20):
        assert [piece async for piece in result] == ["b"]

    assert heard == [ReasoningEvent("summary", "scripted", "a")]


async def test_every_face_raises_the_same_error_with_what_came() -> None:
    result = stream_text(model=ScriptedModel([Say("half"), Fail("no")]), prompt="x")
    with anyio.fail_after(20):
        for face in (result.text_stream, result.event_stream):
            with pytest.raises(ModelStreamError) as caught:
                async for _ in face:
                    pass
            assert caught.value.partial.text == "half"
        with pytest.raises(ModelStreamError):
            await result.text


async def test_dropping_the_result_stops_the_request() -> None:
    stopped = anyio.Event()

    class Watched(ScriptedModel):
        def stream(self, request):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - a spy
            stream = super().stream(request)
            leave = stream.__aexit__

            async def noted(*exc: object) -> None:
                await leave(*exc)
                stopped.set()

            stream.__class__ = type("Noted", (type(stream),), {"__aexit__": lambda _self, *exc: noted(*exc)})
            return stream

    result = stream_text(model=Watched([Say("a"), Wait(60)]), prompt="x")
    with anyio.fail_after(20):
        async for event in result.event_stream:
            if isinstance(event, TextDelta):
                break
        del result, event
        gc.collect()
        await stopped.wait()


async def test_an_async_with_stops_what_still_runs() -> None:
    with anyio.fail_after(20):
        async with stream_text(model=ScriptedModel([Say("a"), Wait(60)]), prompt="x") as result:
            async for piece in result:
                assert piece == "a"
                break
        types = [event.type for event in result._buffer.events]

    assert types[-1] == "run.cancelled"


@pytest.mark.parametrize("given", [{}, {"prompt": "a", "messages": []}], ids=["neither", "both"])
def test_prompt_and_messages_exclude_each_other(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="exactly one"):
        stream_text(model=ScriptedModel(), **given)  # type: ignore[arg-type]  # that is the point


async def test_a_history_may_be_plain_json() -> None:
    model = ScriptedModel("x")
    history = [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "b"}],
        },
        {"role": "user", "content": [{"type": "text", "text": "c"}]},
    ]
    with anyio.fail_after(20):
        await generate_text(model=model, messages=history)
    assert [message.text for message in model.requests[0].messages] == ["a", "b", "c"]

    with pytest.raises(WireError, match=r"messages\[0.role\]"):
        await generate_text(model=model, messages=[{"role": "x", "content": []}])


def test_the_result_is_made_in_a_plain_call() -> None:
    assert not inspect.iscoroutinefunction(stream_text)
