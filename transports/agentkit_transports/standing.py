"""Where readers stand, and when one has fallen too far behind.

Asyncio only: the loop's clock tells how long a lag has lasted.
"""

import asyncio
from dataclasses import dataclass

from agentkit_transports.outlet import Batch, SlowReader
from agentkit_transports.settings import HubSettings


@dataclass(slots=True)
class Place:
    """Where readers stand: those that the flush serves together share one. Treat it as immutable."""

    epoch: str
    seq: int
    """The last record that was passed."""
    told: int
    """The last place that the client was told."""
    state: object
    """The encoder's."""

    def is_that_of(self, other: "Place") -> bool:
        """Tell whether readers here get the same as readers there: the same records give the same state."""
        return self.seq == other.seq and self.told == other.told and self.epoch == other.epoch

    def behind(self, batch: Batch) -> "Place":
        """Return where a reader stands that was given a batch here."""
        return Place(self.epoch, batch.seq, batch.told or self.told, batch.state)


class Lag:
    """Notices a reader that is far behind and does not come nearer."""

    __slots__ = ("_least", "_settings", "_since")

    def __init__(self, settings: HubSettings) -> None:
        self._settings = settings
        self._least = 0
        self._since = 0.0

    def check(self, lag: int) -> None:
        """Raise `SlowReader` if the lag has been too great, and not shrunk, for too long."""
        if lag <= self._settings.lag_records:
            self._least = 0
            return
        now = asyncio.get_running_loop().time()
        if not self._least or lag < self._least:
            self._least = lag
            self._since = now
        elif now - self._since > self._settings.lag_timeout:
            raise SlowReader
