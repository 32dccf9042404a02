"""Start a run, chat, look, wait, cancel."""

from typing import Any

import anyio
import pytest
from asgi import client, get, post

from agentkit_server import Application

pytestmark = pytest.mark.anyio

RUNS = "/v1/agents/planner/threads/t1/runs"
HELD = "/v1/agents/held/threads/t1/runs"


async def start(app: Application, path: str = RUNS, **body: Any) -> str:
    async with client(app) as http:
        answer = await http.post(path, json={"input": "hello", **body})
    assert answer.status_code == 202, answer.text
    run: str = answer.json()["run"]
    return run


async def test_a_run_is_accepted_with_the_path_of_its_feed(app: Application) -> None:
    async with client(app) as http:
        answer = await http.post(RUNS, json={"input": "hello"})

    run = answer.json()["run"]
    assert answer.status_code == 202
    assert answer.json() == {
        "run": run,
        "thread": "t1",
        "events": f"/v1/agents/planner/threads/t1/events?run={run}&after=earliest",
    }
    assert answer.headers["location"] == f"{RUNS}/{run}"
    async with get(app, answer.json()["events"]) as feed:
        types = [event["type"] for event in await feed.until("stream.end")]
    assert types[1] == "run.started"
    assert types[-2:] == ["run.finished", "stream.end"]


async def test_a_run_asked_for_as_a_feed_answers_with_its_events(app: Application) -> None:
    async with post(app, RUNS, {"input": "hello"}, {"accept": "text/event-stream"}) as feed:
        events = await feed.until("stream.end")
        await feed.finished()

    assert feed.headers["content-type"].startswith("text/event-stream")
    assert [event["type"] for event in events] == [
        "stream.hello", "run.started", "step.started",
        "reasoning_block.started", "reasoning", "reasoning", "reasoning", "reasoning_block.finished",
        "text.started", "text.delta", "text.finished", "step.finished", "run.finished", "stream.end",
    ]  # fmt: skip
    assert feed.headers["location"] == f"{RUNS}/{events[1]['run']}"


async def test_a_retried_request_is_the_same_run(app: Application) -> None:
    headers = {"idempotency-key": "6f1c"}
    async with client(app) as http:
        answers = [await http.post(RUNS, json={"input": "hello"}, headers=headers) for _ in range(3)]
        chat = await http.post(RUNS.replace("runs", "chat"), json={"message": "hello"}, headers=headers)
        other = await http.post(
            RUNS, json={"input": "hello", "on_busy": "queue"}, headers={"idempotency-key": "9"}
        )
        listed = (await http.get(RUNS)).json()["runs"]

    assert [answer.status_code for answer in answers] == [202] * 3
    runs = {answer.json()["run"] for answer in answers} | {chat.json()["run"]}
    assert len(runs) == 1
    assert {record["run"] for record in listed} == runs | {other.json()["run"]}


async def test_a_retried_request_for_a_feed_gets_the_run_from_its_start(app: Application) -> None:
    headers = {"accept": "text/event-stream", "idempotency-key": "k"}
    seen = []
    for _ in range(2):
        async with post(app, RUNS, {"input": "hello"}, headers) as feed:
            seen.append([event.get("id") for event in await feed.until("stream.end")])

    assert seen[0] == seen[1]


@pytest.mark.parametrize("key", ["x" * 257, "a\tb"], ids=["long", "tab"])
async def test_a_key_that_is_none_is_refused_and_starts_nothing(app: Application, key: str) -> None:
    async with client(app) as http:
        answer = await http.post(RUNS, json={"input": "hello"}, headers={"idempotency-key": key})
        listed = (await http.get(RUNS)).json()["runs"]

    assert (answer.status_code, answer.json()["field"], listed) == (400, "Idempotency-Key", [])


