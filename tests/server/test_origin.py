"""Browsers' rules: which pages may speak to the server, under which names, and what every answer says."""

import pytest
from asgi import client, get, post
from httpx2 import AsyncClient
from pydantic import ValidationError

from agentkit.agent import Agent
from agentkit.testing import ScriptedModel
from agentkit_server import Application, Settings, create_app
from agentkit_server.origin import REQUEST_HEADERS, check_host
from agentkit_transports.asgi import Scope
from agentkit_transports.problem import ProblemError

pytestmark = pytest.mark.anyio

FRONT = "https://front.example"
RUNS = "/v1/agents/planner/threads/t1/runs"


@pytest.fixture
def site() -> Application:
    """A server that lists one site and two hosts."""
    settings = Settings(
        allowed_origins=(FRONT,),
        allowed_hosts=("testserver", "*.agents.example", "::1"),
        cors_headers=("x-trace",),
        drain_timeout=0.1,
        farewell_timeout=0.1,
    )
    return create_app([Agent("planner", model=ScriptedModel("hi", repeat=True))], settings=settings)


async def post_from(http: AsyncClient, **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return (await http.post(RUNS, json={"input": "x"}, headers=sent)).status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 202, id="no browser"),
        pytest.param({"origin": "http://testserver"}, 202, id="our own page"),
        pytest.param({"origin": FRONT}, 202, id="a listed site"),
        pytest.param({"origin": "HTTPS://FRONT.example"}, 202, id="in capitals"),
        pytest.param({"origin": "https://evil.example"}, 403, id="another site"),
        pytest.param({"origin": "http://front.example"}, 403, id="a listed site without TLS"),
        pytest.param({"origin": f"{FRONT}:8443"}, 403, id="another port of it"),
        pytest.param({"origin": f"{FRONT}.evil.example"}, 403, id="a longer name"),
        pytest.param({"origin": "https://evil.front.example"}, 403, id="a name below it"),
        pytest.param({"origin": "http://testserver@evil.example"}, 403, id="as a user's name"),
        pytest.param({"origin": "http://evil.example#testserver"}, 403, id="in a fragment"),
        pytest.param({"origin": "http://[testserver"}, 403, id="no URL"),
        pytest.param({"origin": "null"}, 403, id="null"),
        pytest.param({"origin": ""}, 403, id="empty"),
        pytest.param({"sec_fetch_site": "cross-site"}, 403, id="another site that hides its name"),
        pytest.param({"sec_fetch_site": "same-site"}, 403, id="a neighbour that does"),
        pytest.param({"sec_fetch_site": "same-origin"}, 202, id="our page that does"),
        pytest.param({"sec_fetch_site": "none"}, 202, id="the user"),
    ],
)
async def test_only_our_page_and_listed_sites_may_change_something(
    site: Application, headers: dict[str, str], status: int
) -> None:
    async with client(site) as http:
        assert await post_from(http, **headers) == status
    await site.aclose()


async def test_a_form_of_another_site_starts_nothing(site: Application) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        async with post(site, RUNS, b'{"input":"x"}', {"content-type": kind, "host": "testserver"}) as answer:
            await answer.finished()
        assert answer.status == 415
    async with post(
        site, f"{RUNS}/r1/cancel", b"", {"origin": "https://evil.example", "host": "testserver"}
    ) as answer:
        await answer.finished()
    assert answer.status == 403


async def test_a_listed_site_may_read_and_no_other(site: Application) -> None:
    async with client(site) as http:
        listed = await http.get("/v1/agents", headers={"origin": FRONT})
        other = await http.get("/v1/agents", headers={"origin": "https://evil.example"})
        plain = await http.get("/v1/agents")
        refused = await http.get("/v1/agents/none/threads", headers={"origin": FRONT})
        missing = await http.get("/none", headers={"origin": FRONT})

    for answer in (listed, refused, missing):
        assert answer.headers["access-control-allow-origin"] == FRONT
        assert answer.headers["access-control-allow-credentials"] == "true"
        assert answer.headers["vary"] == "Origin"
    for answer in (other, plain):
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["vary"] == "Origin"
    assert (refused.status_code, missing.status_code) == (404, 404)


