"""A browser's own EventSource and WebSocket on a guarded server, with nothing but tickets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from e2e.browsing import Tabs
from e2e.hostile.conftest import SERVER
from e2e.hostile.guarded import ANSWER
from e2e.servers import Process, process

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

THREAD = "/v1/agents/quick/threads/t1"

FOLLOW = """async ({ url, runs }) => {
  const seen = { hellos: 0, records: [], state: null };
  const source = new EventSource(url);
  const take = ({ data }) => {
    const record = JSON.parse(data);
    if (record.type === "stream.hello") seen.hellos += 1;
    else if (record.seq) seen.records.push([record.seq, record.type]);
  };
  source.onmessage = take;
  for (const type of ["run.finished", "text.delta"]) source.addEventListener(type, take);
  const end = performance.now() + 15000;
  while (performance.now() < end && !(seen.hellos >= runs && seen.records.some(([, type]) => type === "run.finished"))) {
    await new Promise((done) => setTimeout(done, 20));
  }
  seen.state = source.readyState;
  source.close();
  return seen;
}"""
"""Reads until the stream has been opened `runs` times and a run has finished."""

SPEAK = """async ({ ticket, topic }) => new Promise((done) => {
  const socket = new WebSocket(new URL("/v1/ws", location.href.replace("http", "ws")), ["agentkit.v1"]);
  const ops = [];
  socket.onopen = () => socket.send(JSON.stringify({ op: "hello", auth: ticket }));
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(data);
    ops.push(frame.op);
    if (frame.op === "welcome") socket.send(JSON.stringify({ op: "sub", rid: "1", topic, after: "earliest" }));
    if (frame.op === "ok") socket.close(1000);
  };
  socket.onclose = ({ code }) => done({ ops, code });
})"""


@pytest.fixture(scope="module")
def young(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, dict[str, str]]]:
    """A guarded server that asks every stream to come back after half a second, and everybody's keys."""
    folder = tmp_path_factory.mktemp("young")
    with process(str(SERVER), str(folder), env={"AGENTKIT_STREAM_AGE": "0.5", "TICKET_TIMEOUT": "60"}) as one:
        yield one, json.loads(Path(folder / "secrets.json").read_text())


def ask(young: tuple[Process, dict[str, str]], path: str, body: Any) -> Any:
    one, keys = young
    headers = {"authorization": f"Bearer {keys['ann']}"}
    url = f"http://127.0.0.1:{one.port}{path}"
    return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=20).json()


def test_an_event_source_lives_on_one_ticket_and_loses_nothing(
    tabs: Tabs, young: tuple[Process, dict[str, str]]
) -> None:
    for _ in range(2):
        assert ask(young, f"{THREAD}/chat", {"message": "x"})["text"] == ANSWER
    ticket = ask(young, "/v1/tickets", {"agent": "quick", "thread": "t1"})
    tab = tabs.blank()
    tab.goto(f"http://127.0.0.1:{young[0].port}/")

    seen = tab.evaluate(FOLLOW, {"url": f"{ticket['events']}&after=earliest&named=0", "runs": 4})

    places = [seq for seq, _ in seen["records"]]
    assert seen["hellos"] >= 4  # the same ticket, with the place that the browser itself remembered
    assert places == list(range(1, len(places) + 1))
    assert [kind for _, kind in seen["records"]].count("run.finished") == 2
    assert seen["state"] != 2  # it has not given up


def test_a_socket_takes_a_ticket_in_its_hello_once(tabs: Tabs, young: tuple[Process, dict[str, str]]) -> None:
    ticket = ask(young, "/v1/tickets", {"agent": "quick", "thread": "t1"})["ticket"]
    tab = tabs.blank()
    tab.goto(f"http://127.0.0.1:{young[0].port}/")
    words = {"ticket": ticket, "topic": "agents/quick/threads/t1"}

    first, second = [tab.evaluate(SPEAK, words) for _ in range(2)]

    assert (first["ops"][:2], first["code"]) == (["welcome", "ok"], 1000)
    assert (second["ops"], second["code"]) == ([], 4500)
