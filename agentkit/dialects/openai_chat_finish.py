"""What chat endpoints call the end of an answer.

Pure. A table: OpenAI's words, and those of the many servers that kept their own.
Source: recordings; pages of OpenAI, DeepSeek, Z.ai, Mistral, Hugging Face (from public references, not re-read).
"""

from typing import Final

from agentkit.chunks import FinishReason

_NOTHING: Final = frozenset({"", "null", "none", "not_finished", "unspecified", "finish_reason_unspecified"})
"""Words that say that there is no reason yet: some servers write them on every chunk."""

_FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "completed": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "context_length_exceeded": "length",
    "model_context_window_exceeded": "length",
    "incomplete": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "recitation": "content_filter",
    "spii": "content_filter",
    "refusal": "refusal",
    "error": "error",
    "failed": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
    "abort": "error",
    "aborted": "error",
    "cancelled": "error",
    "function_call_filter": "error",
    "malformed_function_call": "error",
}


def finish_of(word: str) -> FinishReason | None:
    """Return our word for a server's, whatever its case; None for one that says nothing yet, `other` for one that is not known.

    Gemini's chat endpoint adds its own reason behind a colon: `content_filter: PROHIBITED_CONTENT`.
    """
    word = word.strip().lower()
    if word in _NOTHING:
        return None
    return _FINISH.get(word) or _FINISH.get(word.partition(":")[0], "other")
