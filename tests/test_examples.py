"""The examples run as they stand, without a key."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from asgi import client, get, lifespan

FOLDER = Path(__file__).parents[1] / "examples"
KEYLESS = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}

SAID = {
    "approval": '? delete {"path": "/etc/hosts"}: denied',
    "custom_emitter": '"reasoning": "They want a number. "',
    "embed": "the last is run.finished",
    "subagents": "  historian: It was opened in 1607.",
    "tools": '[convert] ok: {"amount":125.0,"currency":"USD"}',
}


ELSEWHERE = {"fastapi_mount", "watch_ws"}
"""Those that need a server: below, and in the tests of the clients."""


def test_every_example_is_tried() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - ELSEWHERE == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_without_a_key(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / f"{name}.py"],
        capture_output=True,
        text=True,
        timeout=30,
        env=KEYLESS,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert SAID[name] in done.stdout


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_agents_live_under_a_prefix_of_a_fastapi_application(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - KEYLESS.keys():
        monkeypatch.delenv(name)
    app = runpy.run_path(str(FOLDER / "fastapi_mount.py"))["app"]

    async with lifespan(app):
        async with client(app, host="localhost") as http:
            answer = await http.post("/ask", json={"question": "Hello"})
            chat = await http.post(
                "/agents/v1/agents/assistant/threads/other/chat", json={"message": "Hello"}
            )
            page = await http.get("/agents/")
        async with get(app, "/agents/v1/agents/assistant/threads/main/events?after=earliest") as feed:
            frames = await feed.until("run.finished")

    assert answer.json() == {"answer": "I answer by a script."}
    assert chat.json()["text"] == "I answer by a script."
    assert page.status_code == 200
    assert [frame["data"]["text"] for frame in frames if frame["type"] == "reasoning"] == ["Somebody asks."]
