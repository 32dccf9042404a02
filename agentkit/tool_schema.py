"""Read a function's signature and docstring: what a model is told of its arguments, and what checks them.

Pure. Pydantic makes the schema; this room only collects what it needs.
"""

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from agentkit.errors import ConfigurationError, quote


def arguments_model(
    function: Callable[..., Any], name: str, words: Mapping[str, str], context_type: type
) -> tuple[type[BaseModel], str]:
    """Return the model of a function's parameters, and the name of the one that gets the context ("" for none).

    Args:
        function: the function.
        name: the tool's name, for messages.
        words: what the docstring says of each parameter.
        context_type: the annotation of the parameter that the runtime fills.

    Raises:
        ConfigurationError: a parameter has no annotation, cannot be given by name, or pydantic has no schema for it.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {name!r}: the signature cannot be read: {error}") from error
    context = ""
    members: dict[str, Any] = {}
    for parameter in parameters.values():
        hint = hints.get(parameter.name)
        if hint is context_type:
            context = parameter.name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(f"tool {name!r}: parameter {parameter.name!r} cannot be given by name")
        if hint is None:
            raise ConfigurationError(f"tool {name!r}: parameter {parameter.name!r} has no annotation")
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        said = words.get(parameter.name)
        if isinstance(default, FieldInfo) or not said or _described(hint):
            members[parameter.name] = (hint, default)
        else:
            members[parameter.name] = (hint, Field(default, description=said))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a parameter may be named like a method of pydantic's models
            return create_model(
                name or "arguments", __config__=ConfigDict(extra="forbid"), **members
            ), context
    except Exception as error:  # pydantic raises several kinds for a type that has no schema
        raise ConfigurationError(
            f"tool {name!r}: no schema for its signature: {quote(str(error))}"
        ) from error


def _described(hint: object) -> bool:
    """Tell whether an annotation brings its own words."""
    return any(
        isinstance(extra, FieldInfo) and extra.description for extra in getattr(hint, "__metadata__", ())
    )


_SECTION = re.compile(
    r"^(args|arguments|parameters|returns|raises|yields|example|examples|note|notes)\s*:\s*$", re.IGNORECASE
)
_ARGUMENT = re.compile(r"^\s{2,}(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^\s*:param\s+(?:[\w\[\], |]+\s+)?(\w+)\s*:\s*(.*)$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's words before its sections, and what it says of each argument (Google's and Sphinx' form)."""
    words: list[str] = []
    arguments: dict[str, str] = {}
    section, last = "", ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section, last = match[1].lower(), ""
        elif match := _SPHINX.match(line):
            section, last = "sphinx", match[1]
            arguments[last] = match[2].strip()
        elif section in ("args", "arguments", "parameters") and (match := _ARGUMENT.match(line)):
            last = match[1]
            arguments[last] = match[2].strip()
        elif section and last and line.startswith("  ") and line.strip():
            arguments[last] = f"{arguments[last]} {line.strip()}".strip()
        elif not section:
            words.append(line)
    return "\n".join(words).strip(), arguments
