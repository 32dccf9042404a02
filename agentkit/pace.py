"""How long to wait for a provider, and when to ask again.

Pure: no clock, no sleep, no HTTP. The waiting itself is in `client`.
Source: RFC 9110, section 10.2.3 (Retry-After: seconds or a date); `retry-after-ms` and `x-should-retry` as OpenAI and Anthropic send them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from agentkit.errors import ConfigurationError

RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
"""Besides all of 500 and above (529 is Anthropic's "overloaded"): asking again can help."""

_MOST_DOUBLINGS: Final = 30
"""A bound for the exponent; `max_delay` cuts long before."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The bounds of every wait for a provider, in seconds."""

    connect: float = 10.0
    """Until the connection stands: name look-up, TCP, TLS."""
    first_byte: float = 60.0
    """From there until the head of the answer. Local servers read the whole prompt before it: `providers` gives them 600."""
    idle: float = 300.0
    """Between two reads of the answer: some models think silently for minutes. Also for writing the request."""
    linger: float = 10.0
    """Of silence after the model said that it has finished: servers that never close the body must not hold a run."""

    def __post_init__(self) -> None:
        _check("timeouts.connect", self.connect, above_zero=True)
        _check("timeouts.first_byte", self.first_byte, above_zero=True)
        _check("timeouts.idle", self.idle, above_zero=True)
        _check("timeouts.linger", self.linger, above_zero=True)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is made again, before its first chunk, and how long apart."""

    retries: int = 2
    """Repetitions at most; 0 never asks again."""
    base: float = 0.5
    """Seconds before the first repetition; doubled for each further one, with jitter."""
    max_delay: float = 60.0
    """Seconds at most, also where the provider asks for more."""

    def __post_init__(self) -> None:
        if type(self.retries) is not int or self.retries < 0:
            raise ConfigurationError(f"retry.retries must be a whole number ≥ 0, got {self.retries!r}")
        _check("retry.base", self.base)
        _check("retry.max_delay", self.max_delay)


def _check(name: str, value: object, *, above_zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ConfigurationError(f"{name} must be seconds, finite and not negative, got {value!r}")
    if above_zero and value == 0:
        raise ConfigurationError(f"{name} must be more than 0 seconds")


def is_retryable(status: int, headers: Mapping[str, str]) -> bool:
    """Tell whether asking again can help after an answer with this status. The provider's own word for it wins."""
    match headers.get("x-should-retry", "").strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in RETRYABLE_STATUSES or status >= 500


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the provider asks to wait, ≥ 0 and finite, or None where it says nothing usable.

    Args:
        headers: of the answer, names in lower case (or a mapping that does not care).
        now: seconds since the epoch, against which a date counts; a date that has passed is 0.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    seconds = _seconds(text)
    if seconds is not None:
        return seconds
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # "-0000": UTC, says the standard
            date = date.replace(tzinfo=UTC)
        return max(date.timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def retry_delay(
    repetition: int, asked: float | None, policy: RetryPolicy, random: Callable[[], float]
) -> float:
    """Return the seconds to wait before a repetition: at most `policy.max_delay`.

    What the provider asked for is kept (never earlier, up to one `base` later, so that many clients do not come back at once); without
    it the pause doubles and is shortened by up to a half.

    Args:
        repetition: 1 before the first.
        asked: seconds, as `retry_after` returns them.
        policy: the bounds.
        random: gives numbers in [0, 1).
    """
    if asked is not None:
        delay = asked + policy.base * random()
    else:
        delay = policy.base * 2.0 ** min(repetition - 1, _MOST_DOUBLINGS) * (1 - random() / 2)
    return min(delay, policy.max_delay)
