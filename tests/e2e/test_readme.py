"""The README's snippets that need a server or a browser: run as they stand, but for the port. (`test_snippets` runs the others.)"""

import ast
import asyncio
import inspect
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from e2e.browsing import Tabs, until

README = (Path(__file__).parents[2] / "README.md").read_text()


def snippet(heading: str, language: str) -> str:
    """Return the first fenced block of that language below a heading."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None, f"{heading} has no {language}"
    return found[1]


@pytest.mark.e2e
def test_the_socket_snippet_prints_reasoning_and_text(
    demo_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = snippet("Over WebSocket", "python").replace(
        "ws://127.0.0.1:8000/", demo_url.replace("http", "ws", 1)
    )
    code = compile(text, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        with anyio.fail_after(30):
            outcome = eval(code, {})
            assert inspect.iscoroutine(outcome)
            await outcome

    asyncio.run(run())

    said = capsys.readouterr().out
    assert said.index("The user has sent") < said.index("I am a scripted agent")


@pytest.mark.browser
def test_the_browser_snippet_shows_reasoning_and_answer(demo_url: str, tabs: Tabs) -> None:
    tab = tabs.blank()
    tab.route(
        f"{demo_url}readme",
        lambda route: route.fulfill(content_type="text/html", body=snippet("In a browser", "html")),
    )

    tab.goto(f"{demo_url}readme")
    until(tab, "document.getElementById('answer').textContent.includes('resume them from any point')")

    assert "The user has sent" in (tab.text_content("#reasoning") or "")


@pytest.mark.e2e
def test_the_curl_snippet_shows_named_reasoning_events(
    demo_url: str, require: Callable[[str, bool, str], None]
) -> None:
    require("curl", shutil.which("curl") is not None, "apt-get install curl")
    feed, post = (
        line.replace("http://127.0.0.1:8000/", demo_url).replace("/t1/", "/curl/")
        for line in snippet("In a browser", "sh").strip().splitlines()
    )
    with subprocess.Popen(
        ["bash", "-c", f"exec {feed}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as reading:
        assert reading.stdout is not None
        posted = subprocess.run(["bash", "-c", post], capture_output=True, text=True, timeout=20, check=True)
        frames = ""
        while "event: reasoning_block.finished" not in frames:
            frames += reading.stdout.readline()
        reading.kill()

    assert '"run":"run_' in posted.stdout
    assert 'event: reasoning\ndata: {"v":1,' in frames
    assert "event: text.delta" not in frames
