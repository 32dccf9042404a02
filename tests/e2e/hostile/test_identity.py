"""Part D of the threats, identity and isolation, over real sockets: lines 17 and 68 to 80 (see `lines`)."""

import asyncio
import base64
import json
import time
from typing import Any

import httpx2
import jwt
import pytest
from e2e.hostile.conftest import House
from e2e.hostile.guarded import FRONT, ISSUER, SECRET
from e2e.peers import Raw
from e2e.servers import process
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

THREAD = "/v1/agents/quick/threads/t1"
TOPIC = "agents/quick/threads/t1"


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


def token(key: str = SECRET, algorithm: str = "HS256", **changed: Any) -> str:
    now = int(time.time())
    whole = {"iss": ISSUER, "aud": "agents", "sub": "eve", "exp": now + 600, **changed}
    return jwt.encode({name: value for name, value in whole.items() if value is not None}, key, algorithm)


def unsigned() -> str:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none"}, {"iss": ISSUER, "aud": "agents", "sub": "eve", "exp": 4e9})
    )
    return f"{head}.{body}."


def socket(house: House, **options: Any) -> Any:
    return connect(
        f"ws://127.0.0.1:{house.port}/v1/ws",
        subprotocols=options.pop("subprotocols", ["agentkit.v1"]),
        proxy=None,
        **options,
    )


async def say(link: ClientConnection, **frame: Any) -> dict[str, Any]:
    await link.send(json.dumps(frame))
    answer: dict[str, Any] = json.loads(await asyncio.wait_for(link.recv(), 20))
    return answer


