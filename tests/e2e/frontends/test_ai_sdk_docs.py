"""The snippet of docs/frontends.md for `useChat`: bundled as it stands, and clicked in Chromium."""

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from e2e.browsing import Tabs
from e2e.frontends.stand import NPM, Frontends, Node

if TYPE_CHECKING:  # playwright may be missing: then its tests are skipped
    from playwright.sync_api import Route

pytestmark = [pytest.mark.full, pytest.mark.browser]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "frontends.md"
HTML = '<!doctype html><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="page.js"></script>'


def test_the_documents_page_talks_to_an_agent(
    frontends: Frontends, node: Node, tabs: Tabs, tmp_path: Path
) -> None:
    found = re.search(r"<!-- snippet: ai sdk -->\n```jsx\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "page.jsx").write_text(found[1])
    (tmp_path / "node_modules").symlink_to(NPM / "node_modules")
    options = ["--bundle", "--format=esm", "--jsx=automatic", "--outfile=page.js"]
    command = [node.program, str(NPM / "node_modules/esbuild/bin/esbuild"), "page.jsx", *options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)

    def serve(route: "Route") -> None:
        if route.request.url.endswith("page.js"):
            route.fulfill(body=(tmp_path / "page.js").read_bytes(), content_type="text/javascript")
        else:
            route.fulfill(body=HTML, content_type="text/html")

    tab = tabs.blank()
    tab.route(f"{frontends.url}/docs-page/*", serve)
    tab.goto(f"{frontends.url}/docs-page/")
    tab.click("text=Say hello")
    tab.wait_for_selector("p:has-text('I am a scripted agent')")
    tab.wait_for_selector("button:enabled:has-text('Say hello')")
    tab.reload()
    tab.wait_for_selector("article.assistant p:has-text('resume them from any point.')")

    assert "The user has sent a message" in (tab.locator("em").text_content() or "")
