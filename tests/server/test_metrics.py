"""Metrics: what is counted, who may see it, and that it is in Prometheus' own format."""

from dataclasses import replace

import anyio
import httpx2
import pytest
from asgi import client, get
from prometheus_client.parser import text_string_to_metric_families
from server.test_access import PEOPLE, ByName, by

from agentkit import Agent, Usage, tool
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import EngineError
from agentkit.log import Draft, Record, Topic
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think
from agentkit_server import Application, Settings, create_app
from agentkit_server.measured import BOUNDS, MeasuredEngine, Timing
from agentkit_server.metrics import MetricsApp

pytestmark = pytest.mark.anyio

CHAT = "/v1/agents/planner/threads/t1/chat"
SECRET = "t-secret-thread"


@tool
def look(name: str) -> str:
    """Look somebody up."""
    return name


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(app: Application) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    async with client(app) as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return samples(answer.text)


async def test_runs_tokens_steps_and_tools_are_counted_at_their_end() -> None:
    model = ScriptedModel(
        [Think("hm"), Call("look", {"name": "x"}), Usage(10, 20, 15, 4)],
        [Say("done", pieces=50), Usage(30, 5)],
        [Fail("broke")],
        provider="p",
        model="m",
    )
    app = create_app([Agent("planner", model=model, tools=[look])])
    async with client(app) as http:
        await http.post(CHAT, json={"message": "hello"})
        await http.post(CHAT, json={"message": "again"})
    await anyio.wait_all_tasks_blocked()

    found = await scrape(app)

    of_model = (("agent", "planner"), ("model", "m"), ("provider", "p"))
    assert found["agentkit_runs_total", (("agent", "planner"), ("end", "completed"))] == 1
    assert found["agentkit_runs_total", (("agent", "planner"), ("end", "failed"))] == 1
    for kind, tokens in {"input": 40, "output": 25, "reasoning": 15, "cache_read": 4}.items():
        labels = (("agent", "planner"), ("kind", kind), ("model", "m"), ("provider", "p"))
        assert found["agentkit_tokens_total", labels] == tokens
    assert found["agentkit_first_reasoning_seconds_count", of_model] == 1
    assert found["agentkit_first_text_seconds_count", of_model] == 1
    assert found["agentkit_step_seconds_count", tuple(sorted((*of_model, ("outcome", "ok"))))] == 2
    assert found["agentkit_step_seconds_count", tuple(sorted((*of_model, ("outcome", "model_stream"))))] == 1
    assert (
        found["agentkit_tool_seconds_count", (("agent", "planner"), ("status", "ok"), ("tool", "look"))] == 1
    )
    assert found["agentkit_run_seconds_count", (("agent", "planner"),)] == 2
    assert found["agentkit_runs_going", ()] == 0
    assert found["agentkit_engine_seconds_count", (("operation", "append"),)] > 0
    assert found["agentkit_engine_seconds_count", (("operation", "put_run"),)] > 0
    await app.aclose()


async def test_readers_are_looked_up_where_they_are(app: Application) -> None:
    path = "/v1/agents/held/threads/t1/events"
    async with get(app, path) as one, get(app, path) as other:
        await one.until("stream.hello")
        await other.until("stream.hello")
        during = await scrape(app)
    after = await scrape(app)

    assert during["agentkit_connections", (("transport", "sse"),)] == 2
    assert during["agentkit_connections", (("transport", "websocket"),)] == 0
    assert during["agentkit_readers", (("protocol", "native"),)] == 2
    assert during["agentkit_topics", ()] == 1
    assert during["agentkit_reader_lag_records", ()] == 0
    assert after["agentkit_connections", (("transport", "sse"),)] == 0
    assert ("agentkit_readers", (("protocol", "native"),)) not in after


async def test_gaps_and_replays_are_counted(app: Application) -> None:
    async with client(app) as http:
        await http.post(CHAT, json={"message": "hello"})
    path = "/v1/agents/planner/threads/t1/events"
    async with get(app, f"{path}?after=earliest") as feed:
        events = await feed.until("run.finished")
    first = next(event["id"] for event in events if event["type"] == "run.started")
    async with get(app, path, {"last-event-id": first}) as back:
        await back.until("run.finished")
    async with get(app, path, {"last-event-id": "zzz-5"}) as stranger:
        await stranger.until("stream.gap")

    found = await scrape(app)

    assert found["agentkit_feed_replays_total", ()] == 1
    assert found["agentkit_feed_gaps_total", ()] == 1
    assert found["agentkit_feed_cuts_total", ()] == 0


