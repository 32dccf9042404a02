"""What a server's refusals are to a caller: problems, statuses and close codes as errors of the house's tree.

Pure: the time is given. `Cut` is what a client comes back from by itself; every other error ends what was asked.
Grounds: design.md §7 (statuses, close codes), §9 (the tree); RFC 9457, RFC 9110 section 10.2.3.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from agentkit.errors import (
    AccessError,
    AgentKitError,
    ConfigurationError,
    EngineError,
    ForeignSignatureError,
    HookError,
    LimitError,
    ModelConnectionError,
    ModelError,
    ModelStatusError,
    ModelStreamError,
    OutputError,
    RemoteError,
    RunCancelled,
    ThreadBusy,
    ToolError,
    WireError,
)
from agentkit.pace import retry_after

MAX_PROBLEM: Final = 16 * 1024
"""Bytes of a refusal that are read."""
_MAX_WORDS: Final = 500
"""Characters of a server's own words in a message."""
_TRANSIENT: Final = frozenset({408, 425, 429})
_PERMANENT: Final = frozenset({501, 505})
_UNHELPFUL: Final = frozenset({"agent_unavailable"})
"""Words of a 503 that stays until an operator does something."""
_FAILURES: Final[dict[str, type[AgentKitError]]] = {
    one.code: one
    for one in (ConfigurationError, ForeignSignatureError, HookError, LimitError, OutputError, ToolError, EngineError, WireError)
}  # fmt: skip
_STOP_CODES: Final = {1002, 1003, 1007, 1008, 1009, 1010}
"""Close codes of RFC 6455 that say that one side broke its rules: coming back would change nothing."""


class Cut(Exception):  # noqa: N818 - what happened, not yet an error
    """A connection ended, or a request was refused, in a way from which one comes back."""

    def __init__(self, message: str, *, delay: float | None = None, unsent: bool = False) -> None:
        super().__init__(message)
        self.delay = delay
        """Seconds that the server asked to wait, or None."""
        self.unsent = unsent
        """True where the server has surely done nothing of what was asked."""


class Refused(Exception):  # noqa: N818 - as above
    """The token was refused: another one may do."""

    def __init__(self, error: AccessError, token: str) -> None:
        super().__init__(str(error))
        self.error = error
        """What it is if there is no other."""
        self.token = token

    def __repr__(self) -> str:
        return f"Refused({self.error!r})"


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, now: float, *, token: str = ""
) -> Exception:
    """Return what an answer that is no success is: `Cut`, `Refused`, or an error.

    Args:
        status: the HTTP status.
        headers: of the answer.
        body: its beginning.
        now: seconds since the epoch, against which a date in Retry-After counts.
        token: what was sent to say who asks.
    """
    problem = _problem(body)
    asked = retry_after(headers, now)
    milliseconds = problem.get("retry_after_ms")
    if asked is None and isinstance(milliseconds, int | float) and milliseconds >= 0:
        asked = milliseconds / 1000
    return _sorted(problem, status, asked, token)


def refusal_of(problem: object, token: str = "") -> Exception:
    """Return what a problem in a socket's `err` is: as `refusal`."""
    known = problem if isinstance(problem, dict) else {}
    status = known.get("status")
    milliseconds = known.get("retry_after_ms")
    asked = milliseconds / 1000 if isinstance(milliseconds, int | float) else None
    return _sorted(known, status if type(status) is int else 0, asked, token)


def is_transient(status: int) -> bool:
    """Tell whether asking again can help."""
    return status in _TRANSIENT or (status >= 500 and status not in _PERMANENT)


def close_error(code: int, reason: str, *, delay: float | None, token: str = "") -> Exception:
    """Return what a socket's close code is: `Cut`, `Refused`, or an error.

    Args:
        code: 4000–4499: come back. 4500–4999: stop. The others as RFC 6455 says.
        reason: the server's words.
        delay: seconds that its `bye` asked to wait, or None.
        token: what was sent to say who asks.
    """
    words = f"the socket was closed with {code}" + (f": {reason[:_MAX_WORDS]}" if reason else "")
    if code == 4004:
        return Refused(AccessError(words, status=code), token)
    if code == 4500:
        return Refused(AccessError(words, status=code), token)
    if code in (4502, 4503):
        return AccessError(words, status=code)
    if code in _STOP_CODES or 4500 <= code < 5000:
        return RemoteError(words, status=code)
    return Cut(words, delay=delay)


def failure(code: str, message: str, *, retryable: bool, partial: Any = None) -> AgentKitError:
    """Return the error that a failed run raises, as far as its terminal event tells it.

    Args:
        code: the event's word.
        message: the event's sentence.
        retryable: the event's.
        partial: what came before, a `Message`, or None.
    """
    match code:
        case "model_connection":
            return ModelConnectionError(message, retryable=retryable)
        case "model_status":
            return ModelStatusError(message, status=0, retryable=retryable)
        case "model_stream":
            return ModelStreamError(message, retryable=retryable, partial=partial)
        case "model":
            return ModelError(message, retryable=retryable)
        case "cancelled":
            return RunCancelled(message, reason=message, partial=partial)
        case _ if code in _FAILURES:
            return _FAILURES[code](message)
        case _:
            return RemoteError(message or f"the run failed: {code}", problem=code)


def _sorted(problem: Mapping[str, Any], status: int, asked: float | None, token: str) -> Exception:
    code, field = str(problem.get("code", "")), str(problem.get("field", ""))
    words = str(problem.get("detail") or problem.get("title") or _phrase(status))[:_MAX_WORDS]
    said = f"{words} ({status}{f' {code}' if code else ''})"
    if status == 401:
        return Refused(AccessError(said, status=status, problem=code, field=field), token)
    if is_transient(status) and code not in _UNHELPFUL:
        return Cut(said, delay=asked, unsent=status in (429, 503))
    match status, code:
        case 403, _:
            return AccessError(said, status=status, problem=code, field=field)
        case 409, "thread_busy":
            return ThreadBusy(said)
        case 400 | 422, "malformed" | "invalid" | "configuration":
            return ConfigurationError(said)
        case _:
            return RemoteError(said, status=status, problem=code, field=field, retry_after=asked)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "the server refused"


def _problem(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # a proxy's page: the status says all that there is to know
    return value if isinstance(value, dict) else {}
