"""What each option may be, in one table: a value of another kind is refused where it was written, not where it would break.

Pure. It does not know what an option does; what has a parser of its own (`reasoning`, `limits`, `tools`, `output_type`) is not here.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from agentkit.errors import ConfigurationError, quote
from agentkit.hooks import Hooks
from agentkit.observe import Observer


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options that are given.

    Raises:
        ConfigurationError: one cannot be what it is.
    """
    for name, (allows, expected) in _ALLOWED.items():
        if name in options and not allows(options[name]):
            raise ConfigurationError(f"{name} is {expected}, got {quote(options[name])}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _are_functions(value: object) -> bool:
    return callable(value) or (isinstance(value, Sequence) and all(callable(one) for one in value))


def _are_observers(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(one, Observer) for one in value)


def _are_texts(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(one, str) and one for one in value)
    )


def _are_ids(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, str)
        and all(isinstance(one, str) for one in value)
    )


def _are_words_of_providers(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(members, Mapping) for name, members in value.items()
    )


def _is_json_object(value: object) -> bool:
    return isinstance(value, Mapping) and _is_json(value, 0)


def _is_json(value: object, depth: int) -> bool:
    if value is None or isinstance(value, bool | int | str):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if depth > _DEPTH:
        return False
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(member, depth + 1) for key, member in value.items())
    return isinstance(value, list | tuple) and all(_is_json(member, depth + 1) for member in value)


_DEPTH: Final = 64
"""Levels of metadata: every JSON writer on its way has a limit, and a value that holds itself has no end."""

_ALLOWED: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "system": (lambda value: isinstance(value, str), "text"),
    "provider_options": (_are_words_of_providers, "{provider: {member: value}}"),
    "foreign": (lambda value: value in ("drop", "raise"), "drop or raise"),
    "max_tokens": (lambda value: value is None or _is_count(value), "a positive whole number or None"),
    "temperature": (
        lambda value: value is None or (_is_number(value) and value >= 0),
        "a number from 0 on or None",
    ),
    "tool_choice": (
        lambda value: isinstance(value, str) and value != "",
        "auto, none, required or a tool's name",
    ),
    "stop": (_are_texts, "a list of texts that are not empty"),
    "stop_when": (_are_functions, "a function of the steps so far, or several"),
    "hooks": (lambda value: isinstance(value, Hooks), "a Hooks object"),
    "compact": (lambda value: value is None or callable(value), "a function of the messages or None"),
    "taken_back": (_are_ids, "a set of runs' ids"),
    "observers": (_are_observers, "a list of Observer objects"),
    "on_approval": (lambda value: value in ("wait", "suspend"), "wait or suspend"),
    "metadata": (_is_json_object, "a mapping of JSON data"),
}
