"""Read the errors of providers by their words: bodies of refused requests, and errors inside of a stream.

Pure. Hardly two servers agree on the shape, so any JSON and any text is read; and their codes are no vocabulary, so what went wrong is
told by status, code and words together. Nothing here raises.
Source: recordings; error pages of OpenAI, OpenRouter, Groq, Mistral, DeepSeek (from public references, not re-read); llama.cpp, vLLM and FastAPI sources.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from agentkit.content import valid_text
from agentkit.dialects.base import StatusFault

MAX_MESSAGE: Final = 1000
"""Characters of a message that are kept: some proxies answer with whole pages."""

_DEPTH: Final = 6
"""Envelopes that are opened: `[{"error": {"message": {"detail": [{"msg": …}]}}}]` is real."""

_NESTED: Final = ("error", "errors", "detail", "details", "message", "base_resp")
_MESSAGES: Final = (
    "message",
    "msg",
    "detail",
    "error_msg",
    "error_message",
    "errorMessage",
    "status_msg",
    "title",
    "Message",
    "reason",
)
_SURE: Final = ("error_message", "error_msg", "errorMessage")
"""Members that only an error has."""
_LIKELY: Final = ("message", "detail", "msg", "errors")
"""Members that an error has, and that mean something else in a payload that says what it is."""
_CODES: Final = ("code", "error_code", "errorCode", "err_code", "status_code", "error_type", "type", "status")
_STATUSES: Final = ("status_code", "http_status", "status", "code", "error_code")


@dataclass(frozen=True, slots=True)
class Fault:
    """What an error says of itself."""

    message: str = ""
    code: str = ""
    """The server's own word or number, as text."""
    status: int | None = None
    """An HTTP status that it names."""
    words: str = ""
    """All of its words in lower case: code, type, message."""


def read_fault(value: object) -> Fault:
    """Return what an error of any shape says."""
    fault = _read(value, _DEPTH)
    return Fault(_shown(fault.message), fault.code, fault.status, f"{fault.words} {fault.message}".lower())


def real_error(error: object) -> object:
    """Return the value of an `error` member, or None where it says that there is none: some send an empty one each time."""
    if isinstance(error, dict) and not any(error.values()):
        return None
    return error or None


def looks_like_error(payload: dict[str, Any]) -> bool:
    """Tell whether a payload without choices, usage and an `error` member is an error all the same."""
    if payload.get("object") == "error" or payload.get("type") == "error" or base_failed(payload):
        return True
    names = _SURE if "object" in payload else (*_SURE, *_LIKELY)
    return any(payload.get(name) for name in names)


def base_failed(payload: dict[str, Any]) -> bool:
    """Tell whether a payload of MiniMax says in its `base_resp` that it failed: it stands beside choices too."""
    base = payload.get("base_resp")
    return isinstance(base, dict) and base.get("status_code") not in (None, 0, "", "0")


_KINDS: Final[tuple[tuple[str, bool, tuple[str, ...]], ...]] = (
    (
        "context_overflow",
        False,
        (
            r"context_length_exceeded|exceed_context_size|maximum context length|context window|available context size|exceeds? .{0,30}context length",
            r"prompt is too long|input is too long|too many input tokens|reduce the length|max_model_len",
            r"token limit reached",
        ),
    ),
    ("rate_limit", True, (r"per minute|per second|retry in|try again in \d|rate.?limit|too many requests",)),
    (
        "quota",
        False,
        (
            r"quota|insufficient.(?:balance|credit|fund)|billing|payment required|credit balance|out of credits",
            r"arrears|spend(?:ing)? limit",
        ),
    ),
    (
        "safety",
        False,
        (
            r"content.?policy|content.?filter|content management|responsible.?ai|safety|moderation|flagged",
            r"(?<!case.)(?<!in)sensitive|data.?inspection.?failed|prohibited.?content|content_blocked",
        ),
    ),
    (
        "unknown_model",
        False,
        (
            r"unknown.model|no such model|not a valid model|invalid.model|model.not.exist|no endpoints found",
            r"model\b.{0,120}\b(?:does not exist|not found|not supported|decommissioned|not available)",
            r"model_not_found|model_not_supported|not_found_error.{0,40}\bmodel:",
        ),
    ),
    (
        "authentication",
        False,
        (
            r"invalid.?api.?key|incorrect api key|api key (?:is )?(?:not|missing|invalid|expired)|invalid.token",
            r"authentication|unauthori[sz]ed|no auth credentials|user not found",
            r"missing.{0,20}(?:api.?key|bearer|credential)",
        ),
    ),
    (
        "overloaded",
        True,
        (
            r"overload|over capacity|no capacity|at capacity|server.is.busy|engine_overloaded|try again later",
            r"temporarily unavailable|service.unavailable|insufficient_system_resource|no available",
        ),
    ),
    ("timeout", True, (r"time.?out|timed out|deadline",)),
    ("permission", False, (r"permission|forbidden|not allowed to|access denied|unsupported_country",)),
    (
        "invalid_request",
        False,
        (
            r"invalid_request|invalid.?argument|bad.?request|validation|unsupported|tool_use_failed",
            r"unprocessable|is required|unrecognized|invalid_value|extra inputs",
        ),
    ),
    (
        "server_error",
        True,
        (r"server.?error|internal|upstream|provider returned error|bad gateway|connection|network",),
    ),
)
"""Kind, whether asking again can help, and the words that tell it. The first that is found wins."""


