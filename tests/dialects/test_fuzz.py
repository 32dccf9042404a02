"""Whatever a server sends, a dialect reads it or says `WireError`: no other exception, the same at any split, and valid text only.

The streams are those of the bug cases, mutated in their JSON, in their bytes, or in both.
"""

import dataclasses
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_way import LongWay

from agentkit.accumulators import Response
from agentkit.chunks import Chunk, UsageChunk
from agentkit.dialects.base import Profile, Target
from agentkit.dialects.table import DIALECTS
from agentkit.errors import WireError
from agentkit.reading import decode_body, read_chunks
from agentkit.step_events import StepEvents

pytestmark = pytest.mark.pure

CASES = Path(__file__).parents[1] / "bugcases"
VALUES: list[Any] = [
    None, True, 0, 1, -1, 7, 1e300, 2**70, "", "x", "\ud83c", "\udf0d", "{}", '{"a":', "[DONE]", "<think>", [], [None], [[]], {},
    {"x": None}, {"type": "text"}, {"type": "text", "text": 1}, {"text": "x"}, {"type": []}, {"error": "x"}, {"error": {}},
    {"index": 1},
]  # fmt: skip
TOKENS = [
    b"\n",
    b"\r",
    b"\n\n",
    b"data: ",
    b"event: error\n",
    b"error: x\n",
    b":",
    b"{",
    b"}",
    b'"',
    b"\xff",
    b"\xf0\x9f",
    b"\0",
    b"null",
]


def streams(dialect: str) -> list[bytes]:
    cases = [
        json.loads(path.read_text()) | {"folder": path.parent} for path in sorted(CASES.glob("*/case.json"))
    ]
    chosen = [case for case in cases if case["kind"] == "stream" and case["dialect"] == dialect]
    return [(case["folder"] / "stream.sse").read_bytes() for case in chosen]


OLLAMA = [
    {"model": "demo", "message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False},
    {"model": "demo", "message": {"role": "assistant", "content": "Grüße 🌍"}, "done": False},
    {"message": {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "ä"}, "index": 1}}]}, "done": False},
    {"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 3},
]  # fmt: skip
STREAMS = {name: streams(name) for name in DIALECTS}


def pieces_of(dialect: str) -> bytes:
    """Return a stream of little else than pieces of open blocks, which decoders read in a short way."""
    anthropic = [("text", "text"), ("thinking", "thinking"), ("input_json", "partial_json")]
    place = {"output_index": 0, "content_index": 0, "summary_index": 0, "item_id": "i"}
    kinds = {
        "message": "output_text",
        "reasoning": "reasoning_summary_text",
        "function_call": "function_call_arguments",
    }
    usage = {"promptTokenCount": 3}
    payloads: dict[str, list[Any]] = {
        "anthropic-messages": [
            {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", member: "hm ü"}}
            for index, (kind, member) in enumerate(anthropic)
        ],
        "openai-chat": [
            {"choices": [{"index": 0, "delta": {"content": None, member: "hm ü"}, "finish_reason": None}], "usage": None}
            for member in ("reasoning_content", "content")
        ],
        "openai-responses": [
            {"type": f"response.{kind}.delta", **place, "output_index": index, "delta": "hm ü"}
            for index, kind in enumerate(kinds.values())
        ],
        "gemini": [
            {"candidates": [{"content": {"parts": [{"text": "hm ü", "thought": thought}]}}], "usageMetadata": usage}
            for thought in (True, False)
        ],
    }  # fmt: skip
    starts: dict[str, list[Any]] = {
        "anthropic-messages": [
            {"type": "content_block_start", "index": index, "content_block": {"type": kind, "id": "c", "name": "f"}}
            for index, kind in enumerate(("text", "thinking", "tool_use"))
        ],
        "openai-responses": [
            {"type": "response.output_item.added", "output_index": index, "item": {"type": kind, "id": f"i{index}"}}
            for index, kind in enumerate(kinds)
        ],
    }  # fmt: skip
    many = [payload for payload in payloads.get(dialect, ()) for _ in range(4)]
    return b"".join(
        b"data: %b\n\n" % json.dumps(payload).encode() for payload in [*starts.get(dialect, ()), *many]
    )


for name in STREAMS:
    if made := pieces_of(name):
        STREAMS[name] += [made] * 5
if "ollama" in STREAMS:
    STREAMS["ollama"].append(b"".join(b"data: %b\n" % json.dumps(line).encode() for line in OLLAMA))


def mutated(body: bytes, framing: str, chance: random.Random) -> bytes:
    """Return a body of the dialect's framing with a few faults in it."""
    if chance.random() < 0.7:
        body = b"".join(mutated_payloads(body, chance))
    if framing == "ndjson":
        body = b"\n".join(line.removeprefix(b"data: ") for line in body.split(b"\n"))
    if chance.random() < 0.5:
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(body) + 1)
            gone = chance.choice((0, 0, 1, 30))
            body = body[:at] + chance.choice(TOKENS) + body[at + gone :]
    return body