async def test_every_metric_says_what_it_is_and_names_no_thread_and_no_run(app: Application) -> None:
    async with client(app) as http:
        answer = await http.post(f"/v1/agents/planner/threads/{SECRET}/chat", json={"message": "hello"})
        text = (await http.get("/metrics")).text

    families = list(text_string_to_metric_families(text))
    assert all(family.documentation.endswith(".") or family.documentation for family in families)
    assert len(families) > 20
    assert SECRET not in text
    assert answer.json()["run"] not in text


async def test_two_servers_in_one_process_do_not_add_up() -> None:
    apps = [create_app([Agent("planner", model=ScriptedModel("hi", repeat=True))]) for _ in range(2)]
    async with client(apps[0]) as http:
        await http.post(CHAT, json={"message": "hello"})

    labels = (("agent", "planner"), ("end", "completed"))
    assert (await scrape(apps[0]))["agentkit_runs_total", labels] == 1
    assert ("agentkit_runs_total", labels) not in await scrape(apps[1])


async def test_without_authentication_metrics_are_for_this_machine_and_not_for_a_proxys_clients(
    app: Application,
) -> None:
    async with client(app) as http:
        statuses = [
            (await http.get("/metrics", headers=headers)).status_code
            for headers in (
                {},
                {"x-forwarded-for": "10.1.2.3"},
                {"forwarded": "for=10.1.2.3"},
                {"via": "1.1 x"},
            )
        ]
    async with get(app, "/metrics") as far:
        far._scope["client"] = ("10.1.2.3", 5)
        await far.finished()

    assert statuses == [200, 404, 404, 404]
    assert far.status == 404


async def test_with_authentication_metrics_need_their_own_right(monkeypatch: pytest.MonkeyPatch) -> None:
    ann = PEOPLE["ann"]
    monkeypatch.setitem(PEOPLE, "operator", replace(ann, rights=frozenset({"metrics"})))
    monkeypatch.setitem(
        PEOPLE, "half", replace(ann, rights=frozenset({"metrics"}), agents=frozenset({"planner"}))
    )
    app = create_app([Agent("planner", model=ScriptedModel())], auth=ByName())
    async with client(app) as http:
        statuses = {
            name: (await http.get("/metrics", headers=by(name))).status_code
            for name in ("operator", "half", "ann", "reader", "nobody")
        }

    assert statuses["operator"] == 200
    assert statuses["half"] in (403, 404)
    assert statuses["ann"] in (403, 404)
    assert statuses["reader"] in (403, 404)
    assert statuses["nobody"] == 401


async def test_an_engine_that_fails_is_counted() -> None:
    class Broken(MemoryEngine):
        pass

    engine = MeasuredEngine(Broken())

    async def append(topic: Topic, drafts: list[Draft], *, fence: int | None = None) -> list[Record]:
        raise EngineError("no")

    engine.log._log.append = append  # type: ignore[attr-defined]
    with anyio.fail_after(20), pytest.raises(EngineError):
        await engine.log.append(Topic("", "a", "t"), [])

    assert engine.timings["append"].errors == 1
    assert sum(engine.timings["append"].counts) == 1


def test_a_timing_falls_into_the_bound_that_it_does_not_pass() -> None:
    timing = Timing()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, BOUNDS[-1] + 1):
        timing.add(seconds)

    assert (timing.counts[0], timing.counts[1], timing.counts[-1]) == (2, 1, 1)


async def test_a_run_costs_metrics_the_same_however_many_deltas_it_has(app: Application) -> None:
    counted = []
    for pieces in (1, 500):
        made = create_app(
            [Agent("planner", model=ScriptedModel([Say("x" * 500, pieces=pieces)]))], settings=Settings()
        )
        async with client(made) as http:
            await http.post(CHAT, json={"message": "hello"})
        found = await scrape(made)
        counted.append({key for key, value in found.items() if value and not key[0].endswith("_created")})

    # The same series with the same labels: no series of its own for a delta, a thread or a run.
    assert {name for name, _ in counted[0]} == {name for name, _ in counted[1]}


@pytest.mark.parametrize(
    ("url", "host", "status"),
    [
        ("http://127.0.0.1:9090", "127.0.0.1:9090", 200),
        ("http://127.0.0.1:9090", "localhost", 200),
        ("http://127.0.0.1:9090", "evil.example:9090", 421),
        ("http://127.0.0.1:9090", "127.0.0.1@evil.example", 421),
        ("http://10.0.0.5:9090", "metrics:9090", 200),
    ],
)
async def test_the_own_listener_tells_nothing_to_a_page_whose_name_was_pointed_at_it(
    url: str, host: str, status: int
) -> None:
    app = create_app([])
    transport = httpx2.ASGITransport(app=MetricsApp(app.metrics))
    async with httpx2.AsyncClient(transport=transport, base_url=url) as http:
        answer = await http.get("/metrics", headers={"host": host})

    assert answer.status_code == status
    assert ("agentkit_runs_going" in answer.text) == (status == 200)
    await app.aclose()
