from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import Block, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentkit.repair import INTERRUPTED, is_whole, parsed_input, repair

pytestmark = pytest.mark.pure

CALL = ToolUseBlock("t1", "f", "{}")
CALL_2 = ToolUseBlock("t2", "g", "{}")
RESULT = ToolResultBlock("t1", "f", (TextBlock("yes"),))
RESULT_2 = ToolResultBlock("t2", "g", (TextBlock("no"),), "error")
MISSING = ToolResultBlock("t1", "f", (TextBlock(INTERRUPTED),), "interrupted")
GO, ON = Message.user("go"), Message.user("on")


def said(*blocks: Block) -> Message:
    return Message.assistant(blocks)


def results(*blocks: ToolResultBlock) -> Message:
    return Message("tool", blocks)


CASES: dict[str, tuple[list[Message], list[Message]]] = {
    "whole": ([GO, said(CALL), results(RESULT), said(TextBlock("a"))], [GO, said(CALL), results(RESULT), said(TextBlock("a"))]),
    "no result": ([GO, said(CALL), ON], [GO, said(CALL), results(MISSING), ON]),
    "no result at the end": ([GO, said(CALL)], [GO, said(CALL), results(MISSING)]),
    "half of the results": ([said(CALL, CALL_2), results(RESULT_2)], [said(CALL, CALL_2), results(MISSING, RESULT_2)]),
    "results in two messages": ([said(CALL, CALL_2), results(RESULT_2), results(RESULT)],
                                [said(CALL, CALL_2), results(RESULT, RESULT_2)]),
    "result after the next question": ([said(CALL), ON, results(RESULT)], [said(CALL), results(RESULT), ON]),
    "result in a user message": ([said(CALL), Message("user", (RESULT, TextBlock("on")))], [said(CALL), results(RESULT), ON]),
    "two results": ([said(CALL), results(RESULT, replace(RESULT, content=()))], [said(CALL), results(RESULT)]),
    "result without a call": ([GO, results(RESULT), ON], [GO, ON]),
    "result before its call": ([results(RESULT), said(CALL)], [said(CALL), results(MISSING)]),
    "result of another turn": ([said(CALL_2), said(CALL), results(RESULT_2)],
                               [said(CALL_2), results(replace(MISSING, tool_use_id="t2", name="g")), said(CALL), results(MISSING)]),
    "the same id in two turns": ([said(CALL), results(RESULT), said(CALL), results(replace(RESULT, status="error"))],
                                 [said(CALL), results(RESULT), said(CALL), results(replace(RESULT, status="error"))]),
    "the same id twice in a turn": ([said(CALL, replace(CALL, name="g")), results(RESULT)], [said(CALL), results(RESULT)]),
    "interrupted without words": ([said(CALL), results(ToolResultBlock("t1", "f", (), "interrupted"))],
                                  [said(CALL), results(MISSING)]),
    "interrupted with words": ([said(CALL), results(replace(RESULT, status="interrupted"))],
                               [said(CALL), results(replace(RESULT, status="interrupted"))]),
    "broken off": ([said(TextBlock("a"), replace(CALL, complete=False)), results(RESULT)], [said(TextBlock("a"))]),
    "nothing but a broken call": ([GO, said(replace(CALL, input="{")), results(RESULT), ON], [GO, ON]),
    "arguments with a number that JSON has not": ([GO, said(replace(CALL, input='{"a":-Infinity}')), results(RESULT), ON], [GO, ON]),
    "arguments with a number that is too large": ([GO, said(replace(CALL, input='{"a":1e999}')), results(RESULT), ON], [GO, ON]),
    "empty": ([said(), GO, Message.user([])], [GO]),
    "thinking is not its business": ([said(ThinkingBlock("x"), CALL)], [said(ThinkingBlock("x"), CALL), results(MISSING)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "repaired"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_repair(messages: list[Message], repaired: list[Message]) -> None:
    assert repair(messages) == repaired


def test_a_made_up_result_is_an_interruption_and_no_refusal() -> None:
    assert "interrupted" in INTERRUPTED
    assert not {"rejected", "denied"} & set(INTERRUPTED.lower().split())


def test_a_made_up_message_belongs_to_the_run_of_its_turn() -> None:
    assert repair([replace(said(CALL), run="r")])[1].run == "r"


INPUTS = [("", {}), (" \n", {}), ('{"a":1}', {"a": 1}), ("{", None), ("[]", None), ("null", None), ("[" * 100_000, None),
          ('{"a":"\\ud83c"}', {"a": "\ufffd"}), ('{"a":"\\ud83c\\udf0d"}', {"a": "🌍"})]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), INPUTS, ids=[text[:12] for text, _ in INPUTS])
def test_arguments_are_a_json_object_or_nothing(text: str, value: dict[str, object] | None) -> None:
    assert parsed_input(replace(CALL, input=text)) == value


@pytest.mark.parametrize(
    "call",
    [replace(CALL, id=""), replace(CALL, name=""), replace(CALL, complete=False), replace(CALL, input="1")],
)
def test_a_call_that_is_not_whole(call: ToolUseBlock) -> None:
    assert is_whole(CALL)
    assert not is_whole(call)


IDS = st.sampled_from(["t1", "t2", "t3"])
CALLS = st.builds(ToolUseBlock, IDS, st.just("f"), st.sampled_from(["", "{}", "{"]), st.booleans())
RESULTS = st.builds(
    ToolResultBlock, IDS, st.just("f"), st.just((TextBlock("x"),)), st.sampled_from(["ok", "interrupted"])
)
TEXTS = st.builds(TextBlock, st.sampled_from(["", "a"]))
MESSAGES = st.one_of(
    st.lists(TEXTS, max_size=2).map(Message.user),
    st.lists(TEXTS | CALLS, max_size=4).map(Message.assistant),
    st.lists(RESULTS, max_size=3).map(lambda blocks: Message("tool", tuple(blocks))),
)


@given(st.lists(MESSAGES, max_size=8))
def test_any_history_is_whole_afterwards_and_stays_so(messages: list[Message]) -> None:
    repaired = repair(messages)

    assert repair(repaired) == repaired
    assert all(message.content for message in repaired)
    for message, after in pairwise([*repaired, Message.user("end")]):
        if message.role == "assistant" and message.tool_uses:
            ids = [call.id for call in message.tool_uses]
            assert len(set(ids)) == len(ids)
            assert all(map(is_whole, message.tool_uses))
            assert [block.tool_use_id for block in after.content if isinstance(block, ToolResultBlock)] == ids
        elif after.role == "tool":
            raise AssertionError(f"results after {message.role}")
    texts = [[b for b in m.content if isinstance(b, TextBlock)] for m in messages if m.role != "tool"]
    assert [b for bs in texts for b in bs] == [
        b for m in repaired for b in m.content if isinstance(b, TextBlock)
    ]
