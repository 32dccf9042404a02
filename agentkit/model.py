"""What a run needs of a model: one request in, a stream of chunks out.

Pure: protocols and values only. `client.StreamingClient` is the model that speaks HTTP; `testing.ScriptedModel` is one without.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, runtime_checkable

from agentkit.chunks import Chunk
from agentkit.content import JsonValue, Message, Origin
from agentkit.reasoning import ReasoningSetting

logger = logging.getLogger("agentkit")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told about a tool."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments: an object."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the model's side did or left out, told as `run.notice`."""

    code: str
    message: str
    data: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retry:
    """The model's side asks again, before the first chunk: told as `step.retrying`."""

    attempt: int
    delay: float
    """Seconds until it."""
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request, in no dialect."""

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolSpec] = ()
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or a tool's name."""
    reasoning: ReasoningSetting | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    stop: Sequence[str] = ()
    output_schema: dict[str, JsonValue] | None = None
    """JSON Schema of the answer, where the dialect has schemas."""
    provider_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`{provider: {member: value}}`, merged into the body of that provider's requests. Never changed."""
    foreign: Literal["drop", "raise"] = "drop"
    """What becomes of replay state (signatures, opaque state of thinking) that another model made: `drop` leaves it out with its
    thinking, and a notice says so; `raise` refuses the request with `ForeignSignatureError`."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """Headers that carry the trace this request belongs to (`traceparent`), where the model speaks HTTP."""


class ModelStream(Protocol):
    """One answer being made. Use it as an async context manager: leaving closes the connection at once."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def next(self) -> Sequence[Chunk | Notice | Retry]:
        """Return what came since the last call, at least one; an empty list means that the stream has ended.

        Raises:
            ModelError: not reached, refused, or broken on the way. Errors that the stream itself said are `ErrorChunk`s.
        """
        ...


@runtime_checkable
class Closable(Protocol):
    """A model that holds something: connections, a process."""

    async def aclose(self) -> None:
        """Let go of it. A later request takes it again."""
        ...


async def close_models(models: Iterable["Model"]) -> None:
    """Let go of what models hold; one that cannot is logged."""
    for model in models:
        if isinstance(model, Closable):
            try:
                await model.aclose()
            except Exception:
                logger.exception("a model was not closed")


@runtime_checkable
class Model(Protocol):
    """A model of a provider. It holds no state of a request: many runs may use it at once."""

    @property
    def origin(self) -> Origin:
        """Who the blocks are made by."""
        ...

    def stream(self, request: ModelRequest) -> ModelStream:
        """Return the answer to `request`; nothing is sent before the stream is entered.

        Raises:
            ConfigurationError: the request cannot be said in the model's dialect.
        """
        ...
