"""Every recorded stream of a dialect that is built reads as the catalogue says, however it is cut.

The recordings are other people's data and stay outside: `--recordings=DIR`. Their `expected.json` speaks the catalogue's labels; the
tables below are the only place that maps them to ours. Decisions of ours that differ from the catalogue, each with its reason:

- An error in the stream makes `finish` `error`, also after a finish reason (bugcases policy 8); the catalogue keeps the finish reason.
- A chat stream that ends with `[DONE]` and no finish reason reads as `stop`, or `tool_calls` (policy 6); the catalogue says null.
- Responses, Gemini and Ollama say stop or completed also where they call tools; ours is `tool_calls` then (policy 7).
- Our output tokens hold the reasoning too; some chat servers, xAI's among them, count it beside the output (completion_tokens 27 of a total that has 340 more than
  the prompt's): there the total says it.
- A call whose end was not seen has no `args` (policy 10); the catalogue parses what came.
"""

import copy
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from long_way import LongWay

from agentkit.dialects.base import Target
from agentkit.dialects.table import DIALECTS
from agentkit.reading import decode_body, read_stream

pytestmark = pytest.mark.timeout(120)

SMALL = 4096
"""Bytes below which every cut is tried; above, random ones."""
RANDOM_SPLITS = 50

FINISH = {
    "end_turn": "stop", "stop_sequence": "stop", "stop": "stop", "STOP": "stop", "completed": "stop",
    "eos": "stop", "tool_use": "tool_calls", "tool_calls": "tool_calls", "function_call": "tool_calls",
    "max_tokens": "length", "length": "length", "MAX_TOKENS": "length", "incomplete": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal", "pause_turn": "pause", "content_filter": "content_filter", "failed": "error",
    "SAFETY": "error", "RECITATION": "error", "PROHIBITED_CONTENT": "error", "BLOCKLIST": "error", "SPII": "error",
    "LANGUAGE": "error", "IMAGE_SAFETY": "error", "MALFORMED_FUNCTION_CALL": "error", "UNEXPECTED_TOOL_CALL": "error",
    None: None,
}  # fmt: skip
"""The catalogue's finish words, and ours. Gemini's last ones end an answer that it will not or cannot give: an error (policy 8)."""
CALLS_ARE_A_FINISH = {"openai-responses", "gemini", "ollama"}

SUMMARIES = {"openai-reasoning-item"}
"""The catalogue's formats of thinking whose text may stand in several summary parts; what stands between these is ours."""

Json = dict[str, Any]


def anthropic_usage(usage: Json) -> Json:
    said = {
        k: v
        for part in ("message_start", "message_delta")
        for k, v in (usage.get(part) or {}).items()
        if v is not None
    }
    read, write = said.get("cache_read_input_tokens", 0), said.get("cache_creation_input_tokens", 0)
    return {
        "input_tokens": said.get("input_tokens", 0) + read + write,
        "output_tokens": said.get("output_tokens", 0),
        "reasoning_tokens": said.get("output_tokens_details", {}).get("thinking_tokens", 0),
        "cache_read_tokens": read,
        "cache_write_tokens": write,
    }


def chat_usage(usage: Json) -> Json:
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return {
        "input_tokens": prompt,
        "output_tokens": max(completion, (usage.get("total_tokens") or 0) - prompt),
    }


def counts(*names: str) -> Callable[[Json], Json]:
    """Return a usage that has input tokens under the first name and output tokens under the second."""
    ours = ("input_tokens", "output_tokens")
    return lambda usage: {our: usage[name] for our, name in zip(ours, names, strict=False) if name in usage}


USAGE: dict[str, Callable[[Json], Json]] = {
    "anthropic-messages": anthropic_usage,
    "openai-chat": chat_usage,
    "openai-responses": counts("input_tokens", "output_tokens"),
    "gemini": lambda u: {"input_tokens": u.get("promptTokenCount", 0) + u.get("toolUsePromptTokenCount", 0)},
    "ollama": counts("prompt_eval_count", "eval_count"),
}
"""The members of our usage that the catalogue's usage fixes, by dialect."""

BLOCK_KINDS = {"text": "text", "thinking": "thinking", "redacted_thinking": "thinking", "tool_use": "tool"}


def read(entry: Json, reads: Iterable[bytes]) -> Json:
    target = Target(entry["provider"], entry["model"] or "")
    return read_stream(DIALECTS[entry["dialect"]], target, reads)


def load(recording: tuple[Path, Json]) -> tuple[Json, bytes, Json]:
    folder, entry = recording
    expected = json.loads((folder / entry["expected"]).read_text())
    return entry, (folder / entry["file"]).read_bytes(), expected


def test_a_recording_reads_as_the_catalogue_says(recording: tuple[Path, Json]) -> None:
    entry, body, expected = load(recording)

    reading = read(entry, [body])

    assert differences(entry["dialect"], body, expected, reading) == []


