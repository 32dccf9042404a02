"""OpenAI's chat completions, and what many endpoints made of it.

Pure. The face of the dialect: sending is in `openai_chat_request`, reading in `openai_chat_decoder`, errors in `fault_words`.
Source: platform.openai.com/docs/api-reference/chat (from public references, not re-read); the recorded streams of 25 endpoints.
"""

from typing import Literal

from agentkit.dialects import fault_words, openai_chat_request
from agentkit.dialects.base import HTTPParts, StatusFault, Target
from agentkit.dialects.openai_chat_decoder import NAME, ChatDecoder
from agentkit.model import ModelRequest


class OpenAIChat:
    """The dialect; see `Dialect`."""

    name = NAME
    framing: Literal["sse", "ndjson"] = "sse"

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        """Return the HTTP request that says `request`.

        Raises:
            ConfigurationError: a chat endpoint cannot say it, or the one of `target` cannot.
        """
        return openai_chat_request.encode(request, target)

    def decoder(self, target: Target) -> ChatDecoder:
        """Return a fresh decoder."""
        return ChatDecoder(think_tags=target.profile.think_tags)

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"Authorization": f"Bearer {key}"}

    def status_fault(self, status: int, body: str) -> StatusFault:
        """Read the body of an answer whose status is not 200; any text is read without raising."""
        return fault_words.status_fault(status, body)


DIALECT = OpenAIChat()