@cache
def _patterns() -> tuple[tuple[str, bool, re.Pattern[str]], ...]:
    """Return `_KINDS` compiled; when a first error is read, for that takes as long as importing three rooms."""
    return tuple((kind, again, re.compile("|".join(words))) for kind, again, words in _KINDS)


_BY_STATUS: Final[dict[int, tuple[str, bool]]] = {
    400: ("invalid_request", False),
    401: ("authentication", False),
    402: ("quota", False),
    403: ("permission", False),
    404: ("not_found", False),
    408: ("timeout", True),
    409: ("conflict", True),
    413: ("context_overflow", False),
    422: ("invalid_request", False),
    425: ("overloaded", True),
    429: ("rate_limit", True),
    498: ("overloaded", True),
    500: ("server_error", True),
    502: ("server_error", True),
    503: ("overloaded", True),
    504: ("timeout", True),
    524: ("timeout", True),
    529: ("overloaded", True),
}
_VAGUE: Final = frozenset({400, 403, 404, 422, 429, 500, 502})
"""Statuses behind which servers put everything: there the words are asked first."""


def classify(fault: Fault, status: int | None) -> tuple[str, bool | None]:
    """Return what went wrong in our word, and whether asking again can help; ("", None) where nothing tells it."""
    status = fault.status if fault.status in _BY_STATUS else status
    known = _BY_STATUS.get(status or 0)
    if known is None and status is not None and 400 <= status <= 599:
        known = ("server_error", True) if status >= 500 else ("invalid_request", False)
    if known is not None and status not in _VAGUE:
        return known
    for kind, again, pattern in _patterns():
        if pattern.search(fault.words):
            if status == 429 and kind not in ("quota", "rate_limit", "overloaded"):
                continue  # a limit of tokens is no overflow, and a busy server no bad request
            if known is not None and kind in ("invalid_request", "server_error", "timeout"):
                return known  # the status says it better
            return kind, again
    return known or ("", None)


def status_fault(status: int, body: str) -> StatusFault:
    """Return what the body of an answer with `status` says."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        value = _plain_text(body)
    fault = read_fault(value)
    kind, again = classify(fault, status)
    message = fault.message or f"HTTP {status} without a message"
    return StatusFault(message, kind or fault.code, again)


def name_fault(code: str, message: str) -> str:
    """Return what an error inside of a stream says, in our word; its own code where nothing tells it."""
    status = int(code) if len(code) == 3 and code.isascii() and code.isdigit() else None
    return classify(Fault(message, code, status, f"{code} {message}".lower()), None)[0] or code


def _read(value: object, depth: int) -> Fault:
    if isinstance(value, str):
        return Fault(value.strip())
    if isinstance(value, list) and depth:
        faults = [_read(member, depth - 1) for member in value[:8]]
        message = "; ".join(fault.message for fault in faults if fault.message)
        first = faults[0] if faults else Fault()
        return Fault(message, first.code, first.status, " ".join(fault.words for fault in faults))
    if not isinstance(value, dict) or not depth:
        return Fault()
    inner = Fault()
    for name in _NESTED:
        member = value.get(name)
        if isinstance(member, (dict, list)) or (name == "error" and isinstance(member, str) and member):
            inner = _read(member, depth - 1)
            if inner.message or inner.code:
                break
    own = next((m for name in _MESSAGES if isinstance(m := value.get(name), str) and m.strip()), "")
    message = _with_upstream(inner.message or _at(value, own.strip()), value.get("metadata"))
    codes = [_code(value.get(name)) for name in _CODES]
    code = inner.code or next((code for code in codes if code), "")
    return Fault(
        message,
        code,
        inner.status or _status(value),
        " ".join([inner.words, inner.code, own, *codes]).strip(),
    )


def _at(value: dict[str, Any], message: str) -> str:
    """Add the place that a validation error names."""
    place = value.get("loc")
    if message and isinstance(place, list):
        return f"{'.'.join(str(part) for part in place[:8])}: {message}"
    return message


def _with_upstream(message: str, metadata: object) -> str:
    """Add what the provider behind a gateway said: the gateway's own message is often just that there was an error."""
    if not isinstance(metadata, dict):
        return message
    raw = metadata.get("raw")
    if isinstance(raw, str) and raw.strip():
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            raw = raw.strip()
    upstream = _read(raw, 3).message if raw else ""
    return f"{message}: {upstream}" if upstream and upstream not in message else message


def _code(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    return valid_text(str(value)[:100]) if isinstance(value, (str, int)) else ""


def _status(value: dict[str, Any]) -> int | None:
    for name in _STATUSES:
        member = value.get(name)
        if isinstance(member, str) and len(member) == 3 and member.isdecimal():
            member = int(member)
        if isinstance(member, int) and not isinstance(member, bool) and 400 <= member <= 599:
            return member
    return None


def _plain_text(body: str) -> str:
    """Return the words of a body that is not JSON; of a page its title."""
    body = body[:20_000]
    if "<html" in body[:1000].lower() or body.lstrip().lower().startswith("<!doctype"):
        title = re.search(r"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
        return f"an HTML page: {title.group(1).strip()}" if title else "an HTML page"
    return body


_SECRET: Final = re.compile(
    r"(?:sk|pk|rk|gsk|xai|nvapi|hf|AIza|key|Bearer )[\w*.\-]{8,}|[\w\-]*\*{3,}[\w\-]*"
)
"""What looks like a key, whole or masked: servers quote the wrong one in their answer."""


def _shown(message: str) -> str:
    message = _SECRET.sub("[key]", valid_text(message[: 4 * MAX_MESSAGE]))
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…"
