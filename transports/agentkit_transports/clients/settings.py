"""How patient a client is: the bounds of its waits, and when it comes back.

Pure: values and one formula. The waiting itself is in `feed` and `caller`.
"""

import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from agentkit.errors import ConfigurationError, quote

MAX_EVENT_SIZE: Final = 1024 * 1024
"""Bytes of one event or frame: the server's records have 64 KiB at most, and joins them to 64 KiB; more is a fault or an attack."""

_MOST_DOUBLINGS: Final = 30


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Bounds of a client. Times are seconds, sizes bytes."""

    connect_timeout: float = 10.0
    """Until a connection stands, and until an answer to a small request has begun beyond what it asked the server to wait."""
    idle_timeout: float = 45.0
    """Silence after which a feed's connection is given up and made anew: the server gives a sign of life every 15 s ± 20 %."""
    first_delay: float = 0.5
    """Before a first return, where the server did not say how long to wait; doubled at each further one, with jitter."""
    longest_delay: float = 15.0
    """Between two attempts at most, unless the server asks for more."""
    longest_asked: float = 300.0
    """At most this much of what a server asks to wait (Retry-After, `retry_ms`): nobody can send a client away for a year."""
    give_up_after: float | None = None
    """Without a connection for so long, a feed raises `RemoteConnectionError`. None: never, it comes back until it is left."""
    call_timeout: float = 30.0
    """A request that starts or steers something is tried again for so long before it raises. A run itself has no bound here."""
    max_event_size: int = MAX_EVENT_SIZE
    tls: ssl.SSLContext | None = None
    """For https and wss; None: the usual trust."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("tls", "give_up_after") and value is None:
                continue
            if field.name != "tls" and not (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and math.isfinite(value)
                and value > 0
            ):
                raise ConfigurationError(f"{field.name} must be a number above 0, got {quote(value)}")

    def delay(self, attempt: int, asked: float | None, random: Callable[[], float]) -> float:
        """Return the seconds to wait before an attempt.

        What a server asked is kept (never earlier, up to a fifth later); without it the pause doubles and is shortened by up to a half.

        Args:
            attempt: 1 for the first return after a connection that worked.
            asked: seconds, or None.
            random: gives numbers in [0, 1).
        """
        grown = self.first_delay * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS)
        grown = min(grown, self.longest_delay) * (1 - random() / 2)
        if asked is None:
            return grown
        kept = min(asked, self.longest_asked) * (1 + random() / 5)
        return kept if attempt == 1 else max(kept, grown)
