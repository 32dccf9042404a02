"""The real clients in Node: `openai` as raw chunks and through `.stream()`, and the AI SDK with `@ai-sdk/openai-compatible`."""

import json
from pathlib import Path
from typing import Any

import pytest
from e2e.frontends.scenarios import SCENARIOS, Scenario
from e2e.frontends.stand import Frontends, Node
from e2e.servers import until

pytestmark = [
    pytest.mark.full,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
]  # Node reads some megabytes of modules first

HERE = Path(__file__).parent
PLAYED = [one for one in SCENARIOS if one.end != "cancelled" and not one.name.startswith("held-")]
LOCATE = {
    "type": "function",
    "function": {
        "name": "locate",
        "parameters": {"type": "object", "properties": {"zoom": {"type": "integer"}}},
    },
}
TOOLS = {one.name: [LOCATE] for one in PLAYED if one.client_tools}
named = pytest.mark.parametrize("scenario", PLAYED, ids=[one.name for one in PLAYED])


def played(node: Node, script: str, url: str) -> dict[str, Any]:
    names = ",".join(one.name for one in PLAYED)
    return {one.get("model", "models"): one for one in node.run(HERE / script, url, names, json.dumps(TOOLS))}


@pytest.fixture(scope="module")
def seen(node: Node, frontends: Frontends) -> dict[str, Any]:
    """What `openai` saw of each scenario."""
    return played(node, "openai_node.mjs", frontends.url)


@pytest.fixture(scope="module")
def compatible(node: Node, frontends: Frontends) -> dict[str, Any]:
    """What the AI SDK saw of each scenario."""
    return played(node, "openai_compatible.mjs", frontends.url)


def theirs(scenario: Scenario) -> list[str]:
    return [call for call, _, status in scenario.calls if not status]


@named
def test_openai_reads_a_scenario(scenario: Scenario, seen: dict[str, Any]) -> None:
    raw = seen[scenario.name]["raw"]

    assert (raw["content"], raw["reasoning"], raw["refusal"]) == (
        scenario.text,
        scenario.reasoning_apart,
        scenario.refusal,
    )
    assert [call for call, _, _ in raw["calls"]] == theirs(scenario)
    if scenario.end == "failed":
        assert raw["error"][:2] == ["APIError", "model_stream"]
        assert "overloaded" in raw["error"][2]
        assert raw["finishes"] == []
    else:
        assert raw["error"] is None
        assert raw["finishes"] == ["tool_calls" if theirs(scenario) else "stop"]
        assert raw["usage"] is not None


@named
def test_openais_helper_reads_a_scenario(scenario: Scenario, seen: dict[str, Any]) -> None:
    helper = seen[scenario.name]["helper"]

    assert helper["deltas"] == scenario.text
    if scenario.end == "failed":
        assert "overloaded" in helper["error"][2]
    else:
        assert helper["error"] is None
        assert (helper["content"] or "", helper["refusal"] or "") == (scenario.text, scenario.refusal)
        assert [call for call, _, _ in helper["calls"]] == theirs(scenario)
        assert helper["finish"] == ("tool_calls" if theirs(scenario) else "stop")


def test_openai_lists_the_agents(seen: dict[str, Any]) -> None:
    assert {one.name for one in PLAYED} | {"scripted", "tools", "redacted", "failing"} <= set(
        seen["models"]["models"]
    )


@named
def test_the_ai_sdk_reads_a_scenario(scenario: Scenario, compatible: dict[str, Any]) -> None:
    streamed, whole = compatible[scenario.name]["streamed"], compatible[scenario.name]["whole"]

    text = scenario.text + scenario.refusal  # which the provider shows as text
    assert (streamed["text"], "".join(streamed["reasoning"])) == (text, scenario.reasoning_apart)
    assert [call for call, _, _ in streamed["calls"]] == theirs(scenario)
    if scenario.end == "failed":
        assert ["overloaded" in error for error in streamed["errors"]] == [True]
        assert "overloaded" in whole["error"]
    else:
        assert (streamed["errors"], streamed["open"]) == ([], 0)
        finish = "tool-calls" if theirs(scenario) else "content-filter" if scenario.refusal else "stop"
        assert (streamed["finish"], whole["finish"]) == (finish, finish)
        assert (whole["text"], whole["reasoning"]) == (text, scenario.reasoning_apart)


@pytest.mark.parametrize("leave", ["stream.controller.abort();", "break;"])
def test_a_client_that_leaves_stops_the_run(leave: str, node: Node, frontends: Frontends) -> None:
    source = """
      import OpenAI from "openai";
      const client = new OpenAI({ baseURL: process.argv[1] + "/v1", apiKey: "none", maxRetries: 0 });
      const messages = [{ role: "user", content: "go" }];
      const stream = await client.chat.completions.create({ model: "cancelled", messages, stream: true });
      let said = "";
      for await (const { choices: [{ delta }] } of stream) {
        said += delta.content ?? "";
        if (said === "So far and") { LEAVE }
      }
      console.log(JSON.stringify(said));
    """
    until(lambda: frontends.app.service.going == 0)

    assert node.run(source.replace("LEAVE", leave), frontends.url) == ["So far and"]
    until(lambda: frontends.app.service.going == 0)


def test_the_ai_sdk_answers_calls_and_goes_on(node: Node, frontends: Frontends) -> None:
    source = """
      import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
      import { isStepCount, jsonSchema, streamText, tool } from "ai";
      const provider = createOpenAICompatible({ name: "agentkit", baseURL: process.argv[1] + "/v1" });
      const asked = [];
      const locate = tool({
        description: "Find.",
        inputSchema: jsonSchema({ type: "object", properties: { zoom: { type: "integer" } } }),
        execute: async (input) => { asked.push(input); return "here"; },
      });
      const { text, steps } = streamText({
        model: provider("client-tool"), prompt: "go", tools: { locate }, stopWhen: isStepCount(3), maxRetries: 0,
      });
      console.log(JSON.stringify({ text: await text, steps: (await steps).map((step) => step.text), asked }));
    """

    [said] = node.run(source, frontends.url)

    assert said == {
        "text": "You are there.",
        "steps": ["Let me look. ", "You are there."],
        "asked": [{"zoom": 3}],
    }
