"""What a run works on, what it gives, and what it is told to do with what it makes.

Values only; the loop is in `run`.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentkit.content import JsonValue, Message, ThinkingBlock, ToolUseBlock, Usage
from agentkit.events import Event
from agentkit.hooks import Hooks
from agentkit.limits import DEFAULT_STEPS, Limits, StepResult, StopCondition, step_count_is
from agentkit.model import Model, ModelRequest, ToolSpec
from agentkit.observe import Observer
from agentkit.reasoning import ReasoningSetting
from agentkit.redaction import Redact
from agentkit.tool import Tool

Publish: TypeAlias = Callable[[Sequence[Event]], Awaitable[None]]
"""Takes the run's events, in order. What it raises fails the run."""
Save: TypeAlias = Callable[[Sequence[Message]], Awaitable[None]]
"""Takes messages that the run has made, as soon as they are whole (or cut)."""
Prepare: TypeAlias = Callable[[], Awaitable[Sequence[Message]]]
"""Waits until the run may begin, and returns the thread's history."""
Compact: TypeAlias = Callable[[Sequence[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]
"""Makes a long history shorter before it is sent; the stored one is not changed."""


def new_id(prefix: str) -> str:
    """Return a fresh id: the prefix, `_`, 16 letters and digits."""
    return f"{prefix}_{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Output:
    """A typed answer: what the model is told, and what reads it."""

    schema: dict[str, JsonValue]
    """JSON Schema."""
    parse: Callable[[str], Any]
    """Returns the value that a text holds, or raises `OutputError` with words for the model."""
    retries: int = 1
    """How often the model is told what does not fit."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run works on."""

    models: Sequence[Model]
    """The first is asked; the others only where one before fails before anything was visible."""
    messages: Sequence[Message]
    """What the user just said, or a whole history that ends with it."""
    system: str = ""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    reasoning: ReasoningSetting | None = None
    provider_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_tokens: int | None = None
    temperature: float | None = None
    stop_when: Sequence[StopCondition] = (step_count_is(DEFAULT_STEPS),)
    limits: Limits = field(default_factory=Limits)
    hooks: Hooks = field(default_factory=Hooks)
    output: Output | None = None
    compact: Compact | None = None
    on_approval: Literal["wait", "suspend"] = "wait"
    agent: str = ""
    thread: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    depth: int = 0
    """1 in a run that is a tool of another."""
    resume: bool = False
    """True where a suspended run goes on: the history ends with calls that were decided since."""
    first_step: int = 1
    """The number of the first step: more than 1 where a suspended run goes on."""
    usage: Usage = field(default_factory=Usage)
    """What a suspended run had used before."""
    text: str = ""
    """What a suspended run had said before."""
    foreign: Literal["drop", "raise"] = "drop"
    """What becomes of replay state that another model made; see `ModelRequest.foreign`."""
    taken_back: Collection[str] = ()
    """Runs of the thread that models do not see any more."""
    owner: str = ""
    observers: Sequence[Observer] = ()
    """Who counts, logs or traces the run; those of a run's sub-agents are its own."""
    redact: Redact | None = None
    """Asked before an event leaves the run for a log, an emitter, or the run that called this one."""
    tool_choice: str = "auto"
    """Of the first step; later ones choose freely, or a run that must call would never end. `none` holds for all."""
    stop: Sequence[str] = ()
    """Texts before which the model ends its answer."""

    @property
    def client_tools(self) -> list[str]:
        """The names of the tools whose calls are left to the caller."""
        return [name for name, tool in self.tools.items() if tool.is_client]

    def request(self, messages: Sequence[Message], *, number: int = 1) -> ModelRequest:
        """Return the model request of step `number` that carries these messages."""
        return ModelRequest(
            messages,
            self.system,
            [ToolSpec(tool.name, tool.description, tool.parameters) for tool in self.tools.values()],
            self.tool_choice if number == 1 or self.tool_choice == "none" else "auto",
            reasoning=self.reasoning,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            stop=self.stop,
            output_schema=self.output.schema if self.output else None,
            provider_options=self.provider_options,
            foreign=self.foreign,
        )


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, and what it made."""

    run: str
    text: str
    """Visible text only, of all steps; "" where the model refused or said nothing."""
    refusal: str | None
    messages: tuple[Message, ...]
    """What the run added to its history, after what the user said."""
    usage: Usage
    """Of all steps."""
    finish: str
    """The last step's finish reason."""
    termination: str
    """Why it ended: `completed`, `client_tools`, `stop_condition`, `hook_stop`, `suspended`, `limit`, `failed`, `cancelled`."""
    steps: tuple[StepResult, ...] = ()
    output: Any = None
    """The typed answer, where the run has an output type and the model did not refuse."""
    reason: str = ""
    """Which condition or hook ended it."""
    open_calls: tuple[ToolUseBlock, ...] = ()
    """The calls that the run left to its caller: the thread's next run begins with their results."""

    @property
    def thinking(self) -> tuple[ThinkingBlock, ...]:
        """All thinking blocks of the run, in order."""
        return tuple(block for message in self.messages for block in message.thinking)

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """All calls of the run, in order."""
        return tuple(block for message in self.messages for block in message.tool_uses)
