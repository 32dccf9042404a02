"""What chat endpoints accept as a body of `POST /chat/completions`, written from OpenAI's reference and messages, not from our encoder."""

import json
import re
from typing import Any

Json = dict[str, Any]

BODY = {
    "model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "tools",
    "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "seed", "user", "metadata", "store",
}  # fmt: skip
MEMBERS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "refusal", "name", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
REASONING = {"reasoning_content", "reasoning_details", "thinking_blocks"}
"""What some endpoints take beside, on assistant messages."""
PARTS = {"text": "text", "image_url": "image_url", "file": "file", "input_audio": "input_audio"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check(body: Json, *, beside: frozenset[str] = frozenset()) -> list[str]:
    """Return what an endpoint would refuse, a line a fault. `beside`: members of its own that it takes."""
    out = [f"Unrecognized request argument supplied: {name}" for name in sorted(set(body) - BODY - beside)]
    if not body.get("model"):
        out.append("you must provide a model parameter")
    messages = body.get("messages") or []
    if not any(message.get("role") != "system" for message in messages):
        out.append("[] is too short - 'messages'")
    for at, message in enumerate(messages):
        out += [f"messages[{at}]: {fault}" for fault in message_faults(message)]
    if "stream_options" in body and not body.get("stream"):
        out.append("'stream_options' is only allowed when 'stream' is enabled")
    if "max_tokens" in body and "max_completion_tokens" in body:
        out.append("max_tokens and max_completion_tokens cannot both be set")
    if "tool_choice" in body and not body.get("tools"):
        out.append("'tool_choice' is only allowed when 'tools' are specified")
    for tool in body.get("tools", ()):
        if tool.get("type") != "function" or not NAME.fullmatch(
            str(tool.get("function", {}).get("name", ""))
        ):
            out.append("Invalid 'tools'")
    return out + call_faults(messages)


def message_faults(message: Json) -> list[str]:
    role = message.get("role")
    if role not in MEMBERS:
        return [f"{role!r} is not one of the roles"]
    known = MEMBERS[role] | (REASONING if role == "assistant" else set())
    out = [f"property {name!r} is unsupported" for name in sorted(set(message) - known)]
    content, calls = message.get("content"), message.get("tool_calls")
    if content is None and not (role == "assistant" and calls):
        out.append("content: null is not of type string")
    if calls is not None and not calls:
        out.append("[] is too short - 'tool_calls'")
    if isinstance(content, list):
        out += ["[] is too short - 'content'"] if not content else []
        out += [
            f"content: {part.get('type')!r}"
            for part in content
            if PARTS.get(part.get("type", ""), "?") not in part
        ]
        out += [
            "content: empty text part"
            for part in content
            if part.get("type") == "text" and not part.get("text")
        ]
        if role != "user" and any(part.get("type") != "text" for part in content):
            out.append(f"content: {role} messages take text only")
    for call in calls or ():
        function = call.get("function") or {}
        if (
            call.get("type") != "function"
            or not call.get("id")
            or not NAME.fullmatch(str(function.get("name", "")))
        ):
            out.append("Invalid 'tool_calls'")
        if not is_object(function.get("arguments")):
            out.append("Invalid 'arguments': expected a JSON object as text")
    return out


def call_faults(messages: list[Json]) -> list[str]:
    out: list[str] = []
    waiting: list[str] = []
    for at, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                out.append(
                    f"messages[{at}]: role 'tool' must be a response to a preceding message with 'tool_calls'"
                )
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            out.append(f"messages[{at}]: tool_call_ids did not have response messages: {waiting}")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(waiting)) != len(waiting):
            out.append(f"messages[{at}]: duplicate ids of tool calls")
    return [*out, *([f"tool_call_ids did not have response messages: {waiting}"] if waiting else [])]


def is_object(text: object) -> bool:
    try:
        return isinstance(json.loads(text), dict) if isinstance(text, str) else False
    except ValueError:
        return False
