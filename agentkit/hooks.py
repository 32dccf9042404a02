"""Hooks: an application's say before and after each step and each call.

Values only: `run` and `tool_calls` ask them. A hook that raises fails the run: whoever says what may happen must not be skipped.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from agentkit.content import JsonValue, Message, ToolResultBlock, ToolUseBlock
from agentkit.errors import AgentKitError, HookError
from agentkit.limits import StepResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepContext:
    """Where a run stands, before or after a step."""

    run: str
    agent: str
    thread: str
    step: int
    """The step that begins or has ended."""
    messages: Sequence[Message]
    """The whole history as the model gets it. Do not change it: inject."""
    steps: Sequence[StepResult]
    """The steps that are done."""
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class StepControl:
    """What a step hook wants."""

    inject: Sequence[Message] = ()
    """Messages that go into the thread now. One of the user's role gets the run's id: it is the run's own word to its model."""
    stop: bool = False
    """End the run well, without another model request."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CallContext:
    """A call that is about to run, or has run. Its arguments have been checked."""

    run: str
    agent: str
    thread: str
    step: int
    use: ToolUseBlock
    arguments: Mapping[str, Any]
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class CallControl:
    """What `before_tool` wants. Nothing set: go on."""

    arguments: Mapping[str, Any] | None = None
    """Run with these instead; they are checked again."""
    result: str | None = None
    """Do not run; this is the result."""
    deny: str | None = None
    """Do not run; tell the model that it was denied, and why."""


BeforeStep: TypeAlias = Callable[[StepContext], StepControl | Awaitable[StepControl | None] | None]
AfterStep: TypeAlias = BeforeStep
BeforeTool: TypeAlias = Callable[[CallContext], CallControl | Awaitable[CallControl | None] | None]
AfterTool: TypeAlias = Callable[
    [CallContext, ToolResultBlock], ToolResultBlock | Awaitable[ToolResultBlock | None] | None
]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions, sync or async, that a run asks. Each may be None."""

    before_step: BeforeStep | None = None
    after_step: AfterStep | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    """Returns another result, or None to keep the one that came."""


async def ask(name: str, answer: Callable[[], T | Awaitable[T]]) -> T:
    """Ask a hook.

    Raises:
        HookError: it raised something that is not agentkit's own; chained.
    """
    try:
        value = answer()
        return await value if inspect.isawaitable(value) else value
    except AgentKitError:
        raise
    except Exception as error:
        raise HookError(f"hook {name} raised {type(error).__name__}") from error