def mutated_payloads(body: bytes, chance: random.Random) -> Iterator[bytes]:
    lines = [line for line in body.replace(b"\r", b"\n").split(b"\n") if line.startswith(b"data: {")]
    chosen = {chance.randrange(len(lines)) for _ in range(chance.randint(1, 4))} if lines else set()
    order = list(range(len(lines)))
    if chance.random() < 0.3:
        chance.shuffle(order)
    for at in order:
        try:
            payload = json.loads(lines[at][6:])
        except ValueError:
            continue
        if at in chosen:
            payload = mutated_value(payload, chance)
        for _ in range(chance.choice((0, 1, 1, 1, 1, 2)) if at in chosen else 1):
            yield b"data: %b\n\n" % json.dumps(payload).encode()


def mutated_value(value: Any, chance: random.Random) -> Any:
    """Replace, remove or add one member somewhere inside."""
    if not value or not isinstance(value, (dict, list)) or chance.random() < 0.1:
        return chance.choice(VALUES)
    out: Any = dict(value) if isinstance(value, dict) else list(value)
    key = chance.choice(list(out)) if isinstance(out, dict) else chance.randrange(len(out))
    match chance.randrange(6):
        case 0:
            del out[key]
        case 1 if isinstance(out, dict):
            out[chance.choice(("type", "index", "text", "error", "new"))] = chance.choice(VALUES)
        case _:
            out[key] = mutated_value(out[key], chance)
    return out


def pieces(body: bytes, chance: random.Random) -> Iterable[bytes]:
    places = sorted(chance.randrange(len(body) + 1) for _ in range(chance.choice((1, 5, 50))))
    return (body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True))


@pytest.mark.parametrize("name", [name for name, bodies in STREAMS.items() if bodies])
@settings(max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_a_mutated_stream_is_read_or_refused_and_the_same_at_any_split(name: str, seed: int) -> None:
    chance = random.Random(seed)
    dialect = DIALECTS[name]
    target = Target("fuzz", "demo", Profile(think_tags=chance.random() < 0.5))
    body = mutated(chance.choice(STREAMS[name]), dialect.framing, chance)

    chunks, fault = decode_body(dialect, target, [body])
    again, fault_again = decode_body(dialect, target, pieces(body, chance))
    slowly, fault_slowly = decode_body(LongWay(dialect), target, [body])

    assert (again, str(fault_again)) == (chunks, str(fault))
    assert (slowly, str(fault_slowly)) == (chunks, str(fault))
    assert fault is None or type(fault) is WireError
    check(chunks)


def check(chunks: list[Chunk]) -> None:
    """Chunks of any answer are well formed: valid text, JSON states, sane counts; blocks, events and a reading can be made of them."""
    response = Response()
    for chunk in chunks:
        response.add(chunk)
        values = dataclasses.asdict(chunk)
        for name, value in values.items():
            if isinstance(value, str):
                value.encode()
            if name == "provider_state" and value is not None:
                json.loads(value)
        assert type(values.get("index", 0)) is int
        if isinstance(chunk, UsageChunk):
            assert all(
                type(count) is int and count >= 0 for count in dataclasses.asdict(chunk.usage).values()
            )
    step = StepEvents("run", 1, "fuzz")
    step.map(chunks, 0.0)
    step.close(0.0)
    json.dumps(read_chunks(chunks))
    response.message()


@pytest.mark.parametrize("name", DIALECTS)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_read_or_refused(name: str, body: bytes, cut: int) -> None:
    chunks, fault = decode_body(DIALECTS[name], Target("fuzz", "demo"), [body[:cut], body[cut:]])

    assert fault is None or type(fault) is WireError
    check(chunks)
