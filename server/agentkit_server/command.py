"""The console script `agentkit`, and one line where what it stands on is not installed."""

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run the command with these arguments, by default the process's own."""
    try:
        from agentkit_server.cli import main as run

        run(arguments)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("agentkit"):
            raise
        sys.stderr.write(
            f"agentkit: the command needs {error.name}, of the extra server: pip install 'agentkit-live[server]'\n"
        )
        raise SystemExit(1) from None
