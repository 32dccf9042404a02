"""The options of the commands that live in a terminal, and the agents that they may name."""

from typing import Annotated, Any, TypeAlias, get_args

import typer

from agentkit.agent import Agent
from agentkit.errors import AgentKitError, ConfigurationError, quote
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
from agentkit_server.terminal.watch import watch
from agentkit_transports.clients import RemoteAgent, Transport, connect_agent, follow

Token: TypeAlias = Annotated[
    str, typer.Option(envvar="AGENTKIT_TOKEN", help="What the server knows you by; better in the variable.")
]
KeepReasoning: TypeAlias = Annotated[
    bool, typer.Option("--keep-reasoning", help="Leave the reasoning on the screen.")
]

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
        typer.Argument(
            help="PROVIDER:MODEL, such as openai:gpt-5.4; the URL of an agent on a server; or scripted, tools… to look around."
        ),
    ],
    message: Annotated[str, typer.Argument(help="One message; without it there is a prompt.")] = "",
    system: Annotated[str, typer.Option(help="The system prompt.")] = "",
    effort: Annotated[str, typer.Option(help="How much to reason: none, minimal, low, medium, high…")] = "",
    budget: Annotated[int | None, typer.Option(help="How many tokens to reason; 0 is off.")] = None,
    base_url: Annotated[str, typer.Option(help="The URL of a compatible server.")] = "",
    thread: Annotated[str, typer.Option(help="The conversation, on a server.")] = "main",
    token: Token = "",
    *,
    keep_reasoning: KeepReasoning = False,
) -> None:
    """Talk with a model in this terminal. Piped, it is the visible text and nothing else."""
    try:
        agent = _agent(model, system, effort, budget, base_url, token)
    except AgentKitError as error:
        typer.echo(f"agentkit: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(chat(agent, message, thread=thread, is_reasoning_kept=keep_reasoning))


def watch_command(
    url: Annotated[
        str,
        typer.Argument(
            help="A thread or a run: http://host/v1/agents/AGENT/threads/THREAD, …/events?run=RUN."
        ),
    ],
    after: Annotated[
        str,
        typer.Option(
            help="Where to begin: earliest, now, or a record's id. By default what the URL says, else now."
        ),
    ] = "",
    token: Token = "",
    transport: Annotated[str, typer.Option(help="auto, sse or websocket.")] = "auto",
    *,
    json: Annotated[bool, typer.Option("--json", help="Records as they are, one a line.")] = False,
    keep_reasoning: KeepReasoning = False,
) -> None:
    """Watch a thread or a run on a server. Piped, it is the visible text and nothing else; Ctrl-C leaves, the run goes on."""
    try:
        feed = follow(url, after=after or None, auth=token or None, transport=_transport(transport))
    except AgentKitError as error:
        typer.echo(f"agentkit: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(watch(feed, is_json=json, is_reasoning_kept=keep_reasoning))


def _transport(name: str) -> Transport:
    for known in get_args(Transport):
        if name == known:
            return known  # type: ignore[no-any-return]  # one of its own words
    raise ConfigurationError(f"--transport is {' or '.join(get_args(Transport))}, got {quote(name)}")


def _agent(
    model: str, system: str, effort: str, budget: int | None, base_url: str, token: str
) -> Agent | RemoteAgent:
    if model.startswith(("http://", "https://", "ws://", "wss://")):
        if system or effort or budget is not None or base_url:
            raise ConfigurationError("an agent on a server has its own system prompt, reasoning and address")
        return connect_agent(model, auth=token or None)
    if model in DEMO and not base_url:
        return DEMO[model]()
    reasoning: dict[str, Any] = {}
    if effort:
        reasoning["effort"] = effort
    if budget is not None:
        reasoning["budget"] = budget
    asked = connect(model, base_url=base_url or None)
    return Agent("chat", model=asked, system=system, reasoning=reasoning or None)
