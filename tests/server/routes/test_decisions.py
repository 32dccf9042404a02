"""Steer a run and decide its calls over HTTP."""

import anyio
import pytest
from asgi import client
from server.deciding import asked, make_app

from agentkit_server import Application

pytestmark = pytest.mark.anyio
RUNS = "/v1/agents/risky/threads/t1/runs"


async def test_a_waiting_call_is_decided() -> None:
    app = make_app()
    async with client(app) as http:
        with anyio.fail_after(20):
            run = (await http.post(RUNS, json={"input": "go"})).json()["run"]
            approval = await asked(app, run)
            steered = await http.post(f"{RUNS}/{run}/steer", json={"input": "be quick"})
            decided = await http.post(f"{RUNS}/{run}/approvals/{approval}", json={"approved": True})
            ended = await http.get(f"{RUNS}/{run}?wait=5")
            late = await http.post(f"{RUNS}/{run}/steer", json={"input": "too late"})
            again = await http.post(f"{RUNS}/{run}/approvals/{approval}", json={"approved": False})
    messages = str(await app.service.engine.threads.messages(app.service.topic("risky", "t1")))
    await app.aclose()

    assert (steered.status_code, steered.json()["run"]) == (202, run)
    assert (decided.status_code, decided.json()) == (202, {"run": run, "approval": approval})
    assert (ended.json()["status"], ended.json()["text"]) == ("finished", "done")
    assert (late.status_code, late.json()["code"]) == (409, "not_running")
    assert again.status_code == 202
    assert "risked" in messages
    assert "be quick" in messages


async def test_a_suspended_run_goes_on_once_decided() -> None:
    app = make_app("suspend")
    async with client(app) as http:
        with anyio.fail_after(20):
            run = (await http.post(RUNS, json={"input": "go"})).json()["run"]
            approval = await asked(app, run)
            while (await http.get(f"{RUNS}/{run}")).json()["status"] != "suspended":  # noqa: ASYNC110
                await anyio.sleep(0.001)
            unknown = await http.post(f"{RUNS}/{run}/approvals/other", json={"approved": True})
            steered = await http.post(f"{RUNS}/{run}/steer", json={"input": "x"})
            await http.post(f"{RUNS}/{run}/approvals/{approval}", json={"approved": True})
            ended = await http.get(f"{RUNS}/{run}?wait=5")
    await app.aclose()

    assert (unknown.status_code, steered.status_code) == (404, 409)
    assert (ended.json()["status"], ended.json()["text"]) == ("finished", "done")


async def test_a_suspended_run_is_cancelled() -> None:
    app = make_app("suspend")
    async with client(app) as http:
        with anyio.fail_after(20):
            run = (await http.post(RUNS, json={"input": "go"})).json()["run"]
            while (await http.get(f"{RUNS}/{run}")).json()["status"] != "suspended":  # noqa: ASYNC110
                await anyio.sleep(0.001)
            await http.post(f"{RUNS}/{run}/cancel", json={"reason": "never mind"})
            ended = await http.get(f"{RUNS}/{run}?wait=5")
    await app.aclose()

    assert (ended.json()["status"], ended.json()["message"]) == ("cancelled", "never mind")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        pytest.param("run_0/steer", {"input": "x"}, 404, id="no run to steer"),
        pytest.param("run_0/approvals/a", {"approved": True}, 404, id="no run to decide"),
        pytest.param("run_0/steer", {"input": [{"type": "text", "text": "x"}]}, 422, id="blocks"),
        pytest.param("run_0/approvals/a", {}, 422, id="no decision"),
        pytest.param("run_0/approvals/a", {"approved": "yes"}, 422, id="text grants nothing"),
    ],
)
async def test_what_cannot_be(app: Application, path: str, body: object, status: int) -> None:
    async with client(app) as http:
        answer = await http.post(f"/v1/agents/planner/threads/t1/runs/{path}", json=body)

    assert answer.status_code == status