def test_any_split_reads_the_same(recording: tuple[Path, Json]) -> None:
    entry, body, _ = load(recording)
    whole = read(entry, [body])

    for pieces in splits(recording[0], entry, body):
        assert read(entry, pieces) == whole


def test_the_short_way_gives_the_chunks_of_the_long_one(recording: tuple[Path, Json]) -> None:
    entry, body, _ = load(recording)
    dialect, target = DIALECTS[entry["dialect"]], Target(entry["provider"], entry["model"] or "")

    assert decode_body(dialect, target, [body]) == decode_body(LongWay(dialect), target, [body])


def splits(folder: Path, entry: Json, body: bytes) -> Iterator[list[bytes]]:
    """Every cut of a small body; random cuts of a large one; the network's own where they were recorded."""
    if len(body) < SMALL:
        yield from ([body[:cut], body[cut:]] for cut in range(1, len(body)))
        yield [body[at : at + 1] for at in range(len(body))]
    else:
        chance = random.Random(entry["file"])
        for _ in range(RANDOM_SPLITS):
            count = chance.choice((1, 3, 30, 300))
            yield cut_at(body, sorted(chance.randrange(len(body)) for _ in range(count)))
    if entry["chunk_sizes"]:
        sizes = json.loads((folder / entry["chunk_sizes"]).read_text())
        sizes = sizes["sizes"] if isinstance(sizes, dict) else sizes
        places = [sum(sizes[: at + 1]) for at in range(len(sizes) - 1)]
        yield cut_at(body, places)


def cut_at(body: bytes, places: list[int]) -> list[bytes]:
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def differences(dialect: str, body: bytes, expected: Json, reading: Json) -> list[str]:
    """Return what differs, a line a member; [] where the reading is as expected."""
    ours: Json = {
        "text": reading["text"],
        "refusal": reading["refusal"],
        "finish": reading["finish"],
        "thinking": [part for block in reading["thinking"] for part in flat_thinking(block)],
        "tools": [[tool["name"], tool["args"]] for tool in reading["tools"]],
        "error": bool(reading["error"]),
    }
    finish = expected_finish(dialect, body, expected)
    theirs: Json = {
        "text": expected["text"],
        "refusal": expected["refusal"],
        "finish": finish,
        "thinking": [expected_thinking(block) for block in expected["thinking"]],
        "tools": [
            [call["name"], None if tool.get("complete") is False else call["arguments"]]
            for call, tool in zip(
                expected["tool_calls"], padded(reading["tools"], expected["tool_calls"]), strict=True
            )
        ],
        "error": finish == "error" or expected_truncated(body, expected),
    }
    out = [f"{name}: {ours[name]!r} is not {theirs[name]!r}" for name in theirs if ours[name] != theirs[name]]
    out += tool_differences(expected["tool_calls"], reading["tools"])
    out += server_differences(expected["server_items"], reading["provider"])
    if expected["usage"] is None:
        out += [f"usage: {reading['usage']}, none came"] if reading["usage"] else []
    else:
        for name, count in USAGE[dialect](expected["usage"]).items():
            if (reading["usage"] or {}).get(name) != count:
                out.append(f"usage: {name} in {reading['usage']} is not {count}")
    if expected["error"]:
        out += error_differences(expected["error"], reading["error"])
    elif reading["error"] and reading["error"]["kind"] != ("provider" if finish == "error" else "truncated"):
        out.append(f"error: {reading['error']} is of another kind")
    if "block_types" in expected:
        kinds = [BLOCK_KINDS[kind] for kind in expected["block_types"] if kind in BLOCK_KINDS]
        kinds = [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]
        out += [] if reading["order"] == kinds else [f"order: {reading['order']} is not {kinds}"]
    return out


def padded(tools: list[Json], calls: list[Json]) -> list[Json]:
    return [*tools, *({} for _ in calls)][: len(calls)]


def expected_finish(dialect: str, body: bytes, expected: Json) -> str | None:
    if expected["error"]:
        return "error"
    finish = FINISH[expected["finish_reason"]]
    calls = bool(expected["tool_calls"])
    if finish is None and b"data: [DONE]" in body:
        return "tool_calls" if calls else "stop"
    return "tool_calls" if finish == "stop" and calls and dialect in CALLS_ARE_A_FINISH else finish


def expected_truncated(body: bytes, expected: Json) -> bool:
    return expected["finish_reason"] is None and b"data: [DONE]" not in body


def expected_thinking(block: Json) -> Json:
    text = block["text"]
    if block["format"] in SUMMARIES:
        text = squeezed(text or "".join(block["summary"]))
    return {"text": text, "signature": block["signature"], "opaque": block["opaque"]}


