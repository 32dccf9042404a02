"""AG-UI with its own clients, the new one and the one that CopilotKit and assistant-ui bring, with their verification of every event."""

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from ag_ui.core import AgentCapabilities
from checkers.ag_ui import Watcher, frames_of
from e2e.frontends.scenarios import BY_NAME, SCENARIOS, SECRETS, Scenario
from e2e.frontends.stand import NPM, SCRIPT_TIMEOUT, Frontends, Node, NodeScript
from e2e.servers import Process, process, until

from agentkit_server.demo import approval_agent

pytestmark = [pytest.mark.full, pytest.mark.e2e]

Json = dict[str, Any]

SCRIPT = Path(__file__).with_name("ag_ui.mjs")
DOCUMENT = Path(__file__).parents[3] / "docs" / "frontends.md"
CLIENTS = {"1.0.0": "@ag-ui/client", "0.0.59": "@ag-ui/client-0.0.59"}
LOCATE: Json = {
    "name": "locate",
    "description": "Say where the user is.",
    "parameters": {"type": "object", "properties": {"zoom": {"type": "integer"}}},
}
PLAYED = [
    one
    for one in SCENARIOS
    if not one.name.startswith("held-") and one.end != "cancelled" and not one.client_tools
]


@dataclass
class Seen:
    """What one run gave to the client."""

    events: list[Json] = field(default_factory=list)
    done: Json = field(default_factory=dict)
    failed: str = ""

    @property
    def end(self) -> Json:
        return self.events[-1]

    def text(self, role: str = "assistant") -> str:
        """What a person sees of a role, all messages joined."""
        return "".join(m.get("content") or "" for m in self.done["messages"] if m["role"] == role)


class Clients:
    """All clients of one version, in one Node."""

    def __init__(self, script: NodeScript) -> None:
        self.script = script
        self._read: dict[str, list[Json]] = {}

    def read(self, client: str) -> Json:
        """Return the next line of a client; those of others are kept for them."""
        lines = self._read.setdefault(client, [])
        while not lines:
            line = self.script.next()
            self._read.setdefault(line.pop("client"), []).append(line)
        return lines.pop(0)


class Client:
    """A client on one thread."""

    def __init__(self, clients: Clients, version: str, url: str, thread: str) -> None:
        self.version = version
        self.watcher = Watcher(version="1.0" if version == "1.0.0" else "")
        self._clients = clients
        self._head = {"client": str(uuid.uuid4()), "url": url, "thread": thread}

    def begin(self, *said: str, say: Sequence[Json] = (), **command: Any) -> None:
        messages = [{"id": str(uuid.uuid4()), "role": "user", "content": text} for text in said]
        self.watcher.answered |= {one["toolCallId"] for one in say if one["role"] == "tool"}
        self._clients.script.say({**self._head, "say": [*messages, *say], **command})

    def read(self) -> Json:
        return self._clients.read(self._head["client"])

    def end(self) -> Seen:
        seen = Seen()
        while True:
            line = self.read()
            if "event" in line:
                seen.events.append(line["event"])
            elif "done" in line:
                seen.done = line["done"]
                assert seen.done["warnings"] == []
                return seen
            else:
                seen.failed = line["failed"]
                return seen

    def run(self, *said: str, **command: Any) -> Seen:
        """Run the agent; the strict reader looks at what has passed the client's own."""
        self.begin(*said, **command)
        seen = self.end()
        if seen.events and not seen.failed:
            self.watcher.watch(seen.events)
        return seen


Connect = Callable[..., Client]


@pytest.fixture(scope="module")
def scripts(node: Node) -> Iterator[dict[str, Clients]]:
    """A Node for each version."""
    with ExitStack() as stack:
        yield {
            version: Clients(stack.enter_context(node.start(SCRIPT, package)))
            for version, package in CLIENTS.items()
        }


@pytest.fixture(params=CLIENTS)
def connect(request: pytest.FixtureRequest, scripts: dict[str, Clients], frontends: Frontends) -> Connect:
    """`connect(agent, thread)`: a new client of either version."""

    def make(agent: str, thread: str = "") -> Client:
        url = f"{frontends.url}/v1/ag-ui/{agent}"
        return Client(scripts[request.param], request.param, url, thread or str(uuid.uuid4()))

    return make


