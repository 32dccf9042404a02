"""OpenAI Responses, the sending half: a `ModelRequest` as the body of `POST /responses`.

Pure. `openai_responses` reads the answer. By default nothing is stored at the provider, and reasoning goes back as the encrypted items
that came, each with the item that followed it. What is not the target's own is left out and told by a notice, never turned into text.
Source: the OpenAI API reference, "Create a model response", and the guides on reasoning, function calling and conversation state
(from public references and recordings, not re-read).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
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
from agentkit.dialects.openai_responses_items import NAME
from agentkit.dialects.openai_responses_settings import can_reason, settings
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice
from agentkit.repair import repair

PATH: Final = "/responses"
ENCRYPTED: Final = "reasoning.encrypted_content"


def encode_request(request: ModelRequest, target: Target) -> HTTPParts:
    """Return the HTTP request that says `request`.

    With the provider option `previous_response_id` (or `conversation`) only what came after the last answer is sent, and the new
    response is stored, as the next one can follow it only then; `store` says otherwise.

    Raises:
        ConfigurationError: the dialect cannot say it; the message names the member.
        ForeignSignatureError: another model's replay state, where the request says `foreign="raise"`.
    """
    check_foreign(request, origin(NAME, target))
    options = request.provider_options.get(target.provider, {})
    for taken in ("input", "stream"):
        if taken in options:
            raise ConfigurationError(f"provider_options[{target.provider!r}] must not set {taken!r}")
    fixed = merged(target.profile.options, options)
    continued = bool(fixed.get("previous_response_id") or fixed.get("conversation"))
    store = bool(fixed.get("store", continued))
    conversation = _Conversation(target, store=store)
    items = conversation.encode(request.messages, continued=continued)
    if not items:
        raise ConfigurationError("the request holds no message that can be sent")
    body: dict[str, Any] = {"model": target.model, "input": items, "stream": True, "store": store}
    if request.system.strip():
        body["instructions"] = valid_text(request.system)
    if can_reason(target.model):
        body["include"] = [ENCRYPTED]
    body |= settings(request, target, options)
    lists = {
        name: _both(body[name], fixed[name])
        for name in ("tools", "include")
        if name in body and name in fixed
    }
    body = merged(merged(target.profile.options, body), options) | lists
    return HTTPParts(PATH, body, notices=tuple(conversation.notices()))


def _both(ours: Sequence[Any], theirs: object) -> list[Any]:
    """Return the members of two lists: an option adds tools and inclusions, it takes none away."""
    more = theirs if isinstance(theirs, (list, tuple)) else [theirs]
    return [*ours, *(member for member in more if member not in ours)]


class _Conversation:
    """Encode messages, and remember what had to be left out."""

    def __init__(self, target: Target, *, store: bool) -> None:
        self._own = origin(NAME, target)
        self._store = store
        self._sent: set[str] = set()  # ids of items: each goes once
        self._left_out: Counter[str] = Counter()

    def encode(self, messages: Sequence[Message], *, continued: bool) -> list[dict[str, Any]]:
        """Return the `input` of the body; of a continued conversation only what the server does not have."""
        whole = repair(messages)
        if continued:
            answers = [position for position, message in enumerate(whole) if message.role == "assistant"]
            whole = whole[answers[-1] + 1 :] if answers else whole
        out: list[dict[str, Any]] = []
        for message in whole:
            match message.role:
                case "assistant":
                    out += self._assistant(message)
                case "tool":
                    out += [_result(block) for block in message.content if isinstance(block, ToolResultBlock)]
                case "user" | "system" as role:
                    if content := _content(message.content):
                        out.append({"type": "message", "role": role, "content": content})
        return out

    def notices(self) -> Iterable[Notice]:
        """Return what was left out, a notice a kind."""
        for code, count in self._left_out.items():
            yield Notice(code, f"{_LEFT_OUT[code]} ({count})", {"count": count})

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        """Return the items of a turn.

        A reasoning item goes only with an item that follows it; an item whose reasoning is gone goes without its id, because the
        provider would look for that reasoning.
        """
        out: list[dict[str, Any]] = []
        waiting: list[dict[str, Any]] = []  # reasoning items that nothing follows yet
        gone = False
        for _, group in groupby(message.content, self._place):
            blocks = list(group)
            item: dict[str, Any] | None = None
            match blocks[0]:
                case ThinkingBlock() as block:
                    reasoning = self._reasoning(block)
                    gone = gone or reasoning is None
                    if reasoning is not None and self._is_new(reasoning):
                        waiting.append(reasoning)
                case TextBlock() | RefusalBlock():
                    item = self._message(blocks, keeps_id=not gone)
                case ToolUseBlock() as block:
                    item = self._call(block, keeps_id=not gone)
                case ProviderBlock() as block:
                    item = self._provider(block, gone=gone)
                case ImageBlock() as block if (
                    block.origin != self._own
                ):  # an own one is in its provider block
                    self._left_out["assistant_media"] += 1
            if item is not None:
                out += [*waiting, item]
                waiting = []
        if waiting:
            self._sent -= {item["id"] for item in waiting if "id" in item}
            self._left_out["unfinished_thinking"] += len(waiting)
        return out

    def _is_new(self, item: Mapping[str, Any]) -> bool:
        """Take an item's id, and tell whether the item was not there before: some stores keep one item in several blocks."""
        item_id = item.get("id")
        if not isinstance(item_id, str):
            return True
        new = item_id not in self._sent
        self._sent.add(item_id)
        return new

    def _place(self, block: Block) -> object:
        """Return what blocks of one message item have in common; every other block stands alone."""
        match block:
            case TextBlock():
                return self._state(block).get("id", "")
            case RefusalBlock():
                return ""
            case _:
                return id(block)

    def _state(self, block: TextBlock | ToolUseBlock) -> dict[str, Any]:
        """Return what the provider sent with a text or a call and wants back: its item's id, a phase."""
        if not block.provider_state or block.provider_state_format != NAME or block.origin != self._own:
            return {}
        state = state_value(block.provider_state)
        return state if isinstance(state, dict) else {}

    def _reasoning(self, block: ThinkingBlock) -> dict[str, Any] | None:
        if block.origin == self._own and block.replayable_as(NAME):
            item: dict[str, Any] = state_value(block.provider_state or "")
            if self._store or item.get("encrypted_content") or item.get("content"):
                return item
            self._left_out["unstored_thinking"] += (
                1  # an id alone means nothing to a server that kept nothing
            )
        elif block.origin != self._own and (block.thinking or block.signature or block.provider_state):
            self._left_out["foreign_thinking"] += 1
        elif block.thinking:
            self._left_out["unfinished_thinking"] += 1
        return None

    def _message(self, blocks: Sequence[Block], *, keeps_id: bool) -> dict[str, Any] | None:
        state: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if isinstance(block, TextBlock) and block.text:
                own = self._state(block)
                state |= own
                text = {"type": "output_text", "text": valid_text(block.text)}
                parts.append({**text, "annotations": own.get("annotations", [])})
            elif isinstance(block, RefusalBlock) and block.refusal:
                parts.append({"type": "refusal", "refusal": valid_text(block.refusal)})
        if not parts:
            return None
        item: dict[str, Any] = {"type": "message", "role": "assistant"}
        if keeps_id and "id" in state and self._is_new(state):
            item |= {"id": state["id"], "status": "completed", "content": parts}
        elif all(part["type"] == "output_text" for part in parts):
            item["content"] = "".join(part["text"] for part in parts)  # the form that every server takes
        else:
            item["content"] = parts
        return item | ({"phase": state["phase"]} if "phase" in state else {})

    def _call(self, block: ToolUseBlock, *, keeps_id: bool) -> dict[str, Any]:
        state = self._state(block)
        if not (keeps_id and self._is_new(state)):
            state.pop("id", None)
        arguments = valid_text(block.input) if block.input.strip() else "{}"
        call = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}
        return state | call

    def _provider(self, block: ProviderBlock, *, gone: bool) -> dict[str, Any] | None:
        if gone or block.provider_state_format != NAME or block.origin != self._own:
            self._left_out["foreign_block"] += 1
            return None
        item: dict[str, Any] = state_value(block.provider_state)
        return item if self._is_new(item) else None


