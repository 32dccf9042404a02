"""Ollama, the sending half: a `ModelRequest` as the body of `POST /api/chat`.

Pure. `ollama` reads the answer. The wire has no ids of its own: results follow their calls in order and name the tool.
Source: Ollama's API documentation, "Generate a chat completion", "Thinking", "Tool calling", "Structured outputs" (from public references, not re-read).
"""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from agentkit.content import (
    Block,
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
from agentkit.dialects.base import HTTPParts, Target, check_foreign, merged, origin
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice
from agentkit.reasoning import ReasoningSetting
from agentkit.repair import parsed_input, repair

NAME: Final = "ollama"
PATH: Final = "/api/chat"

_LEVELS: Final = ("gpt-oss",)
"""Beginnings of the names of models that take levels. Others take true and false, and a level might leave them at their default."""
_LEVEL: Final = {"minimal": "low", "low": "low", "medium": "medium"}
"""Levels of efforts; all above are `high`, the highest that every server knows."""


def encode_request(request: ModelRequest, target: Target) -> HTTPParts:
    """Return the HTTP request that says `request`.

    Raises:
        ConfigurationError: the dialect cannot say it; the message names the member.
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
    if request.reasoning is not None:
        if "think" in options:
            raise ConfigurationError(
                "reasoning= and the provider option think say the same: give one of them"
            )
        body["think"] = _think(request.reasoning, target.model)
    body |= _settings(request)
    body = merged(merged(target.profile.options, body), options)
    return HTTPParts(PATH, body, notices=tuple(conversation.notices()))


def arguments_text(arguments: object) -> str:
    """Return a call's arguments, which the wire has as an object, as JSON text that encodes as UTF-8."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        return valid_text(arguments)
    return valid_text(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def _think(setting: ReasoningSetting, model: str) -> bool | str:
    if setting.off:
        return False
    if not model.rpartition("/")[2].startswith(_LEVELS):
        return True
    return _LEVEL.get(setting.as_effort(), "high")


def _settings(request: ModelRequest) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if request.tool_choice not in ("auto", "none"):
        raise ConfigurationError('Ollama takes only tool_choice "auto" or "none"')
    if request.tools and request.tool_choice == "auto":
        out["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    if request.output_schema is not None:
        out["format"] = request.output_schema
    options: dict[str, Any] = {}
    if request.max_tokens is not None:
        budget = (request.reasoning.budget or 0) if request.reasoning else 0
        # the wire counts thinking in the limit; the caller meant the answer
        options["num_predict"] = request.max_tokens + (budget if request.max_tokens <= budget else 0)
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.stop:
        options["stop"] = list(request.stop)
    return out | ({"options": options} if options else {})


class _Conversation:
    """Encode messages, and remember what had to be left out."""

    def __init__(self, target: Target) -> None:
        self._profile = target.profile
        self._own = origin(NAME, target)
        self._names: dict[str, str] = {}  # of calls, by id
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
                case "assistant":
                    out += self._assistant(message, in_turn=position > turn)
                case "tool":
                    out += [
                        self._result(block) for block in message.content if isinstance(block, ToolResultBlock)
                    ]
                case "user" | "system" as role:
                    said = _said(message.content)
                    out += [{"role": role, **said}] if said["content"] or "images" in said else []
        return out

    def notices(self) -> Iterable[Notice]:
        """Return what was left out, a notice a kind."""
        for code, count in self._left_out.items():
            yield Notice(code, f"{_LEFT_OUT[code]} ({count})", {"count": count})

    def _assistant(self, message: Message, *, in_turn: bool) -> list[dict[str, Any]]:
        carries = self._profile.replay_reasoning != "never" and (
            in_turn or self._profile.replay_reasoning != "within_turn"
        )
        text = thinking = ""
        calls: list[dict[str, Any]] = []
        for block in message.content:
            match block:
                case TextBlock():
                    text += block.text
                case RefusalBlock():
                    text += block.refusal
                case ThinkingBlock():
                    thinking += self._thinking(block) if carries else ""
                case ToolUseBlock():
                    self._names[block.id] = block.name
                    function = {"name": block.name, "arguments": parsed_input(block)}
                    calls.append({"id": block.id, "function": function})
                case ProviderBlock():
                    self._left_out["foreign_block"] += 1
                case ImageBlock():
                    self._left_out["assistant_media"] += 1
        if not (text or calls):
            return []  # thinking alone is no turn
        out: dict[str, Any] = {"role": "assistant", "content": valid_text(text)}
        if thinking:
            out["thinking"] = valid_text(thinking)
        if calls:
            out["tool_calls"] = calls
        return [out]

    def _thinking(self, block: ThinkingBlock) -> str:
        if block.origin == self._own:
            return block.thinking
        if block.thinking or block.signature or block.provider_state:
            self._left_out["foreign_thinking"] += 1
        return ""

    def _result(self, block: ToolResultBlock) -> dict[str, Any]:
        name = block.name or self._names.get(block.tool_use_id, "")
        return {
            "role": "tool",
            "tool_name": name,
            "tool_call_id": block.tool_use_id,
            **_said(block.content),
        }


_LEFT_OUT: Final = {
    "foreign_thinking": "thinking of another model was left out of the request",
    "foreign_block": "another provider's own blocks were left out of the request",
    "assistant_media": "images that a model made were left out of the request",
}


def _said(blocks: Iterable[Block]) -> dict[str, Any]:
    """Return the members of a message that is not the model's: one text, and images beside it."""
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        match block:
            case TextBlock():
                texts.append(block.text)
            case ImageBlock() if block.data:
                images.append(block.data)
            case ImageBlock():
                raise ConfigurationError("Ollama takes images as data only: give the image's data")
            case _:
                raise ConfigurationError(
                    f"a {block.type} block cannot be sent to Ollama: it takes text and images"
                )
    out: dict[str, Any] = {"content": valid_text("\n".join(text for text in texts if text))}
    return out | ({"images": images} if images else {})
