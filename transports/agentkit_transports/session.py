"""A socket's conversation, sans-I/O: text frames in, actions out; frames to send are made here too.

Pure: no socket, no clock (times are given), no backend. Every frame gives actions: values that the shell carries out. A frame that breaks
the rules gives an `err`, never an exception. It knows which topics are subscribed, not what is in them.
Grounds: design.md §7 (WebSocket: frames, limits, close codes).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from pydantic import JsonValue, ValidationError

from agentkit.errors import WireError
from agentkit.log import NOW, Cursor
from agentkit_transports.client_frames import (
    CLIENT_FRAMES,
    ApproveFrame,
    CancelFrame,
    ClientFrame,
    HelloFrame,
    PingFrame,
    Rid,
    RunFrame,
    SteerFrame,
    SubFrame,
    UnsubFrame,
)
from agentkit_transports.encoder import parse_view
from agentkit_transports.problem import Problem
from agentkit_transports.strict_json import parse_json

SUBPROTOCOL: Final = "agentkit.v1"


class CloseCode(IntEnum):
    """4000–4499: come back with your cursor. 4500–4999: stop."""

    TOO_BIG = 1009
    DRAINING = 4000
    SLOW = 4001
    STATE_LOST = 4002
    NO_PONG = 4003
    TOKEN_EXPIRED = 4004
    ENGINE_UNAVAILABLE = 4005
    RATE = 4006
    MAX_AGE = 4007
    BAD_TOKEN = 4500
    MALFORMED = 4501
    AUTH_TIMEOUT = 4502
    FORBIDDEN = 4503
    CONNECTION_LIMIT = 4504
    VERSION = 4505
    TOO_MANY_ERRORS = 4509

    @property
    def means_return(self) -> bool:
        """True where the client is to come back."""
        return 4000 <= self < 4500


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds of one socket, told to it in `welcome`. Times are seconds, sizes bytes."""

    frame_size: int = 64 * 1024
    """Of one inbound frame; over it: close 1009."""
    subscriptions: int = 32
    errors: int = 10
    """Frames that break the rules before the socket is closed with 4509."""
    rate: float = 20.0
    """Inbound frames a second, over time; more: close 4006."""
    burst: int = 40
    hello_timeout: float = 5.0
    """Until a socket that nobody has identified must have said who it is; later: close 4502."""


# What the shell is to do


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a frame."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket."""

    code: CloseCode
    reason: str
    """At most 123 bytes, for people."""


@dataclass(frozen=True, slots=True)
class Authenticate:
    """`hello` with a token: find out who it names; then `Session.authenticated`, or close with 4500."""

    auth: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """`sub`: begin to send a topic's records; where that is refused, `Session.unsubscribed`."""

    rid: Rid
    topic: str
    """As the client named it; `agent` and `thread` are its parts."""
    agent: str
    thread: str
    after: Cursor
    run: str
    types: Sequence[str]
    kinds: Sequence[str]
    merge: bool = False
    """True: adjacent deltas of a block may come as one while it is far behind."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """`unsub`: stop it."""

    rid: Rid
    topic: str


@dataclass(frozen=True, slots=True)
class StartRun:
    """`run`: start one."""

    rid: Rid
    agent: str
    thread: str
    input: JsonValue
    """Text, or a list of blocks; its shape is the backend's to check."""
    idem: str = ""
    """An idempotency key, or ""."""


@dataclass(frozen=True, slots=True)
class CancelRun:
    """`cancel`: ask a run to stop."""

    rid: Rid
    agent: str
    thread: str
    run: str


@dataclass(frozen=True, slots=True)
class Steer:
    """`steer`: put a message into a run."""

    rid: Rid
    agent: str
    thread: str
    run: str
    input: JsonValue


@dataclass(frozen=True, slots=True)
class Approve:
    """`approve`: decide a call that waits for a person."""

    rid: Rid
    agent: str
    thread: str
    run: str
    approval: str
    approved: bool
    reason: str = ""


Action: TypeAlias = (
    Reply | Close | Authenticate | Subscribe | Unsubscribe | StartRun | CancelRun | Steer | Approve
)


