"""Anthropic Messages, the sending half: a `ModelRequest` as the body of `POST /v1/messages`.

Pure. `anthropic_messages` reads the answer. Own, unchanged thinking goes back exactly and in place; what is not the target's own is left
out and told by a notice, never turned into text.
Source: docs.claude.com "Messages", "Extended thinking", "Tool use", "Citations" (from public references, not re-read).
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    plain,
    valid_text,
)
from agentkit.dialects.anthropic_blocks import NAME
from agentkit.dialects.base import HTTPParts, Profile, Target, check_foreign, merged, origin
from agentkit.errors import ConfigurationError, quote
from agentkit.model import ModelRequest, Notice
from agentkit.reasoning import EFFORTS as EFFORTS_OF_ALL
from agentkit.reasoning import Effort, ReasoningSetting
from agentkit.repair import parsed_input, repair

VERSION: Final = "2023-06-01"

MAX_TOKENS: Final = 8192
"""The wire demands a limit. This one is in the reach of every model that is still served, and long enough for an answer."""
MIN_BUDGET: Final = 1024
"""The least thinking that the provider takes, in tokens."""

MAX_OUTPUT: Final = 64_000
"""Tokens that most models can give, thinking included: an effort, which names no number, never asks for more."""
EFFORTS: Final[tuple[Effort, ...]] = ("low", "medium", "high", "max")
"""What `output_config.effort` takes where a profile does not say otherwise."""

_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


def encode_request(request: ModelRequest, target: Target) -> HTTPParts:
    """Return the HTTP request that says `request`.

    Raises:
        ConfigurationError: the dialect cannot say it; the message names the member.
        ForeignSignatureError: another model's replay state, where the request says `foreign="raise"`.
    """
    check_foreign(request, origin(NAME, target))
    options = dict(request.provider_options.get(target.provider, {}))
    for taken in ("messages", "stream"):
        if taken in options:
            raise ConfigurationError(f"provider_options[{target.provider!r}] must not set {taken!r}")
    betas = options.pop("betas", ())
    conversation = _Conversation(target)
    messages = conversation.encode(request.messages)
    if not messages:
        raise ConfigurationError("the request holds no message that can be sent")
    body: dict[str, Any] = {"model": target.model, "max_tokens": request.max_tokens or MAX_TOKENS}
    if system := _system(request):
        body["system"] = system
    body["messages"] = messages
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        body["tool_choice"] = _tool_choice(request)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.output_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": request.output_schema}}
    body = merged(body, _reasoning(request, target.profile, options))
    body["stream"] = True
    headers = {"anthropic-version": VERSION}
    if betas:
        headers["anthropic-beta"] = betas if isinstance(betas, str) else ",".join(betas)
    body = merged(merged(target.profile.options, body), options)
    return HTTPParts("/v1/messages", body, headers, tuple(conversation.notices()))


def _system(request: ModelRequest) -> str:
    """All system text, in order: the wire has one place for it."""
    texts = [request.system, *(message.text for message in request.messages if message.role == "system")]
    return valid_text("\n\n".join(text for text in texts if text.strip()))


def _tool_choice(request: ModelRequest) -> dict[str, str]:
    match request.tool_choice:
        case "auto" | "none" as choice:
            return {"type": choice}
        case "required":
            return {"type": "any"}
        case name:
            if name not in {tool.name for tool in request.tools}:
                raise ConfigurationError(f"tool_choice {quote(name)} is not among the tools of the request")
            return {"type": "tool", "name": name}


def _reasoning(request: ModelRequest, profile: Profile, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body's members that say how much to think, with `max_tokens` above the budget."""
    setting = request.reasoning
    if setting is None:
        return {}
    config = options.get("output_config")
    if "thinking" in options or (isinstance(config, Mapping) and "effort" in config):
        raise ConfigurationError(
            "reasoning= and a provider option (thinking, output_config.effort) say the same: give one of them"
        )
    if setting.off:
        return {"thinking": {"type": "disabled"}}
    if request.temperature not in (None, 1):
        raise ConfigurationError(
            f"Anthropic takes no temperature beside reasoning, got {request.temperature}"
        )
    if request.tools and request.tool_choice not in ("auto", "none"):
        raise ConfigurationError(
            f'Anthropic takes only tool_choice "auto" or "none" beside reasoning, got {quote(request.tool_choice)}'
        )
    if profile.adaptive_thinking:
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": _effort(setting, profile)}}
    return _budget(setting, request, options)


