"""Make a JSON schema strict, where it can be said strictly.

Pure. With a strict schema an endpoint promises that the answer fits. It demands that every object names all of its members, requires all
of them and allows no others; what had a default must then be given, which every reader of the schema takes.
Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas" (from public references, not re-read).
"""

from collections.abc import Mapping
from typing import Any, Final

_MAPS: Final = ("properties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "allOf")
_REFUSED: Final = ("oneOf", "patternProperties", "propertyNames", "if", "not", "prefixItems")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a strict copy, or None where that is impossible: open objects, or keywords that strict schemas may not have."""
    try:
        strict = _strict(schema)
    except _NotStrictError:
        return None
    return strict if strict.get("type") == "object" else None


class _NotStrictError(Exception):
    """The schema has a part that cannot be said strictly."""


def _strict(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or any(name in schema for name in _REFUSED):
        raise _NotStrictError
    out: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "default":
            continue  # all members are required, and the keyword is refused
        if name in _MAPS and isinstance(value, Mapping):
            out[name] = {key: _strict(member) for key, member in value.items()}
        elif name == "items":
            out[name] = _strict(value)
        elif name in _LISTS:
            out[name] = [_strict(member) for member in value] if isinstance(value, list) else value
        else:
            out[name] = value
    if out.get("type") == "object" or "properties" in out:
        if "properties" not in out or schema.get("additionalProperties", False) is not False:
            raise _NotStrictError
        out["additionalProperties"] = False
        out["required"] = list(out["properties"])
    if "$ref" in out and len(out) > 1:  # a reference must stand alone; what is said beside it moves around it
        out = {"anyOf": [{"$ref": out.pop("$ref")}], **out}
    return out
