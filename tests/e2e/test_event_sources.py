"""Other people's clients follow a run over a link that breaks: npm's, in Node and Chromium, and Python's."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx_sse
import pytest
import websockets
from e2e.browsing import Tabs
from e2e.links import Link, linked
from e2e.servers import QUICK, Running, agents, running
from websockets.sync.client import connect

pytestmark = [pytest.mark.full, pytest.mark.e2e, pytest.mark.faults]

ROOT = Path(__file__).resolve().parents[1]
MODULES = ROOT / "npm/node_modules"
RETRY = {"retry_ms": (5, 10), "head_timeout": 20.0, "ping_timeout": 20.0}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(QUICK.model_copy(update=RETRY), agents()) as one:
        yield one


@pytest.fixture
def run(server: Running, request: pytest.FixtureRequest) -> tuple[str, list[dict[str, Any]]]:
    """The path of a run's feed, and what is on it."""
    thread = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    with httpx.Client(trust_env=False, base_url=server.url) as http:
        answer = http.post(f"/v1/agents/quick/threads/{thread}/runs", json={"input": "hello"}).json()
        path: str = answer["events"]
        with httpx_sse.connect_sse(http, "GET", path) as source:
            records = [json.loads(event.data) for event in source.iter_sse() if event.data]
    return path, [record for record in records if "seq" in record]


def node_of(require: Callable[[str, bool, str], None]) -> str:
    node = shutil.which("node")
    require("node", node is not None, "apt-get install nodejs npm")
    require("eventsource", (MODULES / "eventsource-client").is_dir(), "make npm")
    return str(node)