def flat_thinking(block: Json) -> list[Json]:
    """Return a thinking block of ours in the catalogue's form, one for each detail where a gateway tells details."""
    state = block["state"] or {}
    match state:
        case {"block": {"data": opaque}}:
            return [{"text": block["text"], "signature": block["signature"], "opaque": opaque}]
        case {"item": item}:
            opaque = item.get("encrypted_content")
            return [{"text": squeezed(block["text"]), "signature": block["signature"], "opaque": opaque}]
        case {"reasoning_details": details}:
            return [
                {
                    "text": detail.get("text") or detail.get("summary") or "",
                    "signature": detail.get("signature"),
                    "opaque": detail.get("data"),
                }
                for detail in details
            ]
        case _:
            return [{"text": block["text"], "signature": block["signature"], "opaque": None}]


def squeezed(text: str) -> str:
    """What stands between the parts of a summary is not on the wire: compare without white space."""
    return re.sub(r"\s", "", text)


def tool_differences(calls: list[Json], tools: list[Json]) -> list[str]:
    out = []
    for call, tool in zip(calls, tools, strict=False):
        if call["id"]:
            out += [] if tool["id"] == call["id"] else [f"tool id: {tool['id']} is not {call['id']}"]
        elif not tool["id"]:
            out.append(f"tool id: {call['name']} has none")
        if tool.get("complete") is False and tool["raw_args"] != call["arguments_raw"]:
            out.append(f"raw_args: {tool['raw_args']!r} is not {call['arguments_raw']!r}")
        if call.get("item_id") and tool.get("item_id") != call["item_id"]:
            out.append(f"item_id: {tool.get('item_id')} is not {call['item_id']}")
        if call.get("signature") != tool.get("signature"):
            out.append(f"signature: {tool.get('signature')} is not {call.get('signature')}")
    return out


def server_differences(items: list[Json], blocks: list[Json]) -> list[str]:
    """The provider's own blocks: all of them, in order, with at least the members that the catalogue names."""
    if [item["type"] for item in items] != [block["kind"] for block in blocks]:
        return [f"provider blocks: {[b['kind'] for b in blocks]} are not {[i['type'] for i in items]}"]
    out = []
    for item, block in zip(items, blocks, strict=True):
        whole: object = next(
            (block["state"][name] for name in ("block", "item", "state") if name in block["state"]), {}
        )
        if isinstance(whole, Mapping) and any(
            whole.get(name) != value for name, value in item.items() if name in whole
        ):
            out.append(f"provider block {whole!r} does not hold {item!r}")
    return out


def error_differences(expected: Json | str, error: Json | None) -> list[str]:
    told: Any = expected.get("error") or expected if isinstance(expected, dict) else expected
    message, code = (
        (told, None) if isinstance(told, str) else (told.get("message"), told.get("code") or told.get("type"))
    )
    if error is None or error["kind"] != "provider" or (message or "") not in error["message"]:
        return [f"error: {error} does not tell {message!r}"]
    return (
        [] if code is None or error["code"] == str(code) else [f"error code: {error['code']} is not {code}"]
    )


REDACTED: Json = {"format": "anthropic-redacted", "text": "", "signature": None, "opaque": "x"}
CHANGES: dict[str, Callable[[Json], object]] = {
    "text": lambda e: e.update(text=e["text"] + "x"),
    "refusal": lambda e: e.update(refusal="x"),
    "finish": lambda e: e.update(finish_reason="pause_turn"),
    "error": lambda e: e.update(error={"message": "x"}),
    "one thinking block more": lambda e: e["thinking"].append({**REDACTED}),
    "one call more": lambda e: e["tool_calls"].append({"id": "x", "name": "x", "arguments": {}, "arguments_raw": ""}),
    "one server item more": lambda e: e["server_items"].append({"type": "x"}),
    "usage": lambda e: e.update(usage={"message_start": {"input_tokens": 1}, "message_delta": {"output_tokens": 1}}),
    "order": lambda e: e.update(block_types=[*e["block_types"], "tool_use", "thinking"]),
}  # fmt: skip


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
def test_a_changed_expectation_fails(change: Callable[[Json], object]) -> None:
    body = b"".join(
        b"data: %b\n\n" % json.dumps(payload).encode()
        for payload in (
            {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        )
    )
    expected: Json = {
        "text": "Hi", "refusal": None, "finish_reason": "end_turn", "error": None, "thinking": [], "tool_calls": [],
        "server_items": [], "block_types": ["text"],
        "usage": {"message_start": {"input_tokens": 3}, "message_delta": {"output_tokens": 2}},
    }  # fmt: skip
    reading = read({"dialect": "anthropic-messages", "provider": "anthropic", "model": "m"}, [body])
    changed = copy.deepcopy(expected)
    change(changed)

    assert differences("anthropic-messages", body, expected, reading) == []
    assert differences("anthropic-messages", body, changed, reading) != []
