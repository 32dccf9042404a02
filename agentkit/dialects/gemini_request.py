"""Gemini, the sending half: a `ModelRequest` as the body of `streamGenerateContent`.

Pure. `gemini` reads the answer. Parts go back in their order, each with the signature that came on it and on no other; what is not the
target's own is left out and told by a notice, never turned into text.
Source: ai.google.dev "Generate content", "Function calling" (from public references, not re-read), "Thought signatures"
(excerpts read 2026-11-30).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from agentkit.content import (
    Block,
    DocumentBlock,
    ImageBlock,
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
from agentkit.dialects.gemini_settings import checks_signatures, settings, wire_options
from agentkit.errors import ConfigurationError, quote
from agentkit.model import ModelRequest, Notice
from agentkit.repair import parsed_input, repair

NAME: Final = "gemini"

MADE_UP: Final = "gemini_"
"""How ids begin that came from us, because the wire had none: they do not go back."""
SIGNATURE: Final = "thoughtSignature"
"""The kind of a provider block that holds the signature of the image before it."""

UNSIGNED: Final = "skip_thought_signature_validator"
"""Google's word for a call whose signature is not to be had: from another model, or from before."""

_MODEL: Final = re.compile(r"(?:models/|tunedModels/)?[\w.@:-]+", re.ASCII)


def encode_request(request: ModelRequest, target: Target) -> HTTPParts:
    """Return the HTTP request that says `request`.

    Provider options may be written as the wire has them or flat and in snake case, as Google's own library does:
    `{"thinking_config": {"thinking_budget": 1024}}`.

    Raises:
        ConfigurationError: the dialect cannot say it; the message names the member.
        ForeignSignatureError: another model's replay state, where the request says `foreign="raise"`.
    """
    if not _MODEL.fullmatch(target.model):
        raise ConfigurationError(f"{quote(target.model)} is not a model name of Gemini")
    check_foreign(request, origin(NAME, target))
    options = wire_options(request.provider_options.get(target.provider, {}))
    if "contents" in options:
        raise ConfigurationError(f"provider_options[{target.provider!r}] must not set 'contents'")
    conversation = _Conversation(target)
    contents = conversation.encode(request.messages)
    if not contents:
        raise ConfigurationError("the request holds no message that can be sent")
    body: dict[str, Any] = {"contents": contents}
    system = [request.system, *(message.text for message in request.messages if message.role == "system")]
    if parts := [{"text": valid_text(text)} for text in system if text.strip()]:
        body["systemInstruction"] = {"parts": parts}
    body |= settings(request, target.model, options)
    tools = [*body.get("tools", ()), *options.pop("tools", ())]
    body = merged(merged(target.profile.options, body), options)
    if tools:
        body["tools"] = tools  # an option adds tools, it takes none away
    name = target.model if "/" in target.model else f"models/{target.model}"
    return HTTPParts(f"/{name}:streamGenerateContent?alt=sse", body, notices=tuple(conversation.notices()))


