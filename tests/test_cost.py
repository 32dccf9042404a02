"""What a delta costs, counted and not timed: parses, renderings, bytes that are kept. (`bench` times.)

Readers are counted where they live: bytes made once and one write a turn in `transports/test_hub.py`, tasks in `e2e/test_cost.py`.
"""

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from agentkit.accumulators import Response
from agentkit.dialects import base
from agentkit.dialects.base import Target
from agentkit.dialects.table import DIALECTS
from agentkit.envelope import draft_all
from agentkit.log import Topic
from agentkit.payload_json import parser
from agentkit.reading import BodyDecoder
from agentkit.step_events import StepEvents

pytestmark = pytest.mark.pure

TEXT = "eleven char"


def frame(value: dict[str, Any], name: str = "") -> bytes:
    return f"{f'event: {name}' + chr(10) if name else ''}data: {json.dumps(value)}\n\n".encode()


def anthropic(kind: str, member: str) -> bytes:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": kind, member: TEXT}}
    return frame(delta, "content_block_delta")


def chat(member: str) -> bytes:
    return frame({"choices": [{"index": 0, "delta": {member: TEXT}, "finish_reason": None}]})


def gemini(*, thought: bool) -> bytes:
    return frame({"candidates": [{"content": {"parts": [{"text": TEXT, "thought": thought}]}, "index": 0}]})


def responses(kind: str, item: str) -> bytes:
    place = {"item_id": item, "output_index": 0, "content_index": 0, "summary_index": 0}
    return frame({"type": kind, **place, "delta": TEXT}, kind)


def started(kind: str) -> bytes:
    item = {"id": "i", "type": kind, "summary": [], "content": [], "role": "assistant"}
    return frame(
        {"type": "response.output_item.added", "output_index": 0, "item": item}, "response.output_item.added"
    )


CASES = {
    "anthropic-text": ("anthropic-messages", b"", anthropic("text_delta", "text")),
    "anthropic-thinking": ("anthropic-messages", b"", anthropic("thinking_delta", "thinking")),
    "chat-text": ("openai-chat", b"", chat("content")),
    "chat-reasoning": ("openai-chat", b"", chat("reasoning_content")),
    "responses-text": (
        "openai-responses",
        started("message"),
        responses("response.output_text.delta", "i"),
    ),
    "responses-summary": (
        "openai-responses",
        started("reasoning"),
        responses("response.reasoning_summary_text.delta", "i"),
    ),
    "gemini-text": ("gemini", b"", gemini(thought=False)),
    "gemini-thought": ("gemini", b"", gemini(thought=True)),
    "ollama-text": (
        "ollama",
        b"",
        json.dumps({"message": {"content": TEXT}, "done": False}).encode() + b"\n",
    ),
}

each = pytest.mark.parametrize(("dialect", "start", "delta"), CASES.values(), ids=CASES)


class Counter:
    """Counts the calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


@each
def test_a_payload_is_parsed_once(
    dialect: str, start: bytes, delta: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, slow = Counter(parser()), Counter(json.loads)
    decoder = BodyDecoder(DIALECTS[dialect], Target("p", "m"))
    decoder.feed(start)
    monkeypatch.setattr(base, "parser", lambda: fast)
    monkeypatch.setattr(json, "loads", slow)

    chunks = decoder.feed(delta * 100)

    assert (fast.calls, slow.calls) == (100, 0)
    assert len(chunks) >= 100


@pytest.mark.parametrize("case", [name for name, (dialect, _, _) in CASES.items() if dialect != "ollama"])
def test_a_piece_of_an_open_block_goes_the_short_way(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dialect, start, delta = CASES[case]
    decoder = BodyDecoder(DIALECTS[dialect], Target("p", "m"))
    decoder.feed(start + delta)
    for name in ("feed", "take"):
        monkeypatch.setattr(type(decoder._decoder), name, None)

    assert len(decoder.feed(delta * 100)) == 100


@each
def test_what_is_kept_of_a_delta_is_little_more_than_its_text(
    dialect: str, start: bytes, delta: bytes
) -> None:
    decoder, response = BodyDecoder(DIALECTS[dialect], Target("p", "m")), Response()
    events, topic = StepEvents("run", 1, "p"), Topic("", "a", "t")

    def read(count: int) -> None:
        chunks = decoder.feed(delta * count)
        for chunk in chunks:
            response.add(chunk)
        assert len(draft_all(topic, events.map(chunks, 1.0))) >= count

    decoder.feed(start)
    for _ in range(3):
        read(100)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(20):
            read(100)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept / 2000 < 120  # a short text (60) and a place in a list (8, up to twice that while it grows)


@each
def test_a_drafted_delta_is_one_small_piece(dialect: str, start: bytes, delta: bytes) -> None:
    decoder, events, topic = (
        BodyDecoder(DIALECTS[dialect], Target("p", "m")),
        StepEvents("run", 1, "p"),
        Topic("", "a", "t"),
    )
    decoder.feed(start)
    draft_all(topic, events.map(decoder.feed(delta * 10), 1.0))
    gc.collect()
    tracemalloc.start()
    try:
        drafts = draft_all(topic, events.map(decoder.feed(delta * 1000), 1.0))
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    bodies = sum(len(draft.body) for draft in drafts) / len(drafts)
    assert (
        kept / len(drafts) < bodies + 250
    )  # the body, its object, the draft of eight members, a place in a list
