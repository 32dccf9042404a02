"""`python -m agentkit`: look at what providers send.

Commands are functions of their parsed arguments that return an exit status; each adds its own parser. Not the server's command: that is
`agentkit`, of `agentkit_server`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from agentkit.content import valid_text
from agentkit.dialects.base import Profile, Target
from agentkit.dialects.table import DIALECTS
from agentkit.reading import is_broken, read_stream

_READ_SIZE: Final = 64 * 1024

OK: Final = 0
FAILED: Final = 1
"""The command could not do its work, or what it read is broken. (argparse itself says 2.)"""

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agentkit", description="Look at what providers send.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in _COMMANDS:
        add(commands)
    parsed = parser.parse_args(arguments)
    command: Command = parsed.command
    return command(parsed)


def _add_decode(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "decode",
        help="print what a recorded stream holds, as JSON",
        description="Print what the body of a provider's answer holds, as one JSON object.",
    )
    parser.add_argument("--dialect", required=True, choices=sorted(DIALECTS), help="the wire format")
    parser.add_argument("--provider", default="recorded", help="whose answer it is, where it matters")
    parser.add_argument("--model", default="recorded", help="the model that made it, where it matters")
    parser.add_argument(
        "--think-tags", action="store_true", help="reasoning is tagged <think>…</think> inside the text"
    )
    parser.add_argument("file", metavar="FILE", help="the HTTP body, byte for byte; - for standard input")
    parser.set_defaults(command=decode)


def decode(arguments: argparse.Namespace) -> int:
    """Print the reading of a recorded body; see `reading.read_chunks` for its members."""
    target = Target(arguments.provider, arguments.model, Profile(think_tags=arguments.think_tags))
    dialect = DIALECTS[arguments.dialect]
    try:
        if arguments.file == "-":
            reading = read_stream(dialect, target, _reads(sys.stdin.buffer))
        else:
            with Path(arguments.file).open("rb") as body:
                reading = read_stream(dialect, target, _reads(body))
    except OSError as error:
        print(f"cannot read {arguments.file}: {error.strerror or error}", file=sys.stderr)
        return FAILED
    _print(json.dumps(reading, ensure_ascii=False, indent=2))
    return FAILED if is_broken(reading) else OK


def _reads(body: BinaryIO) -> Iterator[bytes]:
    while data := body.read(_READ_SIZE):
        yield data


def _print(text: str) -> None:
    """Print as UTF-8, whatever the terminal's own encoding is: what is read came from a model."""
    sys.stdout.buffer.write(valid_text(text).encode() + b"\n")
    sys.stdout.flush()


_COMMANDS: Final = (_add_decode,)
"""One a command, in the order of the help."""

if __name__ == "__main__":
    raise SystemExit(main())