async def test_a_message_of_blanks_is_refused_and_starts_nothing(app: Application) -> None:
    async with client(app) as http:
        for body in ({"input": "  "}, {"input": [{"type": "text", "text": ""}]}):
            answer = await http.post(RUNS, json=body)
            assert (answer.status_code, answer.json()["field"]) == (422, "input")
        assert (await http.get(RUNS)).json()["runs"] == []


async def test_the_feed_of_a_run_holds_nothing_of_runs_before_it(app: Application) -> None:
    first = await start(app)
    async with client(app) as http:
        await http.get(f"{RUNS}/{first}?wait=5")

    async with post(app, RUNS, {"input": "again"}, {"accept": "text/event-stream"}) as feed:
        events = await feed.until("stream.end")

    assert first not in {event.get("run") for event in events}


async def test_a_client_that_leaves_its_feed_leaves_the_run_alone(
    app: Application, gate: anyio.Event
) -> None:
    async with post(app, HELD, {"input": "hello"}, {"accept": "text/event-stream"}) as feed:
        run = (await feed.until("reasoning"))[1]["run"]
    gate.set()

    async with client(app) as http:
        answer = await http.get(f"{HELD}/{run}?wait=5")
    assert answer.json()["status"] == "finished"


async def test_a_client_that_leaves_cancels_the_run_if_it_said_so(app: Application) -> None:
    body = {"input": "hello", "on_disconnect": "cancel"}
    async with post(app, HELD, body, {"accept": "text/event-stream"}) as feed:
        run = (await feed.until("reasoning"))[1]["run"]

    async with client(app) as http:
        answer = await http.get(f"{HELD}/{run}?wait=5")
    assert (answer.json()["status"], answer.json()["message"]) == ("cancelled", "the client left")


async def test_a_busy_thread_is_refused_and_its_run_goes_on(app: Application, gate: anyio.Event) -> None:
    run = await start(app, HELD)
    async with client(app) as http:
        refused = await http.post(HELD, json={"input": "again"})
        gate.set()
        ended = await http.get(f"{HELD}/{run}?wait=5")

    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "thread_busy"
    assert ended.json()["status"] == "finished"


async def test_a_busy_thread_queues_for_who_asks(app: Application, gate: anyio.Event) -> None:
    await start(app, HELD)
    second = await start(app, HELD, on_busy="queue")
    gate.set()

    async with client(app) as http:
        ended = await http.get(f"{HELD}/{second}?wait=5")
    assert ended.json()["status"] == "finished"


async def test_a_run_shows_how_it_ended(app: Application) -> None:
    run = await start(app, metadata={"colour": "red"})
    async with client(app) as http:
        body = (await http.get(f"{RUNS}/{run}?wait=5")).json()

    created, ended = body.pop("created"), body.pop("ended")
    assert created <= ended
    assert body == {
        "run": run,
        "agent": "planner",
        "thread": "t1",
        "status": "finished",
        "metadata": {"colour": "red"},
        "text": "then speak",
        "finish": "stop",
        "usage": {"input_tokens": 0, "output_tokens": 0, "reasoning_tokens": 0, "total_tokens": 0},
    }


async def test_a_failed_run_shows_why(app: Application) -> None:
    path = "/v1/agents/failing/threads/t1/runs"
    run = await start(app, path)
    async with client(app) as http:
        body = (await http.get(f"{path}/{run}?wait=5")).json()

    assert (body["status"], body["code"], body["retryable"]) == ("failed", "model_stream", True)
    assert "it broke" in body["message"]
    assert body["text"] == "so far"


async def test_wait_returns_when_its_time_is_over(app: Application, gate: anyio.Event) -> None:
    run = await start(app, HELD)
    async with client(app) as http:
        answer = await http.get(f"{HELD}/{run}?wait=0")
        assert answer.json()["status"] == "running"
        assert "ended" not in answer.json()
    gate.set()


@pytest.mark.parametrize("wait", ["-1", "1e3", "x", "", "１", "99999"])
async def test_a_wait_that_is_no_number_is_refused(app: Application, wait: str) -> None:
    run = await start(app)
    async with client(app) as http:
        answer = await http.get(f"{RUNS}/{run}", params={"wait": wait})

    assert (answer.status_code, answer.json()["field"]) == (400, "wait")


