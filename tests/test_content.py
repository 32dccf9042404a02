import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import (
    DocumentBlock,
    ImageBlock,
    Message,
    Origin,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    dump_messages,
    load_messages,
    valid_text,
)
from agentkit.errors import WireError

pytestmark = pytest.mark.pure

TEXT = st.text()  # without surrogates, as everything that a decoder gives out
ORIGIN = st.none() | st.builds(Origin, TEXT, TEXT, TEXT, TEXT)
STATE = st.none() | st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
).map(json.dumps)
THINKING = st.builds(ThinkingBlock, TEXT, TEXT, STATE, TEXT, TEXT, st.booleans(), ORIGIN)
BLOCK = (
    st.builds(TextBlock, TEXT, TEXT, TEXT, STATE, TEXT, ORIGIN)
    | THINKING
    | st.builds(ToolUseBlock, TEXT, TEXT, TEXT, st.booleans(), TEXT, TEXT, STATE, TEXT, ORIGIN)
    | st.builds(RefusalBlock, TEXT, ORIGIN)
    | st.builds(ImageBlock, TEXT, TEXT, TEXT, ORIGIN)
    | st.builds(DocumentBlock, TEXT, TEXT, TEXT, TEXT)
    | st.builds(ProviderBlock, TEXT, TEXT, TEXT, ORIGIN)
    | st.builds(
        ToolResultBlock,
        TEXT,
        TEXT,
        st.lists(st.builds(TextBlock, TEXT), max_size=2).map(tuple),
        st.sampled_from(["ok", "error", "denied", "interrupted"]),
    )
)
MESSAGE = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(BLOCK, max_size=4).map(tuple),
    st.sampled_from(["complete", "partial"]),
    TEXT,
)


@given(st.lists(MESSAGE, max_size=4))
def test_saving_and_loading_changes_nothing(messages: list[Message]) -> None:
    assert load_messages(dump_messages(messages)) == messages


@given(st.lists(MESSAGE, max_size=3))
def test_saved_messages_load_from_parsed_json_and_from_text(messages: list[Message]) -> None:
    saved = dump_messages(messages)

    assert load_messages(json.loads(saved)) == messages
    assert load_messages(saved.decode()) == messages


def test_the_seed_example_of_replayable_as() -> None:
    block = ThinkingBlock("check the facts", "sig", '{"signature":"opaque"}', "gemini")

    assert (block.replayable_as("gemini"), block.replayable_as("openai-responses")) == (True, False)


@pytest.mark.parametrize(
    ("block", "label", "replayable"),
    [
        pytest.param(ThinkingBlock("t"), "gemini", False, id="no state"),
        pytest.param(ThinkingBlock("t", "", "", "gemini"), "gemini", False, id="empty state"),
        pytest.param(ThinkingBlock("t", "", "{}", ""), "", False, id="empty format on both sides"),
        pytest.param(ThinkingBlock("t", "", "{}", "gemini"), "Gemini", False, id="another case"),
        pytest.param(ThinkingBlock("t", "", "{}", "gemini"), "gemini", True, id="own"),
    ],
)
def test_state_is_replayable_only_in_its_own_format(
    block: ThinkingBlock, label: str, replayable: bool
) -> None:
    assert block.replayable_as(label) is replayable


def test_a_signature_is_replayable_only_in_its_own_format() -> None:
    signed = ThinkingBlock("t", "sig", signature_format="anthropic-messages")

    assert signed.signature_replayable_as("anthropic-messages") == "sig"
    assert signed.signature_replayable_as("gemini") is None
    assert ThinkingBlock("t", "sig").signature_replayable_as("") is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"nope", "messages are not JSON", id="not JSON"),
        pytest.param(b'{"role":"user"}', "valid list", id="not a list"),
        pytest.param(b'[{"role":"robot","content":[]}]', "0.role", id="unknown role"),
        pytest.param(b'[{"role":"user","content":[{"type":"text"}]}]', "0.content.0.text.text", id="no text"),
        pytest.param(b'[{"role":"user","content":[{"type":"x"}]}]', "0.content.0", id="unknown block"),
    ],
)
def test_what_does_not_fit_is_named(data: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        load_messages(data)


def test_a_message_tells_visible_text_apart() -> None:
    message = Message.assistant(
        [ThinkingBlock("hm"), TextBlock("a"), RefusalBlock("no"), TextBlock("b"), ToolUseBlock("c", "t")]
    )

    assert (message.text, message.refusal) == ("ab", "no")
    assert (message.thinking, message.tool_uses) == ((ThinkingBlock("hm"),), (ToolUseBlock("c", "t"),))


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("\ud83d\ude00", "😀", id="a pair in halves is joined"),
        pytest.param("a\ud83db", "a\ufffdb", id="high half alone"),
        pytest.param("\ude00", "\ufffd", id="low half alone"),
        pytest.param("😀\ud83d", "😀\ufffd", id="after a whole one"),
    ],
)
def test_lone_surrogates_are_replaced(text: str, valid: str) -> None:
    assert valid_text(text) == valid


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)
    assert Usage(1, 2, 3).total_tokens == 3
