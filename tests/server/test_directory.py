"""Agents that are there, that are announced, and that come later."""

from typing import Any

import pytest

from agentkit.agent import Agent
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import ConfigurationError
from agentkit.testing import ScriptedModel
from agentkit_server.directory import AgentDirectory

pytestmark = pytest.mark.pure


def agent(name: str) -> Agent:
    return Agent(name, model=ScriptedModel(model=f"{name}-model"), description=f"The {name}.")


def listed(directory: AgentDirectory) -> list[tuple[object, ...]]:
    body = directory.body()["agents"]
    assert isinstance(body, list)
    return [(one["name"], one["default"], one["available"]) for one in body if isinstance(one, dict)]


def test_the_list_says_what_a_client_needs() -> None:
    directory = AgentDirectory([agent("one")])

    assert directory.body() == {
        "agents": [
            {
                "name": "one",
                "description": "The one.",
                "model": "one-model",
                "provider": "scripted",
                "default": True,
                "available": True,
            }
        ]
    }


def test_an_announced_agent_is_listed_with_its_note_and_is_no_default() -> None:
    directory = AgentDirectory([agent("one")], default="local")
    directory.announce("local", note="still being fetched")

    assert listed(directory) == [("one", True, True), ("local", False, False)]
    entry = directory.find("local")
    assert entry is not None
    assert (entry.agent, entry.note) == (None, "still being fetched")


def test_an_agent_that_is_offered_later_keeps_its_place_and_becomes_the_default() -> None:
    directory = AgentDirectory([agent("one")], default="local")
    directory.announce("local", note="still being fetched")
    directory.offer(agent("local"))

    assert listed(directory) == [("one", False, True), ("local", True, True)]


def test_agents_live_on_the_engine_whenever_they_come() -> None:
    engine = MemoryEngine()
    directory = AgentDirectory([agent("one")])
    directory.bind(engine)
    directory.offer(agent("two"))

    assert [entry.agent.engine for entry in directory if entry.agent is not None] == [engine, engine]


@pytest.mark.parametrize(
    "given", [agent("one"), "one", [agent], [None]], ids=["agent", "text", "function", "none"]
)
def test_what_is_no_list_of_agents_is_refused(given: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"expected a list of agents, as in create_app\(\[agent\]\), got "
    ):
        AgentDirectory(given)


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two agents are named 'one'"):
        AgentDirectory([agent("one"), agent("one")])
