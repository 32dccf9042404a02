"""A provider that no longer takes what it sent with its thinking is asked once more without it."""

import json
from typing import Any

import pytest
from checkers.table import CHECKERS

from agentkit.answer import SecondTry
from agentkit.content import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    dump_messages,
)
from agentkit.dialects.base import HTTPParts, Target, origin
from agentkit.dialects.table import DIALECTS
from agentkit.model import ModelRequest

pytestmark = pytest.mark.pure

Json = dict[str, Any]
SIGNING = ("anthropic-messages", "openai-responses", "gemini")
REFUSALS = {
    "anthropic-messages": "messages.1.content.0: Invalid `signature` in `thinking` block",
    "openai-responses": "The encrypted content gAAA...x== could not be verified. Reason: it could not be decrypted or parsed.",
    "gemini": "Corrupted thought signature.",
}


def body_of(message: str) -> str:
    return json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def target_of(dialect: str) -> Target:
    return Target("here", "gemini-3-demo" if dialect == "gemini" else "demo")


def thinking(dialect: str, name: str) -> ThinkingBlock:
    own = origin(dialect, target_of(dialect))
    if dialect == "openai-responses":
        state = {"type": "reasoning", "id": f"rs_{name}", "summary": [], "encrypted_content": f"state{name}"}
        return ThinkingBlock("", "", json.dumps(state), dialect, origin=own)
    return ThinkingBlock(f"hm{name}", f"state{name}", signature_format=dialect, origin=own)


def request_of(dialect: str) -> ModelRequest:
    own = origin(dialect, target_of(dialect))
    signed = f"state{'c' * 5}" if dialect == "gemini" else ""
    call = ToolUseBlock(
        "t1", "f", "{}", True, signed, dialect if signed else "", '{"id":"fc_1"}', dialect, own
    )
    first: list[Block] = [thinking(dialect, "aaaa"), TextBlock("One.", origin=own)]
    second: list[Block] = [thinking(dialect, "bbbb"), TextBlock("Two.", origin=own), call]
    return ModelRequest(
        [Message.user("go"), Message.assistant(first), Message.user("more"), Message.assistant(second),
         Message("tool", (ToolResultBlock("t1", "f", (TextBlock("done"),)),))],
        foreign="raise",
    )  # fmt: skip


def second_try(dialect: str, status: int, body: str, request: ModelRequest | None = None) -> HTTPParts | None:
    found = DIALECTS[dialect]
    assert isinstance(found, SecondTry)
    return found.second_try(request or request_of(dialect), target_of(dialect), status, body)


@pytest.mark.parametrize("dialect", SIGNING)
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "inside of a gateway's own error"])
def test_refused_state_is_left_out_and_nothing_else(dialect: str, wrapped: bool) -> None:
    request = request_of(dialect)
    before = dump_messages(request.messages)
    body = body_of(REFUSALS[dialect])

    parts = second_try(dialect, 400, json.dumps({"error": {"message": body}}) if wrapped else body, request)

    assert parts is not None
    sent = json.dumps(parts.body)
    assert "state" not in sent
    assert all(word in sent for word in ("One.", "Two.", "t1", "done"))
    assert CHECKERS[dialect](parts.body) == []
    assert [notice.code for notice in parts.notices] == ["refused_thinking"]
    assert dump_messages(request.messages) == before


def test_items_lose_their_ids_with_their_reasoning() -> None:
    parts = second_try("openai-responses", 400, body_of(REFUSALS["openai-responses"]))

    assert parts is not None
    assert "fc_1" not in json.dumps(parts.body)


def test_a_call_without_its_signature_says_so_in_the_running_turn() -> None:
    parts = second_try("gemini", 400, body_of(REFUSALS["gemini"]))

    assert parts is not None
    assert "skip_thought_signature_validator" in json.dumps(parts.body)


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        pytest.param("messages.3.content.0: Invalid `signature` in `thinking` block", ["stateaaaa"], id="from the block that is named on"),
        pytest.param("Invalid `signature` in `thinking` block", [], id="all where none is named"),
        pytest.param("messages.3.content.2: `thinking` blocks in the latest assistant message cannot be modified.", ["stateaaaa"],
                     id="the whole turn where it must be whole"),
    ],
)  # fmt: skip
def test_anthropic_names_the_block(message: str, kept: list[str]) -> None:
    parts = second_try("anthropic-messages", 400, body_of(message))

    assert parts is not None
    sent = json.dumps(parts.body)
    assert [state for state in ("stateaaaa", "statebbbb") if state in sent] == kept


@pytest.mark.parametrize("dialect", SIGNING)
@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "max_tokens: too large"), (429, ""), (500, ""), (400, "thinking.budget_tokens: at least 1024")],
)
def test_other_refusals_are_no_reason(dialect: str, status: int, message: str) -> None:
    assert second_try(dialect, status, body_of(message or REFUSALS[dialect])) is None


@pytest.mark.parametrize("dialect", SIGNING)
def test_where_there_is_nothing_to_leave_out_there_is_no_second_try(dialect: str) -> None:
    request = ModelRequest([Message.user("go"), Message.assistant("One."), Message.user("more")])

    assert second_try(dialect, 400, body_of(REFUSALS[dialect]), request) is None
