"""What Gemini accepts as a body of `streamGenerateContent`, written from its messages and reference, not from our encoder."""

import base64
import re
from typing import Any

Json = dict[str, Any]

BODY = {
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "generationConfig",
    "cachedContent",
    "labels",
}
DATA = {
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
}  # fmt: skip
BESIDE = {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}
NAME = re.compile(r"[a-zA-Z_][\w.:-]{0,127}", re.ASCII)


def check(body: Json, *, signs_calls: bool = False) -> list[str]:
    """Return what the API would refuse, a line a fault. `signs_calls`: the model wants signatures on the calls of the running turn."""
    out = [f'Unknown name "{name}"' for name in sorted(set(body) - BODY)]
    contents = body.get("contents") or []
    if not contents:
        out.append("contents is not specified")
    for at, content in enumerate(contents):
        out += [f"contents[{at}]{fault}" for fault in content_faults(content)]
    for part in (body.get("systemInstruction") or {"parts": [{"text": "x"}]})["parts"]:
        if set(part) != {"text"} or not part["text"]:
            out.append("systemInstruction takes text only")
    out += order_faults(contents)
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    if {"thinkingBudget", "thinkingLevel"} <= set(thinking):
        out.append("You can only set only one of thinking budget and thinking level")
    return out + (signature_faults(contents) if signs_calls else [])


def content_faults(content: Json) -> list[str]:
    role, parts = content.get("role"), content.get("parts")
    if role not in ("user", "model"):
        return [".role: Please use a valid role: user, model"]
    if not parts:
        return [".parts must not be empty"]
    return [f".parts[{at}]: {fault}" for at, part in enumerate(parts) for fault in part_faults(part, role)]


def part_faults(part: Json, role: str) -> list[str]:
    out = [f'Unknown name "{name}"' for name in sorted(set(part) - DATA - BESIDE)]
    if len(DATA & set(part)) != 1:
        out.append("required oneof field 'data' must have one initialized field")
    if part.get("text") == "" and "thoughtSignature" not in part:
        out.append("empty text parameter")
    if "thoughtSignature" in part and not is_base64(part["thoughtSignature"]):
        out.append("thoughtSignature: Base64 decoding failed")
    if role == "user" and (set(part) & {"functionCall", "thought", "thoughtSignature"}):
        out.append("only the model calls, thinks and signs")
    if role == "model" and "functionResponse" in part:
        out.append("only the user answers calls")
    call, answer = part.get("functionCall"), part.get("functionResponse")
    if call is not None and not (
        NAME.fullmatch(call.get("name", "")) and isinstance(call.get("args", {}), dict)
    ):
        out.append("functionCall needs a name, and args that are an object")
    if answer is not None and not (
        NAME.fullmatch(answer.get("name", "")) and isinstance(answer.get("response"), dict)
    ):
        out.append("functionResponse needs a name, and a response that is an object")
    for media in ("inlineData", "fileData"):
        if media in part and not (part[media].get("mimeType") or media == "fileData"):
            out.append(f"{media} needs a mimeType")
    return out


def order_faults(contents: list[Json]) -> list[str]:
    """Calls come right after a user turn or responses; what answers them comes next, one response a call."""
    out: list[str] = []
    asked: list[Json] = []
    for at, content in enumerate(contents):
        parts = content.get("parts") or []
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if len(answers) != len(asked):
            out.append(
                f"contents[{at}]: the number of function response parts is not equal to the number of function call parts"
            )
        for call, answer in zip(asked, answers, strict=False):
            if (call.get("id"), call["name"]) != (answer.get("id"), answer["name"]):
                out.append(
                    f"contents[{at}]: response {answer.get('id')} does not answer call {call.get('id')}"
                )
        asked = [part["functionCall"] for part in parts if "functionCall" in part]
        if asked and (at == 0 or contents[at - 1].get("role") != "user"):
            out.append(
                f"contents[{at}]: function call turn must come immediately after a user turn or a function response turn"
            )
    return [*out, *(["calls without responses at the end"] if asked else [])]


def signature_faults(contents: list[Json]) -> list[str]:
    said = [
        at
        for at, content in enumerate(contents)
        if content["role"] == "user" and any("functionResponse" not in p for p in content["parts"])
    ]
    out: list[str] = []
    for at, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and at > (said[-1] if said else -1) and not calls[0].get("thoughtSignature"):
            out.append(f"contents[{at}]: Function call is missing a thought_signature in functionCall parts")
    return out


def is_base64(text: object) -> bool:
    if not isinstance(text, str) or not text:
        return False
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return False
    return True
