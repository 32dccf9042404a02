"""Read and write the `thinking_blocks` of chat messages.

Pure. LiteLLM, and gateways like it, put Claude's thinking in front of their users as Anthropic's own blocks, beside a `reasoning_content` that
says the words again; only the blocks hold the signature, without which a turn with calls cannot go on. A signed block ends its thinking, and
may repeat all of its words.
Source: docs.litellm.ai "Thinking / Reasoning Content" (from public references, not re-read); BerriAI/litellm issue 29428.
"""

from typing import Any, Final

from agentkit.chunks import BlockEndChunk, Chunk, ThinkingChunk
from agentkit.content import ThinkingBlock, valid_text
from agentkit.dialects.base import state_text, state_value
from agentkit.dialects.blocks import PLACED, THINKING, Blocks

FORMAT: Final = "litellm"
"""The format label of signatures and states that come this way."""


def add_thinking_blocks(value: object, blocks: Blocks, out: list[Chunk]) -> None:
    """Take the blocks of one delta."""
    for block in value if isinstance(value, list) else [value]:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "redacted_thinking" and block.get("data"):
            blocks.end(out)
            index = blocks.new()
            state = ThinkingChunk("", "", "", state_text(block), FORMAT, index)
            out += [state, BlockEndChunk(index)]
            continue
        text, signature = block.get("thinking"), block.get("signature")
        signed = isinstance(signature, str) and signature != "" and blocks.kind != PLACED
        if text and isinstance(text, str) and not (signed and blocks.kind == THINKING):
            blocks.thinking(text, out)
        if signed:
            if blocks.kind != THINKING:
                blocks.thinking("", out)
            blocks.release(out)
            out.append(ThinkingChunk("", valid_text(str(signature)), FORMAT, None, "", blocks.index))
            blocks.end(out)


def thinking_block(block: ThinkingBlock) -> dict[str, Any] | None:
    """Return what goes back for a block that came this way, None for any other."""
    if block.replayable_as(FORMAT):
        state = state_value(block.provider_state or "")
        return state if isinstance(state, dict) else None
    if signature := block.signature_replayable_as(FORMAT):
        return {"type": "thinking", "thinking": valid_text(block.thinking), "signature": signature}
    return None