@pytest.mark.parametrize("scenario", PLAYED, ids=[one.name for one in PLAYED])
def test_a_client_shows_what_the_table_says(scenario: Scenario, connect: Connect) -> None:
    client = connect(scenario.name)

    seen = client.run("go")

    assert seen.failed == ""
    assert not any(secret in json.dumps([seen.events, seen.done]) for secret in SECRETS)
    own = [m for m in seen.done["messages"] if "subagentRunId" not in m]
    assert "".join(m.get("content") or "" for m in own if m["role"] == "assistant") == (
        scenario.text + scenario.refusal
    )
    assert "".join(m["content"] for m in own if m["role"] == "reasoning") == scenario.reasoning
    calls = [call for message in own for call in message.get("toolCalls", ())]
    assert [(c["id"].rpartition(".")[2], c["function"]["name"]) for c in calls] == [
        c[:2] for c in scenario.calls
    ]
    results = [m for m in own if m["role"] == "tool"]
    assert [m.get("metadata", {}).get("status", "ok") for m in results] == [c[2] for c in scenario.calls]
    if scenario.end == "failed":
        assert seen.end["type"] == "RUN_ERROR"
        assert (seen.end["code"], "overloaded" in seen.end["message"]) == ("model_stream", True)
    else:
        assert seen.end["type"] == "RUN_FINISHED"
        assert seen.end.get("outcome") == ({"type": "success"} if client.version == "1.0.0" else None)


def test_the_demos_agents(connect: Connect) -> None:
    clients = {agent: connect(agent) for agent in ("scripted", "tools", "redacted", "failing")}
    for client in clients.values():  # all at once: they speak at a human pace
        client.begin("go")

    for agent, client in clients.items():
        seen = client.end()
        client.watcher.watch(seen.events)

        assert seen.failed == ""
        assert seen.end["type"] == ("RUN_ERROR" if agent == "failing" else "RUN_FINISHED")
        assert seen.text("reasoning")
        assert seen.text()


def test_two_turns_are_one_conversation(connect: Connect) -> None:
    client = connect("parallel-tools")

    first, second = client.run("go"), client.run("again")

    assert [m["role"] for m in first.done["messages"]] == [
        "user", "reasoning", "assistant", "tool", "tool", "reasoning", "assistant",
    ]  # fmt: skip
    assert [m["role"] for m in second.done["messages"]] == [m["role"] for m in first.done["messages"]] * 2
    assert second.text() == BY_NAME["parallel-tools"].text * 2


def test_a_tool_of_the_page_pauses_the_run_and_goes_on_with_its_result(
    connect: Connect,
) -> None:
    client = connect("client-tool")

    first = client.run("go", run={"tools": [LOCATE]})
    calls = [call["id"] for message in first.done["messages"] for call in message.get("toolCalls", ())]
    ours, theirs = calls
    answered = [m["toolCallId"] for m in first.done["messages"] if m["role"] == "tool"]
    result = {"id": "r1", "role": "tool", "toolCallId": theirs, "content": '{"city":"Oslo"}'}
    second = client.run(say=[result], run={"tools": [LOCATE]})

    assert answered == [ours]
    if client.version == "1.0.0":
        assert first.done["pending"] == [theirs]
        assert first.end["outcome"] == {"type": "success", "pendingToolCallIds": [theirs]}
    assert (second.failed, second.end["type"]) == ("", "RUN_FINISHED")
    assert second.text() == "Let me look. You are there."


@pytest.mark.parametrize("approved", [True, False], ids=["approved", "denied"])
def test_a_person_decides_a_call(connect: Connect, frontends: Frontends, *, approved: bool) -> None:
    frontends.app.directory.offer(approval_agent())
    client = connect("approval")

    first = client.run("go")
    [asked] = [e["value"] for e in first.events if e.get("name") == "tool_approval.requested"]
    uncovered = client.run() if client.version == "1.0.0" else Seen(failed="pending")
    answer = {"interruptId": asked["approval"], "status": "resolved", "payload": {"approved": approved}}
    second = client.run(run={"resume": [answer]})

    if client.version == "1.0.0":
        assert first.end["outcome"] == {"type": "interrupt", "interrupts": first.done["interrupts"]}
        assert first.done["interrupts"][0]["toolCallId"] == asked["toolCallId"]
    assert "pending" in uncovered.failed  # the client itself wants an answer first
    assert (second.failed, second.end["type"], second.done["interrupts"]) == ("", "RUN_FINISHED", [])
    [result] = [m for m in second.done["messages"] if m["role"] == "tool"]
    assert result["toolCallId"] == asked["toolCallId"]
    assert ("on its way" if approved else "denied") in result["content"]
    assert second.text().startswith("You have decided")


