"""Chat completions, the sending half: a `ModelRequest` as the body of `POST /chat/completions`.

Pure. Reasoning goes back only as the provider's profile says, opaque details only to their owner, and none of it ever as text. What a
provider does differently is its profile's to say; nothing here knows a provider's name.
Source: platform.openai.com/docs/api-reference/chat/create, openrouter.ai/docs, api-docs.deepseek.com, docs.mistral.ai (from public references, not re-read).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from agentkit.content import (
    Block,
    ImageBlock,
    JsonValue,
    Message,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    valid_text,
)
from agentkit.dialects.base import HTTPParts, Target, check_foreign, merged, origin, state_value
from agentkit.dialects.openai_chat_calls import FORMAT as CALL_FORMAT
from agentkit.dialects.openai_chat_decoder import NAME
from agentkit.dialects.openai_chat_details import FORMAT as DETAILS_FORMAT
from agentkit.dialects.openai_chat_parts import image_part, user_parts
from agentkit.dialects.openai_chat_settings import settings
from agentkit.dialects.openai_chat_thinking import thinking_block
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice
from agentkit.repair import repair

PATH: Final = "/chat/completions"

_SHORT_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


def encode(request: ModelRequest, target: Target) -> HTTPParts:
    """Return the HTTP request that says `request`.

    Raises:
        ConfigurationError: the dialect or the endpoint cannot say it; the message names the member.
        ForeignSignatureError: another model's replay state, where the request says `foreign="raise"`.
    """
    check_foreign(request, origin(NAME, target))
    options = request.provider_options.get(target.provider, {})
    for taken in ("messages", "stream"):
        if taken in options:
            raise ConfigurationError(f"provider_options[{target.provider!r}] must not set {taken!r}")
    conversation = _Conversation(target)
    messages = conversation.encode(request)
    if all(message["role"] == "system" for message in messages):
        raise ConfigurationError("the request holds no message that can be sent")
    body: dict[str, Any] = {"model": target.model, "messages": messages, "stream": True}
    if target.profile.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body |= settings(request, target.profile, options)
    body = merged(merged(target.profile.options, body), options)
    return HTTPParts(PATH, body, notices=tuple(conversation.notices()))


class _Conversation:
    """Encode messages, and remember what had to be left out."""

    def __init__(self, target: Target) -> None:
        self._profile = target.profile
        self._own = origin(NAME, target)
        self._left_out: Counter[str] = Counter()

    def encode(self, request: ModelRequest) -> list[dict[str, Any]]:
        """Return the `messages` of the body."""
        out: list[dict[str, Any]] = []
        if request.system.strip():
            out.append({"role": "system", "content": valid_text(request.system)})
        messages = repair(request.messages)
        users = [position for position, message in enumerate(messages) if message.role == "user"]
        turn = users[-1] if users else -1
        for position, message in enumerate(messages):
            match message.role:
                case "system":
                    if message.text.strip():
                        out.append({"role": "system", "content": valid_text(message.text)})
                case "user":
                    out += self._user(message.content)
                case "assistant":
                    out += self._assistant(message, in_turn=position > turn)
                case "tool":
                    out += self._results(message)
        return out

    def notices(self) -> Iterable[Notice]:
        """Return what was left out, a notice a kind."""
        for code, count in self._left_out.items():
            yield Notice(code, f"{_LEFT_OUT[code]} ({count})", {"count": count})

    def _user(self, content: Sequence[Block]) -> list[dict[str, Any]]:
        parts = user_parts(content, self._profile)
        if len(parts) == 1 and parts[0]["type"] == "text":
            return [{"role": "user", "content": parts[0]["text"]}]
        return [{"role": "user", "content": parts}] if parts else []

    def _assistant(self, message: Message, *, in_turn: bool) -> list[dict[str, Any]]:
        carries = self._profile.replay_reasoning == "always" or (
            self._profile.replay_reasoning == "within_turn" and in_turn
        )
        thinking, details, signed = self._thinking(message, carries=carries)
        text = ""
        calls: list[JsonValue] = []
        for block in message.content:
            match block:
                case TextBlock():
                    text += block.text
                case RefusalBlock():
                    text += block.refusal
                case ToolUseBlock():
                    calls.append(self._call(block))
                case ProviderBlock():
                    self._left_out["foreign_block"] += 1
                case ImageBlock():
                    self._left_out["assistant_media"] += 1
        if not (text or calls or details or signed or (carries and thinking)):
            return []
        out: dict[str, Any] = {"role": "assistant", "content": valid_text(text) or (None if calls else "")}
        if carries and (thinking or self._profile.missing_reasoning):
            missing = " " if self._profile.missing_reasoning == "space" else ""
            out["reasoning_content"] = valid_text(thinking) or missing
        if details:
            out["reasoning_details"] = details
        if signed:
            out["thinking_blocks"] = signed
        if calls:
            out["tool_calls"] = calls
        return [out]

    def _thinking(self, message: Message, *, carries: bool) -> tuple[str, list[JsonValue], list[JsonValue]]:
        """Return the message's own reasoning: its words, its opaque details, and its signed blocks."""
        words: list[str] = []
        details: list[JsonValue] = []
        signed: list[JsonValue] = []
        for block in message.thinking:
            if block.origin == self._own:
                if not block.summary:
                    words.append(block.thinking)
                details += self._details(block, partial=message.status == "partial")
                own = thinking_block(block)
                if own is not None and not (self._profile.replay_reasoning == "never" and block.thinking):
                    signed.append(own)
            elif block.signature or block.provider_state or (carries and block.thinking):
                self._left_out["foreign_thinking"] += 1
        return "".join(words), details, signed

    def _details(self, block: ThinkingBlock, *, partial: bool) -> list[JsonValue]:
        """Return the block's own `reasoning_details`: all, or under `never` those that hold no words."""
        if not block.replayable_as(DETAILS_FORMAT):
            return []
        out: list[JsonValue] = []
        for entry in _entries(block.provider_state):
            if self._profile.replay_reasoning == "never" and (entry.get("text") or entry.get("summary")):
                continue
            signs = str(entry.get("format")).startswith("anthropic") and entry.get("type") == "reasoning.text"
            if partial and signs and not entry.get("signature"):
                self._left_out["unsigned_thinking"] += 1  # it broke off before its signature came
                continue
            out.append(entry)
        return out

    def _call(self, block: ToolUseBlock) -> dict[str, Any]:
        function = {
            "name": valid_text(block.name),
            "arguments": valid_text(block.input) if block.input.strip() else "{}",
        }
        out: dict[str, Any] = {"id": self._call_id(block.id), "type": "function", "function": function}
        if block.origin == self._own and block.provider_state and block.provider_state_format == CALL_FORMAT:
            out["extra_content"] = state_value(block.provider_state)
        return out

    def _results(self, message: Message) -> list[dict[str, Any]]:
        """Return one `tool` message a result. They take text only: images follow in one user message."""
        out: list[dict[str, Any]] = []
        images: list[dict[str, Any]] = []
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                call_id = self._call_id(block.tool_use_id)
                pictures = [part for part in block.content if isinstance(part, ImageBlock)]
                others = [part for part in block.content if not isinstance(part, ImageBlock)]
                parts = user_parts(others, self._profile)
                if any(part["type"] != "text" for part in parts):
                    raise ConfigurationError(
                        f"the result of tool {block.name!r} holds a document: chat endpoints take text and images"
                    )
                text = "\n".join(part["text"] for part in parts)
                if pictures:
                    text = text or "See the images in the next message."
                    images.append({"type": "text", "text": f"Images from the result of call {call_id}:"})
                    images += [image_part(picture) for picture in pictures]
                out.append({"role": "tool", "tool_call_id": call_id, "content": text})
        if images:
            out.append({"role": "user", "content": images})
        return out

    def _call_id(self, call_id: str) -> str:
        if not self._profile.short_call_ids or _SHORT_ID.fullmatch(call_id):
            return valid_text(call_id)
        return hashlib.sha256(valid_text(call_id).encode()).hexdigest()[:9]


_LEFT_OUT: Final = {
    "foreign_thinking": "thinking of another model was left out of the request",
    "unsigned_thinking": "thinking that broke off before its signature was left out of the request",
    "foreign_block": "another provider's own blocks were left out of the request",
    "assistant_media": "images that a model made were left out of the request",
}


def _entries(state: str | None) -> list[dict[str, Any]]:
    value = state_value(state or "[]")
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
