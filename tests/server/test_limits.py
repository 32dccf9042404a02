"""Bounds for each and for all, and what ends an open stream."""

import asyncio
from contextlib import AsyncExitStack, suppress

import anyio
import pytest
from asgi import client, get, post
from server.people import PEOPLE, THREAD, TOPIC, ByName, Clock, Socket, by, make_guarded
from starlette.requests import HTTPConnection

from agentkit.agent import Agent
from agentkit.engines.memory import MemoryEngine
from agentkit.log import Topic
from agentkit.testing import ScriptedModel
from agentkit_server import Application, Identity, create_app
from agentkit_server.auth import NoAuth
from agentkit_server.limits import Rate, RunLimits
from agentkit_server.settings import Settings
from agentkit_transports.problem import ProblemError

pytestmark = pytest.mark.anyio

HELD = "/v1/agents/held/threads"


async def is_empty(app: Application) -> None:
    """Wait until nothing is counted any more."""
    with anyio.fail_after(20):
        while len(app.service.stays) or app.service.stays._each or app.service.stays._unknown:
            await anyio.lowlevel.checkpoint()


async def test_one_has_so_many_streams_and_others_are_not_held_up() -> None:
    app = make_guarded(connections_each=3)
    async with AsyncExitStack() as open_:
        for _ in range(2):
            await (await open_.enter_async_context(get(app, f"{THREAD}/events", by("ann")))).begun()
        socket = await open_.enter_async_context(Socket(app, by("ann")))
        socket.say(op="hello")
        await socket.get("welcome")

        async with get(app, f"{THREAD}/events", by("ann")) as fourth:
            await fourth.finished()
        async with Socket(app, by("ann")) as fifth:
            status = await fifth.closed()
        async with Socket(app) as sixth:
            sixth.say(op="hello", auth="ann")
            code = await sixth.closed()
        async with get(app, f"{THREAD}/events", by("bob")) as other:
            await other.begun()
        async with client(app) as http:
            asked = await http.get(f"{THREAD}/runs", headers=by("ann"))
    await is_empty(app)
    async with get(app, f"{THREAD}/events", by("ann")) as again:
        await again.begun()

    assert (fourth.status, fourth.json()["code"]) == (429, "too_many_connections")
    assert fourth.headers["retry-after"] == "5"
    assert (status, code, other.status, asked.status_code, again.status) == (429, 4504, 200, 200, 200)
    await app.aclose()


async def test_all_together_have_so_many_and_sockets_count() -> None:
    app = make_guarded(connections=2)
    async with Socket(app, by("ann")), get(app, f"{THREAD}/events", by("bob")) as feed:
        await feed.begun()
        async with get(app, f"{THREAD}/events", by("ann")) as third:
            await third.finished()
        async with Socket(app) as fourth:
            status = await fourth.closed()
        async with client(app) as http:
            looked = await http.head(f"{THREAD}/events", headers=by("ann"))

    assert (third.status, status, looked.status_code) == (429, 429, 200)
    await is_empty(app)
    await app.aclose()


async def test_sockets_that_say_nothing_are_few_and_end() -> None:
    app = make_guarded(unknown_sockets=2, hello_timeout=0.2)
    async with Socket(app) as one, Socket(app) as two:
        async with Socket(app) as three:
            refused = await three.closed()
        async with Socket(app, by("ann")) as known:
            known.say(op="hello")
            await known.get("welcome")
        codes = [await one.closed(), await two.closed()]

    assert (refused, codes) == (429, [4502, 4502])
    await is_empty(app)
    await app.aclose()


