"""Twelve provider streams of the project's own as the records of a run: every dialect, every kind of block, always the same bytes.

For the protocols of front ends, which are pure folds of records. Decoder, events and drafts are the real ones; the run around them is written
here, so that ids and times stand still. Each call that can be run gets a result, and then the model says one more sentence.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentkit.accumulators import Response
from agentkit.chunks import Chunk, ErrorChunk
from agentkit.content import TextBlock, ToolResultBlock, ToolUseBlock, Usage
from agentkit.dialects.base import Profile, Target, origin
from agentkit.dialects.table import DIALECTS
from agentkit.envelope import draft_all
from agentkit.events import (
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    TextDelta,
    TextFinished,
    TextStarted,
    ToolExecutionFinished,
    ToolExecutionStarted,
    ToolResult,
)
from agentkit.log import Record, Topic
from agentkit.reading import decode_body
from agentkit.repair import runnable
from agentkit.step_events import StepEvents

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "bugcases"
SHIPPED = ROOT / "server" / "agentkit_server" / "streams"

TOPIC = Topic("", "demo", "t1")
RUN = "run_0123456789abcdef"
START = 1_800_000_000.0
"""Seconds since the epoch; each event is a millisecond later than the one before."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A provider's answer."""

    name: str
    dialect: str
    body: bytes
    think_tags: bool = False


def _sse(*payloads: object) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads)


def _chat(**delta: object) -> dict[str, object]:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "demo",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
    }


def _line(*, done: bool = False, **message: object) -> bytes:
    line = {"model": "demo", "message": {"role": "assistant", "content": "", **message}, "done": done}
    ending = {"done_reason": "stop", "prompt_eval_count": 9, "eval_count": 5} if done else {}
    return json.dumps({**line, **ending}).encode() + b"\n"


_REFUSAL = _sse(
    _chat(role="assistant", content=""),
    _chat(refusal="I will not "),
    _chat(refusal="do that."),
    {**_chat(), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
) + b"data: [DONE]\n\n"  # fmt: skip
_IMAGE = _sse(
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "A dot: "}]}}]},
    {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 6, "totalTokenCount": 10},
    },
)
_OLLAMA = b"".join(
    [
        _line(thinking="Two steps: "),
        _line(thinking="ask, then say."),
        _line(tool_calls=[{"function": {"name": "rain", "arguments": {"city": "Ålesund"}}}]),
        _line(done=True),
    ]
)


def _case(number: str, dialect: str) -> Stream:
    [path] = CASES.glob(f"{number}-*/stream.*")
    return Stream(path.parent.name, dialect, path.read_bytes())


def _shipped(name: str, dialect: str) -> Stream:
    return Stream(name, dialect, (SHIPPED / f"{name}.sse").read_bytes())


STREAMS: Sequence[Stream] = (
    _shipped("anthropic-thinking", "anthropic-messages"),
    _shipped("anthropic-redacted", "anthropic-messages"),
    _shipped("chat-reasoning", "openai-chat"),
    _case("055", "anthropic-messages"),  # blocks of three kinds in turn
    _case("057", "anthropic-messages"),  # an error after text
    _case("061", "openai-responses"),  # a summary in parts, one state
    _case("067", "openai-responses"),  # raw reasoning
    _case("023", "openai-chat"),  # parallel calls, interleaved
    _case("072", "gemini"),  # a signed call
    Stream("chat-refusal", "openai-chat", _REFUSAL),
    Stream("gemini-image", "gemini", _IMAGE),
    Stream("ollama-call", "ollama", _OLLAMA),
)


def records_of(stream: Stream, *, expose_state: bool = False, run: str = RUN) -> list[Record]:
    """Return the records of a run whose model answers with the stream, numbered from 1."""
    target = Target("demo", "demo-1", Profile(think_tags=stream.think_tags))
    dialect = DIALECTS[stream.dialect]
    chunks, fault = decode_body(dialect, target, [stream.body])
    assert fault is None
    response = Response(origin(dialect.name, target))
    for chunk in chunks:
        response.add(chunk)
    events = list(_events(chunks, response, run))
    drafts = [
        draft
        for number, event in enumerate(events)
        for draft in draft_all(TOPIC, [_at(event, START + number / 1000)], expose_state=expose_state)
    ]
    return [Record.of(draft, "E", seq) for seq, draft in enumerate(drafts, 1)]


def _events(chunks: Sequence[Chunk], response: Response, run: str) -> Iterator[Event]:
    yield RunStarted(run, 0, 0, TOPIC.agent, TOPIC.thread)
    yield StepStarted(run, 1, 0, "demo-1", "demo")
    step = StepEvents(run, 1, "demo")
    yield from step.map(chunks, 0)
    yield from step.close(0)
    error = next((chunk for chunk in chunks if isinstance(chunk, ErrorChunk)), None)
    if error is not None:
        text = response.message().text
        yield RunFailed(run, 0, 0, "model_stream", f"demo: {error.message}", False, response.usage, text)
        return
    calls = runnable(response.message().tool_uses)
    finish = response.finish.reason if response.finish else ""
    for call in calls:
        yield ToolExecutionStarted(run, 1, 0, call.id, call.name, call.input)
        yield ToolExecutionFinished(run, 1, 0, call.id, call.name, _result(call).status, 0.25)
    for call in calls:
        yield ToolResult(run, 1, 0, _result(call))
    yield StepFinished(run, 1, 0, finish, response.usage)
    usage, text = response.usage, response.message().text
    if calls:
        block = f"{run}.2.0"
        yield StepStarted(run, 2, 0, "demo-1", "demo")
        yield TextStarted(run, 2, 0, block)
        yield TextDelta(run, 2, 0, block, "That is all.")
        yield TextFinished(run, 2, 0, block)
        yield StepFinished(run, 2, 0, "stop", Usage(3, 4))
        usage, text, finish = usage + Usage(3, 4), text + "That is all.", "stop"
    yield RunFinished(run, 0, 0, text, finish, usage)


def _result(call: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(call.id, call.name, (TextBlock(f"{call.name}: fine"),))


def _at(event: Event, time: float) -> Event:
    event.time = time
    return event
