"""What becomes of replay state that another model made: every dialect leaves it out and says so, or refuses the request."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentkit.content import (
    Block,
    Message,
    Origin,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agentkit.dialects.base import Target, origin
from agentkit.dialects.table import DIALECTS
from agentkit.errors import ConfigurationError, ForeignSignatureError
from agentkit.model import ModelRequest
from agentkit.options import RunOptions, make_spec
from agentkit.testing.scripted import ScriptedModel

pytestmark = pytest.mark.pure

HERE = Target("here", "demo-1")
SECRET = "bWFkZSBlbHNld2hlcmU="

MAKERS: dict[str, Callable[[str], Origin | None]] = {
    "another dialect": lambda name: Origin("elsewhere", "here", "demo-1"),
    "another provider": lambda name: Origin(name, "there", "demo-1"),
    "another model": lambda name: Origin(name, "here", "demo-2"),
    "another endpoint": lambda name: Origin(name, "here", "demo-1", "https://other.test/v1"),
    "a store that changed it": lambda name: None,
}
STATE = json.dumps({"type": "reasoning", "encrypted_content": SECRET, "summary": []})


def blocks(label: str, made_by: Origin | None) -> dict[str, Block]:
    return {
        "signed thinking": ThinkingBlock("hm", SECRET, signature_format=label, origin=made_by),
        "opaque thinking": ThinkingBlock("", "", STATE, label, origin=made_by),
        "signed text": TextBlock("Hi.", SECRET, label, origin=made_by),
        "signed call": ToolUseBlock("t1", "f", "{}", True, SECRET, label, origin=made_by),
        "own block": ProviderBlock("search", STATE, label, made_by),
    }


CASES = [
    pytest.param(name, maker, kind, id=f"{name}: {kind} of {maker}")
    for name in DIALECTS
    for maker in MAKERS
    for kind in blocks("", None)
]


def request_of(name: str, maker: str, kind: str) -> ModelRequest:
    block = blocks(name, MAKERS[maker](name))[kind]
    said = Message.assistant([TextBlock("Well."), block, TextBlock("So.")])
    return ModelRequest([Message.user("go"), said, Message.user("more")])


@pytest.mark.parametrize(("name", "maker", "kind"), CASES)
def test_foreign_state_is_left_out_where_it_may_be_dropped(name: str, maker: str, kind: str) -> None:
    parts = DIALECTS[name].encode(request_of(name, maker, kind), HERE)

    sent = json.dumps(parts.body)
    assert SECRET not in sent
    assert "Well." in sent
    assert "So." in sent


@pytest.mark.parametrize(("name", "maker", "kind"), CASES)
def test_foreign_state_is_refused_where_nothing_may_be_dropped(name: str, maker: str, kind: str) -> None:
    request = replace(request_of(name, maker, kind), foreign="raise")

    with pytest.raises(ForeignSignatureError, match=r"^messages\[1\]\.content\[1\]: ") as raised:
        DIALECTS[name].encode(request, HERE)

    assert f"here:demo-1 ({name})" in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("name", DIALECTS)
def test_what_the_target_made_itself_is_no_reason_to_refuse(name: str) -> None:
    mine = origin(name, HERE)
    own: list[Block] = [
        ThinkingBlock("hm", SECRET, signature_format=name, origin=mine),
        TextBlock("Hi.", origin=mine),
        ToolUseBlock("t1", "f", "{}", origin=mine),
    ]
    elsewhere: list[Block] = [
        ThinkingBlock("words only", origin=Origin("elsewhere", "there", "demo")),
        TextBlock("Hi.", provider_state='{"id":"msg_1"}', provider_state_format="elsewhere"),
    ]
    request = ModelRequest([Message.user("go"), Message.assistant([*elsewhere, *own])], foreign="raise")

    assert DIALECTS[name].encode(request, HERE).body == DIALECTS[name].encode(replace(request, foreign="drop"), HERE).body  # fmt: skip


def test_a_run_hands_the_choice_on() -> None:
    options: RunOptions = {"foreign": "raise"}

    spec = make_spec([ScriptedModel([])], [Message.user("go")], options)

    assert spec.request(spec.messages).foreign == "raise"


def test_an_unknown_choice_is_a_clear_error() -> None:
    options: RunOptions = {"foreign": "keep"}  # type: ignore[typeddict-item]

    with pytest.raises(ConfigurationError, match="foreign is drop or raise, got 'keep'"):
        make_spec([ScriptedModel([])], [Message.user("go")], options)
