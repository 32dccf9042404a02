"""`ScriptedModel`: a model that says what a test wrote down.

It speaks the chunks that decoders speak, so that everything behind it is the real thing. It is strict: a request that the script does
not expect, or a step that nobody asked for, is an error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

import anyio

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import Origin, Usage
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest
from agentkit.reasoning import ReasoningSetting

DIALECT = "scripted"


@dataclass(frozen=True, slots=True)
class Think:
    """A thinking block; its text comes in `pieces` deltas, then its signature or state."""

    text: str = ""
    signature: str = ""
    state: str | None = None
    """JSON text."""
    summary: bool = False
    pieces: int = 1

    def play(self, index: int, _number: int) -> "list[Item]":
        """Return its chunks."""
        out: list[Item] = [
            ThinkingChunk(piece, index=index, summary=self.summary) for piece in _cut(self.text, self.pieces)
        ]
        if self.signature:
            out.append(ThinkingChunk("", self.signature, DIALECT, index=index))
        if self.state is not None:
            out.append(ThinkingChunk("", "", "", self.state, DIALECT, index))
        return [*out, BlockEndChunk(index)]


@dataclass(frozen=True, slots=True)
class Say:
    """A block of visible text, in `pieces` deltas."""

    text: str
    pieces: int = 1

    def play(self, index: int, _number: int) -> "list[Item]":
        """Return its chunks."""
        return [*(TextChunk(piece, index) for piece in _cut(self.text, self.pieces)), BlockEndChunk(index)]


@dataclass(frozen=True, slots=True)
class Refuse:
    """A refusal."""

    text: str

    def play(self, index: int, _number: int) -> "list[Item]":
        """Return its chunks."""
        return [RefusalChunk(self.text, index), BlockEndChunk(index), FinishChunk("refusal")]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: arguments as data, or as raw text (which may be broken)."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""
    """"" for a made-up one."""
    cut: bool = False
    """True: the call's end is never seen."""
    pieces: int = 1

    def play(self, index: int, number: int) -> "list[Item]":
        """Return its chunks."""
        raw = self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))
        first, *rest = _cut(raw, self.pieces)
        out: list[Item] = [ToolUseChunk(self.id or f"call_{number}_{index}", self.name, first, index)]
        out += [ToolUseChunk("", "", piece, index) for piece in rest]
        return [*out, *(() if self.cut else (BlockEndChunk(index),)), FinishChunk("tool_calls")]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing comes for `seconds`, or until `event` is set."""

    seconds: float = 0.0
    event: anyio.Event | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The stream says error here (a message), or breaks with an exception. Nothing after it is played."""

    error: str | Exception = "scripted failure"
    code: str = "scripted"
    kind: Literal["provider", "truncated"] = "provider"
    retryable: bool = False


Part: TypeAlias = Think | Say | Refuse | Call | Wait | Fail | Usage | Chunk
"""What a step is made of. Raw chunks are played as they are; a `FinishChunk` replaces the finish that the parts would give."""
Step: TypeAlias = Sequence[Part] | str
"""One answer: its parts, or just text."""
Item: TypeAlias = Chunk | Wait | Exception


class ScriptedModel:
    """A `Model` that answers each request with the next step of its script.

    As a context manager it checks at its end that every step was asked for.

    Args:
        *steps: one a request. A string is a step that says it.
        repeat: begin again after the last step, for ever: for demonstrations.
        delay: seconds between deltas.
        provider: the name that events carry.
        model: the model's name.

    Attributes:
        requests: what was asked, in order.
    """

    def __init__(
        self,
        *steps: Step,
        repeat: bool = False,
        delay: float = 0.0,
        provider: str = "scripted",
        model: str = "scripted",
    ) -> None:
        self._steps = steps
        self._next = 0
        self._repeat = repeat
        self._delay = delay
        self._origin = Origin(DIALECT, provider, model)
        self.requests: list[ModelRequest] = []

    @property
    def origin(self) -> Origin:
        """Who the blocks are made by."""
        return self._origin

    def stream(self, request: ModelRequest) -> "ScriptedStream":
        """Return the next step as a stream.

        Raises:
            ConfigurationError: the script has ended.
        """
        if self._next >= len(self._steps) and self._repeat and self._steps:
            self._next = 0
        if self._next >= len(self._steps):
            raise ConfigurationError(
                f"unexpected request {self._next + 1}: the script has {len(self._steps)} steps"
            )
        step = self._steps[self._next]
        self._next += 1
        self.requests.append(request)
        return ScriptedStream(_play(step, self._next), self._delay)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:  # the first failure is the one to see
            self.assert_done()

    @property
    def reasoning(self) -> list[ReasoningSetting | None]:
        """What each request said of reasoning, in order."""
        return [request.reasoning for request in self.requests]

    def assert_done(self) -> None:
        """Raise if a step of the script was never asked for.

        Raises:
            AssertionError: some were not; the message counts them.
        """
        left = len(self._steps) - self._next
        if left > 0 and not (self._repeat and self.requests):
            raise AssertionError(f"{left} of {len(self._steps)} scripted steps were not asked for")


class ScriptedStream:
    """One scripted answer."""

    def __init__(self, items: list[Item], delay: float) -> None:
        self._items = items
        self._delay = delay
        self._next = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._next = len(self._items)

    async def next(self) -> Sequence[Chunk]:
        """Return what comes next: one delta at a time with a delay, all up to the next wait without."""
        await anyio.lowlevel.checkpoint()
        out: list[Chunk] = []
        while self._next < len(self._items):
            item = self._items[self._next]
            if out and isinstance(item, Wait | Exception):
                break
            self._next += 1
            if isinstance(item, Exception):
                raise item
            if isinstance(item, Wait):
                if item.event is not None:
                    await item.event.wait()
                elif item.seconds:
                    await anyio.sleep(item.seconds)
                continue
            out.append(item)
            if self._delay:
                await anyio.sleep(self._delay)
                break
        return out


def _play(step: Step, number: int) -> list[Item]:
    """Turn one step into chunks with dense indexes and one finish at the end."""
    parts: Sequence[Part] = [Say(step)] if isinstance(step, str) else step
    out: list[Item] = []
    finish = FinishChunk("stop")
    index = 0
    for part in parts:
        if isinstance(part, Think | Say | Refuse | Call):
            items = part.play(index, number)
            index += 1
        elif isinstance(part, Fail):
            broken = part.error
            if isinstance(broken, str):
                return [*out, ErrorChunk(part.kind, broken, part.code, part.retryable)]
            return [*out, broken]
        else:
            items = [UsageChunk(part)] if isinstance(part, Usage) else [part]
        for item in items:
            if isinstance(item, FinishChunk):
                finish = item
            else:
                out.append(item)
    return [*out, finish]


def _cut(text: str, pieces: int) -> list[str]:
    """Cut text into about equal pieces; the empty text is one piece."""
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]
