"""The real `openai` client for Python: raw streams, its `.stream()` helper, whole answers, models, tools, and how it takes bad ends."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
import openai
import pytest
from e2e.frontends.scenarios import BY_NAME, SCENARIOS, SECRETS, Scenario
from e2e.frontends.stand import Frontends
from e2e.servers import process, until
from pydantic import BaseModel

pytestmark = [pytest.mark.e2e]

full = pytest.mark.full
GO: Any = [{"role": "user", "content": "go"}]
LOCATE: Any = {
    "type": "function",
    "function": {
        "name": "locate",
        "parameters": {"type": "object", "properties": {"zoom": {"type": "integer"}}},
    },
}
PLAYED = [one for one in SCENARIOS if one.end != "cancelled" and not one.name.startswith("held-")]
WHOLE = [one for one in PLAYED if one.end == "finished"]
FAILED = [one for one in PLAYED if one.end == "failed"]


def named(scenarios: list[Scenario]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scenario", scenarios, ids=[one.name for one in scenarios])


@dataclass
class Seen:
    """What came of a stream."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    finishes: list[str] = field(default_factory=list)
    usage: Any = None
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    def take(self, chunk: Any) -> None:
        self.ids.add(chunk.id)
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices:
            delta = choice.delta
            self.content += delta.content or ""
            self.refusal += delta.refusal or ""
            self.reasoning += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or []:
                one = self.calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                one["id"] += call.id or ""
                one["name"] += call.function.name or ""
                one["arguments"] += call.function.arguments or ""
            if choice.finish_reason:
                self.finishes.append(choice.finish_reason)


