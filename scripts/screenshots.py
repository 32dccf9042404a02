"""Make the pictures of the page that README and docs show: `docs/img/NAME-light.png` and `NAME-dark.png`, for each of `STATES`.

Needs playwright and Debian's chromium. The server runs in a process of its own, on a free port.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).parent.parent / "docs" / "img"
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"]
LARGEST = 150_000
"""Bytes of a picture."""


def thinking(page: Page) -> None:
    """`scripted` thinks about the second question; its first answer stands above."""
    ask(page, "scripted", "Why is the sky blue?")
    page.wait_for_selector(".run[data-status=finished]")
    page.wait_for_selector(".thought-head[aria-expanded=false]")
    ask(page, "scripted", "And at sunset?")
    page.wait_for_selector(".thought[data-live] .paragraph:has-text('only ever learn the length')")


def tools(page: Page) -> None:
    """`tools` has answered after two calls, one of which failed; the timeline is open."""
    ask(page, "tools", "What is the weather like in Oslo and in Atlantis?")
    page.wait_for_selector(".run[data-status=finished] > .run-footer")
    page.click(".tool >> nth=1")
    page.wait_for_selector(".thought-head[aria-expanded=false] >> nth=1")


def approval(page: Page) -> None:
    """`approval` waits for the reader."""
    ask(page, "approval", "Send Ada a postcard")
    page.wait_for_selector(".tool-question:visible")


STATES: dict[str, Callable[[Page], None]] = {"page": thinking, "tools": tools, "approval": approval}
"""What each picture shows."""


def ask(page: Page, agent: str, question: str) -> None:
    """Say something to an agent."""
    if page.input_value("#agent") != agent:
        page.select_option("#agent", agent)
        page.wait_for_url(f"**#agent={agent}&*")
        page.wait_for_selector("#badge[data-state=live]")
    page.fill("#input", question)
    page.press("#input", "Enter")


def picture(browser: Browser, url: str, name: str, scheme: Literal["light", "dark"]) -> None:
    """Bring the page into a state and take its picture."""
    page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("#badge[data-state=live]")
    STATES[name](page)
    page.evaluate("document.activeElement.blur()")
    path = FOLDER / f"{name}-{scheme}.png"
    page.screenshot(path=path)
    if name == "approval":  # the script of its model goes on with the answer
        page.click(".tool-question button:text-is('Approve')")
        page.wait_for_selector(".run[data-status=finished]")
    page.close()
    size = path.stat().st_size
    sys.stdout.write(f"{path.name}: {size:,} bytes\n")
    if size > LARGEST:
        raise SystemExit(f"{path.name} has more than {LARGEST:,} bytes")


def main() -> None:
    """Make all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "agentkit_server", "--port", "0", "--engine", "memory://"]
    env = {**os.environ, "LOCAL": "0"}  # what is pictured needs no model
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:  # noqa: S603 - our own
        try:
            line = server.stdout.readline() if server.stdout else ""
            found = re.search(r"http://\S+", line)
            if found is None:
                raise SystemExit(f"the server said {line!r} and no address")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
                for name in STATES:
                    picture(browser, found[0], name, "light")
                    picture(browser, found[0], name, "dark")
                browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
