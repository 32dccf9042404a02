"""The application as a whole: mounted, drained, broken."""

import json
import logging
from typing import Any

import anyio
import pytest
from asgi import client, get, lifespan, post
from starlette.applications import Starlette
from starlette.routing import Mount

from agentkit.agent import Agent
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import ConfigurationError, EngineError
from agentkit.testing import RecordingEmitter, ScriptedModel
from agentkit_server import Application, create_app

pytestmark = pytest.mark.anyio

CHAT = "/v1/agents/planner/threads/t1/chat"
HELD = "/v1/agents/held/threads/t1"


async def test_health_and_readiness(app: Application) -> None:
    async with client(app) as http:
        health, ready = await http.get("/healthz"), await http.get("/readyz")

    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize("prefix", ["/agents", "/deep/er"])
async def test_under_a_prefix_everything_works_and_paths_name_it(app: Application, prefix: str) -> None:
    outer = Starlette(routes=[Mount(prefix, app)])
    async with client(outer, host="localhost") as http:
        chat = await http.post(f"{prefix}{CHAT}", json={"message": "hello"})
        run = (await http.post(f"{prefix}/v1/agents/planner/threads/t1/runs", json={"input": "x"})).json()
        missing = await http.get(f"{prefix}/nothing")
        denied = await http.put(f"{prefix}{CHAT}")
        page = await http.get(f"{prefix}/")
    async with get(outer, run["events"]) as feed:
        events = await feed.until("stream.end")

    assert chat.json()["text"] == "then speak"
    assert run["events"].startswith(f"{prefix}/v1/agents/planner/threads/t1/events?")
    assert events[-2]["type"] == "run.finished"
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (denied.status_code, denied.headers["allow"]) == (405, "POST")
    assert page.status_code == 200


async def test_behind_a_proxy_that_strips_the_prefix_paths_name_it(app: Application) -> None:
    async with client(app, root_path="/proxied") as http:
        run = (await http.post("/v1/agents/planner/threads/t1/runs", json={"input": "x"})).json()

    assert run["events"].startswith("/proxied/v1/agents/")


async def test_agents_are_copied_to_the_engine_and_keep_their_emitter() -> None:
    emitter, engine = RecordingEmitter(), MemoryEngine()
    agent = Agent("planner", model=ScriptedModel("hello"), emitter=emitter)
    app = create_app([agent], engine=engine)
    async with client(app) as http:
        await http.post(CHAT, json={"message": "hi"})

    assert agent.engine is not engine
    assert await agent.messages(thread="t1") == []
    assert emitter.types[-1] == "run.finished"


async def test_two_agents_of_one_name_are_refused() -> None:
    agents = [Agent("a", model=ScriptedModel()), Agent("a", model=ScriptedModel())]
    with pytest.raises(ConfigurationError):
        create_app(agents)


async def test_an_announced_agent_can_be_looked_at_and_is_refused_with_its_note(app: Application) -> None:
    app.directory.announce("local", note="still being fetched")
    async with client(app) as http:
        answer = await http.post("/v1/agents/local/threads/t1/runs", json={"input": "x"})
    async with get(app, "/v1/agents/local/threads/t1/events") as feed:
        await feed.next()
    app.directory.offer(Agent("local", model=ScriptedModel("here")))
    async with client(app) as http:
        chat = await http.post("/v1/agents/local/threads/t1/chat", json={"message": "x"})

    assert (answer.status_code, answer.json()["code"]) == (503, "agent_unavailable")
    assert answer.json()["detail"] == "still being fetched"
    assert chat.json()["text"] == "here"


