"""What chat endpoints call the end of an answer.

Pure. A table: OpenAI's words, and those of the many servers that kept their own.
Source: recordings; pages of OpenAI, DeepSeek, Z.ai, Mistral, Hugging Face (from public references, not re-read).
"""

from typing import Final

from agentkit.chunks import FinishReason

FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "incomplete": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "error": "error",
    "failed": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}
"""Our word for a finish reason, whatever its case; others are `other`."""
