"""What a caller asks for is said in the endpoint's own members, or refused."""

from typing import Any

import pytest

from agentkit.content import Message
from agentkit.dialects.base import Profile
from agentkit.dialects.openai_chat_settings import settings
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, ToolSpec
from agentkit.reasoning import ReasoningSetting, parse_reasoning

pytestmark = pytest.mark.pure

TOOL = ToolSpec("f", "Does f.", {"type": "object", "properties": {}})
BARE = ToolSpec("g", "", {"type": "object"})


def said(
    profile: Profile | None = None, options: dict[str, Any] | None = None, **members: Any
) -> dict[str, Any]:
    return settings(ModelRequest([Message.user("hi")], **members), profile or Profile(), options or {})


def field(name: Any, *efforts: Any) -> Profile:
    return Profile(reasoning_field=name, efforts=efforts)


# reasoning


@pytest.mark.parametrize(
    ("profile", "reasoning", "members"),
    [
        (field("reasoning_effort"), {"effort": "low"}, {"reasoning_effort": "low"}),
        (field("reasoning_effort"), {"effort": "none"}, {"reasoning_effort": "none"}),
        (field("reasoning_effort"), {"budget": 5000}, {"reasoning_effort": "medium"}),
        (field("reasoning_effort"), {"budget": 0}, {"reasoning_effort": "none"}),
        (field("reasoning_effort", "low", "high"), {"effort": "medium"}, {"reasoning_effort": "high"}),
        (field("reasoning_effort", "low", "high"), {"effort": "minimal"}, {"reasoning_effort": "low"}),
        (field("reasoning_effort", "low", "high"), {"effort": "max"}, {"reasoning_effort": "high"}),
        (field("reasoning_effort", "none", "high"), {"effort": "none"}, {"reasoning_effort": "none"}),
        (field("reasoning"), {"effort": "high"}, {"reasoning": {"effort": "high"}}),
        (field("reasoning"), {"budget": 2000}, {"reasoning": {"max_tokens": 2000}}),
        (field("reasoning"), {"budget": 0}, {"reasoning": {"effort": "none"}}),
        (field("thinking"), {"effort": "low"}, {"thinking": {"type": "enabled"}}),
        (field("thinking"), {"effort": "none"}, {"thinking": {"type": "disabled"}}),
        (field("thinking", "high", "max"), {"effort": "low"}, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        (field("thinking", "high", "max"), {"budget": 0}, {"thinking": {"type": "disabled"}}),
        (field("enable_thinking"), {"effort": "low"}, {"enable_thinking": True, "thinking_budget": 2048}),
        (field("enable_thinking"), {"budget": 700}, {"enable_thinking": True, "thinking_budget": 700}),
        (field("enable_thinking"), {"effort": "none"}, {"enable_thinking": False}),
        (field("reasoning_budget_tokens"), {"budget": 100},
         {"reasoning_budget_tokens": 100, "chat_template_kwargs": {"enable_thinking": True}}),
        (field("reasoning_budget_tokens"), {"effort": "none"},
         {"reasoning_budget_tokens": 0, "chat_template_kwargs": {"enable_thinking": False}}),
        (field("chat_template_kwargs"), {"effort": "high"}, {"chat_template_kwargs": {"enable_thinking": True}}),
        (field("chat_template_kwargs"), {"budget": 0}, {"chat_template_kwargs": {"enable_thinking": False}}),
    ],
)  # fmt: skip
def test_reasoning_is_said_in_the_endpoints_words(
    profile: Profile, reasoning: dict[str, Any], members: dict[str, Any]
) -> None:
    assert said(profile, reasoning=parse_reasoning(reasoning)) == members


def test_no_setting_says_nothing() -> None:
    assert said(field("")) == {}


def test_an_endpoint_without_the_setting_refuses_it() -> None:
    with pytest.raises(ConfigurationError, match="no reasoning setting"):
        said(field(""), reasoning=ReasoningSetting(effort="low"))


def test_reasoning_that_cannot_be_switched_off_says_so() -> None:
    with pytest.raises(ConfigurationError, match="low, high"):
        said(field("reasoning_effort", "low", "high"), reasoning=ReasoningSetting(budget=0))


@pytest.mark.parametrize(
    "options",
    [
        {"reasoning_effort": "low"},
        {"thinking": {"type": "enabled"}},
        {"enable_thinking": True},
        {"thinking_budget": 5},
        {"reasoning_budget_tokens": 5},
        {"reasoning": {"effort": "low"}},
        {"reasoning": {"max_tokens": 5}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
    ids=str,
)
def test_an_option_of_the_same_meaning_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        said(options=options, reasoning=ReasoningSetting(effort="low"))
    assert said(options=options) == {}


@pytest.mark.parametrize(
    "options",
    [{"reasoning": {"exclude": True}}, {"chat_template_kwargs": {"x": 1}}, {"reasoning_format": "parsed"}],
    ids=str,
)
def test_an_option_of_another_meaning_goes_beside(options: dict[str, Any]) -> None:
    assert said(options=options, reasoning=ReasoningSetting(effort="low")) == {"reasoning_effort": "low"}


# limits


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_limit_has_the_endpoints_name(name: Any) -> None:
    assert said(Profile(max_tokens_field=name), max_tokens=7) == {name: 7}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_option_that_limits_wins(name: str) -> None:
    assert said(options={name: 5}, max_tokens=7) == {}


@pytest.mark.parametrize(
    ("profile", "reasoning", "asked", "limit"),
    [
        (field("reasoning"), {"budget": 2000}, 500, 2500),
        (field("reasoning"), {"budget": 2000}, 3000, 3000),
        (field("reasoning"), {"effort": "high"}, 500, 500),
        (field("reasoning_budget_tokens"), {"effort": "low"}, 500, 2548),
        (field("enable_thinking"), {"budget": 2000}, 500, 500),
        (field("reasoning_effort"), {"budget": 2000}, 500, 500),
    ],
)
def test_the_limit_is_raised_where_reasoning_counts_in_it(
    profile: Profile, reasoning: dict[str, Any], asked: int, limit: int
) -> None:
    assert said(profile, reasoning=parse_reasoning(reasoning), max_tokens=asked)["max_tokens"] == limit


def test_temperature_and_stop_words_are_said() -> None:
    assert said(temperature=0.0, stop=("a", "b")) == {"temperature": 0.0, "stop": ["a", "b"]}


# tools


@pytest.mark.parametrize(
    ("choice", "members"),
    [
        ("auto", {}),
        ("none", {"tool_choice": "none"}),
        ("required", {"tool_choice": "required"}),
        ("g", {"tool_choice": {"type": "function", "function": {"name": "g"}}}),
    ],
)
def test_tools_and_the_choice_among_them(choice: str, members: dict[str, Any]) -> None:
    assert said(tools=(TOOL, BARE), tool_choice=choice) == {
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "Does f.", "parameters": TOOL.parameters},
            },
            {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}},
        ],
        **members,
    }


@pytest.mark.parametrize(("tools", "choice"), [((TOOL,), "x"), ((), "x"), ((), "required")])
def test_a_choice_that_cannot_be_is_refused(tools: tuple[ToolSpec, ...], choice: str) -> None:
    with pytest.raises(ConfigurationError, match=choice):
        said(tools=tools, tool_choice=choice)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_without_tools_there_is_no_choice(choice: str) -> None:
    assert said(tool_choice=choice) == {}


# the form of the answer


def test_a_schema_is_said_strictly_where_that_can_be() -> None:
    schema = {
        "title": "My answer!",
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}},
    }

    assert said(output_schema=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "My_answer_",
            "strict": True,
            "schema": {
                "title": "My answer!",
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": False,
                "required": ["a"],
            },
        },
    }


def test_an_open_schema_is_said_as_it_is() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}

    assert said(output_schema=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": False, "schema": schema},
    }


def test_an_endpoint_without_schemas_refuses_one() -> None:
    with pytest.raises(ConfigurationError, match="output_type"):
        said(Profile(json_schema=False), output_schema={"type": "object"})
