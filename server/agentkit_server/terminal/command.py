"""The options of the commands that live in a terminal. What they do is loaded when one of them runs."""

from typing import Annotated, TypeAlias

import typer

from agentkit.errors import AgentKitError

Token: TypeAlias = Annotated[
    str, typer.Option(envvar="AGENTKIT_TOKEN", help="What the server knows you by; better in the variable.")
]
KeepReasoning: TypeAlias = Annotated[
    bool, typer.Option("--keep-reasoning", help="Leave the reasoning on the screen.")
]


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
    from agentkit_server.terminal.asked import asked_agent
    from agentkit_server.terminal.chat import chat

    try:
        agent = asked_agent(model, system, effort, budget, base_url, token)
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
    from agentkit_server.terminal.asked import asked_transport
    from agentkit_server.terminal.watch import watch
    from agentkit_transports.clients import follow

    try:
        feed = follow(url, after=after or None, auth=token or None, transport=asked_transport(transport))
    except AgentKitError as error:
        typer.echo(f"agentkit: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(watch(feed, is_json=json, is_reasoning_kept=keep_reasoning))
