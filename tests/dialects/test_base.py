import json
from typing import Any

import pytest

from agentkit.dialects.base import parse_payload, state_text, state_value

pytestmark = pytest.mark.pure

STATES = [
    pytest.param({"a": [1, 2.5, "ü"]}, {"a": [1, 2.5, "ü"]}, id="plain"),
    pytest.param({"a": [float("nan"), {"b": float("-inf")}], "c": 1}, {"a": [None, {"b": None}], "c": 1}, id="no numbers of JSON"),
    pytest.param("\ud83d\ude00", "\U0001f600", id="halves of one character"),
    pytest.param("a\ud83d", "a\ufffd", id="half a character"),
]  # fmt: skip


@pytest.mark.parametrize(("came", "goes"), STATES)
def test_a_state_can_be_sent_whatever_came(came: Any, goes: Any) -> None:
    value = state_value(state_text(came))

    assert value == goes
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def test_a_state_that_was_saved_with_numbers_that_json_has_not_can_be_sent() -> None:
    assert state_value('{"a":NaN,"b":[Infinity]}') == {"a": None, "b": [None]}


def test_a_payload_with_numbers_that_json_has_not_is_read() -> None:
    # Real servers write them as log probabilities, which nobody here needs.
    value = parse_payload("test", '{"logprob":-Infinity,"text":"a"}')

    assert (value["text"], state_text(value)) == ("a", '{"logprob":null,"text":"a"}')
