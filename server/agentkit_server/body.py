"""Read a JSON body: bounded, strict, and before anything else happens.

What a body may not be is refused as a problem: no JSON content type (415), too large (413), not JSON, or JSON that readers understand
differently: duplicate names, NaN, numbers that do not fit, half a surrogate pair, too deep (400), of another shape (422, naming the
field). Nothing here knows what a run is.
"""

import json
import math
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from agentkit.errors import quote
from agentkit_transports.problem import Problem, ProblemError

M = TypeVar("M", bound=BaseModel)

MAX_INT = 2**63
"""Bound of integers: what every JSON reader keeps exactly in 64 bits."""


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
    try:
        text = data.decode()
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant
        )
    except _UncleanError as error:
        raise _bad(str(error)) from None
    except UnicodeDecodeError as error:
        raise _bad(f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _bad(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _bad(f"the body is nested deeper than {max_depth} levels") from None
    _check(value, max_depth)
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        raise _shape(error) from None


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


class _UncleanError(Exception):
    """JSON that not every reader understands alike."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = sorted(name for name, _ in pairs)
        twice = next(name for name, other in pairwise(names) if name == other)
        raise _UncleanError(f"the name {quote(twice)} stands twice in one object")
    return out


def _int(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) >= MAX_INT:
        raise _UncleanError("an integer does not fit in 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _UncleanError("a number is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise _UncleanError(f"{name} is not JSON")


def _check(value: Any, max_depth: int) -> None:
    """Refuse depth and half surrogate pairs, wherever they stand."""
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise _bad(f"the body is nested deeper than {max_depth} levels")
        below: list[Any] = []
        for member in level:
            if isinstance(member, dict):
                below += member.keys()
                below += member.values()
            elif isinstance(member, list):
                below += member
            elif isinstance(member, str) and not member.isascii():
                try:
                    member.encode()
                except UnicodeEncodeError:
                    raise _bad("a string holds half a surrogate pair") from None
        level = below


def _bad(detail: str) -> ProblemError:
    return ProblemError(Problem(400, "malformed", detail))


def _shape(error: ValidationError) -> ProblemError:
    """Name the first field at fault; never quote what stood there: it may be a prompt."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])[:200]
    detail = f"{field}: {first['msg']}" if field else str(first["msg"])
    return ProblemError(Problem(422, "invalid", detail[:400], field=field))