async def test_cancel_ends_the_run_and_is_idempotent(app: Application) -> None:
    run = await start(app, HELD)
    async with client(app) as http:
        first = await http.post(f"{HELD}/{run}/cancel", json={"reason": "enough"})
        ended = await http.get(f"{HELD}/{run}?wait=5")
        second = await http.post(f"{HELD}/{run}/cancel")
        after = await http.get(f"{HELD}/{run}")

    assert (first.status_code, first.json()) == (202, {"run": run, "status": "running"})
    assert (ended.json()["status"], ended.json()["message"]) == ("cancelled", "enough")
    assert (second.status_code, second.json()) == (202, {"run": run, "status": "cancelled"})
    assert after.json() == ended.json()


async def test_a_queued_run_is_cancelled_before_it_begins(app: Application, gate: anyio.Event) -> None:
    await start(app, HELD)
    second = await start(app, HELD, on_busy="queue")
    async with client(app) as http:
        await http.post(f"{HELD}/{second}/cancel")
        ended = await http.get(f"{HELD}/{second}?wait=5")
    gate.set()

    assert ended.json()["status"] == "cancelled"


async def test_runs_are_listed_in_pages(app: Application) -> None:
    ids = []
    async with client(app) as http:
        for _ in range(3):
            ids.append(await start(app))
            await http.get(f"{RUNS}/{ids[-1]}?wait=5")
        first = (await http.get(f"{RUNS}?limit=2")).json()
        second = (await http.get(f"{RUNS}?limit=2&after={first['next']}")).json()

    assert [run["run"] for run in first["runs"]] == ids[:2]
    assert [run["run"] for run in second["runs"]] == ids[2:]
    assert "next" not in second


async def test_chat_answers_with_visible_text_only(app: Application) -> None:
    async with client(app) as http:
        answer = await http.post("/v1/agents/planner/threads/t1/chat", json={"message": "hello"})

    run = answer.json()["run"]
    assert (answer.status_code, answer.json()) == (200, {"text": "then speak", "run": run})


async def test_chat_tells_a_refusal(app: Application) -> None:
    async with client(app) as http:
        answer = await http.post("/v1/agents/refusing/threads/t1/chat", json={"message": "hello"})

    run = answer.json()["run"]
    assert answer.json() == {"text": "", "refusal": "I will not", "run": run}


async def test_chat_of_a_run_that_fails_is_a_problem(app: Application) -> None:
    async with client(app) as http:
        answer = await http.post("/v1/agents/failing/threads/t1/chat", json={"message": "hello"})

    assert (answer.status_code, answer.json()["code"]) == (502, "model_stream")


async def test_chat_that_takes_long_answers_with_the_run(app: Application, gate: anyio.Event) -> None:
    async with client(app) as http:
        answer = await http.post("/v1/agents/held/threads/t1/chat", json={"message": "hello"})
        assert answer.status_code == 202
        gate.set()
        ended = await http.get(f"{HELD}/{answer.json()['run']}?wait=5")

    assert ended.json()["text"] == "done"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        pytest.param("runs", {}, "input", id="no input"),
        pytest.param("runs", {"input": ""}, "input", id="empty input"),
        pytest.param("runs", {"input": "x", "more": 1}, "more", id="an unknown member"),
        pytest.param("runs", {"input": "x", "on_busy": "wait"}, "on_busy", id="a word that is none"),
        pytest.param("runs", {"input": "x", "on_disconnect": True}, "on_disconnect", id="a bool for a word"),
        pytest.param("runs", {"input": "x", "metadata": []}, "metadata", id="a list for an object"),
        pytest.param(
            "runs", {"input": "x", "reasoning": {"effort": "huge"}}, "reasoning", id="no such effort"
        ),
        pytest.param(
            "runs", {"input": "x", "reasoning": {"budget": -1}}, "reasoning", id="a negative budget"
        ),
        pytest.param("chat", {"message": 7}, "message", id="a number for a message"),
        pytest.param("chat", {"input": "x"}, "message", id="the other route's word"),
    ],
)
async def test_a_body_of_another_shape_names_the_field_and_starts_nothing(
    app: Application, path: str, body: dict[str, Any], field: str
) -> None:
    async with client(app) as http:
        answer = await http.post(f"/v1/agents/planner/threads/t1/{path}", json=body)
        runs = await http.get(RUNS)

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "invalid", field)
    assert runs.json() == {"runs": []}


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data; b=1"]
)
async def test_only_json_is_taken(app: Application, kind: str) -> None:
    async with client(app) as http:
        answer = await http.post(RUNS, content=b'{"input":"x"}', headers={"content-type": kind})

    assert (answer.status_code, answer.json()["field"]) == (415, "content-type")


