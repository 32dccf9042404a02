"""The socket's conversation, sans-I/O: text frames in, actions and frames out. Skeleton: the values that a backend gets are final."""

from dataclasses import dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds of one socket, told to it in `welcome`. Times are seconds, sizes bytes."""

    frame_size: int = 64 * 1024
    """Of one inbound frame; over it: close 1009."""
    subscriptions: int = 32
    errors: int = 10
    """Malformed frames before the socket is closed with 4509."""
    rate: float = 20.0
    """Inbound frames a second, over time; more: close 4006."""
    burst: int = 40
    hello_timeout: float = 5.0


@dataclass(frozen=True, slots=True)
class StartRun:
    """`run`: start one."""

    rid: str
    agent: str
    thread: str
    input: JsonValue
    """Text, or a list of blocks; its shape is the backend's to check."""
    idem: str = ""
    """An idempotency key, or ""."""


@dataclass(frozen=True, slots=True)
class CancelRun:
    """`cancel`: ask a run to stop."""

    rid: str
    agent: str
    thread: str
    run: str


@dataclass(frozen=True, slots=True)
class Steer:
    """`steer`: put a message into a run."""

    rid: str
    agent: str
    thread: str
    run: str
    input: JsonValue


@dataclass(frozen=True, slots=True)
class Approve:
    """`approve`: decide a call that waits for a person."""

    rid: str
    agent: str
    thread: str
    run: str
    approval: str
    approved: bool
    reason: str = ""
