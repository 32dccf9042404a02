"""Traces: spans in the conventions' words, the trace in and out, and nothing of what was said unless asked for."""

import json

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from provider_server import ProviderServer, stream
from toys import client, data

from agentkit import Agent, RunCancelled, Usage, tool
from agentkit.otel import OpenTelemetry
from agentkit.redaction import RedactWords
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think, Wait

pytestmark = pytest.mark.anyio

PROMPT = "who spins the straw?"
SECRET = "Rumpelstilzchen"


class Traces:
    """A tracer provider of the test's own, and what it exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def observer(self, *, content: bool = False) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.provider, content=content)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.exporter.get_finished_spans())


@pytest.fixture
def traces() -> Traces:
    return Traces()


@tool
def look(name: str) -> str:
    """Look somebody up."""
    return f"{name} lives in the wood"


def spinning() -> ScriptedModel:
    return ScriptedModel(
        [Think(f"{SECRET}?", signature="sig-secret", state='"state-secret"'), Call("look", {"name": SECRET}),
         Usage(10, 20, 15, 4)],
        [Say(f"it is {SECRET}", pieces=3), Usage(30, 5)],
        provider="google",
        model="spinner-1",
    )  # fmt: skip


def attributes(span: ReadableSpan) -> dict[str, object]:
    return {
        name: value
        for name, value in (span.attributes or {}).items()
        if not (name.startswith("agentkit.first") or name.endswith("first_chunk"))
    }


async def test_a_run_is_a_span_with_its_steps_and_calls_inside(traces: Traces) -> None:
    agent = Agent("a", model=spinning(), tools=[look], observers=[traces.observer()])
    with anyio.fail_after(20):
        result = await agent.run(PROMPT, thread="t1")

    first, call, second, run = traces.exporter.get_finished_spans()
    assert [s.name for s in (run, first, call, second)] == [
        "invoke_agent a", "chat spinner-1", "execute_tool look", "chat spinner-1",
    ]  # fmt: skip
    assert run.context is not None
    assert [s.parent and s.parent.span_id for s in (first, call, second)] == [run.context.span_id] * 3
    assert (run.kind, first.kind, call.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    assert attributes(run) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        "gen_ai.conversation.id": "t1",
        "agentkit.run": result.run,
        "agentkit.end": "completed",
        "agentkit.steps": 2,
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 25,
        "gen_ai.usage.reasoning.output_tokens": 15,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert attributes(first) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "spinner-1",
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "t1",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "agentkit.step": 1,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 15,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert "agentkit.first_reasoning" in (first.attributes or {})
    assert "agentkit.first_text" in (second.attributes or {})
    assert attributes(call) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": result.tool_uses[0].id,
        "gen_ai.tool.type": "function",
    }


async def test_what_was_said_is_in_no_span_by_default(traces: Traces) -> None:
    agent = Agent("a", model=spinning(), tools=[look], observers=[traces.observer()], system="be Grimm")
    with anyio.fail_after(20):
        await agent.chat(PROMPT)

    for word in (SECRET, PROMPT, "Grimm", "sig-secret", "state-secret", "wood"):
        assert word not in traces.text


async def test_with_content_messages_are_there_but_no_signature_and_no_state(traces: Traces) -> None:
    agent = Agent(
        "a", model=spinning(), tools=[look], observers=[traces.observer(content=True)], system="be Grimm"
    )
    with anyio.fail_after(20):
        await agent.chat(PROMPT)

    *_, second, _ = traces.exporter.get_finished_spans()
    assert second.attributes is not None
    messages = json.loads(str(second.attributes["gen_ai.input.messages"]))
    assert messages[0] == {"role": "user", "parts": [{"type": "text", "content": PROMPT}]}
    assert messages[1]["parts"][0] == {"type": "reasoning", "content": f"{SECRET}?"}
    assert messages[1]["parts"][1]["arguments"] == {"name": SECRET}
    assert messages[2]["parts"][0]["response"] == f"{SECRET} lives in the wood"
    assert json.loads(str(second.attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": f"it is {SECRET}"}],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(str(second.attributes["gen_ai.system_instructions"])) == [
        {"type": "text", "content": "be Grimm"}
    ]
    assert "sig-secret" not in traces.text
    assert "state-secret" not in traces.text


async def test_content_goes_through_the_redact_hook(traces: Traces) -> None:
    agent = Agent(
        "a",
        model=spinning(),
        tools=[look],
        observers=[traces.observer(content=True)],
        redact=RedactWords([SECRET]),
    )
    with anyio.fail_after(20):
        await agent.chat(f"is it {SECRET}?")

    assert SECRET not in traces.text
    assert "[redacted]" in traces.text


async def test_an_error_is_told_by_its_kind(traces: Traces) -> None:
    agent = Agent(
        "a", model=ScriptedModel([Say("we"), Fail(f"{SECRET} broke")]), observers=[traces.observer()]
    )
    with anyio.fail_after(20), pytest.raises(Exception, match=SECRET):
        await agent.chat("hi")

    for span in traces.exporter.get_finished_spans():
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == "model_stream"
    assert SECRET not in traces.text


async def test_a_tool_that_fails_and_a_run_that_is_cancelled(traces: Traces) -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise ValueError(SECRET)

    model = ScriptedModel([Call("broken")], [Say("we"), Wait(3600)])
    agent = Agent("a", model=model, tools=[broken], observers=[traces.observer()])
    with anyio.fail_after(20):
        run = await agent.start("hi")
        async for event in run.event_stream:
            if event.type == "text.delta":
                run.cancel()
                break
        with pytest.raises(RunCancelled):
            await run.result()

    assert (traces.spans["execute_tool broken"].attributes or {})["error.type"] == "tool_error"
    ended = traces.spans["invoke_agent a"]
    assert (ended.attributes or {})["error.type"] == "cancelled"
    assert ended.status.status_code is StatusCode.UNSET
    assert SECRET not in traces.text


async def test_a_sub_agents_run_is_inside_of_its_call(traces: Traces) -> None:
    inner = Agent("inner", model=ScriptedModel("42"), description="Knows.")
    model = ScriptedModel([Call("inner", {"message": "?"})], "done")
    agent = Agent("a", model=model, tools=[inner.as_tool()], observers=[traces.observer()])
    with anyio.fail_after(20):
        await agent.chat("hi")

    call, run = traces.spans["execute_tool inner"], traces.spans["invoke_agent inner"]
    assert call.context is not None
    assert run.parent is not None
    assert run.parent.span_id == call.context.span_id


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_trace_goes_on_to_the_provider(traces: Traces) -> None:
    with ProviderServer(stream(data("text Hello", "finish end"))) as server:
        agent = Agent("a", model=client(server.url), observers=[traces.observer()])
        with anyio.fail_after(20):
            await agent.chat("hi")
        headers = server.requests[0].headers

    span = traces.spans["chat bear"]
    assert span.context is not None
    assert headers["traceparent"].startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")