def _effort(setting: ReasoningSetting, profile: Profile) -> str:
    """Return the effort that the model takes: the one that was asked for, or the next above, or the highest."""
    known = profile.efforts or EFFORTS
    wanted = EFFORTS_OF_ALL.index(setting.as_effort())
    return next((effort for effort in known if EFFORTS_OF_ALL.index(effort) >= wanted), known[-1])


def _budget(setting: ReasoningSetting, request: ModelRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    limit = options.get("max_tokens") or request.max_tokens or MAX_TOKENS
    budget = setting.as_budget()
    if setting.budget is None:
        budget = max(MIN_BUDGET, min(budget, MAX_OUTPUT - limit))
    if budget < MIN_BUDGET:
        raise ConfigurationError(
            f"reasoning budget must be at least {MIN_BUDGET} tokens for Anthropic, got {budget}"
        )
    if limit <= budget and "max_tokens" in options:
        raise ConfigurationError(f"max_tokens {limit} must be above the reasoning budget of {budget}")
    # The wire counts thinking in max_tokens; the caller meant the answer.
    thinking = {"type": "enabled", "budget_tokens": budget}
    return {"thinking": thinking, "max_tokens": limit if limit > budget else budget + limit}


class _Conversation:
    """Encode messages, and remember what had to be left out."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._own = origin(NAME, target)
        self._ids = _CallIds()
        self._left_out: Counter[str] = Counter()

    def encode(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the `messages` of the body: user and assistant in turn, no message empty."""
        out: list[dict[str, Any]] = []
        repaired = [message for message in repair(messages) if message.role != "system"]
        for position, message in enumerate(repaired):
            if message.role == "assistant":
                is_last = position == len(repaired) - 1
                role, content = "assistant", self._assistant(message, last=is_last)
            else:
                role, content = "user", [part for block in message.content for part in self._user(block)]
            if not content:
                continue
            if out and out[-1]["role"] == role:
                out[-1]["content"] += content
            else:
                out.append({"role": role, "content": content})
        for turn in out:
            if turn["role"] == "assistant":
                self._strip_end(turn["content"])
        out = [turn for turn in out if turn["content"]]
        if out and out[-1]["role"] == "assistant" and out[-1]["content"][-1]["type"] == "text":
            last = out[-1]["content"][-1]  # the model goes on from here; white space at the end is refused
            last["text"] = last["text"].rstrip()
        return out

    def notices(self) -> Iterable[Notice]:
        """Return what was left out, a notice a kind."""
        for code, count in self._left_out.items():
            yield Notice(code, f"{_LEFT_OUT[code]} ({count})", {"count": count})

    def _assistant(self, message: Message, *, last: bool) -> list[dict[str, Any]]:
        self._ids.begin_turn()
        states = {
            place: state
            for place, block in enumerate(message.content)
            if isinstance(block, ProviderBlock) and (state := self._own_state(block))
        }
        answered = {state.get("tool_use_id") for state in states.values()}
        out: list[dict[str, Any]] = []
        for place, block in enumerate(message.content):
            if isinstance(block, ProviderBlock):
                out += self._provider(states.get(place), answered, last=last)
            else:
                out += self._assistant_block(block)
        return out

    def _assistant_block(self, block: Block) -> list[dict[str, Any]]:
        match block:
            case ThinkingBlock():
                return self._thinking(block)
            case TextBlock() if block.text.strip():
                return [{"type": "text", "text": valid_text(block.text), **self._own_state(block)}]
            case RefusalBlock() if block.refusal.strip():
                return [{"type": "text", "text": valid_text(block.refusal)}]
            case ToolUseBlock():
                call_id = self._ids.open(block.id)
                call = {"type": "tool_use", "id": call_id, "name": block.name, "input": parsed_input(block)}
                return [self._own_state(block) | call]
            case ImageBlock() | DocumentBlock():
                self._left_out["assistant_media"] += 1
        return []

    def _own_state(self, block: ThinkingBlock | TextBlock | ToolUseBlock | ProviderBlock) -> dict[str, Any]:
        """Return what the provider sent with a block and wants back: citations, a caller, all of it; {} where that is not its own."""
        if block.origin != self._own or not block.provider_state or block.provider_state_format != NAME:
            return {}
        try:
            state = json.loads(block.provider_state)
        except (ValueError, RecursionError):
            return {}
        # JSON can escape half a surrogate pair; no request that holds one is accepted.
        return plain(state) if isinstance(state, dict) else {}

    def _thinking(self, block: ThinkingBlock) -> list[dict[str, Any]]:
        if not (block.thinking or block.signature or block.provider_state):
            return []  # it broke off before it said anything
        if block.origin != self._own:
            self._left_out["foreign_thinking"] += 1
            return []
        if state := self._own_state(block):
            return [state]
        if signature := block.signature_replayable_as(NAME):
            return [{"type": "thinking", "thinking": block.thinking, "signature": signature}]
        if block.thinking and self._target.profile.unsigned_thinking:
            return [{"type": "thinking", "thinking": block.thinking, "signature": ""}]
        if block.thinking:
            self._left_out["unsigned_thinking"] += 1
        return []

    def _provider(
        self, state: dict[str, Any] | None, answered: set[object], *, last: bool
    ) -> list[dict[str, Any]]:
        if state is None:
            self._left_out["foreign_block"] += 1
            return []
        if "input" in state:  # a call that the provider runs itself
            whole = isinstance(state["input"], dict)
            if not whole or not (last or state.get("id") in answered):
                self._left_out["unanswered_block"] += 1
                return []
        return [state]

    def _strip_end(self, content: list[dict[str, Any]]) -> None:
        """A turn must not end with thinking: the provider refuses it. Such a turn broke off before it said anything more."""
        while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
            content.pop()
            self._left_out["unfinished_thinking"] += 1

    def _user(self, block: Block) -> list[dict[str, Any]]:
        match block:
            case ToolResultBlock():
                content = [part for inner in block.content for part in self._user(inner)]
                result: dict[str, Any] = {
                    "type": "tool_result",
                    "tool_use_id": self._ids.find(block.tool_use_id),
                }
                if content:
                    result["content"] = content
                if block.is_error:
                    result["is_error"] = True
                return [result]
            case TextBlock():
                return [{"type": "text", "text": valid_text(block.text)}] if block.text.strip() else []
            case ImageBlock():
                return [{"type": "image", "source": _source(block)}]
            case DocumentBlock():
                document: dict[str, Any] = {"type": "document", "source": _source(block)}
                if block.name:
                    document["title"] = valid_text(block.name)
                return [document]
            case _:
                raise ConfigurationError(f"a {block.type} block cannot stand in a user message")


_LEFT_OUT: Final = {
    "foreign_thinking": "thinking of another model was left out of the request",
    "unsigned_thinking": "thinking without a signature was left out of the request",
    "unfinished_thinking": "thinking that broke off before an answer was left out of the request",
    "foreign_block": "another provider's own blocks were left out of the request",
    "unanswered_block": "calls of the provider's own tools without a result were left out of the request",
    "assistant_media": "images that a model made were left out of the request",
}


def _source(block: ImageBlock | DocumentBlock) -> dict[str, str]:
    if block.data and not block.media_type:
        raise ConfigurationError(f"{block.type} data needs a media_type")
    if block.data and block.media_type == "text/plain":
        try:
            text = base64.b64decode(block.data, validate=True).decode()
        except ValueError as error:
            raise ConfigurationError(f"{block.type} data is not UTF-8 in base64: {error}") from None
        return {"type": "text", "media_type": block.media_type, "data": text}
    if block.data:
        return {"type": "base64", "media_type": block.media_type, "data": block.data}
    if not block.url:
        raise ConfigurationError(f"a {block.type} block needs data or a url")
    return {"type": "url", "url": block.url}


class _CallIds:
    """Give every call an id that the wire takes: letters, digits, `_` and `-`, and no id twice. Own ids stay as they are."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._turn: dict[str, str] = {}

    def begin_turn(self) -> None:
        """Forget the calls of the turn before; its results have been encoded."""
        self._turn = {}

    def open(self, call_id: str) -> str:
        """Return the wire id of a new call."""
        stem = call_id if _CALL_ID.fullmatch(call_id) else re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)
        wire_id, number = stem, 2
        while wire_id in self._used:
            wire_id, number = f"{stem}_{number}", number + 1
        self._used.add(wire_id)
        self._turn[call_id] = wire_id
        return wire_id

    def find(self, call_id: str) -> str:
        """Return the wire id of a call of this turn."""
        return self._turn[call_id]
