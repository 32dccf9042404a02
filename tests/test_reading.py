import json
import re
from typing import Any

import pytest

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ProviderChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import JsonValue, Usage
from agentkit.dialects.base import Decoder, HTTPParts, Profile, StatusFault, Target
from agentkit.dialects.table import DIALECTS
from agentkit.errors import WireError
from agentkit.model import ModelRequest
from agentkit.reading import BodyDecoder, decode_body, read_chunks, read_stream

pytestmark = pytest.mark.pure

TARGET = Target("test", "demo")


class Echo:
    """A dialect whose payloads are text, but for `!`, which is broken; `held` comes at the end."""

    name = "echo"

    def __init__(self, framing: Any = "sse", end: str = "") -> None:
        self.framing = framing
        self.end = end

    def decoder(self, target: Target) -> Decoder:
        return EchoDecoder(self.end)

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        raise NotImplementedError

    def auth_headers(self, key: str) -> dict[str, str]:
        raise NotImplementedError

    def status_fault(self, status: int, body: str) -> StatusFault:
        raise NotImplementedError


class EchoDecoder:
    def __init__(self, end: str) -> None:
        self.end = end

    def feed(self, event: str, data: str) -> list[Chunk]:
        if data == "!":
            raise WireError("echo payload is broken")
        return [TextChunk(event + data)] if data else []

    def close(self) -> list[Chunk]:
        return self.feed("", self.end)


def test_sse_gives_the_decoder_name_and_data_of_each_event() -> None:
    chunks, fault = decode_body(Echo(end="e"), TARGET, [b"event: x\ndata: a\n\nda", b"ta: b\n\nerror: c"])

    assert (chunks, fault) == ([TextChunk("xa"), TextChunk("b"), TextChunk("errorc"), TextChunk("e")], None)


def test_ndjson_gives_the_decoder_lines() -> None:
    chunks, fault = decode_body(Echo("ndjson"), TARGET, [b"1\n2", b"3\n4"])

    assert (chunks, fault) == ([TextChunk("1"), TextChunk("23"), TextChunk("4")], None)


BROKEN = {
    "payload": (Echo(), b"data: a\n\ndata: !\n\ndata: b\n\n", "echo payload is broken"),
    "payload at the end": (Echo(end="!"), b"data: a\n\n", "echo payload is broken"),
    "payload beside what is given out at the end": (Echo(end="!"), b"error: a", "echo payload is broken"),
    "framing": (Echo("ndjson"), b'"a"\n{', r"NDJSON body ended inside a line: '\{'"),
    "too large": (Echo(), b"data: a\n\ndata: " + b"x" * 100 + b"\n\n", "SSE event grew to 1.. bytes, limit is 100"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "body", "words"), [pytest.param(*case, id=name) for name, case in BROKEN.items()]
)
def test_what_came_before_a_fault_is_given_out_at_every_cut(dialect: Echo, body: bytes, words: str) -> None:
    for cut in range(len(body) + 1):
        decoder = BodyDecoder(dialect, TARGET, max_event_size=100)
        chunks: list[Chunk] = []
        fault: WireError | None = None
        try:
            chunks += decoder.feed(body[:cut])
            chunks += decoder.feed(body[cut:])
            chunks += decoder.close()
        except WireError as error:
            fault = error
        assert len(chunks) == 1
        assert re.fullmatch(words, str(fault or decoder.fault))
        with pytest.raises(WireError):
            decoder.feed(b"data: c\n\n")


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if DIALECTS[name].framing == "sse"])
@pytest.mark.parametrize("name", ["error", "Error", "ERROR"])
def test_an_event_named_error_is_one_in_any_case(dialect: str, name: str) -> None:
    found = read_stream(DIALECTS[dialect], TARGET, [f"event: {name}\ndata: gone\n\n".encode()])

    assert isinstance(found["error"], dict)
    assert (found["error"]["kind"], found["error"]["message"]) == ("provider", "gone")


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if DIALECTS[name].framing == "sse"])
def test_a_blank_payload_says_nothing(dialect: str) -> None:
    found = read_stream(DIALECTS[dialect], TARGET, [b"data:\n\ndata:  \n\nevent: ping\ndata: \t\n\n"])

    assert isinstance(found["error"], dict)
    assert found["error"]["kind"] == "truncated"


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if DIALECTS[name].framing == "sse"])
@pytest.mark.parametrize(
    "sign", [b"event: ping\ndata: ping", b"event: Heartbeat\ndata: 2026-11-30", b"event: keepalive\ndata: {}"]
)
def test_signs_of_life_say_nothing(dialect: str, sign: bytes) -> None:
    found = read_stream(DIALECTS[dialect], TARGET, [sign + b"\n\n"])

    assert isinstance(found["error"], dict)
    assert found["error"]["kind"] == "truncated"


