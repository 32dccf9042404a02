"""Tails → readers: what is live in one event loop of one process.

Skeleton: signatures are final.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from agentkit.log import Cursor, EventLog, Gap, Tail, Topic

EndReason: TypeAlias = Literal["ended", "slow", "engine"]
"""Why a reader is over by the hub's doing: its run ended, it did not keep up, the log cannot be read."""


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Every timer and bound of the hub. Times are seconds, sizes bytes."""

    heartbeat: float = 15.0
    """Between two signs of life of an SSE stream, ± 20 %: proxies cut silent connections after 30 to 120 s."""
    send_timeout: float = 10.0
    """A send that has not gone through after this long: the reader is cut. It comes back with its cursor."""
    lag_records: int = 10_000
    """Further behind than this, and not catching up for `lag_timeout`: the reader is cut."""
    lag_timeout: float = 30.0
    batch_size: int = 64 * 1024
    """Pending frames are joined up to this size: one send."""
    page_size: int = 256
    """Records that are read and encoded before the loop gets its turn."""
    position_records: int = 500
    """A filtered reader is told its position after so many records that it did not see."""
    retry_ms: tuple[int, int] = (1000, 4000)
    """Between these, by chance for each reader: so that a thousand do not come back at once."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader begins, found by `Hub.locate`: all that a hello needs to know."""

    topic: Topic
    tail: Tail
    after: Cursor
    """The place that the reader asked for, or the one that takes its place (other epoch, beyond the end)."""
    head: int
    """The log's last number at this moment."""
    gap: Gap | None
    """Told before the first record."""
    cursor: Cursor
    """Behind the gap: the first record that is sent follows it."""
    resumed: bool
    """True where an id was given and everything after it can be had."""


class Connection(Protocol):
    """What a drain speaks to: one SSE stream or one socket."""

    def farewell(self) -> None:
        """Begin to say goodbye and to close; returns at once. The client comes back with its cursor."""
        ...

    def abort(self) -> None:
        """Drop the connection at once."""
        ...


class Hub:
    """One object for each event loop that serves readers. Not thread-safe; asyncio only.

    Make it inside the running loop's lifetime (in the app's constructor is fine: it touches no loop until the first reader) and give it
    to every route that streams.
    """

    def __init__(self, log: EventLog, *, settings: HubSettings | None = None) -> None:
        self.log = log
        self.settings = settings or HubSettings()

    @property
    def is_draining(self) -> bool:
        """True once `drain` was called: new streams are greeted and sent away."""
        raise NotImplementedError

    @property
    def connections(self) -> int:
        """How many streams and sockets are open."""
        raise NotImplementedError

    async def locate(self, topic: Topic, cursor: Cursor) -> Start:
        """Find the place that a cursor names, now. `NOW` becomes a number: what is appended later will be delivered.

        Raises:
            EngineError: the log cannot be reached.
        """
        raise NotImplementedError

    async def drain(self, *, grace: float = 5.0, batch: int = 100, pause: float = 0.0) -> int:
        """Say farewell to every connection, wait at most `grace` seconds for them to go, and abort what is left.

        Call it before the server stops accepting sends (on the signal, not in the lifespan). Streams opened afterwards are sent away
        at once, with a clean close and a `retry:`. Calling it again changes nothing.

        Args:
            grace: seconds.
            batch: connections to which farewell is said before the loop gets its turn.
            pause: seconds between two batches.

        Returns:
            How many had to be aborted.
        """
        raise NotImplementedError


Ended: TypeAlias = Callable[[], "object"]
