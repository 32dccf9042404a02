"""The agents that the command offers: those that need no key, `local`, and the model or recordings that it was asked for."""

from pathlib import Path

from agentkit.agent import Agent
from agentkit.errors import ConfigurationError
from agentkit.local_model import SMOLLM2
from agentkit.providers import connect
from agentkit_server.demo import (
    approval_agent,
    failing_agent,
    redacted_agent,
    replay_agent,
    scripted_agent,
    tools_agent,
)
from agentkit_server.directory import AgentDirectory
from agentkit_server.local import NAME as LOCAL
from agentkit_server.local import add_local


def all_agents(model: str, base_url: str, files: list[Path], dialect: str) -> AgentDirectory:
    """Return `demo_agents` and `local`, which is the default where it can be used and no other was asked for.

    Raises:
        ConfigurationError: as `demo_agents`; `--model local:PATH` names no GGUF file.
    """
    before, _, after = model.partition(":")
    is_local = before == LOCAL and not base_url
    directory = demo_agents("" if is_local else model, base_url, files, dialect)
    if is_local and not after:
        raise ConfigurationError("--model local: takes smollm2 or the path of a GGUF file behind the colon")
    add_local(directory, after if is_local else SMOLLM2)
    if is_local or not (model or files):
        directory.default = LOCAL
    return directory


def demo_agents(model: str, base_url: str, files: list[Path], dialect: str) -> AgentDirectory:
    """Return the agents that the options ask for; the default is the model, or the named files, or `scripted`.

    Raises:
        ConfigurationError: an unknown model or dialect, a file that cannot be read.
    """
    agents: list[Agent] = [
        scripted_agent(),
        replay_agent(files, dialect=dialect),
        tools_agent(),
        redacted_agent(),
        failing_agent(),
        approval_agent(),
    ]
    default = "replay" if files else "scripted"
    if model:
        name = agent_name(model)
        asked = connect(model, base_url=base_url or None)
        agents.insert(0, Agent(name, model=asked, description=f"Asks {model}."))
        default = name
    return AgentDirectory(agents, default=default)


def agent_name(model: str) -> str:
    """Return a model's name as the name of an agent: what stands after the provider, without what a path cannot hold."""
    name = "".join(
        c if c.isascii() and (c.isalnum() or c in "_.~-") else "-" for c in model.partition(":")[2]
    )
    return name.strip("_.~-")[:128] or "model"