async def test_who_has_its_streams_begins_nothing_that_waits_for_an_answer() -> None:
    app = make_guarded(connections_each=1)
    order, chat = {"input": "x"}, {"message": "x"}
    completion = {"model": "planner", "messages": [{"role": "user", "content": "x"}]}
    async with get(app, f"{THREAD}/events", by("ann")) as feed:
        await feed.begun()
        asked = post(app, f"{THREAD}/runs", order, {**by("ann"), "accept": "text/event-stream"})
        async with asked as answer:
            await answer.finished()
        async with client(app) as http:
            others = [
                await http.post(f"{THREAD}/chat", json=chat, headers=by("ann")),
                await http.post("/v1/chat/completions", json=completion, headers=by("ann")),
                await http.delete(THREAD, headers=by("ann")),
            ]
            runs = (await http.get(f"{THREAD}/runs", headers=by("ann"))).json()["runs"]
            free = await http.post(f"{THREAD}/chat", json=chat, headers=by("bob"))

    assert [answer.status, *(one.status_code for one in others)] == [429] * 4
    assert (runs, free.status_code) == ([], 200)
    await app.aclose()


async def test_one_has_so_many_runs_and_a_retry_is_none() -> None:
    app = make_guarded(runs_each=2, runs=3)
    async with client(app) as http:

        async def start(name: str, thread: str, key: str = "") -> int:
            headers = by(name) | ({"idempotency-key": key} if key else {})
            answer = await http.post(f"{HELD}/{thread}/runs", json={"input": "x"}, headers=headers)
            return answer.status_code

        first = [await start("ann", "a", "k1"), await start("ann", "b")]
        third = await start("ann", "c")
        retry = await start("ann", "a", "k1")
        other = [await start("bob", "a"), await start("bob", "b")]
        listed = (await http.get(f"{HELD}/a/runs", headers=by("ann"))).json()["runs"]
        await http.post(f"{HELD}/a/runs/{listed[0]['run']}/cancel", json={}, headers=by("ann"))
        await http.get(f"{HELD}/a/runs/{listed[0]['run']}?wait=5", headers=by("ann"))
        with anyio.fail_after(20):
            while (again := await start("ann", "d")) == 429:
                await anyio.lowlevel.checkpoint()

    assert (first, third, retry, other, again) == ([202, 202], 429, 202, [202, 429], 202)
    await app.aclose()


async def test_runs_that_are_asked_for_at_once_are_counted_at_once() -> None:
    app = make_guarded(runs_each=5)
    async with client(app) as http:
        answers = await asyncio.gather(
            *(http.post(f"{HELD}/t{n}/runs", json={"input": "x"}, headers=by("ann")) for n in range(20))
        )

    assert sorted(answer.status_code for answer in answers) == [202] * 5 + [429] * 15
    await app.aclose()
    assert (app.service.run_limits._all, dict(app.service.run_limits._each)) == (0, {})


async def test_a_run_that_could_not_start_is_not_counted() -> None:
    app = make_guarded(runs_each=1)
    async with client(app) as http:
        wrong = {"input": "x", "reasoning": {"effort": "?"}}
        bad = [await http.post(f"{THREAD}/runs", json=wrong, headers=by("ann")) for _ in range(3)]
        good = await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=by("ann"))

    assert [one.status_code for one in (*bad, good)] == [422, 422, 422, 202]
    await app.aclose()


async def test_one_has_so_many_threads() -> None:
    app = make_guarded(threads_each=3)
    async with client(app) as http:

        async def start(name: str, thread: str) -> int:
            path = f"/v1/agents/planner/threads/{thread}"
            answer = await http.post(f"{path}/chat", json={"message": "x"}, headers=by(name))
            return answer.status_code

        codes = [await start("ann", thread) for thread in ("a", "b", "c", "d", "a", "e")]
        other = await start("bob", "a")
        deleted = await http.delete("/v1/agents/planner/threads/b", headers=by("ann"))
        again = await start("ann", "f")

    assert codes == [200, 200, 200, 429, 200, 429]
    assert (other, deleted.status_code, again) == (200, 204, 200)
    await app.aclose()


