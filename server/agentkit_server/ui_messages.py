"""The AI SDK's UI messages: what a client sent, read with care.

A client speaks as the user, and answers what it was asked: approvals and calls of its own tools. What it says about reasoning, state,
results of server-run tools and the system is not read: the history of record is the server's. Only where a thread is empty what was
visible of an older conversation is taken over, as text and files.
Source: `UIMessage` and `DefaultChatTransport` of `ai` 5 to 7.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from agentkit.content import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentkit_server.inputs import MAX_BLOCKS
from agentkit_transports.problem import Problem, ProblemError

MAX_NAME = 1024
"""Characters of a file's name, and of an id."""


class ChatRequest(BaseModel):
    """`POST /v1/ai-sdk/{agent}`: the transport's own body, or the last message only. Whatever else an application adds is its own."""

    model_config = ConfigDict(defer_build=True, extra="ignore", strict=True)

    id: str
    """The chat's: our thread."""
    messages: list[JsonValue] | None = None
    message: JsonValue = None
    trigger: str = "submit-message"
    messageId: str | None = None  # noqa: N815 - the protocol's name
    reasoning: dict[str, JsonValue] | None = None
    """`{"effort": …}` or `{"budget": tokens}`, as on the native routes."""


class StopRequest(BaseModel):
    """`POST …/stop`; the body may be missing."""

    model_config = ConfigDict(defer_build=True, extra="ignore", strict=True)

    activeStreamId: str | None = None  # noqa: N815 - the protocol's name


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's decision on a call."""

    approval: str
    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UIMessage:
    """One message of a client, as far as it is looked at."""

    id: str
    role: str
    parts: Sequence[dict[str, Any]]
    field: str
    """Where it stood, for errors."""


def read_messages(body: ChatRequest) -> list[UIMessage]:
    """Return the messages of a body, the last one last.

    Raises:
        ProblemError: 422, naming the member at fault.
    """
    if (body.messages is None) == (body.message is None):
        raise _invalid("messages", "send either messages or message")
    given = [body.message] if body.messages is None else body.messages
    name = "message" if body.messages is None else "messages[{}]"
    if not given and body.trigger != "regenerate-message":
        raise _invalid("messages", "should not be empty")
    return [_message(one, name.format(place)) for place, one in enumerate(given)]


def _message(value: JsonValue, field: str) -> UIMessage:
    if not isinstance(value, dict):
        raise _invalid(field, "should be an object")
    role, parts, id_ = value.get("role"), value.get("parts"), value.get("id")
    if role not in ("system", "user", "assistant"):
        raise _invalid(f"{field}.role", "should be system, user or assistant")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _invalid(f"{field}.parts", "should be a list of parts")
    named = id_ if isinstance(id_, str) and len(id_) <= MAX_NAME else ""
    return UIMessage(named, role, [part for part in parts if isinstance(part, dict)], field)


def said(message: UIMessage) -> list[Block]:
    """Return what a user says: text and files. Parts of the page's own (`data-…`) are not for the model.

    Raises:
        ProblemError: 422, naming the part at fault; or nothing is said at all.
    """
    blocks = _visible(message)
    if not 0 < len(blocks) <= MAX_BLOCKS:
        raise _invalid(
            f"{message.field}.parts",
            f"should hold 1 to {MAX_BLOCKS} parts of text or files, got {len(blocks)}",
        )
    return blocks


def older(messages: Sequence[UIMessage]) -> list[Message]:
    """Return what was visible of an older conversation. Instructions, reasoning, calls and state are left out: anybody may have written them.

    Raises:
        ProblemError: 422, naming the part at fault.
    """
    out: list[Message] = []
    for one in messages:
        if one.role == "user":
            out.append(Message.user(said(one)))
        elif one.role == "assistant":
            text = "".join(block.text for block in _visible(one, files=False) if isinstance(block, TextBlock))
            if text:
                out.append(Message.assistant(text))
    return out


def _visible(message: UIMessage, *, files: bool = True) -> list[Block]:
    blocks: list[Block] = []
    for place, part in enumerate(message.parts):
        field = f"{message.field}.parts[{place}]"
        if part.get("type") == "text":
            text = part.get("text")
            if not isinstance(text, str):
                raise _invalid(f"{field}.text", "should be text")
            if text:
                blocks.append(TextBlock(text))
        elif part.get("type") == "file" and files:
            blocks.append(_file(part, field))
    return blocks


def _file(part: dict[str, Any], field: str) -> Block:
    media_type, url, name = part.get("mediaType"), part.get("url"), part.get("filename")
    if not isinstance(media_type, str) or not 0 < len(media_type) <= 200:
        raise _invalid(f"{field}.mediaType", "should name a media type")
    if not isinstance(url, str) or not url:
        raise _invalid(f"{field}.url", "should be a URL")
    data = ""
    if url.startswith("data:"):
        head, comma, data = url.partition(",")
        if not comma or not head.endswith(";base64") or not _is_base64(data):
            raise _invalid(f"{field}.url", "should be a data: URL of base64")
        url = ""
    elif not url.startswith(("https://", "http://")) or len(url) > 8192:
        raise _invalid(f"{field}.url", "should be a data: or http(s) URL")
    if media_type.startswith("image/"):
        return ImageBlock(media_type, data, url)
    return DocumentBlock(media_type, data, url, name[:MAX_NAME] if isinstance(name, str) else "")


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return bool(data)


def answers(message: UIMessage) -> list[Answer]:
    """Return the approvals that a client's last message decides."""
    out: list[Answer] = []
    for part in message.parts:
        approval = part.get("approval")
        if part.get("state") != "approval-responded" or not isinstance(approval, dict):
            continue
        id_, approved, reason = approval.get("id"), approval.get("approved"), approval.get("reason")
        if isinstance(id_, str) and isinstance(approved, bool):
            out.append(Answer(id_, approved, reason[:4096] if isinstance(reason, str) else ""))
    return out


def results(message: UIMessage, run: str, calls: Sequence[ToolUseBlock]) -> list[ToolResultBlock]:
    """Return the results that a client's last message holds for a run's open `calls`, in their order."""
    out: list[ToolResultBlock] = []
    for call in calls:
        for part in message.parts:
            id_ = part.get("toolCallId")
            if not isinstance(id_, str) or not (id_.startswith(f"{run}.") and id_.endswith(f".{call.id}")):
                continue
            if part.get("state") == "output-available":
                out.append(_result(call, part.get("output"), is_error=False))
                break
            if part.get("state") == "output-error":
                out.append(_result(call, part.get("errorText"), is_error=True))
                break
    return out


def _result(call: ToolUseBlock, value: JsonValue, *, is_error: bool) -> ToolResultBlock:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ToolResultBlock(call.id, call.name, (TextBlock(text),), "error" if is_error else "ok")


def _invalid(field: str, detail: str) -> ProblemError:
    return ProblemError(Problem(422, "invalid", f"{field}: {detail}", field=field))
