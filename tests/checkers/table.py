"""The checkers by dialect, and what a way back to a provider has to keep."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from checkers import anthropic_messages, gemini, ollama, openai_chat, openai_responses

from agentkit.content import (
    Block,
    Message,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    dump_messages,
    load_messages,
)
from agentkit.dialects.base import HTTPParts, Target
from agentkit.dialects.table import DIALECTS
from agentkit.model import ModelRequest

Json = dict[str, Any]

CHECKERS: dict[str, Callable[[Json], list[str]]] = {
    "anthropic-messages": anthropic_messages.check,
    "openai-responses": openai_responses.check,
    "openai-chat": openai_chat.check,
    "gemini": gemini.check,
    "ollama": ollama.check,
}


def send(dialect: str, history: Sequence[Message], target: Target, **members: Any) -> Json:
    """Return the body that would be sent, as the wire has it: JSON in UTF-8."""
    parts: HTTPParts = DIALECTS[dialect].encode(ModelRequest(history, **members), target)
    body: Json = json.loads(json.dumps(parts.body, ensure_ascii=False, allow_nan=False).encode())
    return body


def through_the_store(history: Sequence[Message]) -> list[Message]:
    """Save and load, and see that no byte of it has changed."""
    saved = dump_messages(history)
    loaded = load_messages(saved)
    assert loaded == list(history)
    assert dump_messages(loaded) == saved
    return loaded


def answered(turn: Message) -> list[Message]:
    """Return a thread in which the turn's whole calls have their results, and the user goes on."""
    results = tuple(ToolResultBlock(call.id, call.name, (TextBlock("done"),)) for call in turn.tool_uses)
    middle = [Message("tool", results)] if results else []
    return [Message.user("go"), turn, *middle, Message.user("more")]


def secrets(block: Block) -> list[str]:
    """Return the opaque texts of a block that only their owner may get: signatures, and the long texts of its state."""
    out: list[str] = []
    if isinstance(block, TextBlock | ThinkingBlock | ToolUseBlock) and block.signature:
        out.append(block.signature)
    if isinstance(block, ThinkingBlock | ProviderBlock) and block.provider_state:
        out += [text for text in _texts(json.loads(block.provider_state)) if len(text) > 40]
    return out


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            # an id is a place at the provider, and no secret; where nothing is stored it does not go back
            return [text for name, member in value.items() if name != "id" for text in _texts(member)]
        case list():
            return [text for member in value for text in _texts(member)]
    return []
