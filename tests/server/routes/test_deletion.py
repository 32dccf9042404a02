"""Deleting a thread: its runs end, its watchers are told, nothing is left, and its name may be used again."""

import json
import urllib.parse

import anyio
import pytest
from asgi import client, get

from agentkit_server import Application

pytestmark = pytest.mark.anyio

HELD = "/v1/agents/held/threads/t1"


async def test_watchers_see_the_run_stop_and_then_the_end(app: Application) -> None:
    async with client(app) as http:
        run = (await http.post(f"{HELD}/runs", json={"input": "hello"})).json()["run"]
        async with (
            get(app, f"{HELD}/events?after=earliest") as feed,
            get(app, f"{HELD}/events?run={run}&after=earliest") as other,
        ):
            await feed.until("reasoning")
            gone = await http.delete(HELD)
            events = await feed.until("stream.end")
            await feed.finished()
            await other.finished()
        lists = [(await http.get(f"{HELD}/{what}")).json() for what in ("messages", "runs")]
        threads = (await http.get("/v1/agents/held/threads")).json()

    assert (gone.status_code, gone.content) == (204, b"")
    assert [event["type"] for event in events[-2:]] == ["run.cancelled", "stream.end"]
    assert events[-2]["data"]["reason"] == "the thread was deleted"
    assert events[-1]["data"] == {"reason": "deleted"}
    assert b"stream.end" in other.body
    assert lists == [{"messages": []}, {"runs": []}]
    assert threads == {"threads": []}


async def test_the_next_use_is_a_new_log(app: Application, gate: anyio.Event) -> None:
    gate.set()
    async with client(app) as http:
        await http.post(f"{HELD}/chat", json={"message": "hello"})
        async with get(app, f"{HELD}/events?after=earliest") as feed:
            old = (await feed.until("run.finished"))[-1]
        await http.delete(HELD)
        await http.post(f"{HELD}/chat", json={"message": "again"})
        async with get(app, f"{HELD}/events", {"last-event-id": old["id"]}) as feed:
            events = await feed.until("run.finished")
        messages = (await http.get(f"{HELD}/messages")).json()["messages"]

    assert [event["type"] for event in events[:3]] == ["stream.hello", "stream.gap", "run.started"]
    assert events[1]["data"] == {"from": 0, "to": 0, "reason": "epoch"}
    assert events[2]["seq"] == 1
    assert events[2]["id"].partition("-")[0] != old["id"].partition("-")[0]
    assert [one["content"][0]["text"] for one in messages if one["role"] == "user"] == ["again"]


async def test_a_run_of_a_deleted_thread_is_not_found(app: Application, gate: anyio.Event) -> None:
    gate.set()
    async with client(app) as http:
        run = (await http.post(f"{HELD}/chat", json={"message": "hello"})).json()["run"]
        await http.delete(HELD)
        shown = await http.get(f"{HELD}/runs/{run}")
        feed = await http.get(f"{HELD}/events?" + urllib.parse.urlencode({"run": run, "after": "earliest"}))

    assert [shown.status_code, feed.status_code] == [404, 404]
    assert json.loads(feed.content)["code"] == "not_found"


async def test_deleting_what_was_never_used_is_fine_and_again_too(app: Application) -> None:
    async with client(app) as http:
        answers = [
            (await http.delete(f"/v1/agents/planner/threads/{name}")).status_code
            for name in ("new", "new", "bad name")
        ]
        unknown = await http.delete("/v1/agents/nobody/threads/t1")

    assert answers == [204, 204, 400]
    assert unknown.status_code == 404
