"""A value of a kind that an option never has is refused where it is written, in words of the option."""

from typing import Any

import pytest

from agentkit.agent import Agent
from agentkit.errors import ConfigurationError
from agentkit.generate import stream_text
from agentkit.hooks import Hooks
from agentkit.limits import step_count_is
from agentkit.option_checks import check_options
from agentkit.providers import connect
from agentkit.testing import ScriptedModel

pytestmark = pytest.mark.pure

HOLDS_ITSELF: dict[str, Any] = {}
HOLDS_ITSELF["self"] = HOLDS_ITSELF

WRONG: list[tuple[str, Any]] = [
    ("system", 5),
    ("system", None),
    ("provider_options", {"openai": 5}),
    ("provider_options", "fast"),
    ("foreign", "keep"),
    ("max_tokens", "100"),
    ("max_tokens", 0),
    ("max_tokens", True),
    ("temperature", "hot"),
    ("temperature", float("nan")),
    ("temperature", -1),
    ("stop_when", 3),
    ("stop_when", [step_count_is(2), 3]),
    ("hooks", None),
    ("hooks", lambda _: None),
    ("compact", "short"),
    ("on_approval", "ask"),
    ("metadata", ["a"]),
    ("metadata", {"when": object()}),
    ("metadata", {1: "one"}),
    ("metadata", {"huge": float("inf")}),
    ("metadata", HOLDS_ITSELF),
]


@pytest.mark.parametrize(
    ("name", "value"), WRONG, ids=[f"{name}-{number}" for number, (name, _) in enumerate(WRONG)]
)
def test_a_wrong_value_is_refused_by_the_agent_and_by_a_call(name: str, value: Any) -> None:
    model = ScriptedModel([])

    with pytest.raises(ConfigurationError, match=f"^{name} is "):
        Agent("a", model=model, **{name: value})
    with pytest.raises(ConfigurationError, match=f"^{name} is "):
        stream_text(model=model, prompt="Hi", **{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"system": "", "max_tokens": None, "temperature": None, "compact": None},
        {"max_tokens": 1, "temperature": 0, "hooks": Hooks(), "stop_when": step_count_is(1)},
        {"stop_when": [step_count_is(1)], "foreign": "raise", "on_approval": "suspend"},
        {"metadata": {"a": [1, 2.5, None, {"b": "c"}]}, "provider_options": {"openai": {"store": False}}},
    ],
    ids=["none", "absent", "single", "several", "mappings"],
)
def test_what_may_be_said_passes(options: dict[str, Any]) -> None:
    check_options(options)


@pytest.mark.parametrize(
    "model", [5, None, [5], [], object()], ids=["number", "none", "a list", "nothing", "object"]
)
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="model"):
        Agent("a", model=model)


@pytest.mark.parametrize("name", [None, 5, b"openai:gpt-5.4"], ids=repr)
def test_what_is_no_name_of_a_model_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="a model's name is text"):
        connect(name)


@pytest.mark.parametrize("tools", [5, "search", None, [5]], ids=repr)
def test_what_are_no_tools_is_refused(tools: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool"):
        Agent("a", model=ScriptedModel([]), tools=tools)
