"""What Anthropic's API accepts as a body of `POST /v1/messages`, written from its error messages and reference, not from our encoder."""

import re
from typing import Any

Json = dict[str, Any]

BODY = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "top_p", "top_k", "stop_sequences", "thinking",
    "output_config", "metadata", "stream", "service_tier", "container", "context_management", "mcp_servers",
}  # fmt: skip
MEMBERS = {
    "text": {"type", "text", "citations", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
}
SPEAKERS = {
    "text": {"user", "assistant"},
    "thinking": {"assistant"},
    "redacted_thinking": {"assistant"},
    "tool_use": {"assistant"},
    "tool_result": {"user"},
    "image": {"user"},
    "document": {"user"},
}
PICTURES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ID = re.compile(r"[a-zA-Z0-9_-]+")


def check(body: Json) -> list[str]:
    """Return what the API would refuse, a line a fault."""
    out = [f"{name}: extra inputs are not permitted" for name in sorted(set(body) - BODY)]
    if not body.get("model"):
        out.append("model: field required")
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        out.append("max_tokens: must be a positive whole number")
    messages = body.get("messages") or []
    if not messages:
        out.append("messages: at least one message is required")
    elif messages[0]["role"] != "user":
        out.append("messages: first message must use the user role")
    for at, message in enumerate(messages):
        out += [f"messages.{at}.{fault}" for fault in message_faults(message)]
    out += call_faults(messages)
    if messages and messages[-1]["role"] == "assistant":
        out += prefill_faults(messages[-1]["content"])
    return out + setting_faults(body)


def message_faults(message: Json) -> list[str]:
    content, role = message.get("content"), message.get("role")
    if role not in ("user", "assistant"):
        return [f"role: unexpected {role!r}"]
    if not isinstance(content, list) or not content:
        return ["content: must be a list that is not empty"]
    out = [
        f"content.{at}: {fault}" for at, block in enumerate(content) for fault in block_faults(block, role)
    ]
    if role == "assistant" and content[-1]["type"] in ("thinking", "redacted_thinking"):
        out.append("the final block in an assistant message cannot be thinking")
    kinds = [block["type"] for block in content]
    if "tool_result" in kinds and kinds[: kinds.count("tool_result")] != ["tool_result"] * kinds.count(
        "tool_result"
    ):
        out.append("tool_result blocks must come first")
    return out


def block_faults(block: Json, role: str) -> list[str]:
    kind = block.get("type", "")
    if kind not in MEMBERS:
        # a server tool's call or result: whole objects of the provider's own, never of the user's
        return (
            []
            if role == "assistant" and ("tool" in kind or "compaction" in kind)
            else [f"unexpected type {kind!r}"]
        )
    out = [f"{kind}.{name}: extra inputs are not permitted" for name in sorted(set(block) - MEMBERS[kind])]
    if role not in SPEAKERS[kind]:
        out.append(f"{kind} blocks are not permitted in {role} messages")
    match kind:
        case "text" if not str(block.get("text", "")).strip():
            out.append("text content blocks must contain non-whitespace text")
        case "thinking" if not block.get("signature") or not isinstance(block.get("thinking"), str):
            out.append("Invalid `signature` in `thinking` block")
        case "redacted_thinking" if not block.get("data"):
            out.append("Invalid `data` in `redacted_thinking` block")
        case "tool_use":
            if not ID.fullmatch(str(block.get("id", ""))):
                out.append("tool_use.id: string should match pattern")
            if not NAME.fullmatch(str(block.get("name", ""))):
                out.append("tool_use.name: string should match pattern")
            if not isinstance(block.get("input"), dict):
                out.append("tool_use.input: should be a valid dictionary")
        case "tool_result" if not isinstance(block.get("content", ""), str):
            for inner in block["content"]:
                if inner.get("type") not in ("text", "image", "document"):
                    out.append(f"tool_result.content: unexpected type {inner.get('type')!r}")
                else:
                    out += block_faults(inner, "user")
        case "image" | "document":
            out += source_faults(block.get("source") or {}, kind)
    return out


def source_faults(source: Json, kind: str) -> list[str]:
    match source.get("type"):
        case "base64":
            allowed = PICTURES if kind == "image" else {"application/pdf"}
            return (
                []
                if source.get("media_type") in allowed and source.get("data")
                else [f"{kind}.source: {source.get('media_type')!r}"]
            )
        case "url":
            return [] if source.get("url") else [f"{kind}.source.url: field required"]
        case "text" if kind == "document":
            return [] if source.get("media_type") == "text/plain" else ["document.source.media_type"]
        case other:
            return [f"{kind}.source.type: {other!r}"]


def call_faults(messages: list[Json]) -> list[str]:
    """Every call has exactly one result in the next message; no result has no call; no id comes twice."""
    out: list[str] = []
    seen: set[Any] = set()
    before: set[Any] = set()
    for at, message in enumerate(messages):
        results = [b.get("tool_use_id") for b in message["content"] if b["type"] == "tool_result"]
        if len(set(results)) != len(results):
            out.append(f"messages.{at}: each tool_use must have a single result")
        if missing := before - set(results):
            out.append(
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks: {sorted(map(str, missing))}"
            )
        if orphans := set(results) - before:
            out.append(
                f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {sorted(map(str, orphans))}"
            )
        calls = [b.get("id") for b in message["content"] if b["type"] == "tool_use"]
        if seen & set(calls) or len(set(calls)) != len(calls):
            out.append(f"messages.{at}: `tool_use` ids must be unique")
        seen |= set(calls)
        before = set(calls)
    return [*out, *([f"calls without results at the end: {sorted(map(str, before))}"] if before else [])]


def prefill_faults(content: list[Json]) -> list[str]:
    last = content[-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        return ["final assistant content cannot end with trailing whitespace"]
    return []


def setting_faults(body: Json) -> list[str]:
    out: list[str] = []
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] not in ("enabled", "adaptive", "disabled"):
        out.append("thinking.type")
    if thinking["type"] == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        out.append("thinking.budget_tokens: at least 1024 and below max_tokens")
    if thinking["type"] != "disabled":
        if body.get("temperature", 1) != 1:
            out.append("temperature may only be set to 1 when thinking is enabled")
        if body.get("tool_choice", {"type": "auto"})["type"] not in ("auto", "none"):
            out.append("thinking may not be enabled when tool_choice forces tool use")
    names = [tool.get("name") for tool in body.get("tools", ())]
    if len(set(names)) != len(names):
        out.append("tools: names must be unique")
    if "tool_choice" in body and not names:
        out.append("tool_choice may only be specified while providing tools")
    for tool in body.get("tools", ()):
        if "type" not in tool and (tool.get("input_schema") or {}).get("type") != "object":
            out.append("tools.input_schema.type: field required")
    if isinstance(body.get("system", "x"), str) and not body.get("system", "x").strip():
        out.append("system: text content blocks must be non-empty")
    return out