@pytest.mark.parametrize("body", [b"data: a\n\ndata: !\n\n", b"data: !\n\n", b"data: " + b"x" * 200], ids=str)
def test_what_a_decoder_held_back_is_not_lost_to_a_fault(body: bytes) -> None:
    decoder = BodyDecoder(Echo(end="held"), TARGET, max_event_size=100)

    chunks = decoder.feed(body)

    assert chunks[-1] == TextChunk("held")
    assert isinstance(decoder.fault, WireError)
    with pytest.raises(WireError):
        decoder.close()


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        pytest.param("openai-chat", b'data: {"choices":[{"delta":{"content":"a<thi"}}]}\n\ndata: {\n\n', id="half a tag"),
        pytest.param("openai-chat", b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\ndata: {\n\n', id="half a character"),
        pytest.param("ollama", b'{"message":{"content":"a<thi"}}\n{\n', id="half a tag of Ollama"),
    ],
)  # fmt: skip
def test_a_real_decoder_gives_out_what_it_held_back_before_broken_bytes(dialect: str, body: bytes) -> None:
    found = read_stream(DIALECTS[dialect], Target("test", "demo", Profile(think_tags=True)), [body])

    assert found["text"] in ("a<thi", "a\ufffd")
    assert isinstance(found["error"], dict)
    assert found["error"]["kind"] == "wire"


def reading(**members: JsonValue) -> dict[str, JsonValue]:
    nothing: dict[str, JsonValue] = {
        "text": "", "thinking": [], "tools": [], "provider": [], "text_signatures": [], "refusal": None,
        "finish": None, "finish_raw": None, "usage": None, "error": None, "order": [],
    }  # fmt: skip
    return {**nothing, **members}


def tool(**members: JsonValue) -> dict[str, JsonValue]:
    return {"id": "t", "name": "f", **members}


