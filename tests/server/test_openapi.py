"""What the server says of itself: every route is described, the document is sound, and real events and frames fit their schemas."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema_rs
import pytest
from asgi import client, get
from starlette.routing import Route

from agentkit import Agent, Usage, tool
from agentkit.errors import EngineError
from agentkit.events import CustomEvent, Event, Reasoning, ToolApprovalRequested
from agentkit.log import EARLIEST, Topic
from agentkit.testing import Call, Fail, Refuse, Say, ScriptedModel, Think
from agentkit_server import Application, create_app
from agentkit_server.openapi import description_of
from agentkit_server.wire_schema import envelope_schema, socket_schema
from agentkit_transports.client_frames import ClientFrame

pytestmark = pytest.mark.anyio


async def document(app: Application) -> dict[str, Any]:
    async with client(app) as http:
        answer = await http.get("/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_every_route_is_described(app: Application) -> None:
    routes = [route for route in app.routes if isinstance(route, Route)]
    found = await document(app)

    assert [route.path for route in routes if description_of(route) is None] == []
    told = {(method, path) for path, item in found["paths"].items() for method in item}
    wanted = {
        (method.lower(), route.path.replace(":path", ""))
        for route in routes
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert told == wanted


async def test_references_lead_somewhere_and_every_schema_is_one(app: Application) -> None:
    found = await document(app)

    assert found["openapi"].startswith("3.1")
    for reference in references(found):
        place: Any = found
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
    for name, schema in found["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        assert "$defs" not in schema, name
    ids = [operation["operationId"] for item in found["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)


async def test_schemas_are_served_and_are_schemas(app: Application) -> None:
    async with client(app) as http:
        envelope = (await http.get("/schemas/envelope.json")).json()
        socket = (await http.get("/schemas/socket.json")).json()

    for schema in (envelope, socket):
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        jsonschema_rs.meta.validate(schema)


def test_every_event_of_the_runtime_has_its_schema() -> None:
    told = {
        one["properties"]["type"].get("const")
        for one in envelope_schema()["$defs"].values()
        if "type" in one.get("properties", {})
    }
    wanted = {kind.type for kind in get_args(Event) if kind not in (CustomEvent, Reasoning)} | {"reasoning"}

    assert wanted <= told


@tool(requires_approval=True)
def look(name: str) -> str:
    """Look."""
    return name


async def test_real_records_fit_the_schema() -> None:
    model = ScriptedModel(
        [
            Think("hm", signature="sig"),
            Think("s", summary=True),
            Call("look", {"name": "x"}, pieces=2),
            Usage(1, 2),
        ],
        [Say("done", pieces=2)],
        [Refuse("no")],
        [Say("we"), Fail("broke")],
    )
    agent = Agent("planner", model=model, tools=[look])
    run = await agent.start("hi")
    async for event in run.event_stream:
        if isinstance(event, ToolApprovalRequested):
            run.approve(event.approval)
    await agent.chat("and?")
    with pytest.raises(Exception, match="broke"):
        await agent.chat("and?")
    await agent.emit("note.made", {"text": "x"})
    page = await agent.engine.log.read(Topic("", "planner", "main"), EARLIEST, 10_000)
    validator = jsonschema_rs.validator_for(envelope_schema())

    types = set()
    for record in page.records:
        envelope = json.loads(record.wire)
        types.add(envelope["type"])
        assert [f"{envelope['type']}: {error.message}" for error in validator.iter_errors(envelope)] == []
    assert len(types) > 20
    broken = {**json.loads(page.records[0].wire), "type": "text.delta"}
    assert not validator.is_valid(broken)


async def test_envelopes_of_a_feed_fit_it_too(app: Application) -> None:
    async with client(app) as http:
        run = (await http.post("/v1/agents/planner/threads/t1/runs", json={"input": "x"})).json()
    async with get(app, run["events"]) as feed:
        events = await feed.until("stream.end")
    validator = jsonschema_rs.validator_for(envelope_schema())

    for event in events:
        if not event["type"].startswith("stream."):
            validator.validate(event)


@pytest.mark.parametrize(
    ("frame", "fits"),
    [
        ({"op": "hello"}, True),
        ({"op": "sub", "rid": "1", "topic": "agents/a/threads/t"}, True),
        ({"op": "welcome", "limits": {}}, True),
        ({"op": "ok", "rid": 1, "run": "run_1"}, True),
        ({"op": "bye", "code": 4000, "retry_ms": 5}, True),
        ({"op": "gap", "topic": "t", "id": "E-1", "from": 1, "to": 2, "reason": "trimmed"}, True),
        ({"op": "sub", "rid": "1"}, False),
        ({"op": "shout"}, False),
        ({"op": "bye", "code": 1, "retry_ms": 5}, False),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else "",
)
def test_frames_fit_the_sockets_schema_or_not(frame: dict[str, object], fits: bool) -> None:
    assert jsonschema_rs.validator_for(socket_schema()).is_valid(frame) is fits


def test_every_frame_of_a_client_is_told() -> None:
    frames = {one.__name__ for one in get_args(get_args(ClientFrame)[0])}

    assert frames <= set(socket_schema()["$defs"])


async def test_allow_names_all_methods_of_a_path(app: Application) -> None:
    async with client(app) as http:
        answer = await http.put("/v1/agents/planner/threads/t1/runs")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_readiness_asks_the_engine() -> None:
    app = create_app([Agent("planner", model=ScriptedModel())])

    async def threads(*_: object, **__: object) -> list[object]:
        raise EngineError("no way to the engine at 10.0.0.1")

    async with client(app) as http:
        before = await http.get("/readyz")
        app.service.engine.threads.threads = threads  # type: ignore[method-assign, assignment]
        after = await http.get("/readyz")
        alive = await http.get("/healthz")

    assert (before.status_code, after.status_code, alive.status_code) == (200, 503, 200)
    assert after.json()["code"] == "engine_unavailable"
    assert "10.0.0.1" not in after.text
