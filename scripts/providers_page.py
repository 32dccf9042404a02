"""Make the table of `docs/providers.md` from what the code does: `python scripts/providers_page.py` rewrites it.

Nothing in the table is written by hand: samples are read by each dialect, and requests are encoded for each model. A test compares.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from agentkit.accumulators import Response
from agentkit.content import Message, TextBlock, ThinkingBlock
from agentkit.dialects.base import Target, origin
from agentkit.dialects.table import DIALECTS
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, ToolSpec
from agentkit.providers import find_provider, target_of
from agentkit.reading import decode_body
from agentkit.reasoning import ReasoningSetting

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "providers.md"
BEGIN, END = "<!-- table: scripts/providers_page.py -->\n", "<!-- end of table -->\n"

EXAMPLES: Final = (
    "anthropic:claude-sonnet-4-5", "anthropic:claude-opus-4-6", "anthropic:claude-opus-4-8", "openai:gpt-5.4", "openai:gpt-5", "openai:o3",
    "openai:gpt-4.1", "openai-chat:gpt-5.4", "openai-chat:gpt-5.1", "openai-chat:gpt-5", "openai-chat:o3", "openai-chat:gpt-4.1",
    "openai-chat:later", "google:gemini-2.5-pro", "google:gemini-2.5-flash", "google:gemini-3-pro-preview", "google:gemini-2.0-flash",
    "azure:gpt-5.4", "azure-chat:gpt-5.4", "azure-chat:gpt-5.1", "azure-chat:gpt-5", "azure-chat:o3", "azure-chat:gpt-4.1",
    "deepseek:deepseek-v4", "deepseek:deepseek-r1", "openrouter:anthropic/claude-opus-4.8", "groq:openai/gpt-oss-120b",
    "groq:qwen/qwen3-32b", "groq:llama-3.3-70b", "xai:grok-3-mini", "xai:grok-4.3", "xai:grok-4.5", "xai:grok-4", "xai-chat:grok-3-mini",
    "xai-chat:grok-4.3", "xai-chat:grok-4.5", "xai-chat:grok-4", "mistral:mistral-medium-3.5", "mistral:magistral-medium",
    "together:openai/gpt-oss-120b", "together:deepseek-ai/deepseek-r1", "together:meta-llama/llama-4", "cerebras:gpt-oss-120b",
    "cerebras:qwen-3-32b", "cerebras:llama3.1-8b", "moonshot:kimi-k2.5", "moonshot:kimi-k2.7", "moonshot:kimi-k3", "moonshot:moonshot-v1",
    "zai:glm-4.7", "zai:glm-5.2", "alibaba:qwen3-max", "ollama:gpt-oss", "ollama:qwen3", "ollama-chat:gpt-oss", "llama.cpp:any",
    "local:smollm2", "vllm:qwen3", "vllm:gpt-oss", "sglang:qwen3", "sglang:gpt-oss", "compatible:any",
)  # fmt: skip
"""At least one model of each provider, and one of each kind that differs there."""

SAMPLES: Final[dict[str, list[dict[str, Any]]]] = {
    "anthropic-messages": [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "x"}},
    ],
    "openai-responses": [
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "sum"},
        {"type": "response.output_item.done", "output_index": 0,
         "item": {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "sum"}], "encrypted_content": "x"}},
        {"type": "response.reasoning_text.delta", "output_index": 1, "content_index": 0, "delta": "hm"},
    ],
    "openai-chat": [
        {"choices": [{"delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.summary", "summary": "sum", "index": 0}]}}]},
        {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]}}]},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "sum", "thought": True}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "a", "thoughtSignature": "cw=="}]}}]},
    ],
    "ollama": [{"message": {"role": "assistant", "content": "", "thinking": "hm"}}],
}  # fmt: skip
"""The reasoning that a dialect can bring, in all of its forms."""

LIMITS: Final = (
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "generationConfig.maxOutputTokens",
)
"""Members that are raised where they count reasoning: no setting of it."""

GOES_BACK: Final = {
    "anthropic-messages": "signed thinking and redacted blocks, each in its place",
    "openai-responses": "encrypted reasoning items, with the item that followed",
    "gemini": "signatures, each on its own part",
    "ollama": "`thinking` of every turn",
}
CHAT_GOES_BACK: Final = {
    None: "opaque details only",
    "never": "opaque details without words",
    "within_turn": "`reasoning_content` since the last question; details",
    "always": "`reasoning_content` of every turn; details",
}


def read(dialect: str, target: Target) -> list[str]:
    """Return the cells that say what of its reasoning a dialect brings: text, summary, signature, state."""
    lines = [json.dumps(payload) for payload in SAMPLES[dialect]]
    framed = "".join(f"{line}\n" if dialect == "ollama" else f"data: {line}\n\n" for line in lines)
    chunks, _ = decode_body(DIALECTS[dialect], target, [framed.encode()])
    response = Response(origin(dialect, target))
    for chunk in chunks:
        response.add(chunk)
    message = response.message()
    thinking = message.thinking
    signed = any(
        isinstance(block, TextBlock | ThinkingBlock) and block.signature for block in message.content
    )
    found = [
        any(block.thinking and not block.summary for block in thinking),
        any(block.thinking and block.summary for block in thinking),
        signed,
        any(block.provider_state for block in thinking),
    ]
    return ["yes" if one else "–" for one in found]


def asked(dialect: str, target: Target, reasoning: ReasoningSetting) -> str:
    """Return what a reasoning setting adds to the body, or `refused`."""
    messages = [Message.user("go")]
    plain = DIALECTS[dialect].encode(ModelRequest(messages), target).body
    try:
        body = DIALECTS[dialect].encode(ModelRequest(messages, reasoning=reasoning), target).body
    except ConfigurationError:
        return "refused"
    before = dict(_flat(plain, ""))
    added = [
        f"`{name}: {json.dumps(value)}`" for name, value in _flat(body, "") if before.get(name) != value and name not in LIMITS
    ]  # fmt: skip
    return "<br>".join(added) or "nothing to say"


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for member, inner in value.items():
            yield from _flat(inner, f"{name}.{member}" if name else member)
    else:
        yield name, value


def tools(dialect: str, target: Target) -> str:
    """Return which `tool_choice` a model takes."""
    request = ModelRequest(
        [Message.user("go")], tools=[ToolSpec("f", "", {"type": "object"})], tool_choice="required"
    )
    try:
        DIALECTS[dialect].encode(request, target)
    except ConfigurationError:
        return "yes, not forced"
    return "yes"


def row(name: str) -> str:
    """Return the line of one model."""
    provider, model = find_provider(name)
    target = target_of(provider, model)
    dialect = provider.dialect
    replay = GOES_BACK.get(dialect) or CHAT_GOES_BACK[target.profile.replay_reasoning]
    settings = (
        ReasoningSetting(effort="medium"),
        ReasoningSetting(budget=4096),
        ReasoningSetting(effort="none"),
    )
    cells = [
        f"`{name}`", f"`{dialect}`", *read(dialect, target), tools(dialect, target),
        *(asked(dialect, target, setting) for setting in settings), replay,
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def table() -> str:
    """Return the whole table."""
    head = (
        "model", "dialect", "text", "summary", "signature", "state", "tools", "`effort: medium`", "`budget: 4096`", "`effort: none`",
        "what goes back",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |\n", f"|{'---|' * len(head)}\n", *(row(name) for name in EXAMPLES)]
    return "".join(lines)


def page(text: str) -> str:
    """Return the page with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
