"""What Ollama's server accepts as a body of `POST /api/chat`, written from its API description, not from our encoder."""

import base64
import binascii
from typing import Any

Json = dict[str, Any]

BODY = {"model", "messages", "tools", "think", "format", "options", "stream", "keep_alive"}
MEMBERS = {
    "system": {"role", "content"},
    "user": {"role", "content", "images"},
    "assistant": {"role", "content", "thinking", "images", "tool_calls"},
    "tool": {"role", "content", "images", "tool_name", "tool_call_id"},
}


def check(body: Json) -> list[str]:
    """Return what the server would refuse or misread, a line a fault."""
    out = [f"unknown member {name}" for name in sorted(set(body) - BODY)]
    messages = body.get("messages") or []
    if not body.get("model") or not messages:
        out.append("model and messages are required")
    if not (isinstance(body.get("think", True), bool) or body["think"] in ("low", "medium", "high", "max")):
        out.append(f"invalid think value: {body['think']!r}")
    for at, message in enumerate(messages):
        out += [f"messages[{at}]: {fault}" for fault in message_faults(message)]
    for tool in body.get("tools", ()):
        if tool.get("type") != "function" or not tool.get("function", {}).get("name"):
            out.append("tools: a function with a name")
    return out + call_faults(messages)


def message_faults(message: Json) -> list[str]:
    role = message.get("role")
    if role not in MEMBERS:
        return [f"invalid role {role!r}"]
    out = [f"unknown member {name}" for name in sorted(set(message) - MEMBERS[role])]
    if not isinstance(message.get("content"), str):
        out.append("content is text")
    if not (message.get("content") or message.get("images") or message.get("tool_calls") or role == "tool"):
        out.append("a message that says nothing")
    if not isinstance(message.get("thinking", ""), str):
        out.append("thinking is text")
    for image in message.get("images", ()):
        try:
            base64.b64decode(image, validate=True)
        except (binascii.Error, TypeError):
            out.append("illegal base64 data")
    for call in message.get("tool_calls", ()):
        function = call.get("function") or {}
        if not function.get("name") or not isinstance(function.get("arguments"), dict):
            out.append("a call has a name, and arguments that are an object")
    return out


def call_faults(messages: list[Json]) -> list[str]:
    """Results follow their calls in order and name the tool: the templates of models pair them by that."""
    out: list[str] = []
    waiting: list[Json] = []
    for at, message in enumerate(messages):
        if message.get("role") == "tool":
            call = waiting.pop(0) if waiting else {"function": {}}
            if (message.get("tool_name"), message.get("tool_call_id")) != (
                call["function"].get("name"),
                call.get("id"),
            ):
                out.append(f"messages[{at}]: answers no call")
            continue
        if waiting:
            out.append(f"messages[{at}]: calls without results")
        waiting = list(message.get("tool_calls") or ())
    return [*out, *(["calls without results at the end"] if waiting else [])]
