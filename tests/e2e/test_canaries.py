"""Canaries: planted keys, tickets, prompts, answers, signatures and provider state are in no log, trace, metric or problem."""

import asyncio
import json
import re
from pathlib import Path

import httpx2
import pytest
import websockets
from e2e.servers import process
from provider_server import ProviderServer, answer, stream
from toys import data

from agentkit_server.auth_keys import new_key

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(120)]

PROVIDER_KEY = "sk-canary-provider-0123456789"
PROMPT = "canary-prompt-rumpelstilzchen"
ANSWER = "canary-answer-straw-to-gold"
THOUGHT = "canary-thought-by-the-fire"
SIGNATURE = "canary-signature-c2lnbmF0dXJl"
STATE = "canary-state-b3BhcXVl"
ARGUMENT = "canary-argument-miller"

PROGRAM = f"""
import logging, os, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from toys import ToyDialect
from agentkit import Agent, tool
from agentkit.client import StreamingClient
from agentkit.dialects.base import Target
from agentkit.otel import OpenTelemetry
from agentkit.pace import RetryPolicy
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think
from agentkit_server import Settings, create_app
from agentkit_server.logs import RunLog
from agentkit_server.server import listen, make_server

logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))

@tool
def look(name: str) -> str:
    "Look somebody up."
    raise ValueError(name)

think = Think("{THOUGHT}", signature="{SIGNATURE}", state='"{STATE}"')
remote = StreamingClient(
    ToyDialect(), Target("toys", "bear"), os.environ["PROVIDER"], key="{PROVIDER_KEY}",
    retry=RetryPolicy(retries=1, base=0.001, max_delay=0.01),
)
agents = [
    Agent("thinker", model=ScriptedModel([think, Call("look", {{"name": "{ARGUMENT}"}})], [Say("{ANSWER}")], repeat=True), tools=[look]),
    Agent("failing", model=ScriptedModel([think, Say("{ANSWER}"), Fail("it broke")], repeat=True)),
    Agent("remote", model=remote),
]
settings = Settings(drain_timeout=0.3, farewell_timeout=0.5)
listener = listen("127.0.0.1", 0, settings)
print("http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
app = create_app(agents, settings=settings, observers=[OpenTelemetry(tracer_provider=provider), RunLog()])
make_server(app, settings).run(sockets=[listener])
"""


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


async def test_no_canary_is_in_a_log_a_trace_a_metric_or_a_problem(tmp_path: Path) -> None:
    key, line = new_key("ann")
    line += " rights=read,run,cancel,steer,approve,delete,metrics"
    (tmp_path / "served.py").write_text(PROGRAM)
    echoed = answer(401, {"error": {"message": f"bad key {PROVIDER_KEY}", "type": "auth"}})
    whole = stream(data(f"text {ANSWER}", "finish end"))
    problems: list[str] = []
    with ProviderServer(whole, echoed, answer(500, f"oops {PROVIDER_KEY}"), whole) as provider:
        env = {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "PROVIDER": provider.url,
            "AGENTKIT_API_KEYS": line,
        }
        with process(str(tmp_path / "served.py"), env=env) as server:
            url = f"http://127.0.0.1:{server.port}"
            async with httpx2.AsyncClient(
                trust_env=False, base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=30
            ) as http:

                async def ask(method: str, path: str, body: object = None, **headers: str) -> httpx2.Response:
                    content = None if body is None else json.dumps(body)
                    sent = {**({} if body is None else {"content-type": "application/json"}), **headers}
                    answered = await http.request(method, path, headers=sent, content=content)
                    if answered.status_code >= 400:
                        problems.append(answered.text)
                    return answered

                for agent in ("thinker", "failing", "remote", "remote", "remote"):
                    path = f"/v1/agents/{agent}/threads/t1"
                    await ask("POST", f"{path}/chat", {"message": PROMPT})
                    await ask("POST", f"{path}/chat", {"message": [{"type": PROMPT}]})
                    await ask("POST", f"{path}/runs", {"input": PROMPT, "extra": PROMPT})
                    await ask("POST", f"{path}/runs", {"input": PROMPT, "reasoning": {"effort": 1}})
                    await ask("POST", f"{path}/runs/run_x/steer", {"input": PROMPT})
                await ask("GET", "/v1/agents", authorization="Bearer canary-no-key")
                await ask("GET", f"/v1/agents/thinker/threads/t1/events?after={SIGNATURE}")
                made = await ask(
                    "POST", "/v1/tickets", {"agent": "thinker", "thread": "t1", "rights": ["read", "run"]}
                )
                ticket: str = made.json()["ticket"]
                feed = (await ask("GET", "/v1/agents/thinker/threads/t1/runs")).json()["runs"][0]["run"]
                events = (
                    await http.get(f"/v1/agents/thinker/threads/t1/events?run={feed}&after=earliest")
                ).text
                messages = (await ask("GET", "/v1/agents/thinker/threads/t1/messages")).text
                metrics = (await ask("GET", "/metrics")).text
            async with httpx2.AsyncClient(trust_env=False, base_url=url) as nobody:
                async with nobody.stream(
                    "GET", f"/v1/agents/thinker/threads/t1/events?ticket={ticket}"
                ) as one:
                    assert one.status_code == 200
                problems.append(
                    (await nobody.get(f"/v1/agents/thinker/threads/t1/runs?ticket={ticket}")).text
                )
            async with websockets.connect(
                f"ws://127.0.0.1:{server.port}/v1/ws",
                proxy=None,
                additional_headers={"authorization": f"Bearer {key}"},
            ) as socket:
                await socket.send(
                    json.dumps({"op": "run", "rid": "1", "agent": "thinker", "thread": "t2", "input": PROMPT})
                )
                await socket.send(json.dumps({"op": PROMPT}))
                replies = [await asyncio.wait_for(socket.recv(), 10) for _ in range(2)]
            status, said = await asyncio.to_thread(server.end)

    assert status == 0, said
    assert "invoke_agent" in said  # traces are in it
    assert "agentkit.runs" in said  # and lines of runs
    assert 'agentkit_runs_total{agent="remote",end="failed"}' in metrics
    assert len(problems) > 15
    everything = {"logs and traces": said, "metrics": metrics, "problems": "\n".join(problems)}
    canaries = (
        PROVIDER_KEY,
        key,
        ticket,
        PROMPT,
        ANSWER,
        THOUGHT,
        SIGNATURE,
        STATE,
        ARGUMENT,
        "canary-no-key",
    )
    found = {
        (place, canary): text[max(0, at - 200) : at + 80]
        for place, text in everything.items()
        for canary in canaries
        if (at := text.find(canary)) >= 0
    }
    assert found == {}
    assert re.search(THOUGHT, events)  # the feed is for it
    for opaque in (SIGNATURE, STATE, PROVIDER_KEY):
        assert opaque not in events + messages + "".join(map(str, replies))
