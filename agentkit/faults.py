"""Say what went wrong at a provider: answers that are no stream, as errors that a person can act on.

Pure: no I/O, no clock. It reads status, headers and the first bytes of a body; what an error body means is the dialect's to say. No message holds the key:
a server that echoes it is masked. What a stream says in the middle of it is not this room's (see the dialects).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from agentkit.dialects.base import Dialect, Target
from agentkit.errors import (
    ConfigurationError,
    ModelConnectionError,
    ModelStatusError,
    ModelStreamError,
    quote,
)
from agentkit.pace import is_retryable, retry_after

if TYPE_CHECKING:
    from pydantic import SecretStr

KEPT_BODY: Final = 2 * 1024
"""Characters of an answer that an error carries."""
MAX_MESSAGE: Final = 500
"""Characters of a provider's own words in a message."""

_REQUEST_IDS: Final = ("request-id", "x-request-id", "apim-request-id", "x-amzn-requestid", "cf-ray")
_FIELD_STARTS: Final = b"deir:"
"""How the lines of an event stream begin: data, event (or error), id, retry, a comment."""
_SHORTEST_SECRET: Final = 4
"""Characters: a shorter key is a placeholder, and masking it would spoil every message."""
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
"""Visible ASCII, blanks inside: what every server reads alike."""


@dataclass(frozen=True, slots=True)
class Key:
    """A provider's key, and where it came from. Its text shows in no repr."""

    secret: str = field(repr=False)
    source: str
    """The environment variable's name, or "" where the caller passed it."""

    @staticmethod
    def of(key: "str | SecretStr | Key | None") -> "Key | None":
        """Return the key, or None for none; a blank one is none.

        Raises:
            ConfigurationError: it holds what a header cannot carry.
        """
        if key is None or isinstance(key, Key):
            found = key
        else:
            found = Key(key if isinstance(key, str) else key.get_secret_value(), "")
        if found is None or not found.secret:
            return None
        if not _HEADER_VALUE.fullmatch(found.secret):
            raise ConfigurationError(
                f"the key {found.origin} must be visible ASCII characters without a line break or blanks around it"
            )
        return found

    @property
    def origin(self) -> str:
        """Where it came from, for a message."""
        return f"from {self.source}" if self.source else "that was passed as key="


def check_header(name: str, value: str) -> None:
    """Check one header of a request.

    Raises:
        ConfigurationError: name or value cannot be sent; the value is not told.
    """
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ConfigurationError(f"{quote(name)} is not a header name")
    if value and not _HEADER_VALUE.fullmatch(value):
        raise ConfigurationError(f"the value of header {name!r} must be visible ASCII characters in one line")


def is_no_stream(framing: str, content_type: str, head: bytes) -> bool:
    """Tell by its first bytes, leading white space left out, that a body of status 200 is not the stream that was asked for.

    Many servers answer an error as JSON with status 200, some even as `text/event-stream`; others call a good event stream HTML. So the
    first byte decides, and the content type only where that could be either.
    """
    if framing == "ndjson":
        return head[:1] == b"<"
    odd_type = content_type.split(";", maxsplit=1)[0].strip().lower() in ("text/html", "application/json")
    return head[:1] in (b"{", b"[", b"<") or (odd_type and head[:1] not in _FIELD_STARTS)


class Faults:
    """Makes the errors of one client."""

    __slots__ = ("_dialect", "_key", "_key_hint", "_target", "_where")

    def __init__(self, dialect: Dialect, target: Target, where: str, key: Key | None, key_hint: str) -> None:
        self._dialect = dialect
        self._target = target
        self._where = where
        """The base URL."""
        self._key = key
        self._key_hint = key_hint
        """What to set, told where no key was sent: a variable's name, or ""."""

    def mask(self, text: str) -> str:
        """Return `text` without the key."""
        secret = self._key.secret if self._key else ""
        return text.replace(secret, "[key]") if len(secret) >= _SHORTEST_SECRET else text

    def status(self, status: int, headers: Mapping[str, str], body: str, now: float) -> ModelStatusError:
        """Return the error of an answer whose status is not 200. `now`: seconds since the epoch, for `Retry-After` dates."""
        body = self.mask(body)
        fault = self._dialect.status_fault(status, body)
        said = f"{self._target.provider} answered {status}"
        if 300 <= status < 400:
            where = quote(self.mask(headers.get("location", "")))
            said += f", a redirect to {where}, which is not followed: the base URL must be its end"
        else:
            said += f": {_short(self.mask(fault.message)) or _phrase(status)}"
        if status in (401, 403):
            said += f" ({self._about_key()})"
        told = (
            fault.retryable is None or "x-should-retry" in headers
        )  # the provider's own word, before what we read from its text
        retryable = is_retryable(status, headers) if told else bool(fault.retryable)
        return ModelStatusError(
            said,
            status=status,
            body=body[:KEPT_BODY],
            fault=fault.code,
            retryable=retryable,
            **self._info(headers, now),
        )

    def no_stream(self, headers: Mapping[str, str], body: str, now: float) -> ModelStreamError:
        """Return the error of a status 200 that did not bring a stream: an error after all, or another document."""
        body = self.mask(body)
        provider, code, retryable = self._target.provider, "not_a_stream", False
        if _says_error(body):
            fault = self._dialect.status_fault(200, body)
            said = f"{provider} answered 200 with an error: {_short(self.mask(fault.message)) or quote(body)}"
            code, retryable = fault.code, bool(fault.retryable)
        else:
            content_type = (
                quote(headers.get("content-type", "")) if "content-type" in headers else "no content type"
            )
            said = f"{provider} answered 200 without a stream ({content_type}): {quote(body)}"
        return ModelStreamError(
            said,
            provider_code=code,
            fault="" if code == "not_a_stream" else code,
            retryable=retryable,
            **self._info(headers, now),
        )

    def encoded(self, headers: Mapping[str, str], encoding: str, now: float) -> ModelStreamError:
        """Return the error of a compressed answer: it was not asked for, and what it unfolds to has no bound."""
        said = f"{self._target.provider} sent content-encoding {quote(encoding)}, identity was asked for"
        return ModelStreamError(said, provider_code="content_encoding", **self._info(headers, now))

    def connection(self, reason: str, *, retryable: bool = True) -> ModelConnectionError:
        """Return the error of a provider that was not reached, or broke off before an answer."""
        return ModelConnectionError(
            f"{self._target.provider} at {self._where}: {self.mask(reason)}",
            provider=self._target.provider,
            model=self._target.model,
            retryable=retryable,
        )

    def _info(self, headers: Mapping[str, str], now: float) -> dict[str, Any]:
        ids = (headers.get(name, "") for name in _REQUEST_IDS)
        return {
            "provider": self._target.provider,
            "model": self._target.model,
            "request_id": next((self.mask(found[:200]) for found in ids if found), ""),
            "retry_after": retry_after(headers, now),
        }

    def _about_key(self) -> str:
        if self._key is not None:
            return f"with the key {self._key.origin}"
        return f"no key was sent; set {self._key_hint}" if self._key_hint else "no key was sent"


def _says_error(body: str) -> bool:
    try:
        value = from_json(body)
    except ValueError:
        return False
    if isinstance(value, list) and value:  # Gemini without `alt=sse`
        value = value[0]
    return isinstance(value, dict) and (bool(value.get("error")) or value.get("type") == "error")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"
