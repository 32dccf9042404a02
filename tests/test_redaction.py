"""Redaction: what a hook hides is nowhere but with the model and the caller in this process."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import (
    Agent,
    ConfigurationError,
    HookError,
    Message,
    ModelStreamError,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    tool,
)
from agentkit.events import Event, RunFinished, RunStarted, TextDelta, TextFinished
from agentkit.log import EARLIEST, Topic
from agentkit.redaction import RedactWords, redacted, redacted_message
from agentkit.testing import Call, Fail, RecordingEmitter, Refuse, Say, ScriptedModel, Think
from agentkit.testing.scripted import Step

pytestmark = pytest.mark.anyio

SECRET = "Rumpelstilzchen"


async def records(agent: Agent) -> list[dict[str, object]]:
    page = await agent.engine.log.read(Topic("", "a", "main"), EARLIEST, 10_000)
    return [json.loads(record.wire) for record in page.records]


def texts(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@tool
def look(name: str) -> str:
    """Look somebody up."""
    return f"{name} lives in the wood"


SCRIPTS: dict[str, Step] = {
    "text in single characters": [Say(f"it is {SECRET}, is it not", pieces=29)],
    "reasoning": [Think(f"perhaps {SECRET}", pieces=9), Say("hm")],
    "summary": [Think(f"perhaps {SECRET}", summary=True, pieces=5), Say("hm")],
    "refusal": [Refuse(f"not {SECRET}")],
    "error": [Say("well"), Fail(f"{SECRET} broke it")],
    "call": [Call("look", {"name": SECRET}, pieces=7)],
    "call with escapes": [Call("look", json.dumps({"name": SECRET}).replace("u", "\\u0075"))],
    "cut call": [Call("look", {"name": SECRET}, cut=True)],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_a_hidden_word_is_in_no_record_no_emitter_and_no_record_of_a_run(script: Step) -> None:
    emitter = RecordingEmitter()
    steps = [script, "done"] if any(isinstance(part, Call) for part in script) else [script]
    model = ScriptedModel(*steps)
    agent = Agent(
        "a",
        model=model,
        tools=[look],
        emitter=emitter,
        redact=RedactWords([SECRET]),
        metadata={"who": SECRET},
    )

    with anyio.fail_after(20):
        run = await agent.start(f"who is {SECRET}?")
        with contextlib.suppress(ModelStreamError):
            await run.result()

    kept = await agent.get_run(run.id)
    written = await records(agent)
    assert SECRET not in json.dumps(written)
    assert SECRET not in repr(emitter.events)
    assert SECRET not in repr(kept)
    assert "[redacted]" in json.dumps(written)
    assert written[-1]["type"] in ("run.finished", "run.failed")
    shown = [redacted_message(agent.redact, message) for message in await agent.messages()]
    assert SECRET not in repr(shown)
    assert SECRET in repr(await agent.messages())  # the model gets back what it said


async def test_the_caller_in_this_process_gets_the_words() -> None:
    agent = Agent("a", model=ScriptedModel([Say(SECRET, pieces=3)]), redact=RedactWords([SECRET]))

    with anyio.fail_after(20):
        assert await agent.chat("hi") == SECRET


async def test_a_sub_agents_words_are_hidden_by_its_own_hook_and_by_its_callers() -> None:
    inner = Agent(
        "inner",
        model=ScriptedModel([Think(f"{SECRET} and Daumling"), Say("found")]),
        description="Knows names.",
        redact=RedactWords([SECRET]),
    )
    agent = Agent(
        "a",
        model=ScriptedModel([Call("inner", {"message": "who?"})], "done"),
        tools=[inner.as_tool()],
        redact=RedactWords(["Daumling"]),
    )

    with anyio.fail_after(20):
        await agent.chat("hi")

    written = json.dumps(await records(agent))
    assert "[redacted] and [redacted]" in written
    assert SECRET not in written
    assert "Daumling" not in written


async def test_an_applications_event_is_redacted_and_one_that_is_left_out_is_an_error() -> None:
    agent = Agent("a", model=ScriptedModel(), redact=RedactWords([SECRET]))
    mute = Agent("a", model=ScriptedModel(), redact=lambda _: None)

    await agent.emit("note", {"who": [SECRET]})
    with pytest.raises(ConfigurationError, match="left out"):
        await mute.emit("note", {"who": SECRET})

    assert [record["data"] for record in await records(agent)] == [{"who": ["[redacted]"]}]


async def test_a_hook_may_leave_out_events_but_not_the_end() -> None:
    def only_text(event: Event) -> Event | None:
        return event if isinstance(event, TextDelta) else None

    agent = Agent("a", model=ScriptedModel([Think("hm"), Say("hello")]), redact=only_text)
    with anyio.fail_after(20):
        assert await agent.chat("hi") == "hello"

    written = await records(agent)
    assert [record["type"] for record in written] == ["text.delta", "run.failed"]
    assert written[-1]["data"]["message"] == "hook redact left out a run's end"  # type: ignore[index]


async def test_a_hook_that_raises_fails_the_run_and_its_words_are_not_told() -> None:
    def broken(event: Event) -> Event:
        if isinstance(event, RunStarted):
            return event
        raise ValueError(f"cannot take {SECRET}")

    agent = Agent("a", model=ScriptedModel("hello"), redact=broken)
    with anyio.fail_after(20), pytest.raises(HookError, match="hook redact raised ValueError"):
        await agent.chat("hi")

    written = await records(agent)
    assert [record["type"] for record in written] == ["run.started", "run.failed"]
    assert SECRET not in json.dumps(written)


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(HookError, match="must return events or None, got str"):
        redacted(lambda _: "x", [TextFinished("r", 1, 0.0, "r.1.0")])  # type: ignore[arg-type, return-value]


def test_a_run_that_ends_with_a_word_half_said_lets_it_go() -> None:
    hook = RedactWords(["password"])
    end = RunFinished("r", 0, 2.0, "pass", "stop", Usage())

    told = redacted(hook, [TextDelta("r", 1, 1.0, "r.1.0", "my pass"), end])

    assert told == [TextDelta("r", 1, 1.0, "r.1.0", "my "), TextDelta("r", 1, 1.0, "r.1.0", "pass"), end]
    assert hook._held == {}


WORDS = ["aab", "ab", "abba", "c"]


@given(st.text("abc ", max_size=40), st.data())
def test_every_split_hides_the_same_words(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    hook = RedactWords(WORDS, replacement="-")

    told: list[Event] = []
    for piece in pieces:
        told += redacted(hook, [TextDelta("r", 1, 0.0, "r.1.0", piece)])
    told += redacted(hook, [TextFinished("r", 1, 0.0, "r.1.0")])

    assert not any(word in texts(told) for word in WORDS)
    assert hook._held == {}


def test_a_word_that_begins_as_another_ends_is_found_in_upper_case_too() -> None:
    hook = RedactWords(["secret", "crux"])
    events = [TextDelta("r", 1, 0.0, "b", piece) for piece in ("the SEC", "ret ", "cru", "mb")]

    told = redacted(hook, [*events, TextFinished("r", 1, 0.0, "b")])

    assert texts(told) == "the [redacted] crumb"


@pytest.mark.parametrize("words", [[], [""], ["a", ""]])
def test_no_word_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="needs words"):
        RedactWords(words)


def test_replay_state_of_a_message_is_left_as_it_is() -> None:
    thought = ThinkingBlock(SECRET, signature=f"sig{SECRET}", signature_format="x")
    call = ToolUseBlock("c1", "look", json.dumps({"name": SECRET}))
    result = ToolResultBlock("c1", "look")
    message = Message("assistant", (thought, call, result))

    shown = redacted_message(RedactWords([SECRET]), message)

    assert shown.content == (
        replace(thought, thinking="[redacted]"),
        replace(call, input='{"name":"[redacted]"}'),
        result,
    )