async def test_requests_without_a_thread_do_not_change_how_many_there_are() -> None:
    app = make_guarded(threads_each=3)
    asked = {"model": "planner", "messages": [{"role": "user", "content": "x"}]}
    codes = []
    async with client(app) as http:
        for thread in ("a", "b", "c", "d"):
            path = f"/v1/agents/planner/threads/{thread}/chat"
            codes.append((await http.post(path, json={"message": "x"}, headers=by("ann"))).status_code)
            for _ in range(2):
                answer = await http.post("/v1/chat/completions", json=asked, headers=by("ann"))
                assert answer.status_code == 200

    assert codes == [200, 200, 200, 429]
    await app.aclose()


async def test_without_authentication_there_are_bounds_for_all_only() -> None:
    limits = RunLimits(Settings(runs_each=1, threads_each=1, runs=2))
    limits.begin("")
    limits.admit("")
    limits.begin("")
    for thread in ("a", "b"):
        await limits.admit_thread(MemoryEngine(), Topic("", "planner", thread))

    with pytest.raises(ProblemError, match="429"):
        limits.admit("")


async def test_requests_that_wait_are_counted_too() -> None:
    app = make_guarded(connections_each=2)
    async with client(app) as http:
        started = await http.post(f"{HELD}/a/runs", json={"input": "x"}, headers=by("ann"))
        path = f"{HELD}/a/runs/{started.json()['run']}"
        async with get(app, f"{path}?wait=5", by("ann")), get(app, f"{path}?wait=5", by("ann")):
            with anyio.fail_after(20):
                while len(app.service.stays) < 2:
                    await anyio.lowlevel.checkpoint()
            third = await http.get(f"{path}?wait=5", headers=by("ann"))
            looked = await http.get(path, headers=by("ann"))
            await http.post(f"{path}/cancel", json={}, headers=by("ann"))
            await http.get(path, headers=by("ann"))
            await is_empty(app)

    assert (third.status_code, looked.status_code) == (429, 200)
    await app.aclose()


async def test_a_token_that_expires_ends_what_it_opened() -> None:
    auth = ByName()
    app = make_guarded(auth)
    auth.people["brief"] = Identity("brief", "one", expires=app.service.clock() + 0.4)

    async with (
        get(app, f"{THREAD}/events", by("brief")) as feed,
        Socket(app, by("brief")) as socket,
        Socket(app) as late,
    ):
        late.say(op="hello", auth="brief")
        await late.get("welcome")
        socket.say(op="sub", rid="1", topic=TOPIC)
        await socket.get("ok")
        said = await feed.until("stream.closing")
        await feed.finished()
        codes = [await socket.closed(), await late.closed()]
    async with client(app) as http:
        again = await http.get(f"{THREAD}/runs", headers=by("brief"))

    assert [one["type"] for one in said] == ["stream.hello", "stream.closing"]
    assert codes == [4004, 4004]
    assert again.status_code == 401
    await app.aclose()


async def test_a_fresh_token_keeps_the_socket_and_somebody_elses_does_not() -> None:
    auth = ByName()
    app = make_guarded(auth)
    auth.people["brief"] = Identity("ann", "one", expires=app.service.clock() + 0.4)
    auth.people["bob"] = Identity("bob", "two")

    async with Socket(app, by("brief")) as socket, Socket(app, by("brief")) as other:
        socket.say(op="sub", rid="1", topic=TOPIC)
        await socket.get("ok")
        socket.say(op="hello", auth="ann")
        await socket.get("welcome")
        expired = await other.closed()
        socket.say(op="run", rid="2", agent="planner", thread="t1", input="x")
        await socket.get("ev")
        socket.say(op="hello", auth="bob")
        stranger = await socket.closed()
    async with Socket(app, by("ann")) as socket:
        socket.say(op="hello", auth="nobody")
        bad = await socket.closed()

    assert (expired, stranger, bad) == (4004, 4503, 4500)
    await app.aclose()


