"""Put a call's arguments together from the pieces that Vertex AI streams.

Pure. A piece is a JSON path and a value; strings may come in several pieces. Lists are made of the indexes that came, in their order:
an absurd index allocates nothing.
Source: Vertex AI reference, `FunctionCall.partialArgs` and `PartialArg` (from public references, not re-read); RFC 9535 for the paths.
"""

import re
from typing import Any, Final, TypeAlias

from agentkit.dialects.base import json_text
from agentkit.errors import WireError, quote

MAX_DEPTH: Final = 64
"""Steps of a path; deeper ones are no arguments, and converting them would overflow the stack."""

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")

_Node: TypeAlias = "dict[str | int, Any]"


class PartialArguments:
    """The arguments of one call, so far."""

    __slots__ = ("_pieces", "_root")

    def __init__(self) -> None:
        self._root: _Node = {}
        self._pieces: dict[str, list[str]] = {}  # of strings, by path

    def add(self, piece: dict[str, Any]) -> None:
        """Take one `PartialArg`.

        Raises:
            WireError: its path is none.
        """
        path = piece.get("jsonPath")
        if type(path) is not str:
            raise WireError(f"gemini partialArgs has no jsonPath: {quote(piece)}")
        pieces = self._pieces.get(path)
        if pieces is None:
            value = _value(piece)
            if isinstance(value, str):
                self._pieces[path] = pieces = [value]
            self._set(path, value if pieces is None else pieces)
        elif type(text := piece.get("stringValue")) is str:
            pieces.append(text)

    def text(self) -> str:
        """Return the arguments as JSON text."""
        return json_text(_plain(self._root))

    def _set(self, path: str, value: object) -> None:
        steps = _steps(path)
        node = self._root
        for step in steps[:-1]:
            inner = node.get(step)
            if type(inner) is not dict:
                inner = node[step] = {}
            node = inner
        node[steps[-1]] = value


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 1
    while at < len(path) and len(steps) < MAX_DEPTH:
        match = _STEP.match(path, at)
        if match is None:
            break
        name, index, single, double = match.groups()
        quoted = single if single is not None else double
        steps.append(int(index) if index else name or re.sub(r"\\(.)", r"\1", quoted or ""))
        at = match.end()
    if path[:1] != "$" or at < len(path) or not steps:
        raise WireError(f"gemini jsonPath is not a path to an argument: {quote(path)}")
    return steps


def _value(piece: dict[str, Any]) -> str | float | bool | None:
    for name in ("stringValue", "numberValue", "boolValue"):
        value = piece.get(name)
        if isinstance(value, (str, float, int)):
            return value
    return None


def _plain(node: object) -> object:
    if isinstance(node, list):
        return "".join(node)
    if not isinstance(node, dict):
        return node
    if node and all(type(step) is int for step in node):
        return [_plain(node[index]) for index in sorted(node)]
    return {str(step): _plain(member) for step, member in node.items()}
