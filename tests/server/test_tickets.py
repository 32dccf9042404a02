"""Tickets and cookies: good once, for what they are for, for as long as they are, on any server of an engine."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from asgi import client, get
from server.people import PEOPLE, THREAD, TOPIC, ByName, Clock, Socket, by, make_guarded

from agentkit.engines.memory import MemoryEngine
from agentkit.engines.sqlite import SQLiteEngine
from agentkit_server import Application, Identity
from agentkit_server.auth import NoAuth
from agentkit_server.identity import Grant
from agentkit_server.tickets import OWNER, SHELF, FeedUse, Tickets

pytestmark = pytest.mark.anyio

PLACE = {"last-event-id": "abcdef-1"}


@pytest.fixture
async def app() -> AsyncIterator[Application]:
    made = make_guarded(allowed_origins=("https://front.example",))
    yield made
    await made.aclose()


@pytest.fixture
def clock(app: Application) -> Clock:
    """The server's clock, in a test's hand."""
    clock = Clock()
    app.service.clock = app.service.stays.clock = app.service.tickets._clock = clock
    return clock


async def ask(app: Application, name: str = "ann", **body: Any) -> tuple[int, dict[str, Any]]:
    asked = {"agent": "planner", "thread": "t1", **body}
    async with client(app) as http:
        answer = await http.post("/v1/tickets", json=asked, headers=by(name))
    return answer.status_code, answer.json()


async def ticket_of(app: Application, **body: Any) -> str:
    status, answer = await ask(app, **body)
    assert status == 201
    word: str = answer["ticket"]
    return word


async def try_feed(app: Application, word: str, path: str = THREAD, **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with get(app, f"{path}/events?ticket={word}", {"host": "testserver", **sent}) as feed:
        await feed.begun()
    return feed.status


async def test_a_ticket_opens_its_feed(app: Application) -> None:
    status, answer = await ask(app)

    async with get(app, answer["events"]) as feed:
        await feed.next()
        async with client(app) as http:
            await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=by("ann"))
        events = await feed.until("run.finished")

    assert status == 201
    assert answer["events"] == f"{THREAD}/events?ticket={answer['ticket']}"
    assert events[-1]["type"] == "run.finished"
    assert "set-cookie" not in feed.headers


async def test_it_does_so_once_and_for_the_same_reader_again(app: Application, clock: Clock) -> None:
    word = await ticket_of(app)

    first = await try_feed(app, word)
    again = await try_feed(app, word)
    clock.now += 599
    back = await try_feed(app, word, **PLACE)
    elsewhere = await try_feed(app, word, origin="https://front.example", **PLACE)
    clock.now += 2
    late = await try_feed(app, word, **PLACE)

    assert (first, again, back, elsewhere, late) == (200, 401, 200, 401, 401)


async def test_it_has_to_be_used_soon(app: Application, clock: Clock) -> None:
    word = await ticket_of(app)
    clock.now += 31

    assert await try_feed(app, word) == 401
    assert await try_feed(app, word, **PLACE) == 401


async def test_from_a_listed_site_it_is_that_sites(app: Application) -> None:
    word = await ticket_of(app)

    assert await try_feed(app, word, origin="https://evil.example") == 403
    assert await try_feed(app, word, origin="https://front.example") == 200
    assert await try_feed(app, word, **PLACE) == 401
    assert await try_feed(app, word, origin="https://front.example", **PLACE) == 200


async def test_over_tls_a_cookie_holds_it(app: Application, clock: Clock) -> None:
    word = await ticket_of(app)
    exchange = get(app, f"{THREAD}/events?ticket={word}")
    exchange._scope["scheme"] = "https"
    async with exchange as feed:
        await feed.begun()
    cookie, *attributes = feed.headers["set-cookie"].split("; ")

    assert cookie.startswith("__Host-agentkit-")
    assert set(attributes) == {"Path=/", "Secure", "HttpOnly", "SameSite=Strict", "Max-Age=600"}
    assert await try_feed(app, word, cookie=cookie) == 200
    assert await try_feed(app, word, cookie=cookie[:-1]) == 401
    assert await try_feed(app, await ticket_of(app), cookie=cookie) == 200  # its own first use
    clock.now += 601
    assert await try_feed(app, word, cookie=cookie) == 401


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/v1/agents/planner/threads/t2/events", id="another thread"),
        pytest.param("/v1/agents/held/threads/t1/events", id="another agent"),
        pytest.param(f"{THREAD}/messages", id="the messages"),
        pytest.param(f"{THREAD}/runs", id="the runs"),
        pytest.param("/v1/agents", id="the agents"),
        pytest.param("/v1/agents/planner/threads", id="the threads"),
    ],
)
async def test_it_opens_nothing_else(app: Application, path: str) -> None:
    word = await ticket_of(app)
    async with client(app) as http:
        answer = await http.get(f"{path}?ticket={word}")

    assert answer.status_code in (401, 404)


async def test_nothing_is_started_with_one_in_a_url(app: Application) -> None:
    word = await ticket_of(app, rights=["read", "run"])
    async with client(app) as http:
        started = await http.post(f"{THREAD}/runs?ticket={word}", json={"input": "x"})
        looked = await http.head(f"{THREAD}/events?ticket={word}")

    assert (started.status_code, looked.status_code) == (401, 401)


async def test_one_for_a_run_opens_that_run_only(app: Application) -> None:
    async with client(app) as http:
        runs = [
            (
                await http.post(f"{THREAD}/runs", json={"input": "x", "on_busy": "queue"}, headers=by("ann"))
            ).json()["run"]
            for _ in range(2)
        ]
    answer = (await ask(app, run=runs[0]))[1]

    async with get(app, f"{answer['events']}&after=earliest") as feed:
        events = await feed.until("stream.end")
    word = await ticket_of(app, run=runs[0])
    async with client(app) as http:
        whole = await http.get(f"{THREAD}/events?ticket={word}")
    other = await ticket_of(app, run=runs[0])
    async with client(app) as http:
        others = await http.get(f"{THREAD}/events?ticket={other}&run={runs[1]}")

    assert {event["run"] for event in events if "run" in event} == {runs[0]}
    assert (whole.status_code, others.status_code) == (404, 404)


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        pytest.param("reader", {}, 201, id="to read"),
        pytest.param("reader", {"rights": ["read", "run"]}, 403, id="more than one may"),
        pytest.param("ann", {"agent": "none"}, 404, id="no such agent"),
        pytest.param("ann", {"thread": "a/b"}, 422, id="no thread"),
        pytest.param("ann", {"run": "none"}, 404, id="no such run"),
        pytest.param("ann", {"rights": ["fly"]}, 422, id="no such right"),
        pytest.param("ann", {"more": 1}, 422, id="something else"),
        pytest.param("nobody", {}, 401, id="nobody"),
    ],
)
async def test_who_may_get_one(app: Application, name: str, body: dict[str, Any], status: int) -> None:
    assert (await ask(app, name, **body))[0] == status


async def test_a_ticket_of_another_owner_opens_ones_own_thread_only(app: Application) -> None:
    async with client(app) as http:
        run = (await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=by("ann"))).json()["run"]
    answer = (await ask(app, "bob"))[1]

    async with get(app, f"{answer['events']}&after=earliest") as feed:
        hello = await feed.next()
    assert '"head":0' in hello.data
    assert (await ask(app, "bob", run=run))[0] == 404


async def test_in_a_hello_it_opens_a_socket_once(app: Application) -> None:
    word = await ticket_of(app, rights=["read", "run"])

    async with Socket(app) as socket:
        socket.say(op="hello", auth=word)
        await socket.get("welcome")
        socket.say(op="sub", rid="1", topic=TOPIC)
        socket.say(op="run", rid="2", agent="planner", thread="t1", input="x")
        socket.say(op="cancel", rid="3", agent="planner", thread="t1", run="r")
        socket.say(op="sub", rid="4", topic="agents/planner/threads/t2")
        answers = [
            await socket.get("ok"),
            await socket.get("ok"),
            await socket.get("err"),
            await socket.get("err"),
        ]
    async with Socket(app) as again:
        again.say(op="hello", auth=word)
        code = await again.closed()

    assert [answer["rid"] for answer in answers] == ["1", "2", "3", "4"]
    assert [answer["problem"]["status"] for answer in answers[2:]] == [403, 404]
    assert code == 4500
    assert await try_feed(app, word) == 401
    assert await try_feed(app, word, **PLACE) == 401


async def test_one_for_a_run_opens_that_run_only_on_a_socket_too(app: Application) -> None:
    async with client(app) as http:
        runs = [
            (await http.post(f"{THREAD}/chat", json={"message": "x"}, headers=by("ann"))).json()["run"]
            for _ in range(2)
        ]
    word = await ticket_of(app, run=runs[0], rights=["read", "run", "cancel"])
    async with Socket(app) as socket:
        socket.say(op="hello", auth=word)
        await socket.get("welcome")
        refused = [
            {"op": "sub", "topic": TOPIC, "after": "earliest"},
            {"op": "sub", "topic": TOPIC, "run": runs[1]},
            {"op": "run", "agent": "planner", "thread": "t1", "input": "x"},
            {"op": "cancel", "agent": "planner", "thread": "t1", "run": runs[1]},
        ]
        statuses = []
        for frame in refused:
            socket.say(rid="1", **frame)
            statuses.append((await socket.get("err"))["problem"]["status"])
        socket.say(op="sub", rid="2", topic=TOPIC, run=runs[0], after="earliest")
        await socket.get("end")

    assert statuses == [404] * 4


async def test_what_was_opened_before_anybody_was_asked_is_closed_afterwards() -> None:
    engine = MemoryEngine()
    before, after = make_guarded(NoAuth(), engine=engine), make_guarded(engine=engine)
    word, second = await ticket_of(before), await ticket_of(before)
    cookie = (await sign_in(before))[1].partition(";")[0]
    async with Socket(before) as socket:
        socket.say(op="hello", auth=second)
        await socket.get("welcome")
        socket.say(op="sub", rid="1", topic="agents/planner/threads/t2")
        narrowed = (await socket.get("err"))["problem"]["status"]
    async with client(after) as http:
        read = await http.get("/v1/agents", headers={"cookie": cookie})
    third = await ticket_of(before)
    async with Socket(after) as socket:
        socket.say(op="hello", auth=third)
        code = await socket.closed()

    assert narrowed == 404
    assert (await try_feed(after, word), read.status_code, code) == (401, 401, 4500)
    await before.aclose()
    await after.aclose()


async def test_a_stream_that_a_cookie_opened_ends_with_its_session() -> None:
    app = make_guarded(cookie_timeout=0.3)
    cookie = (await sign_in(app))[1].partition(";")[0]
    async with get(app, f"{THREAD}/events", {"cookie": cookie}) as feed:
        said = await feed.until("stream.closing")

    assert said[-1]["type"] == "stream.closing"
    await app.aclose()


async def test_one_gets_so_many_a_minute() -> None:
    app = make_guarded(tickets_each=3)
    codes = [(await ask(app))[0] for _ in range(4)]

    assert codes == [201, 201, 201, 429]
    assert (await sign_in(app))[0] == 429
    assert (await ask(app, "bob"))[0] == 201
    await app.aclose()


async def test_one_that_opened_a_feed_opens_no_socket(app: Application) -> None:
    word = await ticket_of(app)
    assert await try_feed(app, word) == 200

    async with Socket(app) as socket:
        socket.say(op="hello", auth=word)
        assert await socket.closed() == 4500


@pytest.mark.parametrize("word", ["tk_", "tk_1_", "tk__x", "tk_zz_x", "tk_123456789_x", "tk_1_" + "x" * 200, "tk_1_\u00e4", "tk_-1_x", "tk_ffffffff_x"])  # fmt: skip
async def test_what_looks_like_a_ticket_opens_nothing(app: Application, word: str) -> None:
    assert await try_feed(app, word) == 401
    async with Socket(app) as socket:
        socket.say(op="hello", auth=word)
        assert await socket.closed() == 4500


async def test_a_ticket_opens_no_tickets_and_signs_in_nobody(app: Application) -> None:
    word = await ticket_of(app)
    async with client(app) as http:
        codes = [
            (await http.post(path, json={"agent": "planner", "thread": "t1"}, headers=headers)).status_code
            for path in ("/v1/tickets", "/v1/session")
            for headers in (by(word), {})
        ]
        codes.append((await http.post(f"/v1/tickets?ticket={word}", json={})).status_code)

    assert set(codes) == {401}


async def test_what_is_in_a_url_and_not_a_ticket_is_refused(app: Application) -> None:
    async with client(app) as http:
        codes = {
            name: (await http.get(f"/v1/agents?{name}=ann", headers=by("ann"))).status_code
            for name in ("token", "access_token", "api_key", "Authorization", "jwt")
        }
        plain = await http.get("/v1/agents?tokens=1", headers=by("ann"))

    assert set(codes.values()) == {400}
    assert plain.status_code == 200
    async with Socket(app, by("ann"), query="token=ann") as socket:
        assert await socket.closed() == 400


async def sign_in(app: Application, name: str = "ann", base: str = "https://testserver") -> tuple[int, str]:
    async with client(app) as http:
        answer = await http.post(f"{base}/v1/session", headers=by(name))
    return answer.status_code, answer.headers.get("set-cookie", "")


async def test_a_page_signs_in_and_is_known_by_its_cookie_until_it_signs_out(app: Application) -> None:
    status, said = await sign_in(app)
    cookie, *attributes = said.split("; ")
    own = {"cookie": cookie, "origin": "http://testserver"}

    async with client(app) as http:
        read = await http.get("/v1/agents", headers={"cookie": cookie})
        started = await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=own)
        ticket = await http.post("/v1/tickets", json={"agent": "planner", "thread": "t1"}, headers=own)
        deeper = await http.post("/v1/session", headers=own)
        out = await http.delete("/v1/session", headers=own)
        after = await http.get("/v1/agents", headers={"cookie": cookie})

    assert (status, cookie.startswith("__Host-agentkit=ss_")) == (204, True)
    assert set(attributes) == {"Path=/", "Secure", "HttpOnly", "SameSite=Strict", "Max-Age=28800"}
    assert (read.status_code, started.status_code, ticket.status_code) == (200, 202, 201)
    assert (deeper.status_code, out.status_code, after.status_code) == (403, 204, 401)
    assert "Max-Age=0" in out.headers["set-cookie"]


async def test_what_a_session_has_opened_ends_when_it_is_closed_here_or_elsewhere() -> None:
    engine = MemoryEngine()
    here, elsewhere = [make_guarded(engine=engine, recheck=recheck) for recheck in (3600, 0.05)]
    cookie = (await sign_in(here))[1].partition(";")[0]
    other = (await sign_in(here))[1].partition(";")[0]
    own = {"cookie": cookie, "origin": "http://testserver"}
    async with client(here) as http:
        asked = [
            await http.post("/v1/tickets", json={"agent": "planner", "thread": "t1"}, headers=own)
            for _ in range(2)
        ]
    used, unused = [answer.json()["ticket"] for answer in asked]

    async with (
        get(here, f"{THREAD}/events", {"cookie": cookie}) as feed,
        get(here, f"{THREAD}/events?ticket={used}", {"host": "testserver"}) as by_ticket,
        get(elsewhere, f"{THREAD}/events", {"cookie": cookie}) as far,
        Socket(here, own) as socket,
        Socket(elsewhere, own) as far_socket,
        Socket(here, {**own, "cookie": other}) as other_socket,
    ):
        for one in (feed, by_ticket, far):
            await one.until("stream.hello")
        for link in (socket, far_socket, other_socket):
            link.say(op="ping", t=1)
            await link.get("pong")
        async with client(here) as http:
            out = await http.delete("/v1/session", headers=own)
        last = [(await one.until("stream.closing"))[-1]["type"] for one in (feed, by_ticket, far)]
        codes = [await socket.closed(), await far_socket.closed()]
        other_socket.say(op="ping", t=2)
        await other_socket.get("pong")

    assert (out.status_code, last, codes) == (204, ["stream.closing"] * 3, [4004, 4004])
    assert [await try_feed(here, unused), await try_feed(elsewhere, used, **PLACE)] == [401, 401]
    await here.aclose()
    await elsewhere.aclose()


async def test_rights_are_looked_at_where_sessions_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    auth = ByName()
    app = make_guarded(auth, recheck=0.05)
    cookie = (await sign_in(app))[1].partition(";")[0]
    asked = anyio.Event()

    async def broken(session: str) -> bool:
        asked.set()
        raise RuntimeError("the engine is not there")

    async with get(app, f"{THREAD}/events", {"cookie": cookie}) as feed:
        await feed.until("stream.hello")
        monkeypatch.setattr(app.service.stays, "_is_open", broken)
        with anyio.fail_after(20):
            await asked.wait()
        auth.struck.add("ann")
        await feed.until("stream.closing")
    await app.aclose()


async def test_a_cookie_alone_starts_nothing_and_opens_no_socket(app: Application) -> None:
    cookie = (await sign_in(app))[1].partition(";")[0]
    cases = [
        {"cookie": cookie},
        {"cookie": cookie, "origin": "https://evil.example"},
        {"cookie": cookie, "origin": "null"},
        {"cookie": cookie, "sec-fetch-site": "cross-site"},
    ]
    async with client(app) as http:
        posts = [
            (await http.post(f"{THREAD}/runs", json={"input": "x"}, headers=one)).status_code for one in cases
        ]
        reads = [(await http.get("/v1/agents", headers=one)).status_code for one in cases]
    sockets = []
    for one in cases:
        async with Socket(app, one) as socket:
            sockets.append(await socket.closed())
    async with Socket(app, {"cookie": cookie, "origin": "http://testserver"}) as socket:
        socket.say(op="sub", rid="1", topic=TOPIC)
        welcome = await socket.get("ok")

    assert posts == sockets == [403] * 4
    assert reads == [200, 403, 403, 403]
    assert welcome["rid"] == "1"


async def test_a_session_ends_with_its_time_its_token_and_its_rights(app: Application, clock: Clock) -> None:
    auth = app.service.auth
    assert isinstance(auth, ByName)
    auth.people["brief"] = Identity("brief", "one", expires=clock.now + 60)
    cookies = [(await sign_in(app, name))[1].partition(";")[0] for name in ("ann", "brief", "reader")]

    async def read() -> list[int]:
        async with client(app) as http:
            return [
                (await http.get(f"{THREAD}/runs", headers={"cookie": one})).status_code for one in cookies
            ]

    before = await read()
    auth.struck.add("reader")
    clock.now += 61
    later = await read()
    clock.now += 8 * 3600
    end = await read()

    assert (before, later, end) == ([200, 200, 200], [200, 401, 404], [401, 401, 401])


async def test_without_tls_a_page_signs_in_on_this_machine_only(app: Application) -> None:
    assert (await sign_in(app, base="http://testserver"))[0] == 400
    assert (await sign_in(app, base="http://127.0.0.1"))[0] == 204


async def test_what_is_kept_opens_nothing() -> None:
    engine = MemoryEngine()
    app = make_guarded(engine=engine)
    word = await ticket_of(app)
    secret = word.rpartition("_")[2]

    kept = []
    for shelf in await engine.threads.threads(OWNER, SHELF):
        from agentkit.log import Topic

        kept += await engine.threads.runs(Topic(OWNER, SHELF, shelf.thread))

    assert len(kept) == 1
    assert secret not in str(kept)
    await app.aclose()


async def test_two_servers_of_one_engine_know_each_others_tickets_and_use_them_once(tmp_path: Any) -> None:
    engines = [SQLiteEngine(tmp_path / "log.db") for _ in range(2)]
    one, other = [make_guarded(engine=engine) for engine in engines]
    word = await ticket_of(one)
    second = await ticket_of(one)

    codes = [await try_feed(other, word), await try_feed(one, word), await try_feed(one, word, **PLACE)]
    async with Socket(other) as socket:
        socket.say(op="hello", auth=second)
        await socket.get("welcome")
    async with Socket(one) as socket:
        socket.say(op="hello", auth=second)
        codes.append(await socket.closed())

    assert codes == [200, 401, 200, 4500]
    for app, engine in zip((one, other), engines, strict=True):
        await app.aclose()
        await engine.aclose()


async def test_what_has_ended_is_thrown_away() -> None:
    engine, clock = MemoryEngine(), Clock()
    tickets = Tickets(engine, make_guarded().service.settings, clock)
    identity = PEOPLE["ann"].narrowed(Grant("planner", "t1"), frozenset({"read"}))

    for _ in range(5):
        await tickets.issue(identity)
        clock.now += 3600
    shelves = await engine.threads.threads(OWNER, SHELF)
    word, _ = await tickets.issue(identity)
    found = await tickets.open_feed(FeedUse(word, "", False, lambda _: "", False))

    assert len(shelves) <= 2
    assert found == (identity, "")


async def test_of_many_at_once_one_gets_in() -> None:
    import asyncio

    app = make_guarded()
    word = await ticket_of(app)

    found = await asyncio.gather(*(app.service.tickets.open_socket(word) for _ in range(50)))

    assert sum(one is not None for one in found) == 1
    await app.aclose()
