"""Agents, threads and messages as clients see them."""

import json

import pytest
from asgi import client

from agentkit.content import (
    ImageBlock,
    Message,
    Origin,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agentkit.log import Topic
from agentkit_server import Application

pytestmark = pytest.mark.anyio

AGENT = "/v1/agents/planner"


async def test_agents_are_listed_and_the_first_is_the_default(app: Application) -> None:
    async with client(app) as http:
        agents = (await http.get("/v1/agents")).json()["agents"]

    assert [(one["name"], one["default"]) for one in agents] == [
        ("planner", True), ("held", False), ("failing", False), ("refusing", False),
    ]  # fmt: skip


async def test_threads_are_listed_in_pages(app: Application) -> None:
    async with client(app) as http:
        for name in ("c", "a", "b"):
            await http.post(f"{AGENT}/threads/{name}/chat", json={"message": "hello"})
        first = (await http.get(f"{AGENT}/threads?limit=2")).json()
        second = (await http.get(f"{AGENT}/threads?limit=2&after={first['next']}")).json()
        other = (await http.get("/v1/agents/held/threads")).json()

    assert [one["thread"] for one in first["threads"]] == ["a", "b"]
    assert [one["thread"] for one in second["threads"]] == ["c"]
    assert "next" not in second
    assert other == {"threads": []}


async def test_messages_are_those_of_the_thread(app: Application) -> None:
    async with client(app) as http:
        run = (await http.post(f"{AGENT}/threads/t1/chat", json={"message": "hello"})).json()["run"]
        messages = (await http.get(f"{AGENT}/threads/t1/messages")).json()["messages"]
        empty = (await http.get(f"{AGENT}/threads/t2/messages")).json()

    origin = {"dialect": "scripted", "provider": "scripted", "model": "scripted"}
    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "assistant",
            "run": run,
            "content": [
                {
                    "type": "thinking",
                    "thinking": "first think",
                    "signature": {"bytes": 24},
                    "signature_format": "scripted",
                    "origin": origin,
                },
                {"type": "text", "text": "then speak", "origin": origin},
            ],
        },
    ]
    assert empty == {"messages": []}


async def test_no_opaque_value_leaves_the_server(app: Application) -> None:
    origin = Origin("d", "p", "m")
    canary = "CANARY-0123456789"
    message = Message.assistant(
        [
            ThinkingBlock("t", canary, canary, "d", "d", origin=origin),
            TextBlock("x", canary, "d", canary, "d"),
            ToolUseBlock("1", "look", "{}", True, canary, "d", canary, "d"),
            ProviderBlock("search", canary, "d"),
            ImageBlock("image/png", "AAAA"),
        ]
    )
    await app.service.engine.threads.extend(Topic("", "planner", "t1"), [message])

    async with client(app) as http:
        body = (await http.get(f"{AGENT}/threads/t1/messages")).text

    assert canary not in body
    assert json.loads(body)["messages"][0]["content"][3] == {
        "type": "provider",
        "kind": "search",
        "provider_state": {"bytes": 17},
        "provider_state_format": "d",
    }


async def test_a_broken_answer_stays_readable(app: Application) -> None:
    async with client(app) as http:
        await http.post("/v1/agents/failing/threads/t1/chat", json={"message": "hello"})
        messages = (await http.get("/v1/agents/failing/threads/t1/messages")).json()["messages"]

    assert messages[1]["status"] == "partial"
    assert messages[1]["content"][0]["text"] == "so far"