async def test_a_right_that_is_taken_away_ends_streams_and_replays_nothing() -> None:
    auth = ByName()
    app = make_guarded(auth, recheck=0.05)
    async with client(app) as http:
        await http.post(f"{THREAD}/chat", json={"message": "x"}, headers=by("ann"))
    async with (
        get(app, f"{THREAD}/events", by("ann")) as feed,
        Socket(app, by("ann")) as socket,
        get(app, f"{THREAD}/events", by("bob")) as other,
    ):
        await feed.next()
        await other.next()
        socket.say(op="sub", rid="1", topic=TOPIC)
        await socket.get("ok")
        auth.struck.add("ann")
        await feed.until("stream.closing")
        code = await socket.closed()
        async with get(app, f"{THREAD}/events?after=earliest", by("ann")) as replay:
            await replay.finished()
        assert not other.ended

    assert (code, replay.status) == (4004, 404)
    await is_empty(app)
    await app.aclose()


async def test_rights_are_asked_for_at_every_word_of_a_socket() -> None:
    auth = ByName()
    app = make_guarded(auth)
    async with Socket(app, by("ann")) as socket:
        socket.say(op="run", rid="1", agent="planner", thread="t1", input="x")
        await socket.get("ok")
        auth.struck.add("ann")
        socket.say(op="run", rid="2", agent="planner", thread="t1", input="x")
        run = await socket.get("err")
        socket.say(op="sub", rid="3", topic=TOPIC)
        sub = await socket.get("err")

    assert [run["problem"]["status"], sub["problem"]["status"]] == [404, 404]
    await app.aclose()


async def test_an_authenticate_that_breaks_opens_no_socket() -> None:
    class Broken(ByName):
        async def authenticate(self, request: HTTPConnection) -> Identity | None:
            if b"authorization" in dict(request.scope["headers"]):
                raise KeyError("secret-in-an-error")
            return None

    app = make_guarded(Broken())
    async with Socket(app, by("ann")) as socket:
        status = await socket.closed()
    async with Socket(app) as socket:
        socket.say(op="hello", auth="ann")
        code = await socket.closed()

    assert (status, code) == (503, 4005)
    await app.aclose()


async def test_an_authorize_that_breaks_ends_the_stream() -> None:
    class Broken(ByName):
        async def authorize(self, identity: Identity, action: object, agent: str, thread: str) -> bool:
            if self.struck:
                raise KeyError
            return True

    auth = Broken()
    app = make_guarded(auth, recheck=0.05)
    async with get(app, f"{THREAD}/events", by("ann")) as feed:
        await feed.next()
        auth.struck.add("everybody")
        await feed.until("stream.closing")
    await app.aclose()


async def test_a_stream_that_is_old_is_asked_to_come_back_and_loses_nothing() -> None:
    app = make_guarded(stream_age=0.2)
    async with get(app, f"{THREAD}/events", by("ann")) as feed, Socket(app, by("ann")) as socket:
        async with client(app) as http:
            await http.post(f"{THREAD}/chat", json={"message": "x"}, headers=by("ann"))
        said = await feed.until("stream.closing")
        code = await socket.closed()
    last = [one["id"] for one in said if "id" in one][-1]
    async with get(app, f"{THREAD}/events", {**by("ann"), "last-event-id": last}) as feed:
        hello = await feed.next()

    assert code == 4007
    assert '"resumed":true' in hello.data
    await app.aclose()


async def test_frames_are_bounded_in_number() -> None:
    app = make_guarded(frame_rate=1, frame_burst=5, subscriptions=1)
    async with Socket(app, by("ann")) as socket:
        socket.say(op="hello")
        limits = (await socket.get("welcome"))["limits"]
        for _ in range(10):
            socket.say(op="ping")
        code = await socket.closed()

    assert (limits["subscriptions"], limits["rate"], limits["burst"], code) == (1, 1.0, 5, 4006)
    await app.aclose()


