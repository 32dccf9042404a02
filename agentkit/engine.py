"""What an engine is: a log, the threads, who owns a run, and a way to reach the owner.

Pure: protocols and values only. Engines live in `engines/`, one file each; `agentkit.testing.engines` checks any of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentkit.content import JsonValue
from agentkit.history import ThreadStore
from agentkit.log import EventLog, Topic


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run on a thread. Writing under a fence that is no longer the newest is rejected."""

    topic: Topic
    run: str
    fence: int
    """Grows with each lease of the topic."""


class Leases(Protocol):
    """One run at a time on a thread, wherever its processes are. Every method raises `EngineError` if it cannot.

    A lease that its owner does not renew in time is lost. Whichever process finds it writes `run.failed` with code `owner_lost` into
    the topic's log, once, and keeps the run as failed.
    """

    @property
    def heartbeat(self) -> float:
        """Seconds after which an owner should renew its lease; 0 where a lease lasts as long as its process."""
        ...

    async def acquire(self, topic: Topic, run: str, *, wait: bool) -> Lease | None:
        """Return the lease, or None where another run holds the thread and `wait` is false.

        Waiting runs get it in the order in which they asked. A cancelled wait leaves nothing behind.
        """
        ...

    async def holder(self, topic: Topic) -> str | None:
        """Return the id of the run that holds the thread, or None."""
        ...

    async def renew(self, lease: Lease) -> None:
        """Keep a lease alive; called well within its time.

        Raises:
            AppendRejected: it was lost.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Give the lease back; giving back a lost one changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Signal:
    """A word to the owner of a run."""

    kind: Literal["cancel", "steer", "unsteer", "approve"]
    data: dict[str, JsonValue] = field(default_factory=dict)


class Control(Protocol):
    """Reach the owner of a run from any process."""

    async def send(self, topic: Topic, run: str, signal: Signal) -> None:
        """Hand a signal to whoever owns the run. Idempotent at the owner; the outcome is an event.

        Raises:
            EngineError: it cannot be handed on.
        """
        ...

    async def listen(self, topic: Topic, run: str, handler: Callable[[Signal], None]) -> Callable[[], None]:
        """Call `handler` for each signal to this run, in the owner's loop, until the returned function is called."""
        ...


class Engine(Protocol):
    """What keeps logs and threads. Shared by any number of agents."""

    @property
    def log(self) -> EventLog:
        """The logs of all topics."""
        ...

    @property
    def threads(self) -> ThreadStore:
        """The messages and runs of all topics."""
        ...

    @property
    def leases(self) -> Leases:
        """Who runs on which thread."""
        ...

    @property
    def control(self) -> Control:
        """The way to a run's owner."""
        ...

    async def aclose(self) -> None:
        """Let go of files and connections. What was acknowledged stays where the engine is durable."""
        ...
