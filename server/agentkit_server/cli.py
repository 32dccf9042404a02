"""The command `agentkit`: `agentkit serve`, and `chat` and `watch` of `terminal`, `decode` and `encode` of the core.

It puts agents together from its options, prints the address and serves. What it may not do is listen to others than this machine
without authentication, unless told so. A command loads what it runs with when it runs: `--help` and the shell's next command do not wait.
"""

import ipaddress
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentkit.errors import AgentKitError, ConfigurationError
from agentkit_server.log_words import LogFormat, LogLevel
from agentkit_server.terminal.command import chat_command, watch_command

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("chat")(chat_command)
app.command("watch")(watch_command)

FOREIGN = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The options of `decode` and `encode` are the core's."""


@app.callback()
def about() -> None:
    """A model's reasoning, text and tool work, live, in order, resumable."""


@app.command()
def serve(  # noqa: PLR0913 - one parameter is one option
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    model: Annotated[
        str, typer.Option(help="A model, as PROVIDER:MODEL: anthropic:claude-sonnet-4-5, openai-chat:gpt-5…")
    ] = "",
    base_url: Annotated[str, typer.Option(help="The URL of a compatible server, for --model.")] = "",
    replay: Annotated[
        list[Path] | None, typer.Option(help="A recorded provider stream to play; may be given again.")
    ] = None,
    dialect: Annotated[str, typer.Option(help="What --replay is written in: anthropic-messages…")] = "",
    *,
    data: Annotated[
        Path,
        typer.Option(
            envvar="AGENTKIT_DATA", help="Folder for threads and logs; they are there after a restart."
        ),
    ] = Path(".agentkit"),
    engine: Annotated[
        str,
        typer.Option(
            envvar="AGENTKIT_ENGINE",
            help="Keep them elsewhere: memory://, sqlite:///path, redis://host:port/db.",
        ),
    ] = "",
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes behind the port. They share the engine.")
    ] = 1,
    metrics_port: Annotated[
        int,
        typer.Option(
            envvar="AGENTKIT_METRICS_PORT",
            min=-1,
            max=65535,
            help="Serve /metrics on a port of its own, on --metrics-host; of several workers each takes the next free one.",
        ),
    ] = -1,
    metrics_host: Annotated[
        str, typer.Option(envvar="AGENTKIT_METRICS_HOST", help="Address for --metrics-port.")
    ] = "127.0.0.1",
    log_format: Annotated[
        LogFormat, typer.Option(envvar="AGENTKIT_LOG_FORMAT", help="Logs on stderr, for people or machines.")
    ] = "text",
    log_level: Annotated[
        LogLevel, typer.Option(envvar="AGENTKIT_LOG_LEVEL", help="info has a line for each run.")
    ] = "warning",
    log_content: Annotated[
        bool,
        typer.Option(
            "--log-content", envvar="AGENTKIT_LOG_CONTENT", help="With debug: write what was said too."
        ),
    ] = False,
    insecure_no_auth: Annotated[
        bool, typer.Option("--insecure-no-auth", help="Listen to other machines although anybody may come.")
    ] = False,
) -> None:
    """Serve agents over HTTP and WebSocket, with a page to try them on."""
    import anyio

    from agentkit.engines.sqlite import SQLiteEngine
    from agentkit.engines.url import open_engine
    from agentkit_server.app import create_app
    from agentkit_server.auth_settings import auth_from_environment
    from agentkit_server.command_agents import all_agents
    from agentkit_server.logs import RunLog, configure_logging
    from agentkit_server.server import listen, listen_near, make_server, url_of
    from agentkit_server.settings import settings_from_environment
    from agentkit_server.workers import Supervisor, check_workers, command_again, inherited_socket

    try:
        auth = auth_from_environment()
        if auth.is_open and not insecure_no_auth and not is_loopback(host):
            raise ConfigurationError(
                f"{host!r} can be reached from other machines, and there is no authentication: "
                "set AGENTKIT_API_KEYS or AGENTKIT_JWT_…; if that is meant, add --insecure-no-auth"
            )
        check_pairs(model, base_url, replay or [], dialect)
        check_workers(workers, engine)
        directory = all_agents(model, base_url, replay or [], dialect)
        settings = settings_from_environment()
        inherited = inherited_socket()
        listener = inherited or listen(host, port, settings)
        aside = None
        try:
            if metrics_port >= 0 and (workers == 1 or inherited is not None):
                aside = listen_near(metrics_host, metrics_port, settings, tries=workers)
            kept = open_engine(engine) if engine else SQLiteEngine(data / "agentkit.db")
        except AgentKitError:
            listener.close()
            raise
    except AgentKitError as error:
        typer.echo(f"agentkit: {error}", err=True)
        raise typer.Exit(1) from None
    configure_logging(log_format, level=log_level.upper())
    if workers > 1 and inherited is None:
        anyio.run(kept.aclose)  # it can be opened: more the parent did not want to know
        say_where(url_of(listener))
        Supervisor(workers, command_again(), listener).run()
        return
    application = create_app(
        directory, engine=kept, settings=settings, auth=auth, observers=[RunLog(content=log_content)]
    )
    application.on_close(kept.aclose)
    server = make_server(application, settings)
    if aside is not None:
        from agentkit_server.beside import Beside
        from agentkit_server.metrics import MetricsApp

        server.beside.append(Beside(MetricsApp(application.metrics), aside, settings))
    if inherited is None:
        say_where(url_of(listener))
    if aside is not None:
        typer.echo(f"metrics are at {url_of(aside)}/metrics")
        sys.stdout.flush()
    server.run(sockets=[listener])


def check_pairs(model: str, base_url: str, replay: list[Path], dialect: str) -> None:
    """Refuse an option without the one that it belongs to.

    Raises:
        ConfigurationError: as said.
    """
    if base_url and not model:
        raise ConfigurationError("--base-url goes with --model")
    if dialect and not replay:
        raise ConfigurationError("--dialect goes with --replay")


def say_where(url: str) -> None:
    """Print the address."""
    typer.echo(f"agentkit is at {url}")
    sys.stdout.flush()


@app.command()
def key(name: Annotated[str, typer.Argument(help="Whose key; it is what logs may name.")]) -> None:
    """Make a key for `Authorization: Bearer …`, and the line by which the server knows it (AGENTKIT_API_KEYS, or a file)."""
    from agentkit_server.auth_keys import NAME_OF_KEY, new_key

    if not NAME_OF_KEY.fullmatch(name):
        typer.echo("agentkit: a name is letters, digits and . _ @ - without a space", err=True)
        raise typer.Exit(1)
    made, line = new_key(name)
    typer.echo(f"key, for {name} only; it is kept nowhere:\n  {made}\nline, for the server:\n  {line}")


@app.command("decode", context_settings=FOREIGN, add_help_option=False)
def decode_command(context: typer.Context) -> None:
    """Print what a recorded provider stream holds, as JSON."""
    from agentkit.__main__ import main as look

    raise typer.Exit(look(["decode", *context.args], prog="agentkit"))


@app.command("encode", context_settings=FOREIGN, add_help_option=False)
def encode_command(context: typer.Context) -> None:
    """Print the request that would be sent for a thread, as JSON."""
    from agentkit.__main__ import main as look

    raise typer.Exit(look(["encode", *context.args], prog="agentkit"))


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main(arguments: list[str] | None = None) -> None:
    """Run the command with these arguments, by default the process's own."""
    app(arguments)
