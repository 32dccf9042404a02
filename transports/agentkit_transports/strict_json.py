"""JSON from strangers → plain values, or a `WireError`.

Pure. Stricter than the standard library, for what would bite later: depth, numbers that are none or that nobody can hold, the same key
twice (two readers may take different ones), halves of surrogate pairs (no UTF-8 has them).
Source: RFC 8259, RFC 7493 (I-JSON).
"""

import json
import math
from typing import Any, Final

from pydantic_core import from_json

from agentkit.content import JsonValue
from agentkit.errors import WireError, quote

_LARGEST: Final = 2**63 - 1
"""The largest integer that every language we speak to can hold."""
_DIGITS: Final = len(str(_LARGEST))


def parse_json(text: str | bytes) -> JsonValue:
    """Return the value that `text` holds.

    Args:
        text: one JSON text; its size is bounded by whoever read it.

    Raises:
        WireError: it is not JSON, or deeper than 200, or holds NaN, infinity, an integer past 64 bits, a key twice or half a surrogate
            pair.
    """
    try:
        from_json(
            text, allow_inf_nan=False
        )  # fast, bounded in depth, and strict about surrogates; it lets doubled keys pass
        value: JsonValue = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number
        )
    except ValueError as error:
        raise WireError(f"not JSON: {quote(str(error))}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise WireError("a JSON object has the same key twice")
    return out


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS + 1 or abs(int(digits)) > _LARGEST:
        raise WireError(f"a JSON integer of {len(digits)} digits is past 64 bits")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise WireError(f"the JSON number {quote(digits)} is infinite")
    return number