def test_state_is_kept_with_the_thread(connect: Connect) -> None:
    thread = str(uuid.uuid4())
    page = connect("reasoning-then-text", thread)

    first = page.run("go", state={"cart": ["tea", None]})
    later = connect("reasoning-then-text", thread).run("again")

    assert first.done["state"] == later.done["state"] == {"cart": ["tea", None]}


def test_a_page_without_messages_gets_those_of_the_thread(connect: Connect) -> None:
    thread = str(uuid.uuid4())
    first = connect("parallel-tools", thread).run("go", state={"n": 1})

    page = connect("parallel-tools", thread)
    page.begin()
    seen = page.end()
    again = page.run("again")

    assert [event["type"] for event in seen.events] == [
        "RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED",
    ]  # fmt: skip
    assert [m["role"] for m in seen.done["messages"]] == [m["role"] for m in first.done["messages"]]
    assert seen.text() == first.text()
    assert seen.done["state"] == {"n": 1}
    assert again.text() == first.text() * 2


def test_the_client_stops_its_run_by_leaving(connect: Connect, frontends: Frontends) -> None:
    thread = str(uuid.uuid4())
    client = connect("cancelled", thread)

    client.begin("go", stopAfter="TEXT_MESSAGE_CONTENT")
    seen = client.end()

    url = f"{frontends.url}/v1/agents/cancelled/threads/{thread}/runs"
    assert seen.failed == ""
    until(lambda: [run["status"] for run in httpx2.get(url, trust_env=False).json()["runs"]] == ["cancelled"])
    client.begin("and now?", stopAfter="REASONING_START")  # at once: the thread is free, or about to be
    assert client.end().failed == ""


