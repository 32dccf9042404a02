"""Who may do what: no route without somebody known, and nobody sees another owner's thread."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from asgi import client, get, post
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from agentkit.agent import Agent
from agentkit.errors import ConfigurationError
from agentkit.testing import Call, Say, ScriptedModel, Think
from agentkit.tool import tool
from agentkit_server import Application, Auth, Identity, Settings, create_app
from agentkit_server.auth import bearer
from agentkit_server.problems import Endpoint

pytestmark = pytest.mark.anyio

PUBLIC = {"/healthz", "/readyz", "/", "/assets/{file}", "/agentkit-client.js", "/agentkit-client.d.ts"} | {
    "/openapi.json",
    "/schemas/envelope.json",
    "/schemas/socket.json",
}
"""What everybody may have."""
PEOPLE = {
    "ann": Identity("ann", "one"),
    "bob": Identity("bob", "two"),
    "reader": Identity("reader", "one", frozenset({"read"})),
    "writer": Identity("writer", "one", frozenset({"run"})),
    "guest": Identity("guest", "one", agents=frozenset({"other"})),
    "late": Identity("late", "one", expires=1.0),
    "brief": Identity("brief", "one", exposure="none"),
    "short": Identity("short", "one", exposure="summary"),
}
THREAD = "/v1/agents/planner/threads/t1"


class ByName(Auth):
    """The token is the name."""

    async def authenticate(self, request: HTTPConnection) -> Identity | None:
        return PEOPLE.get(bearer(request))


@pytest.fixture
async def guarded() -> AsyncIterator[Application]:
    """Two agents behind names."""
    model = ScriptedModel([Think("first think"), Think("in short", summary=True), Say("then")], repeat=True)
    asks = ScriptedModel([Call("nothing", {})], repeat=True)
    app = create_app(
        [Agent("planner", model=model), Agent("other", model=asks)],
        settings=Settings(drain_timeout=0.2, farewell_timeout=0.3),
        auth=ByName(),
    )
    yield app
    await app.aclose()


def by(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


def leaves(routes: list[BaseRoute]) -> Iterator[Any]:
    for route in routes:
        if isinstance(route, Mount):
            yield from leaves(route.routes)
        else:
            yield route


def path_of(route: Route) -> str:
    named = {"agent": "planner", "thread": "t1", "run": "r1", "approval": "a1", "file": "x.js"}
    return route.path_format.format(**{name: named.get(name, "x") for name in route.param_convertors})


async def get_status(app: Application, path: str, name: str) -> int:
    async with client(app) as http:
        return (await http.get(path, headers=by(name))).status_code


async def run_to_end(app: Application, name: str, thread: str = THREAD) -> str:
    async with client(app) as http:
        started = await http.post(f"{thread}/runs", json={"input": "hello"}, headers=by(name))
        run: str = started.json()["run"]
        await http.get(f"{thread}/runs/{run}?wait=5", headers=by(name))
    return run


async def test_every_route_is_one_of_ours_and_those_for_everybody_are_listed(guarded: Application) -> None:
    routes = list(leaves(guarded.routes))

    assert [route.path for route in routes if not isinstance(route, Route | WebSocketRoute)] == []
    assert [one.path for one in routes if isinstance(one, WebSocketRoute)] == ["/v1/ws"]
    handlers = {one.path: one.endpoint for one in routes if isinstance(one, Route)}
    assert [path for path, handler in handlers.items() if not isinstance(handler, Endpoint)] == []
    assert {
        path for path, handler in handlers.items() if isinstance(handler, Endpoint) and handler.is_public
    } <= PUBLIC


async def test_every_route_refuses_who_is_not_known(guarded: Application) -> None:
    said: dict[tuple[str, str], int] = {}
    for route in leaves(guarded.routes):
        if not isinstance(route, Route) or route.path in PUBLIC:
            continue
        for method in sorted(route.methods or ()):
            for headers in ({}, by("nobody"), by("late"), {"authorization": "Basic YW5uOg=="}):
                async with (
                    post(guarded, path_of(route), {}, headers)
                    if method == "POST"
                    else get(guarded, path_of(route), headers, method=method)
                ) as answer:
                    await answer.finished()
                said[method, route.path] = answer.status
                assert answer.headers.get("www-authenticate") == "Bearer"
                if method != "HEAD":
                    assert b"unauthenticated" in answer.body

    assert set(said.values()) == {401}
    assert len(said) > 10


async def test_a_thread_of_another_owner_does_not_exist(guarded: Application) -> None:
    run = await run_to_end(guarded, "ann")

    async with client(guarded) as http:
        answers = {
            path: await http.request(method, f"{THREAD}{path}", headers=by("bob"), json=body)
            for method, path, body in [
                ("GET", f"/runs/{run}", None),
                ("POST", f"/runs/{run}/cancel", {}),
                ("POST", f"/runs/{run}/steer", {"input": "x"}),
                ("POST", f"/runs/{run}/approvals/a", {"approved": True}),
                ("GET", f"/events?run={run}", None),
                ("GET", "/runs", None),
                ("GET", "/messages", None),
            ]
        }
        unknown = await http.get(f"{THREAD}/runs/none", headers=by("bob"))
        listed = [
            (await http.get("/v1/agents/planner/threads", headers=by(name))).json()["threads"]
            for name in ("ann", "bob")
        ]

    assert [answer.status_code for answer in answers.values()] == [404] * 5 + [200] * 2
    assert answers[f"/runs/{run}"].json() == unknown.json()
    assert answers["/runs"].json() == {"runs": []}
    assert answers["/messages"].json() == {"messages": []}
    assert [len(threads) for threads in listed] == [1, 0]


async def test_a_feed_of_the_same_name_is_another_owners_own(guarded: Application) -> None:
    async with get(guarded, f"{THREAD}/events", by("bob")) as feed:
        await feed.next()
        await run_to_end(guarded, "ann")
        await run_to_end(guarded, "bob")
        first = (await feed.until("run.finished"))[0]
    async with get(guarded, f"{THREAD}/events?after={first['id']}", by("ann")) as feed:
        hello, gap = await feed.next(), await feed.next()

    assert first["seq"] == 1
    assert first["id"].partition("-")[0] not in hello.data
    assert '"reason":"epoch"' in gap.data


async def test_who_may_only_read_is_told_so_and_who_may_not_read_sees_nothing(guarded: Application) -> None:
    run = await run_to_end(guarded, "ann")

    async with client(guarded) as http:
        forbidden = await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=by("reader"))
        seen = await http.get(f"{THREAD}/runs/{run}", headers=by("reader"))
        started = await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=by("writer"))
        unseen = await http.get(f"{THREAD}/runs/{run}", headers=by("writer"))

    assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")
    assert (seen.status_code, started.status_code, unseen.status_code) == (200, 202, 404)


async def test_an_agent_that_one_may_not_see_is_like_one_that_is_not_there(guarded: Application) -> None:
    async with client(guarded) as http:
        agents = (await http.get("/v1/agents", headers=by("guest"))).json()["agents"]
        hidden = await http.get(f"{THREAD}/runs", headers=by("guest"))
        missing = await http.get("/v1/agents/nobody/threads/t1/runs", headers=by("guest"))
        threads = await http.get("/v1/agents/planner/threads", headers=by("guest"))

    assert [(one["name"], one["default"]) for one in agents] == [("other", True)]
    malformed = [
        await get_status(guarded, f"/v1/agents/{name}/threads/%20/runs", "guest")
        for name in ("planner", "nobody")
    ]

    assert malformed == [400, 400]
    assert hidden.status_code == missing.status_code == threads.status_code == 404
    assert hidden.json() == missing.json() == threads.json()


@pytest.mark.parametrize(
    ("name", "texts"), [("ann", ["first think", "in short"]), ("short", ["in short"]), ("brief", [])]
)
async def test_messages_and_feeds_hold_the_reasoning_that_one_may_see(
    guarded: Application, name: str, texts: list[str]
) -> None:
    await run_to_end(guarded, "ann")

    async with client(guarded) as http:
        messages = (await http.get(f"{THREAD}/messages", headers=by(name))).json()["messages"]
    async with get(guarded, f"{THREAD}/events?after=earliest", by(name)) as feed:
        events = await feed.until("run.finished")

    assert [one["thinking"] for one in messages[1]["content"] if one["type"] == "thinking"] == texts
    assert [one["text"] for one in messages[1]["content"] if one["type"] == "text"] == ["then"]
    told = [one["data"]["text"] for one in events if one["type"] == "reasoning" and "text" in one["data"]]
    assert "".join(told) == "".join(texts)


def test_somebody_without_an_owner_is_its_own_and_never_anybody() -> None:
    assert Identity("ann").owner == "ann"
    assert Identity("Änn / x").owner.startswith("sha256:")
    assert Identity("").is_anyone
    assert not Identity("ann").is_anyone


def test_provider_state_is_shown_to_nobody_who_was_not_asked_who_they_are() -> None:
    agent = Agent("planner", model=ScriptedModel("hi"), expose_provider_state=True)

    with pytest.raises(ConfigurationError, match="expose_provider_state"):
        create_app([agent])
    create_app([agent], auth=ByName())


async def test_what_breaks_while_somebody_is_asked_who_it_is_lets_nobody_in() -> None:
    class Broken(Auth):
        async def authenticate(self, request: HTTPConnection) -> Identity | None:
            raise KeyError("secret-in-an-error")

    app = create_app([Agent("planner", model=ScriptedModel("hi"))], auth=Broken())
    async with client(app) as http:
        answer = await http.get(f"{THREAD}/runs")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    with anyio.fail_after(20):
        await app.aclose()


async def test_who_may_only_run_reads_no_thread_in_another_protocol(guarded: Application) -> None:
    def asked(*said: str, run: str = "r1") -> dict[str, Any]:
        messages = [{"id": text, "role": "user", "content": text} for text in said]
        return {"threadId": "t1", "runId": run, "messages": messages}

    async with client(guarded) as http:
        with anyio.fail_after(20):
            path, writer = "/v1/ag-ui/planner", by("writer")
            assert (await http.post(path, json=asked("hi"), headers=by("ann"))).status_code == 200
            answers = [
                await http.post(path, json=asked(), headers=writer),
                await http.post(path, json=asked("hi"), headers={**writer, "x-run-id": "r1"}),
                await http.get(f"{path}?threadId=t1&runId=r1", headers=writer),
                await http.get("/v1/ai-sdk/planner/t1", headers=writer),
            ]
            own = await http.post(path, json=asked("mine", run="r2"), headers=writer)

    assert [answer.status_code for answer in answers] == [404] * 4
    assert own.status_code == 200


async def test_who_may_not_cancel_leaves_a_run_that_waits_alone() -> None:
    people = {"ann": Identity("ann", "one"), "some": Identity("some", "one", frozenset({"read", "run"}))}

    class Some(Auth):
        async def authenticate(self, request: HTTPConnection) -> Identity | None:
            return people.get(bearer(request))

    @tool(requires_approval=True)
    def risk() -> str:
        """Risk."""
        return "risked"

    model = ScriptedModel([Call("risk", {})], repeat=True)
    app = create_app([Agent("planner", model=model, tools=[risk])], settings=Settings(), auth=Some())
    said = {"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "go"}]}
    other = {**said, "runId": "r2", "messages": [{"id": "m2", "role": "user", "content": "no"}]}
    chat = {"id": "t1", "messages": [{"role": "user", "parts": [{"type": "text", "text": "no"}]}]}
    async with client(app) as http:
        with anyio.fail_after(20):
            assert (await http.post("/v1/ag-ui/planner", json=said, headers=by("ann"))).status_code == 200
            refused = [
                await http.post("/v1/ag-ui/planner", json=other, headers=by("some")),
                await http.post("/v1/ai-sdk/planner", json=chat, headers=by("some")),
            ]
            runs = (await http.get(f"{THREAD}/runs", headers=by("ann"))).json()["runs"]
            taken = await http.post("/v1/ag-ui/planner", json=other, headers=by("ann"))
    await app.aclose()

    assert [answer.status_code for answer in refused] == [403, 403]
    assert [run["status"] for run in runs] == ["suspended"]
    assert taken.status_code == 200


async def test_a_ticket_opens_a_feed_and_nothing_that_is_called_like_one(guarded: Application) -> None:
    given = {"agent": "planner", "thread": "events"}
    async with client(guarded) as http:
        ticket = (await http.post("/v1/tickets", json=given, headers=by("ann"))).json()["ticket"]
        answer = await http.get(f"/v1/ai-sdk/planner/events?ticket={ticket}")

    assert answer.status_code == 401
