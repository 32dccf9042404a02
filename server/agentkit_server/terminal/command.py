"""The options of the commands that live in a terminal, and the agents that they may name."""

from typing import Annotated, Any

import typer

from agentkit.agent import Agent
from agentkit.errors import AgentKitError
from agentkit.providers import connect
from agentkit_server.demo import (
    approval_agent,
    failing_agent,
    redacted_agent,
    replay_agent,
    scripted_agent,
    tools_agent,
)
from agentkit_server.terminal.chat import chat

DEMO = {
    "scripted": scripted_agent,
    "replay": replay_agent,
    "tools": tools_agent,
    "redacted": redacted_agent,
    "failing": failing_agent,
    "approval": approval_agent,
}
"""Agents without a key, by the name that stands in a model's place."""


def chat_command(
    model: Annotated[
        str,
        typer.Argument(help="PROVIDER:MODEL, such as openai:gpt-5.4; or scripted, tools… to look around."),
    ],
    message: Annotated[str, typer.Argument(help="One message; without it there is a prompt.")] = "",
    system: Annotated[str, typer.Option(help="The system prompt.")] = "",
    effort: Annotated[str, typer.Option(help="How much to reason: none, minimal, low, medium, high…")] = "",
    budget: Annotated[int | None, typer.Option(help="How many tokens to reason; 0 is off.")] = None,
    base_url: Annotated[str, typer.Option(help="The URL of a compatible server.")] = "",
    *,
    keep_reasoning: Annotated[
        bool, typer.Option("--keep-reasoning", help="Leave the reasoning on the screen.")
    ] = False,
) -> None:
    """Talk with a model in this terminal. Piped, it is the visible text and nothing else."""
    try:
        agent = _agent(model, system, effort, budget, base_url)
    except AgentKitError as error:
        typer.echo(f"agentkit: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(chat(agent, message, is_reasoning_kept=keep_reasoning))


def _agent(model: str, system: str, effort: str, budget: int | None, base_url: str) -> Agent:
    if model in DEMO and not base_url:
        return DEMO[model]()
    reasoning: dict[str, Any] = {}
    if effort:
        reasoning["effort"] = effort
    if budget is not None:
        reasoning["budget"] = budget
    asked = connect(model, base_url=base_url or None)
    return Agent("chat", model=asked, system=system, reasoning=reasoning or None)
