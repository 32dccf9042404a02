"""Annotations for pydantic that load pydantic's types when a schema is built, not when a room is imported.

Pure. `import pydantic` loads little; `from pydantic import JsonValue` or `Field` loads what it builds schemas with, a fifth of the time
that importing this package takes, and a run that validates nothing has no use for it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

__all__ = ["Deferred", "JsonValue"]


class Deferred:
    """In `Annotated[type, Deferred(of)]`: validate as `of(type)`, which is asked when a schema is built."""

    __slots__ = ("of",)

    def __init__(self, of: Callable[[Any], Any]) -> None:
        self.of = of

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler.generate_schema(self.of(source))


def _json_value(_: Any) -> Any:
    from pydantic import JsonValue

    return JsonValue


if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    JsonValue = Annotated[Any, Deferred(_json_value)]
