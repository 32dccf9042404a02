"""Claude's thinking behind a chat gateway keeps its signatures, and goes back with them."""

import json
from typing import Any

import pytest

from agentkit.accumulators import Response
from agentkit.chunks import BlockEndChunk, Chunk, TextChunk, ThinkingChunk
from agentkit.content import Message, TextBlock, ThinkingBlock, dump_messages, load_messages
from agentkit.dialects.base import Profile, Target, origin
from agentkit.dialects.openai_chat import DIALECT
from agentkit.model import ModelRequest

pytestmark = pytest.mark.pure

TARGET = Target("compatible", "claude", endpoint="http://gateway.test")
REDACTED = {"type": "redacted_thinking", "data": "x"}


def block(text: str, signature: str | None = None) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def read(*deltas: dict[str, Any]) -> list[Chunk]:
    decoder = DIALECT.decoder(TARGET)
    payloads = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    out = [chunk for payload in payloads for chunk in decoder.feed("", json.dumps(payload))]
    return out + decoder.feed("", "[DONE]")


def thinking(*deltas: dict[str, Any]) -> list[ThinkingBlock]:
    response = Response()
    response.extend(read(*deltas))
    return list(response.message().thinking)


@pytest.mark.parametrize("repeated", ["", "hm, so"], ids=["signature alone", "all words again"])
@pytest.mark.parametrize("beside", [True, False], ids=["beside reasoning_content", "alone"])
def test_a_signature_belongs_to_the_thinking_before_it(repeated: str, beside: bool) -> None:
    deltas = [
        {"thinking_blocks": [block(piece)]} | ({"reasoning_content": piece} if beside else {})
        for piece in ("hm", ", so")
    ]

    chunks = read(
        *deltas, {"reasoning_content": "", "thinking_blocks": [block(repeated, "s")]}, {"content": "Hi"}
    )

    assert chunks[:6] == [
        ThinkingChunk("hm"), ThinkingChunk(", so"), ThinkingChunk("", "s", "litellm"), BlockEndChunk(0), TextChunk("Hi", 1), BlockEndChunk(1),
    ]  # fmt: skip


def test_blocks_that_come_whole_are_told_apart() -> None:
    answer = thinking({"thinking_blocks": [block("a", "s1"), REDACTED, block("", "s2")]}, {"content": "Hi"})

    assert answer == [
        ThinkingBlock("a", "s1", signature_format="litellm"),
        ThinkingBlock("", "", json.dumps(REDACTED, separators=(",", ":")), "litellm"),
        ThinkingBlock("", "s2", signature_format="litellm"),
    ]


def test_where_details_say_it_the_blocks_only_repeat_it() -> None:
    detail = {"type": "reasoning.text", "text": "a", "index": 0, "signature": "s"}

    (only,) = thinking({"reasoning_details": [detail], "thinking_blocks": [block("a", "s")]})

    assert (only.thinking, only.signature, only.signature_format) == ("a", "s", "openrouter")


@pytest.mark.parametrize(
    "value", [None, [], {}, [None], [{}], "x", [{"type": "redacted_thinking"}], [block("")]], ids=str
)
def test_what_says_nothing_is_nothing(value: object) -> None:
    assert thinking({"content": "Hi", "thinking_blocks": value}) == []


@pytest.mark.parametrize(
    ("target", "profile", "sent"),
    [
        (TARGET, None, [block("a", "s1"), REDACTED]),
        (TARGET, "never", [REDACTED]),
        (Target("compatible", "another"), None, None),
    ],
    ids=["own", "own, where words never go back", "another's"],
)
def test_signed_blocks_go_back_to_who_signed_them(target: Target, profile: Any, sent: object) -> None:
    response = Response(origin(DIALECT.name, TARGET))
    response.extend(
        read({"thinking_blocks": [block("a", "s1"), REDACTED, block("unsigned")]}, {"content": "Hi"})
    )
    messages = load_messages(dump_messages([Message.user("go"), response.message(), Message.user("more")]))
    to = Target(target.provider, target.model, Profile(replay_reasoning=profile), target.endpoint)

    body: Any = DIALECT.encode(ModelRequest(messages), to).body

    assert body["messages"][1].get("thinking_blocks") == sent
    assert body["messages"][1]["content"] == "Hi"


def test_a_turn_of_signed_thinking_alone_is_kept() -> None:
    own = ThinkingBlock("a", "s", signature_format="litellm", origin=origin(DIALECT.name, TARGET))

    body: Any = DIALECT.encode(
        ModelRequest([Message.user("go"), Message.assistant([own, TextBlock("")]), Message.user("x")]), TARGET
    ).body

    assert body["messages"][1] == {"role": "assistant", "content": "", "thinking_blocks": [block("a", "s")]}
