"""What a route says of itself, where it stands: `Endpoint(handler, describe=Description(…))`. `openapi` makes the document of it.

Plain values. Every route has one; a test looks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel

from agentkit.content import JsonValue


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query, or a header."""

    name: str
    said: str
    schema: Mapping[str, JsonValue] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no refusal."""

    said: str
    body: type[BaseModel] | None = None
    """Its JSON; None for no body, or for one of `media_type`."""
    media_type: str = "application/json"
    is_empty: bool = False
    headers: Sequence[str] = ()
    """Names of headers that it has."""


@dataclass(frozen=True, slots=True)
class Description:
    """One route."""

    summary: str
    answers: Mapping[int, Reply]
    """By status."""
    body: type[BaseModel] | None = None
    is_body_optional: bool = False
    query: Sequence[Parameter] = ()
    headers: Sequence[Parameter] = ()
    refuses: Sequence[int] = ()
    """Statuses of its problems, beside those that every route has (400, 401, 404, …)."""
    tag: str = "runs"
    problem: type[BaseModel] | None = None
    """The shape of its refusals, where it is another protocol's."""


EMPTY: Final = Reply("Done.", is_empty=True)
FEED: Final = Reply("A feed of server-sent events.", media_type="text/event-stream")
WHOLE_NUMBER: Final[Mapping[str, JsonValue]] = {"type": "integer", "minimum": 1, "maximum": 999_999_999}

RUN_ID: Final[Mapping[str, JsonValue]] = {
    "type": "string",
    "pattern": r"^([A-Za-z0-9][A-Za-z0-9_.~-]{0,127})?$",
}
CURSOR: Final[Mapping[str, JsonValue]] = {
    "type": "string",
    "pattern": r"^(earliest|now|[A-Za-z0-9]{1,40}-[0-9]{1,18})?$",
}


def names_of(pattern: str) -> Mapping[str, JsonValue]:
    """Return the schema of up to 16 names with commas between."""
    return {"type": "string", "pattern": f"^({pattern}(,{pattern}){{0,15}})?$"}


LIMIT: Final = Parameter("limit", "Entries of the page, at most.", WHOLE_NUMBER)
AFTER: Final = Parameter("after", "The last entry of the page before: its `next`.")
IDEMPOTENCY: Final = Parameter(
    "Idempotency-Key",
    "The same key on the same thread gives the same run.",
    {"type": "string", "maxLength": 256, "pattern": r"^[ -~]*$"},
)
LAST_EVENT_ID: Final = Parameter(
    "Last-Event-ID",
    "The id of the last frame that came; it wins over `after`.",
    {"type": "string", "pattern": r"^([A-Za-z0-9]{1,40}-[0-9]{1,18})?$"},
)