class Session:
    """One socket's conversation."""

    __slots__ = ("_allowance", "_errors", "_seen", "is_authenticated", "limits", "topics")

    def __init__(self, limits: SessionLimits, *, is_authenticated: bool, now: float) -> None:
        """Begin.

        Args:
            limits: its bounds.
            is_authenticated: the handshake said who it is, or nobody needs to.
            now: seconds, from a clock that does not jump; the same in every call.
        """
        self.limits = limits
        self.is_authenticated = is_authenticated
        self.topics: list[str] = []
        """What is subscribed, by its name on the wire: few, so a list, which is smaller than a set."""
        self._errors = 0
        self._allowance = float(limits.burst)
        self._seen = now

    def text(self, text: str, now: float) -> list[Action]:
        """Return what a text frame asks for."""
        if not self._may_speak(now):
            return [Close(CloseCode.RATE, "too many frames")]
        if len(text) > self.limits.frame_size or len(text.encode()) > self.limits.frame_size:
            return [Close(CloseCode.TOO_BIG, f"a frame may have {self.limits.frame_size} bytes")]
        try:
            value = parse_json(text)
        except WireError as error:
            return self._broken(None, Problem(400, "malformed", str(error)))
        rid = value.get("rid") if isinstance(value, dict) else None
        rid = rid if isinstance(rid, (str, int)) and not isinstance(rid, bool) else None
        try:
            frame = CLIENT_FRAMES.validate_python(value)
        except ValidationError as error:
            return self._broken(rid, _problem(error))
        return self._act(frame)

    def binary(self) -> list[Action]:
        """Return what a binary frame gives: there is no binary frame."""
        return [Close(CloseCode.MALFORMED, "frames are text")]

    def hello_timeout(self) -> list[Action]:
        """Return what follows when nobody has said who it is in time."""
        return [Close(CloseCode.AUTH_TIMEOUT, "no hello")]

    def authenticated(self) -> list[Action]:
        """Note that the shell knows who it is."""
        self.is_authenticated = True
        return [Reply(self._welcome())]

    def unsubscribed(self, topic: str) -> None:
        """Note that a subscription was refused, or has ended."""
        if topic in self.topics:
            self.topics.remove(topic)

    def _act(self, frame: ClientFrame) -> list[Action]:
        if isinstance(frame, HelloFrame):
            return self._hello(frame)
        if isinstance(frame, PingFrame):
            return [Reply(_json({"op": "pong", "t": frame.t} if frame.t is not None else {"op": "pong"}))]
        if not self.is_authenticated:
            return self._broken(frame.rid, Problem(401, "unauthenticated", "say hello first"))
        match frame:
            case SubFrame():
                return self._sub(frame)
            case UnsubFrame():
                if frame.topic not in self.topics:
                    return [Reply(err(frame.rid, Problem(404, "not_subscribed", field="topic")))]
                self.topics.remove(frame.topic)
                return [Unsubscribe(frame.rid, frame.topic)]
            case RunFrame():
                return [StartRun(frame.rid, frame.agent, frame.thread, frame.input, frame.idem)]
            case CancelFrame():
                return [CancelRun(frame.rid, frame.agent, frame.thread, frame.run)]
            case SteerFrame():
                return [Steer(frame.rid, frame.agent, frame.thread, frame.run, frame.input)]
            case ApproveFrame():
                return [
                    Approve(
                        frame.rid,
                        frame.agent,
                        frame.thread,
                        frame.run,
                        frame.approval,
                        frame.approved,
                        frame.reason,
                    )
                ]

    def _hello(self, frame: HelloFrame) -> list[Action]:
        if frame.auth is not None:
            return [Authenticate(frame.auth)]
        if not self.is_authenticated:
            return self._broken(None, Problem(401, "unauthenticated", field="auth"))
        return [Reply(self._welcome())]

    def _sub(self, frame: SubFrame) -> list[Action]:
        try:
            after = Cursor.parse(frame.after) if frame.after else NOW
        except WireError:  # which quotes it; but people put tokens where none belongs
            said = "a cursor is <epoch>-<seq>, earliest or now"
            return self._broken(frame.rid, Problem(400, "malformed", said, "after"))
        try:
            parse_view(types=frame.types, kinds=frame.kinds, run=frame.run)
        except WireError as error:
            field, _, detail = str(error).partition(": ")
            return self._broken(frame.rid, Problem(400, "malformed", detail, field))
        if frame.topic in self.topics:
            return [Reply(err(frame.rid, Problem(409, "already_subscribed", field="topic")))]
        if len(self.topics) >= self.limits.subscriptions:
            detail = f"a socket may have {self.limits.subscriptions}"
            return [Reply(err(frame.rid, Problem(429, "too_many_subscriptions", detail)))]
        self.topics.append(frame.topic)
        _, agent, _, thread = frame.topic.split("/")
        return [
            Subscribe(
                frame.rid,
                frame.topic,
                agent,
                thread,
                after,
                frame.run,
                frame.types,
                frame.kinds,
                frame.merge,
            )
        ]

    def _may_speak(self, now: float) -> bool:
        """Take one from the allowance, which grows with time."""
        self._allowance = min(
            self._allowance + max(now - self._seen, 0.0) * self.limits.rate, float(self.limits.burst)
        )
        self._seen = now
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True

    def _broken(self, rid: Rid | None, problem: Problem) -> list[Action]:
        """Answer a frame that breaks the rules; the last of many is answered by closing too."""
        self._errors += 1
        actions: list[Action] = [Reply(err(rid, problem))]
        if self._errors >= self.limits.errors:
            actions.append(Close(CloseCode.TOO_MANY_ERRORS, "too many errors"))
        return actions

    def _welcome(self) -> bytes:
        limits: dict[str, JsonValue] = {
            "frame_size": self.limits.frame_size,
            "subscriptions": self.limits.subscriptions,
            "errors": self.limits.errors,
            "rate": self.limits.rate,
            "burst": self.limits.burst,
        }
        return _json({"op": "welcome", "v": 1, "limits": limits})


def ok(rid: Rid, data: Mapping[str, JsonValue]) -> bytes:
    """Return the frame that says yes to a request."""
    return _json({"op": "ok", "rid": rid, **data})


def err(rid: Rid | None, problem: Problem) -> bytes:
    """Return the frame that says no; without `rid` where the client gave none that could be read."""
    return _json({"op": "err", **({} if rid is None else {"rid": rid}), "problem": problem.body()})


def bye(code: CloseCode, retry_ms: int) -> bytes:
    """Return the frame before a close after which the client is to come back, in `retry_ms` milliseconds."""
    return _json({"op": "bye", "code": int(code), "retry_ms": retry_ms})


def _problem(error: ValidationError) -> Problem:
    """Tell the first thing that is wrong with a frame, and where."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"].startswith("union_tag"):
        return Problem(
            400, "malformed", "no such op" if first["type"] == "union_tag_invalid" else "no op", "op"
        )
    field = ".".join(place[1:2])  # behind the op; deeper parts are the client's own data
    return Problem(400, "malformed", first["msg"], field)


def _json(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