READINGS: dict[str, tuple[list[Chunk], dict[str, JsonValue]]] = {
    "nothing": ([], reading()),
    "text in two blocks": ([TextChunk("a", 0), TextChunk("b", 2), TextChunk("c", 0)], reading(text="acb", order=["text"])),
    "signed text, empty too": (
        [TextChunk("a", 0), TextChunk("", 1, "s", "gemini")],
        reading(text="a", text_signatures=[{"text": "", "signature": "s"}], order=["text"])),
    "order": (
        [ThinkingChunk("x", index=0), ToolUseChunk("t", "f", index=1), BlockEndChunk(1), ThinkingChunk("y", index=2),
         TextChunk("z", 3), ProviderChunk("p", "1", "f", 4), RefusalChunk("r", 5), TextChunk("z", 6)],
        reading(text="zz", thinking=[{"text": "x", "signature": None, "state": None}, {"text": "y", "signature": None, "state": None}],
                tools=[tool(args={})], provider=[{"kind": "p", "state": {"format": "f", "state": 1}}], refusal="r",
                order=["thinking", "tool", "thinking", "text"])),
    "beginnings say nothing": ([ThinkingChunk(index=0), TextChunk("", 1), ThinkingChunk(index=2)], reading()),
    "states by their format": (
        [ThinkingChunk("", "", "", '{"a":1}', "anthropic-messages", 0), ThinkingChunk("t", "s", "f", "[1]", "openrouter", 1),
         ThinkingChunk("", "", "", "{}", "openai-responses", 2), ThinkingChunk("", "", "", "7", "new", 3)],
        reading(thinking=[
            {"text": "", "signature": None, "state": {"format": "anthropic-messages", "block": {"a": 1}}},
            {"text": "t", "signature": "s", "state": {"format": "openrouter", "reasoning_details": [1]}},
            {"text": "", "signature": None, "state": {"format": "openai-responses", "item": {}}},
            {"text": "", "signature": None, "state": {"format": "new", "state": 7}},
        ], order=["thinking"])),
    "whole call": ([ToolUseChunk("t", "f", '{"a"'), ToolUseChunk(input=":1}"), BlockEndChunk()],
                   reading(tools=[tool(args={"a": 1})], order=["tool"])),
    "call without its end": ([ToolUseChunk("t", "f", "{}")],
                             reading(tools=[tool(args=None, raw_args="{}", complete=False)], order=["tool"])),
    "call with broken arguments": ([ToolUseChunk("t", "f", "{"), BlockEndChunk()],
                                   reading(tools=[tool(args=None, raw_args="{", complete=False)], order=["tool"])),
    "call with a number that JSON has not": (
        [ToolUseChunk("t", "f", '{"a":NaN}'), BlockEndChunk()],
        reading(tools=[tool(args=None, raw_args='{"a":NaN}', complete=False)], order=["tool"])),
    "call with deep arguments": ([ToolUseChunk("t", "f", "[" * 100_000), BlockEndChunk()],
                                 reading(tools=[tool(args=None, raw_args="[" * 100_000, complete=False)], order=["tool"])),
    "signed call of an item": ([ToolUseChunk("t", "f", "", 0, "s", "gemini", '{"id":"fc_1"}', "openai-responses"), BlockEndChunk()],
                               reading(tools=[tool(args={}, signature="s", item_id="fc_1")], order=["tool"])),
    "usage": ([UsageChunk(Usage(1)), UsageChunk(Usage(1, 2, 3, 4, 5))],
              reading(usage={"input_tokens": 1, "output_tokens": 2, "reasoning_tokens": 3, "cache_read_tokens": 4,
                             "cache_write_tokens": 5})),
    "finish": ([FinishChunk("stop", "a"), FinishChunk("length", "b")], reading(finish="length", finish_raw="b")),
    "error": ([FinishChunk("stop", "a"), TextChunk("x"), ErrorChunk("provider", "No", "502", True)],
              reading(text="x", finish="error", finish_raw="a", order=["text"],
                      error={"kind": "provider", "code": "502", "message": "No", "retryable": True, "partial": True})),
    "truncated": ([ErrorChunk("truncated", "cut", retryable=True)],
                  reading(error={"kind": "truncated", "code": "", "message": "cut", "retryable": True, "partial": False})),
}  # fmt: skip


@pytest.mark.parametrize(
    ("chunks", "expected"), [pytest.param(*case, id=name) for name, case in READINGS.items()]
)
def test_chunks_read_as(chunks: list[Chunk], expected: dict[str, JsonValue]) -> None:
    assert read_chunks(chunks) == expected
    json.dumps(expected)


def test_a_broken_body_reads_as_what_came_before_it() -> None:
    broken = read_stream(Echo(), TARGET, [b"data: a\n\ndata: !\n\n"])

    assert broken == reading(
        text="a",
        order=["text"],
        error={"kind": "wire", "code": "", "message": "echo payload is broken", "retryable": False, "partial": True},
    )  # fmt: skip
