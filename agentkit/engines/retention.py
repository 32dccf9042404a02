"""How much of a topic's log an engine keeps.

Pure: values and one rule. Every engine trims by it.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a topic's log is kept. A running run is trimmed only past `running_bytes`."""

    records: int = 20_000
    bytes: int = 4 * 1024 * 1024
    age: float = 24 * 3600.0
    """Seconds."""
    running_bytes: int = 16 * 1024 * 1024

    def first_kept(
        self, entries: Iterable[tuple[int, float, int]], *, head: int, size: int, protected: int, now: float
    ) -> int | None:
        """Return the number of the first record that stays, or None where all do.

        Args:
            entries: number, time (seconds since the epoch) and size of each record, oldest first; read only as far as needed.
            head: the number of the last record.
            size: bytes of all bodies.
            protected: the number of the first record of the oldest run that goes on, or `head + 1`.
            now: seconds since the epoch.
        """
        first: int | None = None
        for seq, time, length in entries:
            is_over = head - seq >= self.records or size > self.bytes or time < now - self.age
            if not (is_over and seq < protected) and size <= self.running_bytes:
                break
            size -= length
            first = seq + 1
        return first

    def keeps(self, seq: int, time: float, *, head: int, size: int, now: float) -> bool:
        """Tell whether a log whose oldest record this is certainly stays as it is: nearly every append leaves one."""
        is_small = head - seq < self.records and size <= min(self.bytes, self.running_bytes)
        return is_small and time >= now - self.age
