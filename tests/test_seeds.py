"""The examples of the documents that the project was created from, as they stand there, against provider bytes through real decoders."""

import json
from typing import Any

import anyio
import pytest

from agentkit import Agent, ReasoningEvent, ThinkingBlock, stream_text
from agentkit.accumulators import Text, Thinking, ToolUses
from agentkit.chunks import TextChunk, ThinkingChunk, ToolUseChunk
from agentkit.dialects.base import Dialect
from agentkit.dialects.table import DIALECTS
from agentkit.log import EARLIEST, Topic
from agentkit.model import ModelRequest
from agentkit.testing import ReplayModel, replay
from agentkit.testing.replay import ReplayStream


def sse(*events: dict[str, Any], named: bool = True) -> bytes:
    frames = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events
    ]
    return "".join(frames).encode()


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


ANTHROPIC = sse(
    {
        "type": "message_start",
        "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 9}},
    },
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "check "},
        {"type": "thinking_delta", "thinking": "facts"},
        {"type": "signature_delta", "signature": "c2lnbmVk"},
    ),
    *block(
        1,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "All "},
        {"type": "text_delta", "text": "good."},
    ),
    *block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"q"'},
        {"type": "input_json_delta", "partial_json": ": 1}"},
    ),
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
)
CHAT = (
    sse(
        *(
            {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            for delta, finish in (
                ({"role": "assistant", "reasoning_content": "check "}, None),
                ({"reasoning_content": "facts"}, None),
                ({"content": "All good."}, None),
                ({}, "stop"),
            )
        ),
        named=False,
    )
    + b"data: [DONE]\n\n"
)


def model(body: bytes, dialect: str, provider: str) -> ReplayModel:
    entry: Dialect = DIALECTS[dialect]
    return replay(body, dialect=entry, provider=provider)


async def read(stream: ReplayStream) -> list[Any]:
    chunks: list[Any] = []
    async with stream:
        while items := await stream.next():
            chunks += items
    return chunks


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "dialect", "provider", "seen"),
    [
        pytest.param(
            ANTHROPIC,
            "anthropic-messages",
            "anthropic",
            [
                "[anthropic:delta] check ",
                "[anthropic:delta] facts",
                "[anthropic:signature] {'signature': 'c2lnbmVk', 'format': 'anthropic-messages'}",
                "All ",
                "good.",
            ],
            id="anthropic",
        ),
        pytest.param(
            CHAT,
            "openai-chat",
            "deepseek",
            ["[deepseek:delta] check ", "[deepseek:delta] facts", "All good."],
            id="chat",
        ),
    ],
)
async def test_the_loop_over_reasoning_events(
    body: bytes, dialect: str, provider: str, seen: list[str]
) -> None:
    result = stream_text(model=model(body, dialect, provider), prompt="Explain binary search.")
    said: list[str] = []

    with anyio.fail_after(20):
        async for event in result.event_stream:
            if event.type.startswith("reasoning."):
                reasoning = event.event  # type: ignore[union-attr]  # the seed's loop goes by the type's name
                said.append(f"[{reasoning.provider}:{reasoning.kind}] {reasoning.text or reasoning.data}")
            elif event.type == "text.delta":
                said.append(event.text)  # type: ignore[union-attr]

    assert said == seen


@pytest.mark.anyio
async def test_the_three_accumulators() -> None:
    text, thinking, tools = Text(), Thinking(), ToolUses()

    for chunk in await read(model(ANTHROPIC, "anthropic-messages", "anthropic").stream(ModelRequest([]))):
        match chunk:
            case TextChunk():
                text.add(chunk)
            case ThinkingChunk():
                thinking.add(chunk)
            case ToolUseChunk():
                tools.add(chunk)

    said, thought, called = text.block(), thinking.block(), tools.blocks()
    assert said is not None
    assert thought is not None
    assert said.text == "All good."
    assert (thought.thinking, thought.signature) == ("check facts", "c2lnbmVk")
    assert [(use.id, use.name, use.input) for use in called] == [("toolu_1", "look_up", '{"q": 1}')]


def test_replayable_as() -> None:
    block = ThinkingBlock("check the facts", "sig", '{"signature":"opaque"}', "gemini")

    assert (block.replayable_as("gemini"), block.replayable_as("openai-responses")) == (True, False)


@pytest.mark.anyio
async def test_the_agents_section() -> None:
    heard: list[ReasoningEvent] = []

    def on_reasoning(event: ReasoningEvent) -> None:
        heard.append(event)

    agent = Agent(
        "assistant",
        model=model(CHAT, "openai-chat", "deepseek"),
        reasoning={"budget": 1024},
        on_reasoning_event=on_reasoning,
    )
    with anyio.fail_after(20):
        text = await agent.chat("Hello")
        pieces = [piece async for piece in agent.stream("Hello")]

    assert (text, "".join(pieces)) == ("All good.", "All good.")
    assert [(event.kind, event.text) for event in heard] == [("delta", "check "), ("delta", "facts")] * 2
    page = await agent.engine.log.read(Topic("", "assistant", "main"), EARLIEST, 1000)
    data = [json.loads(record.wire)["data"] for record in page.records if record.type == "reasoning"]
    assert data[0] == {"kind": "delta", "provider": "deepseek", "text": "check ", "data": {}}
