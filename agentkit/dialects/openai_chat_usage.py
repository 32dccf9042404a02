"""Read the token counts of chat endpoints, whatever they call them.

Pure. Absent, null and absurd counts are 0.
Source: recordings; pages of OpenAI, DeepSeek, Moonshot, xAI, OpenRouter, Databricks (from public references, not re-read).
"""

from typing import Any

from agentkit.content import Usage


def read_usage(usage: dict[str, Any]) -> Usage:
    """Return token counts from a chat endpoint's `usage`, whatever it calls them."""
    details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    prompt_details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    reasoning = _count(details, "reasoning_tokens") or _count(usage, "reasoning_tokens")
    prompt = _count(usage, "prompt_tokens") or _count(usage, "input_tokens")
    output = _count(usage, "completion_tokens") or _count(usage, "output_tokens")
    if reasoning and _count(usage, "total_tokens") == prompt + output + reasoning:
        output += reasoning  # xAI counts reasoning beside the output; its own total shows it
    cached = (
        _count(prompt_details, "cached_tokens")
        or _count(usage, "prompt_cache_hit_tokens")
        or _count(usage, "cached_tokens")
        or _count(usage, "cache_read_input_tokens")
    )
    written = _count(prompt_details, "cache_write_tokens") or _count(usage, "cache_creation_input_tokens")
    return Usage(prompt, output, reasoning, cached, written)


def _count(counts: object, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