async def test_a_frame_may_not_be_deeper_than_a_body() -> None:
    app = make_guarded(json_depth=8)
    deep: object = []
    for _ in range(20):
        deep = [deep]
    async with Socket(app, by("ann")) as socket:
        socket.say(op="run", rid="1", agent="planner", thread="t1", input=deep)
        problem = (await socket.get("err"))["problem"]

    assert problem["status"] == 400
    await app.aclose()


@pytest.mark.parametrize(
    "word", ["provider_options", "base_url", "model", "api_key", "headers", "tools", "system"]
)
async def test_a_client_chooses_no_server_no_model_and_no_options(word: str) -> None:
    app = create_app([Agent("planner", model=ScriptedModel("hi", repeat=True))])
    async with client(app) as http:
        for path, name in (("runs", "input"), ("chat", "message")):
            body = {name: "x", word: {"base_url": "http://169.254.169.254/"}}
            answer = await http.post(f"{THREAD}/{path}", json=body)
            assert (answer.status_code, answer.json()["field"]) == (422, word)
    async with Socket(app) as socket:
        socket.say(
            op="run", rid="1", agent="planner", thread="t1", input="x", **{word: "http://169.254.169.254/"}
        )
        assert (await socket.get("err"))["problem"]["field"] == word
    await app.aclose()


def test_people_are_what_these_tests_take_them_for() -> None:
    assert PEOPLE["ann"].owner != PEOPLE["bob"].owner


async def test_one_makes_so_many_requests_a_second_and_is_told_when_the_next_may_come() -> None:
    app = make_guarded(request_rate=0.01, request_burst=3)
    async with client(app) as http:
        codes = [(await http.get("/v1/agents", headers=by("ann"))).status_code for _ in range(3)]
        refused = await http.get("/v1/agents", headers=by("ann"))
        other = await http.get("/v1/agents", headers=by("bob"))
        unknown = [(await http.get("/v1/agents")).status_code for _ in range(5)]
        probes = [(await http.get("/healthz", headers=by("ann"))).status_code for _ in range(5)]
    async with Socket(app, by("ann")) as socket:
        handshake = await socket.closed()

    assert (codes, refused.status_code, other.status_code, handshake) == ([200] * 3, 429, 200, 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 100
    assert (unknown, probes) == ([401] * 5, [200] * 5)
    await app.aclose()


async def test_where_nobody_is_asked_who_it_is_requests_are_not_counted() -> None:
    app = make_guarded(NoAuth(), request_rate=0.01, request_burst=1)
    async with client(app) as http:
        codes = [(await http.get("/v1/agents")).status_code for _ in range(3)]

    assert codes == [200] * 3
    await app.aclose()


def test_a_rate_gives_back_with_time_and_no_more_than_at_once() -> None:
    clock = Clock()
    rate = Rate(2.0, 3, "slowly", clock=clock)

    def taken() -> int:
        count = 0
        with suppress(ProblemError):
            while True:
                rate.take(PEOPLE["ann"])
                count += 1
        return count

    counts = [taken()]
    for seconds in (0.25, 0.25, 1.0, 3600.0):
        clock.now += seconds
        counts.append(taken())

    assert counts == [3, 0, 1, 2, 3]


async def test_a_token_that_shows_less_keeps_no_socket_that_was_opened_for_more() -> None:
    less = Identity("ann", "one", exposure="summary")
    app = make_guarded(ByName(PEOPLE | {"less": less}))
    async with Socket(app, by("ann")) as socket:
        socket.say(op="sub", rid="1", topic=TOPIC)
        await socket.get("ok")
        socket.say(op="hello", auth="ann")
        await socket.get("welcome")
        socket.say(op="hello", auth="less")
        code = await socket.closed()
    async with Socket(app, by("less")) as socket:
        socket.say(op="sub", rid="1", topic=TOPIC)
        again = await socket.get("ok")

    assert (code, again["exposure"]) == (4004, "summary")
    await app.aclose()
