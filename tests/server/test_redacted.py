"""What the redact hook hides is in no answer of the server; and a client's trace goes on in the run that it starts."""

import pytest
from asgi import client, get
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentkit import Agent
from agentkit.otel import OpenTelemetry
from agentkit.redaction import RedactWords
from agentkit.testing import Say, ScriptedModel, Think
from agentkit_server import create_app

pytestmark = pytest.mark.anyio

SECRET = "Rumpelstilzchen"
THREAD = "/v1/agents/planner/threads/t1"


async def test_a_hidden_word_is_in_no_answer() -> None:
    model = ScriptedModel(
        [Think(f"is it {SECRET}", pieces=7), Say(f"it is {SECRET}!", pieces=9)], repeat=True
    )
    app = create_app([Agent("planner", model=model)], redact=RedactWords([SECRET]))
    async with client(app) as http:
        chat = await http.post(f"{THREAD}/chat", json={"message": f"who is {SECRET}?"})
        body = {"input": "and?", "metadata": {"about": SECRET}}
        run = (await http.post(f"{THREAD}/runs", json=body)).json()
        shown = await http.get(f"{THREAD}/runs/{run['run']}?wait=5")
        answers = [chat, shown, await http.get(f"{THREAD}/messages"), await http.get(f"{THREAD}/runs")]
    async with get(app, f"{THREAD}/events?run={run['run']}&after=earliest") as feed:
        events = await feed.until("stream.end")
    await app.aclose()

    assert chat.json()["text"] == "it is [redacted]!"
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.text for answer in answers if SECRET in answer.text] == []
    assert SECRET not in repr(events)
    text = "".join(event["data"]["text"] for event in events if event["type"] == "text.delta")
    assert text == "it is [redacted]!"
    assert SECRET in repr(model.requests[1].messages)  # the model gets back what it said


async def test_a_clients_trace_is_the_parent_of_the_run() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(
        [Agent("planner", model=ScriptedModel("hello", repeat=True))],
        observers=[OpenTelemetry(tracer_provider=provider)],
    )
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with client(app) as http:
        headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        await http.post(f"{THREAD}/chat", json={"message": "hi"}, headers=headers)
        await http.post(f"{THREAD}/chat", json={"message": "hi"})
    await app.aclose()

    first, second = [span for span in exporter.get_finished_spans() if span.name == "invoke_agent planner"]
    assert first.context is not None
    assert first.parent is not None
    assert (f"{first.context.trace_id:032x}", f"{first.parent.span_id:016x}") == (trace, "b7ad6b7169203331")
    assert second.parent is None