_LEFT_OUT: Final = {
    "foreign_thinking": "thinking of another model was left out of the request",
    "unfinished_thinking": "thinking that broke off, or that nothing followed, was left out of the request",
    "unstored_thinking": "thinking that the provider did not keep was left out of the request",
    "foreign_block": "another provider's own blocks were left out of the request",
    "assistant_media": "images that another model made were left out of the request",
}


def _result(block: ToolResultBlock) -> dict[str, Any]:
    """Return the output of a call: text where it is text only, which every server takes."""
    plain = all(isinstance(part, TextBlock) for part in block.content)
    output = valid_text(block.text) if plain else _content(block.content)
    return {"type": "function_call_output", "call_id": block.tool_use_id, "output": output}


def _content(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Return the content of a message that is not the model's."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case TextBlock():
                if block.text:
                    out.append({"type": "input_text", "text": valid_text(block.text)})
            case ImageBlock():
                out.append(
                    {"type": "input_image", "detail": "auto", "image_url": block.url or _data_url(block)}
                )
            case DocumentBlock() if block.url and not block.data:
                out.append({"type": "input_file", "file_url": block.url})
            case DocumentBlock():
                name = valid_text(block.name) or f"document.{block.media_type.rpartition('/')[2]}"
                out.append({"type": "input_file", "filename": name, "file_data": _data_url(block)})
            case _:
                raise ConfigurationError(f"a {block.type} block cannot stand in a user message")
    return out


def _data_url(block: ImageBlock | DocumentBlock) -> str:
    if not block.data:
        raise ConfigurationError(f"a {block.type} block needs data or a url")
    if not block.media_type:
        raise ConfigurationError(f"{block.type} data needs a media_type")
    return f"data:{block.media_type};base64,{block.data}"