@pytest.fixture(scope="module")
def ai(frontends: Frontends) -> Iterator[openai.OpenAI]:
    """The client as its users make it, but for a key that nobody asks for."""
    with openai.OpenAI(base_url=f"{frontends.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
        yield client


def stream(ai: openai.OpenAI, model: str, **options: Any) -> Seen:
    seen = Seen()
    for chunk in ai.chat.completions.create(
        model=model, messages=options.pop("messages", GO), stream=True, **options
    ):
        seen.take(chunk)
    return seen


def tools_of(scenario: Scenario) -> dict[str, Any]:
    return {"tools": [LOCATE]} if scenario.client_tools else {}


def test_a_client_reads_reasoning_and_text(ai: openai.OpenAI) -> None:
    """The one of this file that `make test` runs."""
    seen = stream(ai, "reasoning-then-text", stream_options={"include_usage": True})
    whole = ai.chat.completions.create(model="reasoning-then-text", messages=GO)

    scenario = BY_NAME["reasoning-then-text"]
    assert (seen.content, seen.reasoning) == (scenario.text, scenario.reasoning_apart)
    assert (seen.finishes, len(seen.ids)) == (["stop"], 1)
    assert (seen.usage.prompt_tokens, seen.usage.completion_tokens_details.reasoning_tokens) == (10, 12)
    assert whole.choices[0].message.content == scenario.text
    assert "reasoning-then-text" in [model.id for model in ai.models.list()]
    assert ai.models.retrieve("reasoning-then-text").owned_by == "agentkit"


@full
@named(WHOLE)
def test_a_scenario_comes_as_chunks(scenario: Scenario, ai: openai.OpenAI) -> None:
    seen = stream(ai, scenario.name, **tools_of(scenario))

    assert (seen.content, seen.reasoning) == (scenario.text, scenario.reasoning_apart)
    assert seen.refusal == scenario.refusal
    theirs = [(call, name) for call, name, status in scenario.calls if not status]
    assert [(one["id"], one["name"]) for one in seen.calls.values()] == theirs
    assert seen.finishes == ["tool_calls" if theirs else "stop"]


@full
@named(WHOLE)
def test_a_scenario_comes_through_the_stream_helper(scenario: Scenario, ai: openai.OpenAI) -> None:
    reasoning, kinds = "", []
    with ai.chat.completions.stream(model=scenario.name, messages=GO, **tools_of(scenario)) as events:
        for event in events:
            kinds.append(event.type)
            if event.type == "chunk":
                for choice in event.chunk.choices:
                    reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        final = events.get_final_completion().choices[0]

    assert (final.message.content or "") == scenario.text
    assert (final.message.refusal or "") == scenario.refusal
    assert reasoning == scenario.reasoning_apart
    assert ("content.done" in kinds) is bool(scenario.text)
    if scenario.client_tools:
        [call] = final.message.tool_calls or []
        assert (call.function.name, json.loads(call.function.arguments)) == ("locate", {"zoom": 3})
        assert "tool_calls.function.arguments.done" in kinds


@full
@named(WHOLE)
def test_a_scenario_comes_as_one_object(scenario: Scenario, ai: openai.OpenAI) -> None:
    message = (
        ai.chat.completions.create(model=scenario.name, messages=GO, **tools_of(scenario)).choices[0].message
    )

    assert (message.content or "") == scenario.text
    assert getattr(message, "reasoning_content", "") == scenario.reasoning_apart
    assert not any(secret in message.to_json() for secret in SECRETS)


@full
@named(FAILED)
def test_a_run_that_fails_raises_behind_what_came(scenario: Scenario, ai: openai.OpenAI) -> None:
    seen = Seen()
    with pytest.raises(openai.APIError, match="overloaded") as raised:
        for chunk in ai.chat.completions.create(model=scenario.name, messages=GO, stream=True):
            seen.take(chunk)
    with (
        pytest.raises(openai.APIError, match="overloaded"),
        ai.chat.completions.stream(model=scenario.name, messages=GO) as events,
    ):
        for _ in events:
            pass
    with pytest.raises(openai.InternalServerError, match="overloaded"):
        ai.chat.completions.create(model=scenario.name, messages=GO)

    assert (seen.content, seen.reasoning) == (scenario.text, scenario.reasoning_apart)
    assert raised.value.code == "model_stream"


@full
def test_a_run_that_will_not_be_better_is_not_asked_again(frontends: Frontends) -> None:
    with (
        openai.OpenAI(base_url=f"{frontends.url}/v1", api_key="none", max_retries=2) as patient,
        pytest.raises(openai.NotFoundError) as raised,
    ):
        patient.chat.completions.create(model="nobody", messages=GO)

    assert raised.value.code == "model_not_found"


@full
@pytest.mark.parametrize("helper", [False, True], ids=["raw", "stream()"])
def test_a_client_that_leaves_stops_the_run(helper: bool, ai: openai.OpenAI, frontends: Frontends) -> None:
    until(lambda: frontends.app.service.going == 0)
    if helper:
        with ai.chat.completions.stream(model="cancelled", messages=GO) as events:
            for event in events:
                if event.type == "content.delta":
                    break
    else:
        chunks = ai.chat.completions.create(model="cancelled", messages=GO, stream=True)
        for chunk in chunks:
            if chunk.choices[0].delta.content:
                break
        assert frontends.app.service.going == 1
        chunks.close()

    until(lambda: frontends.app.service.going == 0)


@full
def test_a_client_that_does_not_wait_for_its_object_stops_the_run(
    ai: openai.OpenAI, frontends: Frontends
) -> None:
    with pytest.raises(openai.APITimeoutError):
        ai.with_options(timeout=0.5).chat.completions.create(model="cancelled", messages=GO)

    until(lambda: frontends.app.service.going == 0)


@full
def test_an_answer_of_a_schema_is_read_into_its_type(ai: openai.OpenAI) -> None:
    class City(BaseModel):
        name: str
        north: float

    done = ai.chat.completions.parse(model="schema", messages=GO, response_format=City)

    assert done.choices[0].message.parsed == City(name="Oslo", north=59.9)


@full
def test_a_stop_from_elsewhere_is_a_plain_end(ai: openai.OpenAI, frontends: Frontends) -> None:
    seen = Seen()
    chunks = ai.chat.completions.create(
        model="cancelled", messages=GO, stream=True, extra_headers={"X-Thread-Id": "stopped"}
    )
    thread = f"{frontends.url}/v1/agents/cancelled/threads/stopped"
    for chunk in chunks:
        seen.take(chunk)
        if seen.content == "So far and":
            run = chunk.id.removeprefix("chatcmpl-")
            httpx2.post(f"{thread}/runs/{run}/cancel", trust_env=False).raise_for_status()

    assert (seen.content, seen.finishes) == ("So far and", ["stop"])


@full
def test_two_clients_of_one_thread_do_not_mix(ai: openai.OpenAI, frontends: Frontends) -> None:
    thread = {"X-Thread-Id": "two"}
    first = ai.chat.completions.create(model="held-reasoning", messages=GO, stream=True, extra_headers=thread)
    seen = Seen()
    for chunk in first:
        seen.take(chunk)
        if seen.reasoning:
            break
    with pytest.raises(openai.ConflictError):
        ai.chat.completions.create(model="held-reasoning", messages=GO, extra_headers=thread)
    frontends.open("held-reasoning")
    for chunk in first:
        seen.take(chunk)

    assert (seen.reasoning, seen.content) == ("before after", "The end.")


@full
def test_a_tool_of_the_client_is_answered(ai: openai.OpenAI) -> None:
    first = ai.chat.completions.create(model="client-tool", messages=GO, tools=[LOCATE]).choices[0]
    [call] = first.message.tool_calls or []
    answered: Any = [
        *GO,
        first.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "here"},
    ]
    second = ai.chat.completions.create(model="client-tool", messages=answered, tools=[LOCATE])

    assert first.finish_reason == "tool_calls"
    assert second.choices[0].message.content == "You are there."


@full
@pytest.mark.parametrize("agent", ["scripted", "tools", "redacted", "failing"])
def test_the_demos_agents_answer(agent: str, ai: openai.OpenAI) -> None:
    seen = Seen()
    failed = ""
    try:
        for chunk in ai.chat.completions.create(
            model=agent, messages=GO, stream=True, stream_options={"include_usage": True}
        ):
            seen.take(chunk)
    except openai.APIError as error:
        failed = str(error.code)

    assert seen.content
    assert seen.reasoning
    assert not seen.calls
    assert failed == ("model_stream" if agent == "failing" else "")
    if not failed:
        assert seen.finishes == ["stop"]
        assert seen.usage.total_tokens > 0


@full
def test_a_server_that_dies_breaks_the_stream() -> None:
    with process() as server:
        base = f"http://127.0.0.1:{server.port}/v1"
        with openai.OpenAI(base_url=base, api_key="none", max_retries=0, timeout=20) as ai:
            chunks = ai.chat.completions.create(model="held", messages=GO, stream=True)
            next(iter(chunks))
            server.kill()
            with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
                for _ in chunks:
                    pass