class _Broken(MemoryEngine):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.threads.messages = self._raise  # type: ignore[method-assign]
        self._error = error

    async def _raise(self, topic: object) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status", "code", "logged"),
    [
        pytest.param(EngineError("CANARY is down"), 503, "engine", ": CANARY is down", id="the engine"),
        pytest.param(RuntimeError("CANARY /etc/secret"), 500, "internal", " failed", id="anything else"),
    ],
)
async def test_our_own_faults_are_logged_and_not_told(
    error: Exception, status: int, code: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app([Agent("planner", model=ScriptedModel())], engine=_Broken(error))
    with caplog.at_level(logging.ERROR, "agentkit.server"):
        async with client(app) as http:
            answer = await http.get("/v1/agents/planner/threads/t1/messages?x=CANARY")

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "CANARY" not in answer.text
    assert [record.getMessage() for record in caplog.records] == [
        f"GET /v1/agents/planner/threads/t1/messages{logged}"
    ]
    assert [record.exc_info is None for record in caplog.records] == [status == 503]  # a trace where it helps


async def test_a_feed_whose_engine_is_away_is_told_to_come_back(caplog: pytest.LogCaptureFixture) -> None:
    engine = MemoryEngine()
    app = create_app([Agent("planner", model=ScriptedModel())], engine=engine)

    async def broken(topic: object) -> Any:
        raise EngineError("CANARY is down")

    engine.log.tail = broken  # type: ignore[method-assign]
    async with get(app, "/v1/agents/planner/threads/t1/events") as feed:
        frame = await feed.next()
        await feed.finished()

    assert (feed.status, json.loads(frame.data)["type"]) == (200, "stream.closing")
    assert frame.retry is not None
    assert b"CANARY" not in feed.body


async def test_a_run_that_has_ended_is_let_go(app: Application) -> None:
    async with client(app) as http:
        await http.post(CHAT, json={"message": "hello"})
    with anyio.fail_after(20):
        while app.service.going:
            await anyio.lowlevel.checkpoint()


async def test_without_a_lifespan_it_works_and_with_one_it_ends_in_order(
    app: Application, gate: anyio.Event
) -> None:
    async with lifespan(app) as said:
        async with client(app) as http:
            run = (await http.post(f"{HELD}/runs", json={"input": "x"})).json()["run"]
        gate.set()

    assert [one["type"] for one in said] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    async with client(app) as http:
        assert (await http.get(f"{HELD}/runs/{run}")).json()["status"] == "finished"


async def test_a_drain_lets_runs_end(app: Application, gate: anyio.Event) -> None:
    async with client(app) as http, anyio.create_task_group() as group:
        run = (await http.post(f"{HELD}/runs", json={"input": "x"})).json()["run"]
        group.start_soon(app.drain)
        await anyio.lowlevel.checkpoint()
        ready = await http.get("/readyz")
        refused = await http.post(f"{HELD}/runs", json={"input": "x"})
        gate.set()
        ended = await http.get(f"{HELD}/runs/{run}?wait=5")

    assert (ready.status_code, ready.json()["code"]) == (503, "draining")
    assert (refused.status_code, refused.json()["code"]) == (503, "draining")
    assert refused.headers["retry-after"] == "2"
    assert ended.json()["status"] == "finished"


async def test_a_drain_cancels_runs_that_do_not_end_and_then_says_farewell(app: Application) -> None:
    async with get(app, f"{HELD}/events") as feed:
        await feed.next()
        async with post(app, f"{HELD}/runs", {"input": "x"}, {"accept": "text/event-stream"}) as run:
            await run.until("reasoning")
            await app.drain()
            own = await run.until("stream.end")
            events = await feed.until("stream.closing")
            await feed.finished()
            await run.finished()

    assert own[-2]["data"]["reason"] == "the server stops"
    assert [event["type"] for event in events[-2:]] == ["run.cancelled", "stream.closing"]


async def test_a_stream_that_opens_while_draining_is_sent_away_cleanly(app: Application) -> None:
    await app.drain()
    async with get(app, f"{HELD}/events") as feed:
        events = await feed.until("stream.closing")
        await feed.finished()

    assert feed.status == 200
    assert json.dumps(events[-1]["data"]) != "{}"


async def test_closing_closes_once_what_was_named_the_latest_first(app: Application) -> None:
    closed: list[str] = []

    async def first() -> None:
        closed.append("first")

    async def second() -> None:
        closed.append("second")
        raise RuntimeError("it was gone already")

    app.on_close(first)
    app.on_close(second)
    await app.aclose()
    await app.aclose()

    assert closed == ["second", "first"]
