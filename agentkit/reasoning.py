"""The portable reasoning setting: `{"effort": …}` or `{"budget": …}`.

Pure. It validates and converts; each dialect maps the result to its own wire.
Source: the seed's `reasoning=` parameter. The table is ours; where a provider documents a share of the output limit for an effort
(OpenRouter: low 20 %, medium 50 %, high 80 %), the steps follow it for an output of 16,000 tokens or so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from agentkit.errors import ConfigurationError, quote

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)

BUDGETS: dict[Effort, int] = {
    "none": 0,
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}
"""Tokens that stand for an effort where a provider takes only a budget."""


@dataclass(frozen=True, slots=True)
class ReasoningSetting:
    """How much to reason: an effort or a budget, never both."""

    effort: Effort | None = None
    budget: int | None = None
    """Tokens; 0 switches reasoning off."""

    @property
    def off(self) -> bool:
        """True where the caller asked for no reasoning."""
        return self.effort == "none" or self.budget == 0

    def as_budget(self) -> int:
        """Return the budget in tokens, by the table where only an effort was given."""
        return self.budget if self.budget is not None else BUDGETS[self.effort or "medium"]

    def as_effort(self) -> Effort:
        """Return the effort: the lowest step whose budget covers the one that was given."""
        if self.effort is not None:
            return self.effort
        budget = self.budget or 0
        return next((effort for effort in EFFORTS if budget <= BUDGETS[effort]), "max")


def parse_reasoning(value: Mapping[str, Any] | ReasoningSetting | None) -> ReasoningSetting | None:
    """Return the setting that a caller gave, or None for the provider's default.

    Raises:
        ConfigurationError: unknown members, both members, an unknown effort, a budget that is not a whole number ≥ 0.
    """
    if value is None or isinstance(value, ReasoningSetting):
        return value
    if not isinstance(value, Mapping):
        raise ConfigurationError(f'reasoning must be {{"effort": …}} or {{"budget": …}}, got {quote(value)}')
    unknown = sorted(set(value) - {"effort", "budget"})
    if unknown or len(value) != 1:
        raise ConfigurationError(
            f'reasoning takes exactly one of "effort" and "budget", got {quote(sorted(map(str, value)))}'
        )
    if "effort" in value:
        effort = value["effort"]
        if effort not in EFFORTS:
            raise ConfigurationError(f"unknown reasoning effort {quote(effort)}; known: {', '.join(EFFORTS)}")
        return ReasoningSetting(effort=effort)
    budget = value["budget"]
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 0:
        raise ConfigurationError(
            f"reasoning budget must be a whole number of tokens ≥ 0, got {quote(budget)}"
        )
    return ReasoningSetting(budget=budget)
