"""Consume a provider's stream with agentkit: typed chunks, folded into blocks. `AGENTKIT_FAST=0` takes the stock transport."""

import os
import time

import consuming

from agentkit.accumulators import Response
from agentkit.chunks import TextChunk, ThinkingChunk, ToolUseChunk
from agentkit.client import StreamingClient
from agentkit.content import Message, TextBlock, ThinkingBlock, ToolUseBlock
from agentkit.model import ModelRequest
from agentkit.providers import connect
from agentkit.step_events import StepEvents

PROVIDERS = {"anthropic": "anthropic", "chat": "openai-chat", "responses": "openai", "gemini": "google"}
REQUEST = ModelRequest([Message.user("hi")], max_tokens=64_000)
EVENTS = bool(os.environ.get("BENCH_EVENTS"))
"""Make the watchers' events of all chunks too."""

_models: dict[tuple[str, str, str], StreamingClient] = {}


def model_of(shape: str, base: str, name: str) -> StreamingClient:
    found = _models.get((shape, base, name))
    if found is None:
        found = _models[shape, base, name] = connect(f"{PROVIDERS[shape]}:{name}", key="none", base_url=base)
    return found


async def consume(shape: str, base: str, name: str) -> consuming.Sink:
    sink = consuming.Sink()
    response, events = Response(), StepEvents("run_0123456789", 1, "bench")
    async with model_of(shape, base, name).stream(REQUEST) as answer:
        while items := await answer.next():
            if not sink.first and any(
                type(item) in (TextChunk, ThinkingChunk, ToolUseChunk) for item in items
            ):
                sink.first = time.process_time()
            response.extend(items)  # type: ignore[arg-type]  # no notice comes here
            sink.count += len(items)
            if EVENTS:
                list(events.map(items, 1.5e9))  # type: ignore[arg-type]
    for block in response.blocks():
        match block:
            case TextBlock():
                sink.text.append(block.text)
            case ThinkingBlock():
                sink.reasoning.append(block.thinking)
            case ToolUseBlock():
                sink.text.append(block.input)
            case _:
                pass
    return sink


if __name__ == "__main__":
    consuming.main(consume)
