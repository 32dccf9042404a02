"""Who may open a socket: anybody, but no page of another site."""

import anyio
import pytest
from server.deciding import asked, make_app

from agentkit_server import Application
from agentkit_server.backend import SocketBackend
from agentkit_transports.asgi import Scope
from agentkit_transports.problem import ProblemError
from agentkit_transports.session import Approve, StartRun, Steer

pytestmark = pytest.mark.anyio


def scope(app: Application, origin: str | None) -> Scope:
    """A handshake at a server that allows one site beside its own."""
    app.service.settings = app.service.settings.model_copy(
        update={"allowed_origins": ("https://front.example",)}
    )
    headers = [(b"host", b"agents.example:8000")]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    return {"type": "websocket", "query_string": b"", "headers": headers}


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param(None, id="no browser"),
        pytest.param("http://agents.example:8000", id="our own page"),
        pytest.param("HTTP://Agents.Example:8000", id="in capitals"),
        pytest.param("https://front.example", id="a site that is allowed"),
    ],
)
async def test_our_page_and_allowed_sites_may_open_a_socket(app: Application, origin: str | None) -> None:
    assert await SocketBackend(app.service).identify(scope(app, origin)) is not None


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param("http://evil.example", id="another site"),
        pytest.param("http://agents.example", id="another port"),
        pytest.param("http://agents.example:8000.evil.example", id="a longer name"),
        pytest.param("http://evil.example#agents.example:8000", id="in a fragment"),
        pytest.param("https://front.example.evil.example", id="after an allowed one"),
        pytest.param("null", id="null"),
        pytest.param("", id="empty"),
    ],
)
async def test_pages_of_other_sites_may_not(app: Application, origin: str) -> None:
    with pytest.raises(ProblemError, match="403 forbidden"):
        await SocketBackend(app.service).identify(scope(app, origin))


async def test_a_run_is_steered_and_its_calls_are_decided_over_the_socket() -> None:
    app = make_app()
    backend, topic = SocketBackend(app.service), app.service.topic("risky", "t1")
    try:
        with anyio.fail_after(20):
            run = str((await backend.start_run("", topic, StartRun("1", "risky", "t1", "go")))["run"])
            steered = await backend.steer("", topic, Steer("2", "risky", "t1", run, "and be quick"))
            approval = await asked(app, run)
            decided = await backend.approve(
                "", topic, Approve("3", "risky", "t1", run, approval, approved=False, reason="no")
            )
            record = await app.service.wait(topic, run, 5)
        messages = await app.service.engine.threads.messages(topic)
    finally:
        await app.aclose()

    assert set(steered) == {"run", "steering"}
    assert decided == {"run": run, "approval": approval}
    assert (record.status, record.text) == ("finished", "done")
    assert [m.text for m in messages if m.role == "user"] == ["go", "and be quick"]
    assert "denied: no" in str(messages)


async def test_of_no_run_nothing_can_be_said(app: Application) -> None:
    backend, topic = SocketBackend(app.service), app.service.topic("planner", "t1")

    with pytest.raises(ProblemError, match="404"):
        await backend.steer("", topic, Steer("1", "planner", "t1", "r", "x"))
    with pytest.raises(ProblemError, match="404"):
        await backend.approve("", topic, Approve("1", "planner", "t1", "r", "a", approved=True))


async def test_a_retried_run_over_the_socket_is_the_same_run(app: Application) -> None:
    backend, topic = SocketBackend(app.service), app.service.topic("planner", "t1")
    order = StartRun("1", "planner", "t1", "go", "key-1")

    with anyio.fail_after(20):
        answers = [await backend.start_run("", topic, order) for _ in range(2)]

    assert answers[0] == answers[1]
    assert len(await app.service.engine.threads.runs(topic)) == 1
