"""The dialects that are built, by name.

A table and nothing else: each dialect is a module of this package with an instance named `DIALECT`. It is loaded when it is asked for:
who speaks to one provider does not pay for the others.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from agentkit.dialects.base import Dialect

_MODULES: Final = {
    "anthropic-messages": "anthropic_messages",
    "openai-responses": "openai_responses",
    "openai-chat": "openai_chat",
    "gemini": "gemini",
    "ollama": "ollama",
}


class _Dialects(Mapping[str, Dialect]):
    def __getitem__(self, name: str) -> Dialect:
        dialect: Dialect = import_module(f"agentkit.dialects.{_MODULES[name]}").DIALECT
        return dialect

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


DIALECTS: Final[Mapping[str, Dialect]] = _Dialects()
"""Name to dialect."""
