"""Answers that are made again, and what models see of a thread afterwards."""

import pytest

from agentkit.content import Message, TextBlock
from agentkit.history import RunRecord
from agentkit_server.rewind import answered_by, question_of, standing, taken_back

pytestmark = pytest.mark.pure


def run(name: str, *, replaces: str = "", message: str = "") -> RunRecord:
    said = {"replaces": replaces, "message": message}
    return RunRecord(name, "finished", 0.0, metadata={key: value for key, value in said.items() if value})


def asked(text: str) -> Message:
    return Message.user(text)


def answered(run: str) -> Message:
    return Message("assistant", (TextBlock(run),), run=run)


THREAD = [asked("a"), answered("r1"), asked("b"), answered("r2"), asked("b"), answered("r3")]


def test_a_run_takes_the_place_of_another_and_of_all_that_came_after_it() -> None:
    records = [run("r1", message="m1"), run("r2", message="m2"), run("r3", replaces="r1"), run("r4")]

    assert [one.run for one in standing(records)] == ["r3", "r4"]
    assert taken_back(records) == {"r1", "r2"}
    assert taken_back(records, "r4") == {"r1", "r2", "r4"}
    assert answered_by(records, "m1") == ""
    assert answered_by(records[:2], "m2") == "r2"


def test_a_run_that_names_nothing_known_takes_nobodys_place() -> None:
    assert taken_back([run("r1"), run("r2", replaces="unknown")], "never") == set()


def test_the_question_of_a_run_is_what_began_it() -> None:
    thread = [asked("a"), answered("r1"), asked("steered"), answered("r1"), asked("b")]

    assert question_of(thread, "r1") == [asked("a")]
    assert question_of(THREAD, "r2") == [asked("b")]
    assert question_of(THREAD, "unknown") == []
