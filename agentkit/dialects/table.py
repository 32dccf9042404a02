"""The dialects that are built, by name.

A table and nothing else: each dialect is a module of this package with an instance named `DIALECT`.
"""

from typing import Final

from agentkit.dialects.anthropic_messages import DIALECT as ANTHROPIC_MESSAGES
from agentkit.dialects.base import Dialect
from agentkit.dialects.gemini import DIALECT as GEMINI
from agentkit.dialects.ollama import DIALECT as OLLAMA
from agentkit.dialects.openai_chat import DIALECT as OPENAI_CHAT
from agentkit.dialects.openai_responses import DIALECT as OPENAI_RESPONSES

_BUILT: Final[tuple[Dialect, ...]] = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_CHAT, GEMINI, OLLAMA)

DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in _BUILT}
"""Name to dialect."""
