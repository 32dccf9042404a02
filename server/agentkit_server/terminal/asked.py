"""What the options of the commands in a terminal name: an agent here or on a server, and a transport."""

import re
from typing import Any, Final, get_args

from agentkit.agent import Agent
from agentkit.errors import ConfigurationError, quote
from agentkit.providers import connect
from agentkit_server.demo import (
    approval_agent,
    failing_agent,
    redacted_agent,
    replay_agent,
    scripted_agent,
    tools_agent,
)
from agentkit_transports.clients import ClientSettings, RemoteAgent, Transport, connect_agent

DEMO = {
    "scripted": scripted_agent,
    "replay": replay_agent,
    "tools": tools_agent,
    "redacted": redacted_agent,
    "failing": failing_agent,
    "approval": approval_agent,
}
"""Agents without a key, by the name that stands in a model's place."""

_ADDRESS: Final = re.compile(r"[^:/]+(:\d+)?/v1(/|$)|(localhost|[\d.]+):\d+/?$")
"""An agent's or a server's address without its scheme; models have slashes and colons too."""
_IMPATIENT: Final = ClientSettings(call_timeout=8.0)
"""A person waits: who is not there in these seconds is said not to be there."""


def asked_transport(name: str) -> Transport:
    """Return the transport of that name.

    Raises:
        ConfigurationError: there is none.
    """
    for known in get_args(Transport):
        if name == known:
            return known  # type: ignore[no-any-return]  # one of its own words
    raise ConfigurationError(f"--transport is {' or '.join(get_args(Transport))}, got {quote(name)}")


def asked_agent(
    model: str, system: str, effort: str, budget: int | None, base_url: str, token: str
) -> Agent | RemoteAgent:
    """Return the agent that the options of `agentkit chat` ask for.

    Raises:
        ConfigurationError: an unknown model, or options that do not go together.
    """
    if model.startswith(("http://", "https://", "ws://", "wss://")):
        if system or effort or budget is not None or base_url:
            raise ConfigurationError("an agent on a server has its own system prompt, reasoning and address")
        return connect_agent(model, auth=token or None, settings=_IMPATIENT)
    if _ADDRESS.match(model):
        raise ConfigurationError(f"{quote(model)} looks like an address: begin it with http:// or https://")
    if model in DEMO and not base_url:
        return DEMO[model]()
    reasoning: dict[str, Any] = {}
    if effort:
        reasoning["effort"] = effort
    if budget is not None:
        reasoning["budget"] = budget
    asked = connect(model, base_url=base_url or None)
    return Agent("chat", model=asked, system=system, reasoning=reasoning or None)