class _Conversation:
    """Encode messages, and remember what had to be left out."""

    def __init__(self, target: Target) -> None:
        self._own = origin(NAME, target)
        self._checks = checks_signatures(target.model)
        self._names: dict[str, str] = {}  # of calls, by id
        self._left_out: Counter[str] = Counter()

    def encode(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the `contents` of the body: calls of one turn in one content, their results in the next."""
        repaired = [message for message in repair(messages) if message.role != "system"]
        users = [position for position, message in enumerate(repaired) if message.role == "user"]
        turn = users[-1] if users else -1
        out: list[dict[str, Any]] = []
        for position, message in enumerate(repaired):
            if message.role == "assistant":
                role, parts = "model", self._model(message, in_turn=position > turn)
            else:
                role, parts = "user", [part for block in message.content for part in self._user(block)]
            if not parts:
                continue
            if out and role == "model" == out[-1]["role"]:
                out[-1]["parts"] += parts
            else:
                out.append({"role": role, "parts": parts})
        return out

    def notices(self) -> Iterable[Notice]:
        """Return what was left out, a notice a kind."""
        for code, count in self._left_out.items():
            yield Notice(code, f"{_LEFT_OUT[code]} ({count})", {"count": count})

    def _model(self, message: Message, *, in_turn: bool) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        first_call = True
        for block in message.content:
            match block:
                case TextBlock():
                    signature = self._signature(block)
                    if block.text or signature:
                        out.append({"text": valid_text(block.text), **signature})
                case ThinkingBlock():
                    out += self._thinking(block)
                case RefusalBlock() if block.refusal:
                    out.append({"text": valid_text(block.refusal)})
                case ToolUseBlock():
                    signature = self._signature(block)
                    if first_call and in_turn and self._checks and not signature:
                        signature = {"thoughtSignature": UNSIGNED}
                    first_call = False
                    out.append({"functionCall": self._call(block), **signature})
                case ImageBlock():
                    out.append(_media(block))
                case ProviderBlock():
                    self._provider(block, out)
        return out

    def _signature(self, block: TextBlock | ToolUseBlock) -> dict[str, str]:
        """Return the signature member of a part: its own, or none."""
        if not block.signature:
            return {}
        if block.origin == self._own and block.signature_format == NAME:
            return {"thoughtSignature": block.signature}
        self._left_out["foreign_signature"] += 1
        return {}

    def _thinking(self, block: ThinkingBlock) -> list[dict[str, Any]]:
        """Return a signed thought of the model's own; others it does not want back."""
        if block.origin == self._own:
            if signature := block.signature_replayable_as(NAME):
                return [{"text": valid_text(block.thinking), "thought": True, "thoughtSignature": signature}]
        elif block.thinking or block.signature or block.provider_state:
            self._left_out["foreign_thinking"] += 1
        return []

    def _call(self, block: ToolUseBlock) -> dict[str, Any]:
        self._names[block.id] = block.name
        return {**_id(block.id), "name": block.name, "args": parsed_input(block)}

    def _provider(self, block: ProviderBlock, out: list[dict[str, Any]]) -> None:
        if block.provider_state_format != NAME or block.origin != self._own:
            self._left_out["foreign_block"] += 1
            return
        state: dict[str, Any] = state_value(block.provider_state)
        if block.kind != SIGNATURE:
            out.append(state)
        elif out and ("inlineData" in out[-1] or "fileData" in out[-1]):
            out[-1] |= state

    def _user(self, block: Block) -> list[dict[str, Any]]:
        match block:
            case TextBlock():
                return [{"text": valid_text(block.text)}] if block.text else []
            case ImageBlock() | DocumentBlock():
                return [_media(block)]
            case ToolResultBlock():
                return [{"functionResponse": self._result(block)}]
            case _:
                raise ConfigurationError(f"a {block.type} block cannot stand in a user message")

    def _result(self, block: ToolResultBlock) -> dict[str, Any]:
        name = block.name or self._names.get(block.tool_use_id, "")
        said = {"error" if block.is_error else "output": valid_text(block.text)}
        out: dict[str, Any] = {**_id(block.tool_use_id), "name": name, "response": said}
        if media := [_media(part) for part in block.content if not isinstance(part, TextBlock)]:
            out["parts"] = media
        return out


_LEFT_OUT: Final = {
    "foreign_thinking": "thinking of another model was left out of the request",
    "foreign_signature": "signatures of another model were left out of the request",
    "foreign_block": "another provider's own blocks were left out of the request",
}


def _id(call_id: str) -> dict[str, str]:
    return {} if call_id.startswith(MADE_UP) else {"id": call_id}


def _media(block: ImageBlock | DocumentBlock) -> dict[str, Any]:
    if block.data:
        if not block.media_type:
            raise ConfigurationError(f"{block.type} data needs a media_type")
        return {"inlineData": {"mimeType": block.media_type, "data": block.data}}
    if not block.url:
        raise ConfigurationError(f"a {block.type} block needs data or a url")
    kind = {"mimeType": block.media_type} if block.media_type else {}
    return {"fileData": {**kind, "fileUri": block.url}}
