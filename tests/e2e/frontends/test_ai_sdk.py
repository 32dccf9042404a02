"""`ai` 7 and 5 and `@ai-sdk/react` against a real server, over the table of scenarios."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from checkers.ui_stream import Message as StrictMessage
from e2e.frontends.scenarios import BY_NAME, SCENARIOS, SECRETS, Scenario
from e2e.frontends.stand import Frontends, Node, NodeScript
from e2e.servers import QUICK, process, running

from agentkit import Agent, client_tool, tool
from agentkit.testing import Call, Say, ScriptedModel, Think

pytestmark = [pytest.mark.full, pytest.mark.e2e]

CLIENT = Path(__file__).with_name("ai_sdk_client.mjs")
PLAYED = [
    one
    for one in SCENARIOS
    if not one.name.startswith("held-") and one.end != "cancelled" and not one.client_tools
]

Ask = Callable[..., Any]
"""`ask(op, **command)`: have the client do something, and return its answer."""


class Client:
    """The client in its process."""

    def __init__(self, script: NodeScript) -> None:
        self._script = script

    def ask(self, op: str, **command: Any) -> Any:
        """Do a command and return its answer; one that fails fails the test."""
        self._script.say({"op": op, **command})
        answer = self._script.next()
        assert "ok" in answer, answer
        return answer["ok"]

    def refused(self, op: str, **command: Any) -> dict[str, Any]:
        """Do a command that fails, and return how."""
        self._script.say({"op": op, **command})
        answer: dict[str, Any] = self._script.next()
        assert "failed" in answer, answer
        return answer


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    with node.start(CLIENT) as script:
        yield Client(script)


@pytest.fixture
def chat() -> str:
    return uuid.uuid4().hex


def parts(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in message["parts"] if part["type"] == kind]


def check_message(message: dict[str, Any], scenario: Scenario) -> None:
    """The message that a page shows is what the table says, and nothing of it goes on for ever."""
    texts = parts(message, "text")
    visible = [part for part in texts if "providerMetadata" not in part]
    assert "".join(part["text"] for part in visible) == scenario.text
    assert "".join(part["text"] for part in texts if part not in visible) == scenario.refusal
    assert "".join(part["text"] for part in parts(message, "reasoning")) == scenario.reasoning
    assert {part["state"] for part in [*texts, *parts(message, "reasoning")]} <= {"done"}
    calls = parts(message, "dynamic-tool")
    states = {"ok": "output-available", "error": "output-error"}
    assert [(part["toolCallId"].rsplit(".", 1)[1], part["toolName"], part["state"]) for part in calls] == [
        (call, name, states[status]) for call, name, status in scenario.calls
    ]
    assert all(part["providerExecuted"] for part in calls)


def check_chunks(chunks: list[dict[str, Any]]) -> None:
    strict = StrictMessage(5)
    for chunk in chunks:
        strict.take(chunk)
    assert strict.last


@pytest.mark.parametrize("sdk", [5, 7])
@pytest.mark.parametrize("scenario", PLAYED, ids=[one.name for one in PLAYED])
def test_a_scenario_is_the_message_that_the_table_says(
    scenario: Scenario, sdk: int, frontends: Frontends, client: Client, chat: str
) -> None:
    api = f"{frontends.url}/v1/ai-sdk/{scenario.name}"
    seen = client.ask("stream", api=api, chat=chat, text="go", sdk=sdk)
    after = client.ask("reconnect", api=api, chat=chat)
    shown = httpx2.get(f"{api}/{chat}", trust_env=False).json()["messages"]

    check_chunks(seen["chunks"])
    assert seen["wrong"] == []
    if seen["message"] is not None:
        check_message(seen["message"], scenario)
    for message in shown[1:]:  # what the page is given when it is opened again
        check_message(message, scenario)
        assert message["id"] == seen["message"]["id"]
    assert (seen["error"] is not None) is (scenario.end == "failed")
    assert after is None  # nothing to resume once it has ended
    assert not any(secret in json.dumps(seen) for secret in SECRETS)


@pytest.mark.parametrize(
    ("agent", "body"),
    [
        ("scripted", "whole"),
        ("tools", "last"),
        ("redacted", "whole"),
        ("failing", "last"),
        ("failing", "whole"),
    ],
)
def test_the_demos_agents_are_whole_messages(
    agent: str, body: str, frontends: Frontends, client: Client, chat: str
) -> None:
    api = f"{frontends.url}/v1/ai-sdk/{agent}"
    client.ask("open", name=agent, api=api, chat=chat, body=body)
    client.ask("say", name=agent, text="go")
    seen = client.ask("settle", name=agent)

    message = seen["messages"][-1]
    assert [one["role"] for one in seen["messages"]] == ["user", "assistant"]
    assert seen["status"] == ("error" if agent == "failing" else "ready")
    assert len(parts(message, "reasoning")) > 0
    assert all(part["state"] == "done" for part in parts(message, "text") + parts(message, "reasoning"))
    states = [part["state"] for part in parts(message, "dynamic-tool")]
    assert sorted(states) == (["output-available", "output-error"] if agent == "tools" else [])
    assert message["metadata"]["runId"] == message["id"]
    if agent != "failing":
        assert message["metadata"]["usage"]["outputTokens"] > 0


# coming back


@pytest.mark.parametrize("name", ["held-reasoning", "held-arguments"])
def test_two_tabs_resume_in_the_middle_and_have_one_whole_message(
    name: str, frontends: Frontends, client: Client, chat: str
) -> None:
    scenario = BY_NAME[name]
    api = f"{frontends.url}/v1/ai-sdk/{name}"
    middle = "before " if name == "held-reasoning" else "input-streaming"
    client.ask("open", name="first", api=api, chat=chat)
    client.ask("say", name="first", text="go")
    cut = client.ask("until", name="first", words=middle)
    client.ask("stop", name="first")  # drops the connection, and nothing else
    client.ask("open", name="second", api=api, chat=chat, messages=cut["messages"])
    client.ask("open", name="third", api=api, chat=chat)
    for tab in ("second", "third"):
        client.ask("resume", name=tab)
        client.ask("until", name=tab, words=middle, status="streaming")
    frontends.open(name)
    second, third = (client.ask("settle", name=tab) for tab in ("second", "third"))

    for seen, roles in ((second, ["user", "assistant"]), (third, ["assistant"])):
        assert (seen["status"], seen["error"]) == ("ready", None)
        assert [one["role"] for one in seen["messages"]] == roles
        check_message(seen["messages"][-1], scenario)
    assert second["messages"][-1] == third["messages"][-1]
    assert second["messages"][-1]["id"] == cut["messages"][-1]["id"]


def test_resuming_after_the_end_is_quiet(frontends: Frontends, client: Client, chat: str) -> None:
    api = f"{frontends.url}/v1/ai-sdk/reasoning-then-text"
    client.ask("open", name="a", api=api, chat=chat)
    client.ask("say", name="a", text="go")
    before = client.ask("settle", name="a")
    client.ask("resume", name="a")
    after = client.ask("settle", name="a")

    assert after == before
    assert after["status"] == "ready"


def test_stop_at_the_server_ends_the_message_in_every_tab(
    frontends: Frontends, client: Client, chat: str
) -> None:
    api = f"{frontends.url}/v1/ai-sdk/cancelled"
    for tab in ("a", "b"):
        client.ask("open", name=tab, api=api, chat=chat)
    client.ask("say", name="a", text="go")
    client.ask("until", name="a", words='"and"')
    client.ask("resume", name="b")
    client.ask("until", name="b", words='"and"')
    stopped = httpx2.post(f"{api}/{chat}/stop", json={}, trust_env=False).json()
    seen = [client.ask("settle", name=tab) for tab in ("a", "b")]

    assert stopped["stopped"] is True
    for one in seen:
        message = one["messages"][-1]
        assert one["status"] == "ready"
        check_message(message, BY_NAME["cancelled"])
        assert message["metadata"]["cancelled"] == {"reason": "a client asked"}


def test_a_server_that_dies_is_no_end_and_its_message_is_told_to_have_failed(
    client: Client, chat: str, tmp_path: Path
) -> None:
    arguments = ("-m", "agentkit_server", "--port", "0", "--engine", f"sqlite:///{tmp_path}/log.db")
    with process(*arguments, env={"LOCAL": "0"}) as server:
        client.ask("open", name="a", api=f"http://127.0.0.1:{server.port}/v1/ai-sdk/scripted", chat=chat)
        client.ask("say", name="a", text="go")
        client.ask("until", name="a", words="The user has sent")
        server.kill()
        cut = client.ask("settle", name="a")
    with process(*arguments, env={"LOCAL": "0"}) as server:
        client.ask("open", name="b", api=f"http://127.0.0.1:{server.port}/v1/ai-sdk/scripted", chat=chat)
        client.ask("resume", name="b")
        resumed = client.ask("settle", name="b")

    assert (cut["status"], cut["error"]) == ("error", "terminated")
    assert resumed["status"] == "error"
    [message] = resumed["messages"]
    assert message["id"] == cut["messages"][-1]["id"]
    assert message["metadata"]["error"]["code"] == "owner_lost"
    assert parts(message, "reasoning")[0]["state"] == "done"


# more than one message


def test_a_chat_goes_on_and_an_answer_is_made_again(frontends: Frontends, client: Client, chat: str) -> None:
    api = f"{frontends.url}/v1/ai-sdk/parallel-tools"
    client.ask("open", name="a", api=api, chat=chat)
    client.ask("say", name="a", text="one")
    client.ask("settle", name="a")
    client.ask("say", name="a", text="two")
    seen = client.ask("settle", name="a")
    old = seen["messages"][-1]["id"]
    client.ask("regenerate", name="a")
    again = client.ask("settle", name="a")

    ids = [one["id"] for one in again["messages"]]
    assert [one["role"] for one in again["messages"]] == ["user", "assistant"] * 2
    assert len(set(ids)) == 4
    assert old not in ids
    for message in (again["messages"][1], again["messages"][3]):
        check_message(message, BY_NAME["parallel-tools"])
    calls = [part["toolCallId"] for one in again["messages"] for part in parts(one, "dynamic-tool")]
    assert len(set(calls)) == 4


def test_what_the_server_refuses_is_an_error_with_its_words(
    frontends: Frontends, client: Client, chat: str
) -> None:
    answer = client.refused("stream", api=f"{frontends.url}/v1/ai-sdk/nobody", chat=chat, text="go")

    assert json.loads(answer["failed"])["status"] == 404


# people, and the page's own tools


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def asking_agents() -> list[Agent]:
    """An agent that asks a person three times, in two steps; one that asks the page."""
    payer = ScriptedModel(
        [Think("hm"), Call("pay", {"amount": 1}, id="c1"), Call("pay", {"amount": 2}, id="c2")],
        [Call("pay", {"amount": 3}, id="c1")],
        [Say("all paid")],
        repeat=True,
    )
    guide = ScriptedModel(
        [Say("Let me look. "), Call("locate", {"zoom": 3}, id="c1")], [Say("There.")], repeat=True
    )
    return [
        Agent("payer", model=payer, tools=[pay]),
        Agent("guide", model=guide, tools=[client_tool("locate")]),
    ]


@pytest.fixture(scope="module", params=[6, 7])
def asking_url(request: pytest.FixtureRequest) -> Iterator[str]:
    settings = QUICK.model_copy(
        update={"ai_sdk": request.param, "send_timeout": 10.0, "head_timeout": 20.0, "keep_alive": 30}
    )
    with running(settings, asking_agents()) as server:
        yield server.url


def test_calls_wait_for_a_person_who_answers_in_the_chat(asking_url: str, client: Client, chat: str) -> None:
    api = f"{asking_url}/v1/ai-sdk/payer"
    client.ask("open", name="a", api=api, chat=chat)
    client.ask("say", name="a", text="pay")
    asked = client.ask("settle", name="a")
    client.ask("open", name="reloaded", api=api, chat=chat)
    client.ask("resume", name="reloaded")
    reloaded = client.ask("settle", name="reloaded")
    first, second = parts(asked["messages"][-1], "dynamic-tool")
    client.ask("approve", name="a", id=first["approval"]["id"], approved=True)
    client.ask("approve", name="a", id=second["approval"]["id"], approved=False, reason="too dear")
    again = client.ask("until", name="a", words="approval-requested", status="ready")
    third = parts(again["messages"][-1], "dynamic-tool")[-1]
    client.ask("approve", name="a", id=third["approval"]["id"], approved=True)
    done = client.ask("until", name="a", words="all paid", status="ready")

    assert [part["state"] for part in (first, second)] == ["approval-requested"] * 2
    assert reloaded["messages"][-1]["parts"] == asked["messages"][-1]["parts"]
    assert [one["role"] for one in done["messages"]] == ["user", "assistant"]
    calls = parts(done["messages"][-1], "dynamic-tool")
    assert [(part["state"], part.get("output")) for part in calls] == [
        ("output-available", "paid 1"),
        ("output-denied", None),
        ("output-available", "paid 3"),
    ]
    assert done["error"] is None


def test_the_pages_own_tool_is_answered_by_the_page(asking_url: str, client: Client, chat: str) -> None:
    api = f"{asking_url}/v1/ai-sdk/guide"
    client.ask("open", name="a", api=api, chat=chat, tools={"locate": {"lat": 59.9}})
    client.ask("say", name="a", text="where?")
    done = client.ask("until", name="a", words="There.", status="ready")

    assert [one["role"] for one in done["messages"]] == ["user", "assistant"]
    [call] = parts(done["messages"][-1], "dynamic-tool")
    assert (call["state"], call["output"]) == ("output-available", {"lat": 59.9})
    assert "".join(part["text"] for part in parts(done["messages"][-1], "text")) == "Let me look. There."
