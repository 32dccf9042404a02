"""What is named now and loaded when it is first used: the names of a package's face, and pydantic's types in annotations.

Pure. `import pydantic` loads little; `from pydantic import JsonValue` or `Field` loads what it builds schemas with, a fifth of the time
that importing this package takes, and a run that validates nothing has no use for it.
Source: PEP 562 (`__getattr__` and `__dir__` of a module).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

__all__ = ["Deferred", "JsonValue", "lazy_face"]


def lazy_face(
    package: str, rooms: Mapping[str, Sequence[str]], *, extra: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that hands on names of its rooms, and the rooms themselves.

    Args:
        package: its `__name__`; it has an `__all__`.
        rooms: the names that each room gives.
        extra: the distribution's extra that the rooms stand on; who lacks a package of it is told so.
    """
    room_of = {name: room for room, names in rooms.items() for name in names}

    def load(room: str) -> ModuleType:
        try:
            return import_module(f"{package}.{room}")
        except ModuleNotFoundError as error:
            if not extra or error.name is None or error.name.startswith("agentkit"):
                raise
            raise ImportError(
                f"{package} needs {error.name}, of the extra {extra}: pip install 'agentkit-live[{extra}]'"
            ) from error

    def find(name: str) -> object:
        if name in rooms:
            return load(name)
        if name not in room_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(load(room_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        face = sys.modules[package]
        return sorted({*vars(face), *face.__all__})

    return find, names


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
