"""The table itself: the native protocol tells each scenario as the table says, so that other protocols can be judged by it."""

import json
from typing import Any

import httpx2
import pytest
from e2e.frontends.scenarios import SCENARIOS, SECRETS, Scenario
from e2e.frontends.stand import Frontends, Node

from agentkit.sse import SSEDecoder

pytestmark = [pytest.mark.full, pytest.mark.e2e]

PLAYED = [
    one
    for one in SCENARIOS
    if not one.name.startswith("held-") and one.end != "cancelled" and not one.client_tools
]


@pytest.mark.parametrize("scenario", PLAYED, ids=[one.name for one in PLAYED])
def test_a_scenario_comes_to_what_the_table_says(scenario: Scenario, frontends: Frontends) -> None:
    url = f"{frontends.url}/v1/agents/{scenario.name}/threads/t-{scenario.name}/runs"
    with httpx2.Client(trust_env=False, timeout=20) as client:
        body = client.post(url, json={"input": "go"}, headers={"accept": "text/event-stream"}).content
    events: list[Any] = [json.loads(frame.data) for frame in SSEDecoder().feed(body)]
    own = [event for event in events if "parent" not in event]

    assert "".join(event["data"]["text"] for event in own if event["type"] == "text.delta") == scenario.text
    assert "".join(e["data"].get("text", "") for e in own if e["type"] == "reasoning") == scenario.reasoning
    assert "".join(e["data"]["text"] for e in own if e["type"] == "refusal.delta") == scenario.refusal
    results = [event["data"] for event in own if event["type"] == "tool_result"]
    assert [(one["call"], one["name"], one["status"]) for one in results] == list(scenario.calls)
    assert any(event["type"] == f"run.{scenario.end}" for event in own)
    assert not any(secret.encode() in body for secret in SECRETS)


def test_node_finds_the_clients(node: Node) -> None:
    source = """
      import { streamText } from "ai";
      import OpenAI from "openai";
      console.log(JSON.stringify([process.version, typeof streamText, typeof OpenAI, process.argv.slice(1)]));
    """

    [(version, *kinds, arguments)] = node.run(source, "a", 1)

    assert int(version[1:].split(".")[0]) >= 22
    assert (kinds, arguments) == (["function", "function"], ["a", "1"])