async def test_a_body_that_says_it_is_too_large_is_refused_unread(app: Application) -> None:
    async with post(app, RUNS, b"{", {"content-length": "2001"}) as exchange:
        await exchange.finished()

    assert (exchange.status, exchange.json()["code"], exchange.received) == (413, "too_large", 0)


async def test_a_body_without_end_is_refused_at_the_limit(app: Application) -> None:
    async with post(app, RUNS, b"", {"content-length": "10"}, endless=b"x" * 100) as exchange:
        await exchange.finished()

    assert (exchange.status, exchange.received) == (413, 21)


async def test_a_client_that_leaves_while_it_sends_starts_nothing(app: Application) -> None:
    async with post(app, RUNS, b'{"input":"x"}') as exchange:
        exchange._body = [b'{"input"', b""]
        exchange._body.pop()
        exchange.leave()

    async with client(app) as http:
        assert (await http.get(RUNS)).json() == {"runs": []}


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        pytest.param("POST", "/v1/agents/nobody/threads/t1/runs", 404, "not_found", id="unknown agent"),
        pytest.param(
            "GET", "/v1/agents/nobody/threads/t1/events", 404, "not_found", id="unknown agent's feed"
        ),
        pytest.param("GET", f"{RUNS}/run_0", 404, "not_found", id="unknown run"),
        pytest.param("POST", f"{RUNS}/run_0/cancel", 404, "not_found", id="cancel of an unknown run"),
        pytest.param(
            "GET", "/v1/agents/planner/threads/t1/events?run=run_0", 404, "not_found", id="unknown run's feed"
        ),
        pytest.param("GET", f"{RUNS}/%00", 404, "not_found", id="NUL for a run"),
        pytest.param("GET", f"{RUNS}/..%2f..", 404, "not_found", id="a path for a run"),
        pytest.param(
            "GET", "/v1/agents/planner/threads/*/events", 400, "malformed", id="a wildcard for a thread"
        ),
        pytest.param(
            "GET", f"/v1/agents/planner/threads/{'t' * 129}/messages", 400, "malformed", id="a long thread"
        ),
        pytest.param(
            "GET", "/v1/agents/planner/threads/a%20b/runs", 400, "malformed", id="a space in a thread"
        ),
        pytest.param("POST", "/v1/agents/planner/threads/%E2%80%AEx/runs", 400, "malformed", id="no ASCII"),
        pytest.param("GET", "/nothing", 404, "not_found", id="no such path"),
        pytest.param("DELETE", RUNS, 405, "method_not_allowed", id="no such method"),
        pytest.param("GET", f"{RUNS}?limit=0", 400, "malformed", id="no entries"),
        pytest.param("GET", f"{RUNS}?after=run_0", 400, "malformed", id="a page after nothing"),
    ],
)
async def test_what_is_not_there_is_a_problem(
    app: Application, method: str, target: str, status: int, code: str
) -> None:
    async with client(app) as http:
        answer = await http.request(method, target, json={"input": "x"} if method == "POST" else None)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
