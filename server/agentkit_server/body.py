"""Read a JSON body: bounded, strict, and before anything else happens.

What a body may not be is refused as a problem: no JSON content type (415), too large (413), not JSON, or JSON that readers understand
differently: duplicate names, NaN, numbers that do not fit, half a surrogate pair, too deep, too many values (400), of another shape (422,
naming the field). Nothing here knows what a run is.
"""

import re
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from agentkit.errors import WireError
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.strict_json import parse_json

M = TypeVar("M", bound=BaseModel)

MAX_VALUES: Final = 100_000
"""Values of a body. Each costs some microseconds in which nobody else is served: 8 MiB of `[]` would take half a minute."""

_TEXTS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Texts, an open one too: so each byte is looked at once."""


async def read_json(request: Request, model: type[M], *, max_size: int, max_depth: int) -> M:
    """Return the body as `model`.

    Raises:
        ProblemError: 400, 413, 415 or 422, as above.
        ClientDisconnect: the client left.
    """
    _demand_json(request)
    return parse(await _read(request, max_size), model, max_depth=max_depth)


def parse(data: bytes, model: type[M], *, max_depth: int) -> M:
    """Return `data` as `model`.

    Raises:
        ProblemError: 400 where it is not clean JSON, 422 where it has another shape.
    """
    if _has_more_values(data, MAX_VALUES):
        raise _bad(f"the body holds more than {MAX_VALUES} values")
    try:
        value = parse_json(data)
    except WireError as error:
        raise _bad(f"cannot read the body: {error}") from None
    demand_shallow(value, max_depth)
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        raise _shape(error) from None


def demand_shallow(value: Any, levels: int) -> None:
    """Refuse JSON with more levels of objects and lists.

    Raises:
        ProblemError: 400.
    """
    if _is_deeper(value, levels):
        raise _bad(f"the body is nested deeper than {levels} levels")


def _demand_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return
    raise ProblemError(Problem(415, "unsupported_media_type", "send application/json", field="content-type"))


async def _read(request: Request, max_size: int) -> bytes:
    """Read at most `max_size` bytes. What a refused client still sends is the server's to drop."""
    too_large = ProblemError(Problem(413, "too_large", f"the body may have {max_size} bytes"))
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > max_size):
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_size:
            raise too_large
    return bytes(body)


def _has_more_values(data: bytes, number: int) -> bool:
    """Tell whether a JSON text holds more values, without parsing it: each follows a comma or stands first in its list or object."""

    def count(text: bytes) -> int:
        return sum(map(text.count, (b",", b"[", b"{")))

    return count(data) > number and count(_TEXTS.sub(b"", data)) > number


def _is_deeper(value: Any, levels: int) -> bool:
    """Tell whether a JSON value has more levels of objects and lists."""
    level = [value]
    for _ in range(levels):
        members = (
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        )
        level = [member for some in members for member in some if isinstance(member, dict | list)]
    return bool(level)


def _bad(detail: str) -> ProblemError:
    return ProblemError(Problem(400, "malformed", detail))


def _shape(error: ValidationError) -> ProblemError:
    """Name the first field at fault; never quote what stood there: it may be a prompt."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])[:200]
    detail = f"{field}: {first['msg']}" if field else str(first["msg"])
    return ProblemError(Problem(422, "invalid", detail[:400], field=field))