def test_a_run_that_another_stops_is_told(connect: Connect, frontends: Frontends) -> None:
    thread = str(uuid.uuid4())
    client = connect("cancelled", thread)
    client.begin("go")
    events: list[Json] = []
    while not events or events[-1]["type"] != "TEXT_MESSAGE_CONTENT":
        events.append(client.read()["event"])

    url = f"{frontends.url}/v1/agents/cancelled/threads/{thread}/runs"
    [run] = httpx2.get(url, trust_env=False).json()["runs"]
    httpx2.post(f"{url}/{run['run']}/cancel", trust_env=False)
    seen = client.end()

    assert seen.failed == ""
    client.watcher.watch([*events, *seen.events])
    if client.version == "1.0.0":
        assert (seen.end["type"], seen.end["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    else:
        assert (seen.end["type"], seen.end["code"]) == ("RUN_ERROR", "cancelled")


def test_a_second_tab_is_told_that_the_thread_is_busy(connect: Connect, frontends: Frontends) -> None:
    thread = str(uuid.uuid4())
    one, two = connect("held-reasoning", thread), connect("held-reasoning", thread)
    one.begin("go")
    while one.read().get("event", {}).get("type") != "REASONING_MESSAGE_CONTENT":
        pass

    refused = two.run("me too")
    frontends.open("held-reasoning")
    first = one.end()
    three = connect("held-reasoning", thread)
    three.begin()
    shown = three.end()

    assert "409" in refused.failed
    assert first.text() == "The end."
    assert shown.text() == "The end."


@pytest.mark.parametrize("version", CLIENTS)
def test_a_server_that_dies_is_no_good_end(version: str, scripts: dict[str, Clients]) -> None:
    with process() as server:
        client = held(server, scripts[version], version)

        server.kill()

        assert client.end().failed


@pytest.mark.parametrize("version", CLIENTS)
def test_a_server_that_stops_says_so(version: str, scripts: dict[str, Clients]) -> None:
    with process() as server:
        client = held(server, scripts[version], version)

        status, _ = server.end()
        seen = client.end()

    assert (status, seen.failed) == (0, "")
    assert seen.end.get("outcome", seen.end.get("code")) == (
        {"type": "cancelled"} if version == "1.0.0" else "cancelled"
    )


def held(server: Process, clients: Clients, version: str) -> Client:
    """Return a client in the middle of an answer."""
    url = f"http://127.0.0.1:{server.port}/v1/ag-ui/held"
    client = Client(clients, version, url, str(uuid.uuid4()))
    client.begin("go")
    while client.read().get("event", {}).get("type") != "REASONING_MESSAGE_CONTENT":
        pass
    return client


def test_what_cannot_be_read_is_a_clear_error(connect: Connect) -> None:
    client = connect("reasoning-then-text")

    seen = client.run(
        say=[
            {
                "id": "u1",
                "role": "user",
                "content": [{"type": "audio", "source": {"type": "url", "value": "x:"}}],
            }
        ]
    )

    assert "422" in seen.failed
    assert "messages.0.content.0" in seen.failed


# the documentation

SECTION = DOCUMENT.read_text().partition("\n## AG-UI\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("number", "agent", "said"),
    [
        (0, "tools", ['→ weather {"city":"Oslo"}', "← Oslo: ", "Oslo's stands above"]),
        (1, "client-tool", ["You are there."]),
    ],
)
def test_the_documents_snippets_run(
    number: int, agent: str, said: list[str], frontends: Frontends, node: Node
) -> None:
    code = re.findall(r"^```js\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)[number]
    code = code.replace("http://127.0.0.1:8000", frontends.url).replace("/ag-ui/assistant", f"/ag-ui/{agent}")

    command = [node.program, "--input-type=module", "-e", code]
    ended = subprocess.run(
        command, check=False, cwd=NPM, capture_output=True, text=True, timeout=SCRIPT_TIMEOUT
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [words for words in said if words not in ended.stdout] == []


# without a client: what the bytes say


def post(frontends: Frontends, agent: str, body: Json, **headers: str) -> httpx2.Response:
    url = f"{frontends.url}/v1/ag-ui/{agent}"
    return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=20)


def input_of(thread: str, run: str = "c1", *said: str, **more: Any) -> Json:
    messages = [
        {"id": f"u{n}-{run}", "role": "user", "content": text} for n, text in enumerate(said or ["go"])
    ]
    return {"threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [], **more}


@pytest.mark.parametrize("name", ["held-reasoning", "held-arguments"])
def test_a_client_that_names_its_run_comes_back_in_the_middle(name: str, frontends: Frontends) -> None:
    body = input_of(str(uuid.uuid4()), protocolVersion="1.0")
    seen = b""
    url = f"{frontends.url}/v1/ag-ui/{name}"
    with httpx2.stream(
        "POST", url, json=body, headers={"x-run-id": "c1"}, trust_env=False, timeout=20
    ) as response:
        for piece in response.iter_bytes():
            seen += piece
            if b"before" in seen or b"TOOL_CALL_ARGS" in seen:
                break
    had = frames_of(seen[: seen.rindex(b"\n\n") + 2])
    frontends.open(name)

    whole = frames_of(post(frontends, name, body, **{"x-run-id": "c1"}).content)
    for number in range(len(had)):
        rest = post(frontends, name, body, **{"x-run-id": "c1", "last-event-id": had[number][0]})
        assert frames_of(rest.content) == whole[number + 1 :]
    joined = httpx2.get(
        url, params={"threadId": body["threadId"], "runId": "c1", "offset": "-1"}, trust_env=False
    )
    after = post(frontends, name, body, **{"x-run-id": "c1", "last-event-id": whole[-1][0]})

    assert whole[: len(had)] == had
    assert frames_of(joined.content) == whole
    assert after.status_code == 204
    Watcher().watch([event for _, event in whole], run="c1", thread=body["threadId"])


def test_capabilities_are_those_of_the_schema(frontends: Frontends) -> None:
    said = httpx2.get(f"{frontends.url}/v1/ag-ui/tools/capabilities", trust_env=False).json()

    read = AgentCapabilities.model_validate(said)

    assert read.model_dump(by_alias=True) == said
    assert read.reasoning is not None
    assert read.reasoning.streaming
