"""The parser of providers' payloads: JSON text to plain data.

Not pure: it looks what is installed, and at the environment, once. Why: parsing is the largest part of what a delta costs, and msgspec's
parser takes half the time of pydantic's, the more so the deeper a payload is. It takes a subset of what pydantic's takes and makes the same
values of it (integers of any size, floats to the last bit); what it refuses (NaN, half a surrogate pair) is read by the parsers behind it, as
without it. Fallback: pydantic's, where msgspec is not installed or `AGENTKIT_FAST` is "0".
"""

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from pydantic_core import from_json

REFUSALS: Final = (ValueError, RecursionError)
"""What a parser raises of a payload that it cannot read: another parser may."""

_stock = partial(from_json, cache_strings="keys")


@cache
def parser() -> Callable[[str], Any]:
    """Return the parser of this process: JSON text → plain data. Asked for when the first payload is there: to load msgspec takes a while."""
    return choose(fast=os.environ.get("AGENTKIT_FAST") != "0")


def choose(*, fast: bool) -> Callable[[str], Any]:
    """Return a parser: msgspec's where `fast` and it is installed, else pydantic's. Both raise `REFUSALS`."""
    if fast:
        try:
            from msgspec.json import Decoder
        except ImportError:
            return _stock
        return Decoder().decode
    return _stock
