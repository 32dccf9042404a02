"""What docs/clients.md and the examples of clients say, against a real server."""

import ast
import inspect
import os
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from e2e.browsing import Tabs, until
from e2e.servers import QUICK, Running, running

from agentkit.agent import Agent
from agentkit.testing import Say, ScriptedModel, Think
from agentkit.testing.scripted import Part
from agentkit_server.server import listen, make_server

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/clients.md").read_text(), re.DOTALL)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    script: list[Part] = [Think("Somebody asks.", pieces=3), Say("Hello from here.", pieces=4)]
    with running(QUICK, [Agent("assistant", model=ScriptedModel(script, repeat=True))]) as one:
        yield one


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("block", BLOCKS, ids=["follow", "connect"])
async def test_what_the_page_shows_runs(
    block: str, server: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{server.url}/v1/agents/assistant/threads/main"
    async with httpx2.AsyncClient(trust_env=False) as http:
        await http.post(f"{path}/runs", json={"input": "Hello", "on_busy": "queue"})
    code = compile(
        block.replace("http://127.0.0.1:8000", server.url), "clients.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )  # fmt: skip

    namespace: dict[str, Any] = {}
    with anyio.fail_after(20):
        told = eval(code, namespace)
        if inspect.iscoroutine(told):
            await told

    said = capsys.readouterr().out
    if "feed" in namespace:
        assert "run.finished" in said
        assert "go on with" in said
    else:
        assert said.count("Hello from here.") == 3


def test_the_example_watches_over_a_socket(server: Running) -> None:
    url = f"ws://127.0.0.1:{server.port}/v1/agents/assistant/threads/example"
    command = [sys.executable, "-u", "-W", "error", str(ROOT / "examples/watch_ws.py"), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as watching:  # fmt: skip
        guard = threading.Timer(20, watching.kill)
        guard.start()
        try:
            httpx2.post(f"http{url[2:]}/runs", json={"input": "Hello"}, trust_env=False)
            assert watching.stdout is not None
            said = ""
            while "tokens; go on with" not in said:
                said += (line := watching.stdout.readline())
                assert line, watching.communicate()[1]
        finally:
            guard.cancel()
            watching.terminate()
    assert "Somebody asks." in said.replace("\033[0m\033[2m", "")
    assert "Hello from here." in said


class BrowserExample(Running):
    """The application of examples/browser, in a thread."""

    def __init__(self) -> None:
        app: Any = runpy.run_path(str(ROOT / "examples/browser/serve.py"))
        self.agents = app["agents"]
        self.app = self.agents
        self._listener = listen("127.0.0.1", 0, QUICK)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = make_server(app["app"], QUICK)
        self._loop = None
        self._thread = threading.Thread(target=self._run, name="example")


@pytest.mark.browser
def test_the_browser_example_shows_both(new_tabs: Callable[[], Tabs]) -> None:
    example = BrowserExample()
    example.start()
    tabs = new_tabs()
    try:
        tab = tabs.blank()
        tab.goto(f"{example.url}/watch/")
        tab.click("button")
        for number in ("", "2"):
            until(tab, f"document.querySelector('#answer{number}').textContent === 'Hello, page.'")
            assert tab.inner_text(f"#thought{number}") == "Somebody looks at me."
    finally:
        tabs.close()
        example.stop()
    assert tabs.wrong == []
