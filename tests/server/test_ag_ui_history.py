"""A thread's messages as an AG-UI snapshot."""

import json
from typing import Any

import pytest
from asgi import client

from agentkit.agent import Agent
from agentkit.content import Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentkit.testing import Call, Say, ScriptedModel, Think
from agentkit.tool import tool
from agentkit_server import create_app
from agentkit_server.ag_ui_history import snapshot
from agentkit_transports.encoder import Exposure

CALL = ToolUseBlock("c1", "f", "{}")
THREAD = [
    Message.user("one"),
    Message("assistant", (TextBlock("first"),), run="r1"),
    Message.user("two"),
    Message(
        "assistant",
        (ThinkingBlock("hm"), TextBlock("a"), ThinkingBlock("so", summary=True), TextBlock("b"), CALL),
        run="r2",
    ),
    Message("tool", (ToolResultBlock("c1", "f", (TextBlock("it broke"),), "error"),), run="r2"),
    Message("assistant", (TextBlock("c"),), run="r2"),
]


def told(exposure: Exposure = "full") -> list[dict[str, Any]]:
    frames = snapshot(THREAD, None, {"run": "c1"}, "t", exposure).split(b"\n\n")
    messages: list[dict[str, Any]] = json.loads(frames[1].removeprefix(b"data: "))["messages"]
    return messages


def test_blocks_keep_their_order_and_the_ids_of_their_stream() -> None:
    call = {"id": "r2.1.c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = {"toolCallId": "r2.1.c1", "content": "it broke", "error": "it broke"}

    assert told() == [
        {"id": "m.0", "role": "user", "content": "one"},
        {"id": "r1.1.0.text", "role": "assistant", "content": "first"},
        {"id": "m.2", "role": "user", "content": "two"},
        {"id": "r2.1.0.reasoning", "role": "reasoning", "content": "hm"},
        {"id": "r2.1.1.text", "role": "assistant", "content": "a"},
        {"id": "r2.1.2.reasoning", "role": "reasoning", "content": "so"},
        {"id": "r2.1.3.text", "role": "assistant", "content": "b", "toolCalls": [call]},
        {"id": "r2.1.c1.result", "role": "tool", **result},
        {"id": "r2.2.0.text", "role": "assistant", "content": "c"},
    ]


def test_what_a_run_told_its_model_is_nobodys_word() -> None:
    note = Message("user", (TextBlock("Your call was not run."),), run="r1")
    frames = snapshot([*THREAD[:2], note, *THREAD[2:4]], None, {"run": "c1"}, "t", "full").split(b"\n\n")
    messages = json.loads(frames[1].removeprefix(b"data: "))["messages"]

    assert [message["content"] for message in messages if message["role"] == "user"] == ["one", "two"]


def test_reasoning_is_shown_as_far_as_the_agent_allows() -> None:
    assert [m["content"] for m in told("summary") if m["role"] == "reasoning"] == ["so"]
    assert [m for m in told("none") if m["role"] == "reasoning"] == []


@tool
async def f() -> str:
    """Do something."""
    return "done"


@pytest.mark.anyio
async def test_a_later_turns_messages_have_the_ids_that_its_stream_gave() -> None:
    turn: list[Any] = [
        [Think("hm"), Say("a"), Think("so"), Call("f", id="c1")],
        [Call("f", id="c2")],
        [Say("b")],
    ]
    app = create_app([Agent("a", model=ScriptedModel(*turn, *turn), tools=[f])])
    streamed: list[str] = []
    shown: list[str] = []
    parents: list[str] = []
    held: list[str] = []
    async with client(app) as http:
        for said in ("one", "two", ""):
            messages = [{"id": said, "role": "user", "content": said}] if said else []
            body = {"threadId": "t", "runId": f"run-{said}", "messages": messages}
            answer = await http.post("/v1/ag-ui/a", json=body)
            for line in answer.text.split("\n"):
                event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                kind = event.get("type", "")
                if kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_RESULT"):
                    streamed.append(event["messageId"])
                elif kind == "TOOL_CALL_START":
                    streamed.append(event["toolCallId"])
                    parents.append(event["parentMessageId"])
                for message in event.get("messages", ()):
                    calls = [call["id"] for call in message.get("toolCalls", ())]
                    held += [message["id"]] * len(calls)
                    shown += calls
                    if message["role"] != "user" and not message["id"].endswith(".calls"):
                        shown.append(message["id"])
    await app.aclose()

    assert len(streamed) == 16
    assert sorted(shown) == sorted(streamed)
    assert held == parents
