"""What browser tests share: a server in a process of its own, and tabs that note what goes wrong in them."""

import os
import re
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # playwright may be missing: then its tests are skipped
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page

QUIET = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
]
"""Chromium in a container, without its own talk to the network."""


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run a Python program that prints its address once it serves, and give the address, with a slash at its end."""
    env = {"LOCAL": "0", **os.environ}  # one default agent, whether or not the real model is installed
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if selector.select(30) else ""
        found = re.search(r"http://\S+", line)
        assert found is not None, f"the server said {line!r} and no address"
        yield found[0].rstrip("/") + "/"
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        process.stdout.close()


def until(tab: "Page", condition: str) -> None:
    """Wait until a JavaScript expression is true. Playwright's own way evaluates text, which the page's policy forbids."""
    tab.evaluate(
        "new Promise((done, fail) => { const end = performance.now() + 15_000; const look = () => "
        f"({condition}) ? done() : performance.now() > end ? fail(new Error('waited for ' + {condition!r}))"
        " : setTimeout(look, 20); look(); })"
    )


class Tabs:
    """Opens tabs, each in a fresh profile, and notes what they do wrong."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.wrong: list[str] = []

    def open(self, url: str, **options: Any) -> "Page":
        """Open the page at `url` and return it once it can be typed into. `options` are Playwright's, for the context."""
        tab = self.blank(**options)
        tab.goto(url)
        tab.wait_for_selector("#input:enabled")
        tab.wait_for_selector("#badge[data-state=live]")
        return tab

    def blank(self, **options: Any) -> "Page":
        """Open an empty tab."""
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self._contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(15_000)
        tab.on("pageerror", lambda error: self.wrong.append(f"uncaught: {error}"))
        tab.on("dialog", self._refuse)
        tab.on("console", lambda message: self._note(message.type, message.text))
        tab.on("request", lambda request: self._check(request.url, tab.url))
        return tab

    def close(self) -> None:
        """Close all."""
        for context in self._contexts:
            context.close()

    def _refuse(self, dialog: "Dialog") -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith(
            "Failed to load resource"
        ):  # a status that a test asked for
            self.wrong.append(text)

    def _check(self, url: str, page: str) -> None:
        origin = re.match(r"https?://[^/]+", page)
        if origin is not None and not url.startswith(("data:", "blob:", origin[0])):
            self.wrong.append(f"asked {url}")
