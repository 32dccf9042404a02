"""What models are shown of a thread from which answers were taken back."""

from collections.abc import Sequence

import pytest

from agentkit import Agent
from agentkit.content import Message, TextBlock
from agentkit.errors import ConfigurationError
from agentkit.history import without
from agentkit.testing import ScriptedModel


def asked(text: str) -> Message:
    return Message.user(text)


def answered(run: str) -> Message:
    return Message("assistant", (TextBlock(run),), run=run)


THREAD = [asked("a"), answered("r1"), asked("b"), answered("r2"), asked("b"), answered("r3")]


@pytest.mark.pure
def test_messages_of_runs_go_with_what_began_them() -> None:
    assert without(THREAD, {"r2"}) == [asked("a"), answered("r1"), asked("b"), answered("r3")]
    assert without(THREAD, {"r1", "r2"}) == [asked("b"), answered("r3")]
    assert without(THREAD, {"unknown"}) == without(THREAD, ()) == THREAD


@pytest.mark.pure
def test_a_message_that_was_put_into_a_run_goes_with_it() -> None:
    thread = [asked("a"), answered("r1"), asked("steered"), answered("r1"), asked("b")]

    assert without(thread, {"r1"}) == [asked("b")]


@pytest.mark.pure
def test_words_that_had_no_answer_go_where_they_are_said_again() -> None:
    twice = [asked("a"), asked("b"), asked("b"), answered("r3")]

    assert without(twice, {"r2"}) == [asked("a"), asked("b"), answered("r3")]
    assert without(twice, ()) == twice


@pytest.mark.anyio
async def test_a_run_is_not_shown_what_was_taken_back_and_the_thread_keeps_it() -> None:
    model = ScriptedModel("one", "two", "three")
    shown: list[list[str]] = []

    def compact(messages: Sequence[Message]) -> Sequence[Message]:
        shown.append([message.text for message in messages])
        return messages

    agent = Agent("a", model=model, compact=compact)
    await agent.chat("first")
    last = await agent.run("second")
    await agent.chat("second", taken_back={last.run})

    assert shown[-1] == [
        "first",
        "one",
        "second",
    ]  # the agent's own way to shorten a history still has its say
    assert [message.text for message in await agent.messages()] == [
        "first", "one", "second", "two", "second", "three",
    ]  # fmt: skip


@pytest.mark.pure
def test_a_text_is_no_set_of_runs() -> None:
    with pytest.raises(ConfigurationError, match="taken_back is a set of runs' ids"):
        Agent("a", model=ScriptedModel(), taken_back="run_1")
