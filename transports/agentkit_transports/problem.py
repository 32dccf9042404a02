"""What went wrong, as RFC 9457 says it: one object for HTTP bodies and for a socket's `err`.

Pure. A problem holds no prompt, key, SQL or path; whoever makes one sees to that.
Source: RFC 9457 section 3 (`about:blank`: the title is the status's own phrase; `code` is the member that programs read).
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from agentkit.content import JsonValue
from agentkit.errors import AgentKitError

MEDIA_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal or failure, as a client sees it."""

    status: int
    """The HTTP status; in a socket it only tells the class of the fault."""
    code: str
    """The word that programs read: `not_found`, `thread_busy`, `not_supported`, …"""
    detail: str = ""
    """A sentence for people."""
    field: str = ""
    """The member, parameter or header at fault, or ""."""
    instance: str = ""
    """The path that it is about, or ""."""
    retry_after_ms: int | None = None

    def body(self) -> dict[str, JsonValue]:
        """Return the JSON object. Absent is omitted."""
        out: dict[str, JsonValue] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
        }
        if self.detail:
            out["detail"] = self.detail
        if self.field:
            out["field"] = self.field
        if self.instance:
            out["instance"] = self.instance
        if self.retry_after_ms is not None:
            out["retry_after_ms"] = self.retry_after_ms
        return out


class ProblemError(AgentKitError):
    """Raised by whoever serves a request; a transport answers with its `problem`."""

    code = "problem"

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status} {problem.code}: {problem.detail}")
        self.problem = problem
