"""`openai` in a page of another site: the browser asks first, and what it asks for must be allowed."""

import functools
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from e2e.browsing import until
from e2e.frontends.scenarios import BY_NAME, Scene, agents
from e2e.frontends.stand import NPM, Node
from e2e.servers import QUICK, running

if TYPE_CHECKING:  # playwright may be missing: then its tests are skipped
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.full, pytest.mark.browser]

HTML = '<!doctype html><script>window.api = "{api}"</script><script type="module" src="page.js"></script>'
PAGE = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: window.api + "/v1", apiKey: "none", dangerouslyAllowBrowser: true, maxRetries: 0 });
const messages = [{ role: "user", content: "go" }];
const headers = { "X-Thread-Id": "page" };
const said = { text: "", reasoning: "" };
for await (const { choices } of await client.chat.completions.create({ model: "reasoning-then-text", messages, stream: true }, { headers })) {
  said.text += choices[0].delta.content ?? "";
  said.reasoning += choices[0].delta.reasoning_content ?? "";
}
const helper = client.chat.completions.stream({ model: "reasoning-then-text", messages });
said.helped = (await helper.finalChatCompletion()).choices[0].message.content;
said.models = (await client.models.list()).data.length;
window.said = said;
"""


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve a folder: another origin than the agents' server, in the same address space (browsers keep others from this machine)."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, name="site").start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_page_of_a_listed_site_reads_a_chat(node: Node, chromium: "Browser", tmp_path: Path) -> None:
    command = [node.program, "node_modules/esbuild/bin/esbuild", "--bundle", "--format=esm"]
    built = subprocess.run(
        command, cwd=NPM, input=PAGE, text=True, check=True, capture_output=True, timeout=60
    )
    (tmp_path / "page.js").write_text(built.stdout)
    scenario = BY_NAME["reasoning-then-text"]
    with site(tmp_path) as origin:
        patient = {"head_timeout": 20.0, "body_timeout": 20.0, "send_timeout": 10.0}
        settings = QUICK.model_copy(update={"allowed_origins": (origin,), **patient})
        with running(settings, agents({scenario.name: Scene(scenario)})) as server:
            (tmp_path / "index.html").write_text(HTML.format(api=server.url))
            tab = chromium.new_page()
            try:
                tab.goto(origin)
                until(tab, "window.said !== undefined")
                said = tab.evaluate("window.said")
            finally:
                tab.close()

    assert said == {
        "text": scenario.text,
        "reasoning": scenario.reasoning,
        "helped": scenario.text,
        "models": 1,
    }
