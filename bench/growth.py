"""Does anything grow faster than the stream? CPU of 200,000 deltas against 20,000, whole path without a socket.

`python bench/growth.py`: bytes → events of the framing → chunks → blocks folded → events for watchers → drafts. The figure is CPU time per
delta at the large size divided by that at the small one, the median of interleaved rounds; 1.0 is linear.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable

from agentkit.accumulators import Response
from agentkit.dialects.base import Target
from agentkit.dialects.table import DIALECTS
from agentkit.envelope import draft_all
from agentkit.log import Topic
from agentkit.reading import BodyDecoder
from agentkit.step_events import StepEvents

READ = 64 * 1024
"""Bytes of one read."""


def frame(value: object) -> str:
    return f"data: {json.dumps(value)}\n\n"


def chat(delta: Callable[[int], dict[str, object]]) -> Callable[[int], bytes]:
    def body(count: int) -> bytes:
        frames = [
            frame({"choices": [{"index": 0, "delta": delta(n), "finish_reason": None}]}) for n in range(count)
        ]
        end = frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        return "".join([*frames, end, "data: [DONE]\n\n"]).encode()

    return body


def anthropic(kind: str, member: str, start: dict[str, object]) -> Callable[[int], bytes]:
    def body(count: int) -> bytes:
        begin = frame({"type": "content_block_start", "index": 0, "content_block": start})
        delta = frame({"type": "content_block_delta", "index": 0, "delta": {"type": kind, member: '"word" '}})
        ends = [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ]
        return "".join([begin, *[delta] * count, *map(frame, ends), frame({"type": "message_stop"})]).encode()

    return body


def call(number: int) -> dict[str, object]:
    function: dict[str, object] = {"arguments": '{"a": [' if number == 0 else "1, "}
    if number == 0:
        function["name"] = "add"
    return {"tool_calls": [{"index": 0, **({"id": "c1"} if number == 0 else {}), "function": function}]}


SHAPES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "anthropic text": ("anthropic-messages", anthropic("text_delta", "text", {"type": "text", "text": ""})),
    "anthropic thinking": (
        "anthropic-messages",
        anthropic("thinking_delta", "thinking", {"type": "thinking", "thinking": "", "signature": ""}),
    ),
    "anthropic arguments": (
        "anthropic-messages",
        anthropic(
            "input_json_delta", "partial_json", {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        ),
    ),
    "chat text": ("openai-chat", chat(lambda _: {"content": "word "})),
    "chat reasoning": ("openai-chat", chat(lambda _: {"reasoning_content": "word "})),
    "chat arguments": ("openai-chat", chat(call)),
}


def cost(dialect: str, body: bytes) -> float:
    """Return seconds of CPU for one stream."""
    decoder = BodyDecoder(DIALECTS[dialect], Target("bench", "bench"))
    response, events, topic = Response(), StepEvents("r", 1, "bench"), Topic("", "a", "t")
    gc.collect()
    began = time.process_time()
    for start in range(0, len(body), READ):
        chunks = decoder.feed(body[start : start + READ])
        for chunk in chunks:
            response.add(chunk)
        draft_all(topic, events.map(chunks, 0.0))
    for chunk in decoder.close():
        response.add(chunk)
    response.message()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=20_000)
    parser.add_argument("--large", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name, (dialect, make) in SHAPES.items():
        small, large = make(options.small), make(options.large)
        ratios, costs = [], []
        for _ in range(options.rounds):
            few, many = cost(dialect, small) / options.small, cost(dialect, large) / options.large
            ratios.append(many / few)
            costs.append(few * 1e6)
        print(
            f"{name:20} {statistics.median(costs):6.2f} µs/delta at {options.small:,}, growth to {options.large:,}: "
            f"× {statistics.median(ratios):.2f} ({min(ratios):.2f}…{max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
