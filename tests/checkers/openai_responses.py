"""What OpenAI's API accepts as a body of `POST /responses`, written from its error messages and reference, not from our encoder."""

import json
import re
from typing import Any

Json = dict[str, Any]

BODY = {
    "model", "input", "instructions", "stream", "store", "include", "reasoning", "max_output_tokens", "temperature", "top_p", "tools",
    "tool_choice", "parallel_tool_calls", "text", "previous_response_id", "conversation", "metadata", "truncation", "service_tier",
    "prompt_cache_key", "safety_identifier", "background", "user",
}  # fmt: skip
PARTS = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text", "input_image", "input_file"},
    "developer": {"input_text", "input_image", "input_file"},
    "assistant": {"output_text", "refusal"},
}
EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check(body: Json) -> list[str]:
    """Return what the API would refuse, a line a fault."""
    out = [f"Unknown parameter: {name!r}" for name in sorted(set(body) - BODY)]
    items = body.get("input") or []
    if not body.get("model"):
        out.append("Missing required parameter: 'model'")
    if not items:
        out.append("One of 'input' or 'previous_response_id' must be provided")
    stored = bool(body.get("store", True))
    for at, item in enumerate(items):
        after = items[at + 1] if at + 1 < len(items) else {}
        out += [f"input[{at}]: {fault}" for fault in item_faults(item, after, stored=stored)]
    ids = [item["id"] for item in items if item.get("id")]
    out += [f"Duplicate item found with id {name}" for name in sorted({i for i in ids if ids.count(i) > 1})]
    if not body.get("previous_response_id"):
        out += call_faults(items)
    return out + setting_faults(body)


def item_faults(item: Json, after: Json, *, stored: bool) -> list[str]:
    match item.get("type", "message"):
        case "message":
            return message_faults(item)
        case "reasoning":
            return reasoning_faults(item, after, stored=stored)
        case "function_call":
            out = [] if item.get("call_id") else ["Missing required parameter: 'call_id'"]
            if not NAME.fullmatch(str(item.get("name", ""))):
                out.append("Invalid 'name': string does not match pattern")
            if not is_object(item.get("arguments")):
                out.append("Invalid 'arguments': expected a JSON object as text")
            return out
        case "function_call_output":
            output = item.get("output")
            if not item.get("call_id") or not isinstance(output, str | list):
                return ["Invalid function_call_output"]
            kinds = [part.get("type") for part in output] if isinstance(output, list) else []
            return [f"Invalid value: {kind!r}" for kind in kinds if kind not in PARTS["user"]]
        case str() as kind if kind.endswith("_call") or kind in (
            "item_reference",
            "mcp_list_tools",
            "compaction",
        ):
            return []  # the provider's own items come back whole
        case kind:
            return [f"Invalid value: {kind!r}"]


def message_faults(item: Json) -> list[str]:
    role, content = item.get("role"), item.get("content")
    if role not in PARTS:
        return [f"Invalid value: {role!r}"]
    if isinstance(content, str):
        return [] if content else ["content must not be empty"]
    if not content:
        return ["content must not be empty"]
    out = [f"Invalid value: {part.get('type')!r}" for part in content if part.get("type") not in PARTS[role]]
    for part in content:
        match part.get("type"):
            case "input_text" | "output_text" if not isinstance(part.get("text"), str) or not part["text"]:
                out.append("text must not be empty")
            case "input_image" if not re.match(
                r"https?://|data:image/", part.get("image_url", "")
            ) and not part.get("file_id"):
                out.append("Invalid 'image_url'")
            case "input_file" if not any(part.get(name) for name in ("file_url", "file_data", "file_id")):
                out.append("input_file without a file")
    return out


def reasoning_faults(item: Json, after: Json, *, stored: bool) -> list[str]:
    """A reasoning item needs the item of its own turn that followed it; with nothing stored it must hold itself."""
    out = [] if isinstance(item.get("summary"), list) else ["Missing required parameter: 'summary'"]
    if not stored and not item.get("encrypted_content") and not item.get("content"):
        out.append(
            f"Item with id {item.get('id')!r} not found: items are not persisted when `store` is false"
        )
    kind = after.get("type", "message") if after else None
    if kind in (None, "function_call_output") or (kind == "message" and after.get("role") != "assistant"):
        out.append(
            f"Item {item.get('id')!r} of type 'reasoning' was provided without its required following item"
        )
    return out


def call_faults(items: list[Json]) -> list[str]:
    out: list[str] = []
    waiting: list[Any] = []
    for item in items:
        match item.get("type", "message"):
            case "function_call":
                if item.get("call_id") in waiting:
                    out.append(f"call {item.get('call_id')} was made twice before its output")
                waiting.append(item.get("call_id"))
            case "function_call_output" if item.get("call_id") not in waiting:
                out.append(f"No tool call found for function call output with call_id {item.get('call_id')}")
            case "function_call_output":
                waiting.remove(item.get("call_id"))
            case "message" if item.get("role") != "assistant" and waiting:
                out.append(f"No tool output found for function call {waiting[0]}")
    return [*out, *(f"No tool output found for function call {call}" for call in waiting)]


def setting_faults(body: Json) -> list[str]:
    out: list[str] = []
    effort = (body.get("reasoning") or {}).get("effort", "low")
    if effort not in EFFORTS:
        out.append(f"Invalid value: {effort!r}")
    if body.get("max_output_tokens", 16) < 16:
        out.append("Invalid 'max_output_tokens': integer below minimum value")
    for tool in body.get("tools", ()):
        if tool.get("type") == "function" and not NAME.fullmatch(str(tool.get("name", ""))):
            out.append("Invalid 'tools.name'")
    form = (body.get("text") or {}).get("format", {})
    if form.get("type") == "json_schema" and not (
        NAME.fullmatch(form.get("name", "")) and form.get("schema")
    ):
        out.append("Missing required parameter: 'text.format.name'")
    return out


def is_object(text: object) -> bool:
    try:
        return isinstance(json.loads(text), dict) if isinstance(text, str) else False
    except ValueError:
        return False