def check(link: Link, events: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    assert link.cuts >= 3
    assert [event for event in events if "seq" in event] == records
    assert [event["type"] for event in events if event.get("type") == "stream.gap"] == []
    assert "stream.end" in [event.get("type") for event in events]


@pytest.mark.parametrize("client", ["eventsource", "eventsource-client"])
def test_npm_clients_in_node(
    server: Running, run: tuple[str, list[dict[str, Any]]], client: str, require: Callable[[str, bool, str], None]
) -> None:  # fmt: skip
    path, records = run
    node = node_of(require)
    script = (Path(__file__).parent / "event_sources.mjs").read_text()

    with linked(server.port, seed=3, most=1500) as link:
        url = f"{link.url}{path}&named=0"
        done = subprocess.run(
            [node, "--input-type=module", "-e", script, "--", client, url],
            cwd=ROOT / "npm", capture_output=True, text=True, timeout=40, check=True,
        )  # fmt: skip

    check(link, [json.loads(line) for line in done.stdout.splitlines()], records)


FETCH = """
async (given) => {
  const { fetchEventSource } = FetchEventSource;
  const out = [];
  const over = new AbortController();
  setTimeout(() => over.abort(), 20000);
  let last;
  while (!over.signal.aborted) {
    await fetchEventSource(given, {
      signal: over.signal,
      headers: last ? { "last-event-id": last } : {},
      onmessage({ id, data }) {
        if (!data) return;
        out.push(data);
        last = id || last;
        if (JSON.parse(data).type === "stream.end") over.abort();
      },
      onerror(error) { throw error; },
    }).catch(() => {});
  }
  return out;
}
"""
"""Its own way back moves the cursor at a frame's `id:` line, before the frame is whole: a cut right there loses it. So it is called anew."""


@pytest.mark.browser
def test_fetch_event_source_in_chromium(
    server: Running, run: tuple[str, list[dict[str, Any]]], new_tabs: Callable[[], Tabs], require: Callable[[str, bool, str], None]
) -> None:  # fmt: skip
    path, records = run
    esbuild = MODULES / ".bin/esbuild"
    require("esbuild", esbuild.exists() and (MODULES / "@microsoft").is_dir(), "make npm")
    entry = MODULES / "@microsoft/fetch-event-source/lib/esm/index.js"
    bundle = subprocess.run(
        [esbuild, entry, "--bundle", "--format=iife", "--global-name=FetchEventSource"],
        capture_output=True, text=True, timeout=30, check=True,
    ).stdout  # fmt: skip

    with linked(server.port, seed=4, faults=0, most=1500) as link:
        tabs = new_tabs()
        tab = tabs.blank(bypass_csp=True)
        tab.goto(f"{link.url}/assets/icon.svg")
        tab.evaluate(f"{bundle}; globalThis.FetchEventSource = FetchEventSource; null")
        link.spoil(8)
        events = [json.loads(data) for data in tab.evaluate(FETCH, f"{path}&named=0")]
        tabs.close()

    check(link, events, records)


@pytest.mark.browser
@pytest.mark.parametrize("transport", ["EventSource", "sse", "websocket"])
def test_the_browsers_own_and_our_module_in_chromium(
    server: Running, run: tuple[str, list[dict[str, Any]]], new_tabs: Callable[[], Tabs], transport: str
) -> None:
    path, records = run
    script = """
    async ([path, transport]) => {
      const out = [];
      if (transport === "EventSource") {
        const source = new EventSource(path);
        await new Promise((done) => {
          source.onmessage = ({ data }) => { out.push(JSON.parse(data)); if (out.at(-1).type === "stream.end") done(); };
          setTimeout(done, 20000);
        });
        await new Promise((done) => { source.onerror = () => source.readyState === 2 && done(); setTimeout(done, 20000); });
        return [out, source.readyState];
      }
      const { follow } = await import("/agentkit-client.js");
      const feed = follow(path, { transport, onstate: ({ name }) => name === "waiting" && feed.retry() });
      setTimeout(() => feed.close(), 30000);
      const hurry = setInterval(feed.retry, 5);
      for await (const { envelope } of feed) out.push(envelope);
      clearInterval(hurry);
      return [[...out, { type: "stream.end" }], 2];
    }
    """
    with linked(server.port, seed=5, faults=0, most=1500) as link:
        tabs = new_tabs()
        tab = tabs.blank()
        tab.goto(f"{link.url}/agentkit-client.js")
        tab.evaluate("import('/agentkit-client.js').then(() => null)")
        link.spoil(8)
        events, state = tab.evaluate(script, [f"{path}&named=0", transport])
        tabs.close()

    check(link, events, records)
    assert state == 2  # the answer of 204 has stopped it


def test_httpx_sse(server: Running, run: tuple[str, list[dict[str, Any]]]) -> None:
    path, records = run
    events: list[dict[str, Any]] = []
    headers: dict[str, str] = {}
    with linked(server.port, seed=6) as link, httpx.Client(trust_env=False, base_url=link.url) as http:
        end = time.monotonic() + 20
        while not events or events[-1]["type"] != "stream.end":
            assert time.monotonic() < end
            try:
                with httpx_sse.connect_sse(http, "GET", path, headers=headers) as source:
                    for event in source.iter_sse():
                        if event.data:  # it makes an event without data of a sign of life
                            events.append(json.loads(event.data))
                        headers = {"last-event-id": event.id} if event.id else headers
            except httpx.TransportError:
                pass  # the link

    check(link, events, records)


def test_websockets(server: Running, run: tuple[str, list[dict[str, Any]]]) -> None:
    path, records = run
    thread, _, query = path.partition("/events?")
    events: list[dict[str, Any]] = []
    name = dict(part.split("=") for part in query.split("&"))["run"]
    sub: dict[str, Any] = {"op": "sub", "rid": 1, "topic": thread.removeprefix("/v1/"), "run": name, "after": "earliest"}  # fmt: skip
    with linked(server.port, seed=7) as link:
        end = time.monotonic() + 20
        while not events or events[-1]["type"] != "stream.end":
            assert time.monotonic() < end
            try:
                with connect(
                    f"ws://127.0.0.1:{link.port}/v1/ws", subprotocols=[websockets.Subprotocol("agentkit.v1")], proxy=None
                ) as socket:  # fmt: skip
                    socket.send(json.dumps(sub))
                    for text in socket:
                        frame = json.loads(text)
                        events += frame.get("e", [])
                        sub["after"] = events[-1]["id"] if events else "earliest"
                        if frame["op"] == "end":
                            events.append({"type": "stream.end"})
                            break
            except (websockets.WebSocketException, OSError, EOFError):
                pass  # the link

    check(link, events, records)
