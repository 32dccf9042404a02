"""When a run stops: limits, which fail it, and stop conditions, which end it well.

Pure: what they need to know is given to them.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from agentkit.content import Message, Origin, Usage
from agentkit.errors import ConfigurationError, LimitError, quote

DEFAULT_STEPS = 20
"""Steps after which a run stops by default: enough for honest work, an end for a model that calls for ever."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of a run: what the model said, and what its calls gave."""

    number: int
    """From 1."""
    message: Message
    results: Message | None
    """The tool message, or None where there was no call."""
    usage: Usage
    finish: str
    origin: Origin


StopCondition: TypeAlias = Callable[[Sequence[StepResult]], bool | Awaitable[bool]]
"""Asked after each step that another one would follow, with all steps so far: shall the run end here?"""


def step_count_is(count: int) -> StopCondition:
    """Stop after `count` steps.

    Raises:
        ConfigurationError: the count is not positive.
    """
    if count < 1:
        raise ConfigurationError(f"step_count_is takes a positive number, got {count}")

    def stop(steps: Sequence[StepResult]) -> bool:
        return steps[-1].number >= count  # not the length: a resumed run goes on counting

    stop.__name__ = f"step_count_is({count})"
    return stop


def has_tool_call(name: str) -> StopCondition:
    """Stop after a step that called the tool `name`."""

    def stop(steps: Sequence[StepResult]) -> bool:
        return any(use.name == name for use in steps[-1].message.tool_uses)

    stop.__name__ = f"has_tool_call({name!r})"
    return stop


async def first_met(conditions: Sequence[StopCondition], steps: Sequence[StepResult]) -> str | None:
    """Return the name of the first condition that holds, or None."""
    for condition in conditions:
        answer = condition(steps)
        if await answer if inspect.isawaitable(answer) else answer:
            return getattr(condition, "__name__", type(condition).__name__)
    return None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use at most; going past one fails it with `run.failed` code `limit`. None: no limit."""

    steps: int | None = None
    """Model requests."""
    tokens: int | None = None
    """Input and output tokens of all steps."""
    seconds: float | None = None
    """From its start, waiting for approvals not counted apart."""
    cost: float | None = None
    """In the unit of `price`."""
    price: Callable[[Usage, Origin], float] | None = None
    """What a step's usage costs; needed for `cost`."""

    def check(self, steps: Sequence[StepResult], *, number: int, usage: Usage) -> None:
        """Raise if another model request would go past a limit.

        Args:
            steps: those that are done; in a resumed run those since then, which alone count for `cost`.
            number: of the step that would begin.
            usage: of all steps so far.

        Raises:
            LimitError: it would; the message names the limit.
        """
        if self.steps is not None and number > self.steps:
            raise LimitError(f"the run used its {self.steps} steps")
        tokens = usage.total_tokens
        if self.tokens is not None and tokens >= self.tokens:
            raise LimitError(f"the run used {tokens} tokens, limit is {self.tokens}")
        if self.cost is not None and self.price is not None:
            cost = sum(self.price(step.usage, step.origin) for step in steps)
            if cost >= self.cost:
                raise LimitError(f"the run cost {cost:g}, limit is {self.cost:g}")


def parse_limits(value: Mapping[str, Any] | Limits | None) -> Limits:
    """Return the limits that a caller gave.

    Raises:
        ConfigurationError: an unknown member, a number that is not positive, or a cost without a price.
    """
    if value is None:
        return Limits()
    if not isinstance(value, Limits):
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"limits must be a mapping or Limits, got {quote(value)}")
        known = {member.name for member in fields(Limits)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise ConfigurationError(f"unknown limits {quote(unknown)}; known: {', '.join(sorted(known))}")
        value = Limits(**value)
    for name in ("steps", "tokens", "seconds", "cost"):
        number = getattr(value, name)
        if number is not None and (
            isinstance(number, bool)
            or not isinstance(number, int if name in ("steps", "tokens") else int | float)
            or not number > 0  # so that NaN is none
        ):
            raise ConfigurationError(f"limit {name} must be a positive number, got {quote(number)}")
    if value.cost is not None and value.price is None:
        raise ConfigurationError("limit cost needs a price: a function of usage and origin")
    return value