async def close_code(link: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(20):
            while True:
                await link.recv()
    return link.close_code


def test_17_connections_are_counted_for_each_and_others_go_on(house: House) -> None:
    peers = []
    for _ in range(20):
        peer = Raw(house.port)
        peer.send(
            f"GET {THREAD}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {house.keys['ann']}\r\n\r\n"
        )
        peer.read_until(b"stream.hello")
        peers.append(peer)
    over = house.ask("GET", f"{THREAD}/events", "ann")
    status, _ = house.raw(
        "GET",
        "/v1/ws",
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"authorization: Bearer {house.keys['ann']}",
    )

    assert (over.status_code, over.json()["code"]) == (429, "too_many_connections")
    assert int(over.headers["retry-after"]) > 0
    assert status == 429
    assert house.is_well()
    for peer in peers:
        peer.socket.close()


BAD = [
    pytest.param(lambda: "x", id="one letter"),
    pytest.param(lambda: "garbage", id="garbage"),
    pytest.param(lambda: token(exp=int(time.time()) - 1), id="expired"),
    pytest.param(lambda: token(nbf=int(time.time()) + 600), id="not yet valid"),
    pytest.param(unsigned, id="alg none"),
    pytest.param(lambda: token("another secret of more than 32 bytes!"), id="another key"),
    pytest.param(lambda: token(iss="https://evil.example"), id="another issuer"),
    pytest.param(lambda: token(aud="others"), id="another audience"),
    pytest.param(lambda: token(exp=None), id="without an end"),
    pytest.param(lambda: "ak_" + "A" * 43, id="a key that is none"),
]


@pytest.mark.parametrize("made", BAD)
async def test_68_a_bad_token_opens_nothing_and_all_are_refused_alike(house: House, made: Any) -> None:
    word = made()
    nobody = house.ask("GET", f"{THREAD}/events")
    answer = house.ask("GET", f"{THREAD}/events", headers={"authorization": f"Bearer {word}"})
    async with socket(house) as link:
        await link.send(json.dumps({"op": "hello", "auth": word}))
        code = await close_code(link)
    with pytest.raises(InvalidStatus) as refused:
        await socket(house, additional_headers={"authorization": f"Bearer {word}"})

    assert (answer.status_code, answer.content) == (nobody.status_code, nobody.content)
    assert answer.status_code == refused.value.response.status_code == 401
    assert code == 4500


def test_68_what_stands_behind_a_body_is_no_header(house: House) -> None:
    key = house.keys["ann"]
    body = b'f\r\n{"message":"x"}\r\n0\r\n'
    for trailer in (f"authorization: Bearer {key}", "host: evil.example", "x" * 70_000):
        with Raw(house.port) as peer:
            peer.send(
                f"POST /v1/agents/quick/threads/behind/chat HTTP/1.1\r\nhost: 127.0.0.1:{house.port}\r\n"
                "content-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            peer.send(body + trailer.encode() + b"\r\n\r\n")
            answer = peer.read_all()
        assert answer == b"" or answer.split(b" ", 2)[1] in (b"400", b"401")

    assert house.ask("GET", "/v1/agents/quick/threads/behind/runs", "ann").json() == {"runs": []}


async def test_69_a_token_that_expires_ends_its_streams_and_a_new_one_keeps_the_socket(house: House) -> None:
    brief = token(exp=int(time.time()) + 4)
    headers = {"authorization": f"Bearer {brief}"}
    async with socket(house, additional_headers=headers) as dying, socket(house) as refreshed:
        await say(refreshed, op="hello", auth=brief)
        assert (await say(refreshed, op="hello", auth=token()))["op"] == "welcome"
        feed = await asyncio.to_thread(
            house.ask, "GET", f"{THREAD}/events", headers=headers
        )  # read to its end: the server closes it
        code = await close_code(dying)
        assert (await say(refreshed, op="ping", t=1))["op"] == "pong"

    assert "stream.closing" in feed.text.rsplit("data: ", 1)[1]
    assert code == 4004
    assert house.ask("GET", f"{THREAD}/runs", headers=headers).status_code == 401


async def test_70_a_right_that_is_taken_away_ends_streams_and_replays_nothing(house: House) -> None:
    path = house.folder / "keys"
    before = path.read_text()
    try:
        async with socket(house, additional_headers=house.by("bob")) as link:
            assert (await say(link, op="sub", rid="1", topic=TOPIC))["op"] == "ok"
            path.write_text("\n".join(line for line in before.splitlines() if not line.startswith("bob ")))
            feed = await asyncio.to_thread(house.ask, "GET", f"{THREAD}/events?after=earliest", "bob")
            code = await close_code(link)
        replay = house.ask("GET", f"{THREAD}/events?after=earliest", "bob")
    finally:
        path.write_text(before + "\n")
        await asyncio.to_thread(_wait_for_key, house, "bob")

    assert code == 4004
    assert feed.status_code in (200, 401)
    assert feed.status_code == 401 or "stream.closing" in feed.text
    assert replay.status_code == 401


def _wait_for_key(house: House, name: str) -> None:
    until = time.monotonic() + 5
    while house.ask("GET", "/v1/agents", name).status_code != 200:
        assert time.monotonic() < until


def test_71_another_owner_finds_nothing(house: House) -> None:
    started = house.ask("POST", f"{THREAD}/runs", "ann", json={"input": "canary of ann"}).json()
    run = started["run"]
    house.ask("GET", f"{THREAD}/runs/{run}?wait=5", "ann")
    cursor = (
        house.ask("GET", f"{THREAD}/events?run={run}&after=earliest", "ann")
        .text.split("id: ")[-1]
        .split("\n")[0]
    )
    stolen = {"last-event-id": cursor}

    answers = [
        house.ask("GET", f"{THREAD}/runs/{run}", "bob"),
        house.ask("GET", f"{THREAD}/events?run={run}", "bob", headers=stolen),
        house.ask("POST", f"{THREAD}/runs/{run}/cancel", "bob", json={}),
        house.ask("POST", f"{THREAD}/runs/{run}/steer", "bob", json={"input": "x"}),
        house.ask("POST", f"{THREAD}/runs/{run}/approvals/x", "bob", json={"approved": True}),
        house.ask("POST", "/v1/tickets", "bob", json={"agent": "quick", "thread": "t1", "run": run}),
    ]
    unknown = house.ask("GET", f"{THREAD}/runs/run-of-nobody", "bob")
    lists = [
        house.ask("GET", path, "bob").json()
        for path in (f"{THREAD}/runs", f"{THREAD}/messages", "/v1/agents/quick/threads")
    ]
    crafted = [
        house.ask("GET", f"/v1/agents/quick/threads/{name}/runs", "bob")
        for name in ("..%2fann%2ft1", "%22ann%22,%22quick%22", "*", "ann:t1", "t1%00", "%7Bann%7D")
    ]

    assert [answer.status_code for answer in answers] == [404] * 6
    assert {answer.content for answer in answers} <= {unknown.content}
    assert "canary" not in str(lists)
    assert {answer.status_code for answer in crafted} <= {400, 404}
    assert house.ask("DELETE", THREAD, "bob").status_code == 204
    assert len(house.ask("GET", f"{THREAD}/runs", "ann").json()["runs"]) >= 1


ORIGINS = [
    pytest.param("https://evil.example", id="another site"),
    pytest.param("null", id="null"),
    pytest.param("", id="empty"),
    pytest.param("http://127.0.0.1.evil.example", id="a longer name"),
    pytest.param("http://127.0.0.1:1", id="another port"),
    pytest.param("https://front.example.evil.example", id="after a listed one"),
    pytest.param("https://sub.front.example", id="below a listed one"),
]


@pytest.mark.parametrize("origin", ORIGINS)
async def test_72_a_page_of_another_site_opens_no_socket_and_reads_nothing(house: House, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await socket(house, additional_headers={**house.by("ann"), "origin": origin})
    posted = house.ask("POST", f"{THREAD}/runs", "ann", json={"input": "x"}, headers={"origin": origin})
    read = house.ask("GET", "/v1/agents", "ann", headers={"origin": origin})
    asked = house.ask(
        "OPTIONS", f"{THREAD}/runs", headers={"origin": origin, "access-control-request-method": "POST"}
    )

    assert refused.value.response.status_code == posted.status_code == asked.status_code == 403
    for answer in (posted, read, asked):
        assert "access-control-allow-origin" not in answer.headers


async def test_72_a_listed_site_and_our_own_page_may(house: House) -> None:
    for origin in (FRONT, FRONT.upper(), house.url):
        async with socket(house, additional_headers={**house.by("ann"), "origin": origin}) as link:
            assert (await say(link, op="hello"))["op"] == "welcome"


def test_73_a_form_of_another_site_changes_nothing(house: House) -> None:
    cookie = house.ask("POST", "/v1/session", "ann").headers["set-cookie"].partition(";")[0]
    before = house.ask("GET", "/v1/agents/quick/threads/csrf/runs", "ann").json()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for more in (
            {},
            {"origin": "https://evil.example"},
            {"sec-fetch-site": "cross-site"},
            {"origin": house.url},
        ):
            answer = house.ask(
                "POST",
                "/v1/agents/quick/threads/csrf/runs",
                content=b'{"input":"x","a":"="}',
                headers={"cookie": cookie, "content-type": kind, **more},
            )
            assert answer.status_code in (403, 415)

    assert house.ask("GET", "/v1/agents/quick/threads/csrf/runs", "ann").json() == before == {"runs": []}


def test_75_a_ticket_opens_one_thing_once_and_soon(house: House) -> None:
    assert house.head(f"/v1/agents/quick/threads/t2/events?ticket={house.ticket()}")[0] == 404
    word = house.ticket()
    assert house.head(f"{THREAD}/events?ticket={word}")[0] == 200
    assert house.head(f"{THREAD}/events?ticket={word}")[0] == 401
    assert house.head(f"{THREAD}/events?ticket={word}", "last-event-id: abcdefgh-0")[0] == 200
    assert (
        house.head(f"{THREAD}/events?ticket={word}", "last-event-id: abcdefgh-0", f"origin: {FRONT}")[0]
        == 401
    )
    late = house.ticket()
    until = time.monotonic() + 3.1
    while time.monotonic() < until:
        house.ask("GET", "/healthz")
    assert house.head(f"{THREAD}/events?ticket={late}")[0] == 401


async def test_75_a_socket_takes_a_ticket_once(house: House) -> None:
    word = house.ticket(rights=["read"])
    async with socket(house) as link:
        assert (await say(link, op="hello", auth=word))["op"] == "welcome"
        denied = await say(link, op="run", rid="1", agent="quick", thread="t1", input="x")
        elsewhere = await say(link, op="sub", rid="2", topic="agents/quick/threads/t2")
    async with socket(house) as link:
        await link.send(json.dumps({"op": "hello", "auth": word}))
        code = await close_code(link)

    assert [one["problem"]["status"] for one in (denied, elsewhere)] == [403, 404]
    assert code == 4500


def test_76_a_token_in_a_url_is_refused_and_in_no_log(house: House) -> None:
    key = house.keys["ann"]
    for name in ("token", "access_token", "api_key", "key", "authorization"):
        assert house.ask("GET", f"/v1/agents?{name}={key}").status_code == 400
        assert house.ask("GET", f"/v1/agents?{name}={key}", "ann").status_code == 400
    status, answer = house.raw(
        "GET", f"/v1/ws?token={key}", "upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )  # fmt: skip

    assert status == 400
    assert key.encode() not in answer
    assert key not in house.logs()


async def test_77_a_token_in_a_subprotocol_works_and_is_never_sent_back(house: House) -> None:
    key = house.keys["ann"]
    offered = "bearer." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    async with socket(house, subprotocols=[offered, "agentkit.v1"]) as link:
        assert (await say(link, op="hello"))["op"] == "welcome"
        assert link.subprotocol == "agentkit.v1"
        assert link.response is not None
        assert offered not in str(link.response.headers)
    for bad in ("bearer.", "bearer.eHg", "bearer.\x7e\x7e\x7e"):
        with pytest.raises(InvalidStatus) as refused:
            await socket(house, subprotocols=[bad, "agentkit.v1"])
        assert refused.value.response.status_code == 401

    assert key not in house.logs()
    assert offered not in house.logs()


async def test_78_nothing_secret_is_in_a_log_or_an_answer(house: House) -> None:
    word, prompt = house.ticket(), "canary-prompt-4711"
    signed = token(sub="canary-subject")
    cookie = house.ask("POST", "/v1/session", "ann").headers["set-cookie"].partition(";")[0].partition("=")[2]
    secrets = [*house.keys.values(), SECRET, word, signed, cookie]
    said = [
        house.ask("POST", f"{THREAD}/runs", "ann", json={"input": {"x": prompt}}),
        house.ask("POST", f"{THREAD}/runs", "ann", json={"input": prompt, "reasoning": {"effort": prompt}}),
        house.ask("POST", f"{THREAD}/runs", "ann", content=prompt.encode()),
        house.ask("POST", f"{THREAD}/runs", "ann", json={prompt: 1}),
        house.ask("GET", f"{THREAD}/events?after={word}", "ann"),
        house.ask("GET", f"{THREAD}/events", "ann", headers={"last-event-id": signed[:60]}),
        house.ask("GET", "/v1/agents", headers={"authorization": f"Bearer {signed}x"}),
        house.ask("GET", "/v1/agents", headers={"cookie": f"__Host-agentkit={cookie}x"}),
        house.ask("GET", f"/v1/agents/{word}/threads", "ann"),
    ]
    house.ask("GET", f"{THREAD}/runs?limit={word}", "ann")
    house.head(f"{THREAD}/events?ticket={word}")
    house.ask("POST", f"{THREAD}/chat", "ann", json={"message": prompt})
    async with socket(house, additional_headers={"authorization": f"Bearer {signed}"}) as link:
        await say(link, op="run", rid="1", agent="quick", thread="t1", input={"x": prompt})
        await say(link, op="hello", auth=signed)

    logged = house.logs()
    assert all(answer.status_code >= 400 for answer in said)
    for secret in secrets:
        assert secret not in logged
        assert not any(secret in answer.text for answer in said)
    assert prompt not in logged


def test_79_what_is_the_operators_is_not_for_everybody(house: House) -> None:
    codes = {
        path: house.ask("GET", path).status_code
        for path in (
            "/metrics",
            "/debug",
            "/admin",
            "/docs",
            "/redoc",
            "/server-status",
            "/v1/agents",
            "/.env",
        )
    }

    assert set(codes.values()) <= {401, 404}


def test_80_keys_of_another_identity_are_its_own(house: House) -> None:
    headers = {"idempotency-key": "the same for all"}
    runs = {
        name: [
            house.ask("POST", f"{THREAD}-idem/runs", name, json={"input": "x"}, headers=headers)
            .json()
            .get("run")
            for _ in range(2)
        ]
        for name in ("ann", "bob")
    }
    planted = house.ask(
        "GET", "/v1/agents", headers={"cookie": "__Host-agentkit=ss_1_chosen-by-the-attacker"}
    )

    assert runs["ann"][0] == runs["ann"][1]
    assert runs["bob"][0] == runs["bob"][1]
    assert runs["ann"][0] != runs["bob"][0]
    assert planted.status_code == 401
    first, second = [house.ask("POST", "/v1/session", "ann").headers["set-cookie"] for _ in range(2)]
    assert first != second


def test_85_clients_name_no_server(house: House) -> None:
    targets = [
        "http://169.254.169.254/latest/meta-data", "http://127.0.0.1:22", "http://[::1]/", "http://0x7f.1/",
        "http://2130706433/", "file:///etc/passwd", "http://localhost./", "http://user:pass@127.0.0.1/",
    ]  # fmt: skip
    for target in targets:
        for word in (
            "base_url",
            "provider_options",
            "url",
            "endpoint",
            "proxy",
            "headers",
            "callback",
            "webhook",
        ):
            answer = house.ask("POST", f"{THREAD}/runs", "ann", json={"input": "x", word: target})
            assert (answer.status_code, answer.json()["field"]) == (422, word)
            assert target not in answer.text


def test_85_an_image_of_another_server_is_not_fetched(house: House) -> None:
    import socket as sockets

    with sockets.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.5)
        port = trap.getsockname()[1]
        answer = house.ask(
            "POST",
            f"{THREAD}-image/chat",
            "ann",
            json={"message": [{"type": "image", "url": f"http://127.0.0.1:{port}/canary.png"}]},
        )
        with pytest.raises(TimeoutError):
            trap.accept()

    assert answer.status_code == 200


async def test_91_a_hundred_equal_requests_are_one_run(house: House) -> None:
    headers = {**house.by("ann"), "idempotency-key": "one-of-a-hundred"}
    async with httpx2.AsyncClient(base_url=house.url, headers=headers, timeout=20, trust_env=False) as http:
        answers = await asyncio.gather(
            *(http.post(f"{THREAD}-hundred/runs", json={"input": "x"}) for _ in range(100))
        )
        listed = (await http.get(f"{THREAD}-hundred/runs")).json()["runs"]

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run"] for answer in answers}) == len(listed) == 1


HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "localhost@evil.example",
    "10.0.0.1:{port}",
]


def test_74_a_name_that_was_pointed_at_this_machine_gets_nothing() -> None:
    upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    answers = {}
    with process() as open_server:
        for host in HOSTS:
            name = host.format(port=open_server.port)
            origin = f"origin: http://{name}\r\n"  # the page's own, so for the browser it is one and the same
            for target, more in (("/v1/agents", ""), ("/", ""), ("/v1/ws", upgrade)):
                with Raw(open_server.port) as peer:
                    peer.send(f"GET {target} HTTP/1.1\r\nhost: {name}\r\n{origin}{more}\r\n")
                    answers[host, target] = peer.read_until(b"\r\n\r\n").split(b" ", 2)[1]
        with Raw(open_server.port) as peer:
            peer.get("/v1/agents")
            good = peer.read_until(b"\r\n\r\n")

    assert set(answers.values()) == {b"421"}
    assert good.startswith(b"HTTP/1.1 200")
