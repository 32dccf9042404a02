"""`useChat` in Chromium: the example's page, built by Vite, against a real server."""

import mimetypes
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from e2e.browsing import Tabs, until
from e2e.frontends.scenarios import BY_NAME, SECRETS
from e2e.frontends.stand import NPM, Frontends, Node

if TYPE_CHECKING:  # playwright may be missing: then its tests are skipped
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.full, pytest.mark.browser]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "react-usechat"
READY = "document.querySelector('main')?.dataset.status === 'ready'"

Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def built(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built with what `make npm` installs."""
    folder = tmp_path_factory.mktemp("react") / "app"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (folder / "node_modules").symlink_to(NPM / "node_modules")
    done = subprocess.run(
        [node.program, "node_modules/vite/bin/vite.js", "build"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


@pytest.fixture
def open_page(built: Path, frontends: Frontends, tabs: Tabs) -> Open:
    """`open_page(agent, chat)` opens the example's page, at the server's own address."""

    def serve(route: "Route") -> None:
        name = route.request.url.split("/react/")[1].partition("?")[0] or "index.html"
        path = built / name
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        route.fulfill(body=path.read_bytes(), content_type=kind)

    def open_(agent: str, chat: str) -> "Page":
        tab = tabs.blank()
        tab.route(f"{frontends.url}/react/**", serve)
        tab.goto(f"{frontends.url}/react/?agent={agent}#{chat}")
        tab.wait_for_selector("main")
        return tab

    return open_


@pytest.fixture
def chat() -> str:
    return uuid.uuid4().hex


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def say(tab: "Page", text: str = "go") -> None:
    tab.fill("input", text)
    tab.click("text=Send")


def answer(tab: "Page") -> str:
    """The visible text of the last answer."""
    return "".join(tab.locator("article[data-role=assistant]").last.locator("> p").all_text_contents())


def test_reasoning_tools_and_text_stand_in_their_places(open_page: Open, chat: str) -> None:
    tab = open_page("parallel-tools", chat)
    say(tab)
    until(tab, f"{READY} && document.body.textContent.includes('Fog in both.')")

    assert answer(tab) == BY_NAME["parallel-tools"].text
    assert tab.locator("details").count() == 2
    assert tab.locator("details[open]").count() == 0
    assert tab.locator("section[data-state=output-available] pre").all_text_contents() == [
        "Oslo: fog until noon",
        "Rome: fog until noon",
    ]
    assert not any(secret in tab.content() for secret in SECRETS)


def test_a_reload_and_a_second_tab_resume_inside_a_reasoning_block(
    open_page: Open, frontends: Frontends, chat: str
) -> None:
    tab = open_page("held-reasoning", chat)
    say(tab, "first question")
    tab.wait_for_selector("details[open]:has-text('before')")
    tab.reload()
    tab.wait_for_selector("details[open]:has-text('before')")
    second = open_page("held-reasoning", chat)
    second.wait_for_selector("details[open]:has-text('before')")
    frontends.open("held-reasoning")

    for one in (tab, second):
        until(one, f"{READY} && document.body.textContent.includes('The end.')")
        assert one.locator("article").count() == 2
        assert one.locator("article[data-role=user]").text_content() == "first question"
        assert "before after" in (one.locator("details").text_content() or "")
        assert answer(one) == "The end."
    tab.reload()
    tab.wait_for_selector("text=The end.")
    assert tab.locator("article").count() == 2


def test_a_lost_network_is_made_good_when_the_reader_looks_again(
    open_page: Open, frontends: Frontends, chat: str
) -> None:
    tab = open_page("held-reasoning", chat)
    say(tab)
    tab.wait_for_selector("details[open]:has-text('before')")
    frontends.cut()
    tab.wait_for_selector("main[data-status=error]")
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    tab.wait_for_selector("main[data-status=streaming] details[open]:has-text('before')")
    frontends.open("held-reasoning")
    until(tab, f"{READY} && document.body.textContent.includes('The end.')")

    assert tab.locator("article").count() == 2
    assert "before after" in (tab.locator("details").text_content() or "")
    assert tab.locator("[role=alert]").count() == 0


def test_stop_keeps_what_came_and_is_no_error(open_page: Open, chat: str) -> None:
    tab = open_page("cancelled", chat)
    say(tab)
    until(tab, "document.body.textContent.includes('So far and')")
    tab.click("text=Stop")
    until(tab, READY)

    assert answer(tab) == BY_NAME["cancelled"].text
    assert tab.locator("[role=alert]").count() == 0


def test_a_failure_is_told_and_the_answer_is_made_again(open_page: Open, chat: str) -> None:
    tab = open_page("failed", chat)
    say(tab)
    tab.wait_for_selector("[role=alert]:has-text('overloaded')")
    old = tab.locator("article[data-role=assistant]").get_attribute("id")
    tab.click("text=Again")
    tab.wait_for_selector(f"article[data-role=assistant]:not([id='{old}'])")
    tab.wait_for_selector("[role=alert]:has-text('overloaded')")

    assert answer(tab) == BY_NAME["failed"].text
    assert tab.locator("article").count() == 2


def test_the_development_server_hands_a_chat_on(
    built: Path, frontends: Frontends, node: Node, chat: str
) -> None:
    command = [
        node.program,
        "node_modules/vite/bin/vite.js",
        "--host",
        "127.0.0.1",
        "--port",
        str(free_port()),
    ]
    env = {**os.environ, "AGENTKIT_URL": frontends.url, "NO_COLOR": "1"}
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    with subprocess.Popen(command, cwd=built.parent, env=env, stdout=subprocess.PIPE, text=True) as vite:
        try:
            assert vite.stdout is not None
            said = next((line for line in vite.stdout if "Local:" in line), "")
            url = said.split("Local:")[1].strip().rstrip("/")
            answer = httpx2.post(
                f"{url}/v1/ai-sdk/reasoning-then-text",
                json={"id": chat, "message": message},
                headers={"origin": url},
                timeout=20,
                trust_env=False,
            )
        finally:
            vite.terminate()

    assert answer.status_code == 200, answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
