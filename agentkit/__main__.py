"""`python -m agentkit`: look at what providers send, and at what would be sent to them.

Commands are functions of their parsed arguments that return an exit status; each adds its own parser. Not the server's command: that is
`agentkit`, of `agentkit_server`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import TypeAdapter, ValidationError

from agentkit.content import load_messages, valid_text
from agentkit.dialects.base import Profile, Target
from agentkit.dialects.table import DIALECTS
from agentkit.errors import AgentKitError, ConfigurationError
from agentkit.model import ModelRequest, ToolSpec
from agentkit.reading import read_stream
from agentkit.reasoning import EFFORTS, parse_reasoning

_READ_SIZE: Final = 64 * 1024

OK: Final = 0
FAILED: Final = 1
"""The command could not do its work, or what it read is broken, cut or an error. (argparse itself says 2.)"""

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None, *, prog: str = "python -m agentkit") -> int:
    """Run a command and return its exit status. `prog`: how it was called, for its help."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Look at what providers send, and at what would be sent to them.",
    )
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
        description="Print what the body of a provider's answer holds, as one JSON object. The exit status is 1 where the object has an "
        "`error`: the stream was cut, told an error, or broke; what came before is printed all the same.",
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
    return OK if reading["error"] is None else FAILED


def _add_encode(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "encode",
        help="print the request that would be sent for a thread, as JSON",
        description="Print the request that would be sent for a thread: method, url, headers with the key masked, body, and what had to be "
        "left out. Nothing is sent.",
    )
    parser.add_argument("--provider", required=True, help="who would be asked, such as anthropic")
    parser.add_argument("--model", required=True, help="the model that would be asked")
    parser.add_argument("--dialect", choices=sorted(DIALECTS), help="another wire format than the provider's")
    parser.add_argument("--base-url", help="another server that speaks it")
    parser.add_argument("--system", default="", metavar="TEXT", help="the system prompt")
    parser.add_argument(
        "--tools",
        metavar="FILE",
        help="JSON: a list of {name, description, parameters}, the last a JSON schema",
    )
    reasoning = parser.add_mutually_exclusive_group()
    reasoning.add_argument("--effort", choices=EFFORTS, help="how much to reason")
    reasoning.add_argument("--budget", type=int, metavar="TOKENS", help="how many tokens to reason; 0 is off")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="tokens of the answer at most")
    parser.add_argument(
        "--foreign", choices=("drop", "raise"), default="drop", help="what becomes of another model's state"
    )
    parser.add_argument(
        "file",
        metavar="THREAD.json",
        help="JSON: a list of messages as agentkit keeps them; - for standard input",
    )
    parser.set_defaults(command=encode)


def encode(arguments: argparse.Namespace) -> int:
    """Print the request that would be sent; see `StreamingClient.preview` for its members."""
    from agentkit.providers import connect  # the HTTP client: only who needs it waits for it

    said: dict[str, object] = {"effort": arguments.effort, "budget": arguments.budget}
    reasoning = {name: value for name, value in said.items() if value is not None}
    try:
        request = ModelRequest(
            load_messages(_text(arguments.file)),
            arguments.system,
            _tools(arguments.tools) if arguments.tools else (),
            reasoning=parse_reasoning(reasoning or None),
            max_tokens=arguments.max_tokens,
            foreign=arguments.foreign,
        )
        model = connect(
            f"{arguments.provider}:{arguments.model}",
            key="not sent" if arguments.provider != "local" else None,
            base_url=arguments.base_url,
            dialect=arguments.dialect,
        )
        preview = model.preview(request)
    except (AgentKitError, OSError, UnicodeDecodeError) as error:
        said_by = error.strerror or error if isinstance(error, OSError) else error
        print(f"cannot encode {arguments.file}: {said_by}", file=sys.stderr)
        return FAILED
    _print(json.dumps(preview, ensure_ascii=False, indent=2))
    return OK


def _text(file: str) -> str:
    return sys.stdin.buffer.read().decode() if file == "-" else Path(file).read_text(encoding="utf-8")


def _tools(file: str) -> list[ToolSpec]:
    """Return the tools that a file lists.

    Raises:
        ConfigurationError: it lists something else.
    """
    try:
        return TypeAdapter(list[ToolSpec]).validate_json(_text(file))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{file} lists no tools: [{place}]: {first['msg']}") from None


def _reads(body: BinaryIO) -> Iterator[bytes]:
    while data := body.read(_READ_SIZE):
        yield data


def _print(text: str) -> None:
    """Print as UTF-8, whatever the terminal's own encoding is: what is read came from a model."""
    sys.stdout.buffer.write(valid_text(text).encode() + b"\n")
    sys.stdout.flush()


_COMMANDS: Final = (_add_decode, _add_encode)
"""One a command, in the order of the help."""

if __name__ == "__main__":
    raise SystemExit(main())