async def test_a_page_of_another_site_holds_nothing_open_even_if_it_could_not_read_it(
    site: Application,
) -> None:
    cross = {"host": "testserver", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    async with get(site, "/v1/agents/planner/threads/t1/events", cross) as feed:
        await feed.finished()
    async with get(site, "/v1/agents/planner/threads/t1/events", {**cross, "origin": FRONT}) as listed:
        await listed.begun()
    async with client(site) as http:
        page = await http.get("/agentkit-client.js", headers=cross)

    assert (feed.status, listed.status, page.status_code) == (403, 200, 200)


async def test_a_feed_may_be_read_by_a_listed_site(site: Application) -> None:
    async with get(
        site, "/v1/agents/planner/threads/t1/events", {"origin": FRONT, "host": "testserver"}
    ) as feed:
        await feed.begun()

    assert feed.headers["access-control-allow-origin"] == FRONT
    assert feed.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert feed.headers["x-content-type-options"] == "nosniff"


async def test_a_browser_that_asks_before_is_told_what_a_listed_site_may(site: Application) -> None:
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,last-event-id",
        "access-control-request-private-network": "true",
    }
    async with client(site) as http:
        listed = await http.options(RUNS, headers={"origin": FRONT, **asked})
        other = await http.options(RUNS, headers={"origin": "https://evil.example", **asked})
        own = await http.options(RUNS, headers={"origin": "http://testserver", **asked})
        del asked["access-control-request-private-network"]
        public = await http.options(RUNS, headers={"origin": FRONT, **asked})
        no_question = await http.options(RUNS, headers={"origin": FRONT})

    assert listed.status_code == 204
    assert listed.headers["access-control-allow-origin"] == FRONT
    assert listed.headers["access-control-allow-methods"] == "GET, HEAD, POST, DELETE"
    assert set(listed.headers["access-control-allow-headers"].split(", ")) == {*REQUEST_HEADERS, "x-trace"}
    assert {"authorization", "content-type", "last-event-id"} <= set(REQUEST_HEADERS)
    assert listed.headers["access-control-allow-private-network"] == "true"
    assert "access-control-allow-private-network" not in public.headers
    for refused in (other, own):
        assert refused.status_code == 403
        assert not [name for name in refused.headers if name.startswith("access-control")]
    assert no_question.status_code == 405


async def test_every_answer_says_that_it_is_nothing_for_browsers(site: Application) -> None:
    async with client(site, host="[::1]") as http:
        answers = [
            await http.get(path) for path in ("/v1/agents", "/healthz", "/none", "/v1/agents/x/threads")
        ]
        page = await http.get("/")

    for answer in (*answers, page):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert len(answer.headers.get_list("content-security-policy")) == 1
    assert all(one.headers["content-security-policy"].startswith("default-src 'none'") for one in answers)
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "unsafe" not in page.headers["content-security-policy"]


def scope(host: str | None, server: str = "127.0.0.1", *, scheme: str = "http") -> Scope:
    headers = [] if host is None else [(b"host", host.encode("latin-1"))]
    return {"type": "http", "method": "GET", "scheme": scheme, "server": (server, 80), "headers": headers}


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost:8000", True), ("LOCALHOST", True), ("127.0.0.1:8000", True), ("[::1]:8000", True),
        ("app.localhost", True), ("127.1.2.3", True), ("localhost.:8000", True), (None, True),
        ("evil.example", False), ("evil.example:8000", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False), ("localhost@evil.example", False), ("localhost/evil", False),
        ("10.0.0.1", False), ("[", False), ("]x[", False), ("evil.example#localhost", False),
        ("localhost, evil.example", False), ("127.0.0.1\\@evil.example", False), ("lo\xe7alhost", False),
    ],
)  # fmt: skip
def test_without_authentication_this_machine_answers_to_its_own_names_only(
    host: str | None, good: bool
) -> None:
    if good:
        check_host(scope(host), Settings(), is_open=True)
        return
    with pytest.raises(ProblemError, match="421"):
        check_host(scope(host), Settings(), is_open=True)


def test_a_name_pointed_at_this_machine_is_harmless_where_people_are_asked_who_they_are() -> None:
    check_host(scope("agents.example"), Settings(), is_open=False)
    check_host(scope("agents.example", "10.0.0.1"), Settings(), is_open=True)
    with pytest.raises(ProblemError, match="421"):
        check_host(scope("agents.example", "::ffff:127.0.0.1"), Settings(), is_open=True)


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("a.agents.example", True), ("A.B.Agents.Example:443", True), ("[::1]:8000", True),
        ("agents.example", False), ("evilagents.example", False), ("localhost", False), (None, False),
        ("a.agents.example.evil", False),
    ],
)  # fmt: skip
def test_listed_hosts_are_the_only_ones(host: str | None, good: bool) -> None:
    settings = Settings(allowed_hosts=("*.agents.example", "[::1]"))
    if good:
        check_host(scope(host), settings, is_open=False)
        return
    with pytest.raises(ProblemError, match="421"):
        check_host(scope(host), settings, is_open=False)


async def test_probes_may_use_any_name_and_nothing_else_may(site: Application) -> None:
    async with client(site) as http:
        codes = {
            path: (await http.get(path, headers={"host": "10.1.2.3:8000"})).status_code
            for path in ("/healthz", "/readyz", "/v1/agents", "/", "/v1/agents/x/threads/healthz")
        }
        doubled = await http.get("/v1/agents", headers=[("host", "testserver"), ("host", "testserver")])

    assert codes == {
        "/healthz": 200,
        "/readyz": 200,
        "/v1/agents": 421,
        "/": 421,
        "/v1/agents/x/threads/healthz": 421,
    }
    assert doubled.status_code == 400


@pytest.mark.parametrize("origin", ["*", "null", "https://front.example/", "front.example", "https://a b"])
def test_what_is_no_origin_is_not_listed(origin: str) -> None:
    with pytest.raises(ValidationError, match="an origin is"):
        Settings(allowed_origins=(origin,))


@pytest.mark.parametrize("host", ["*", "https://agents.example", "agents.example:80", "a b", ""])
def test_what_is_no_host_is_not_listed(host: str) -> None:
    with pytest.raises(ValidationError, match="a host is"):
        Settings(allowed_hosts=(host,))
