"""What an AG-UI input says that a thread does not have."""

from typing import Any

import pytest

from agentkit.content import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentkit_server.ag_ui_input import (
    ABOUT,
    Decision,
    RunAgentInput,
    Said,
    Thread,
    read_decisions,
    read_said,
    read_tools,
)
from agentkit_transports.problem import ProblemError

pytestmark = pytest.mark.pure

Json = dict[str, Any]

TALKED = (Message.user("hi"), Message("assistant", (TextBlock("hello"),), run="run_1"))
CALLED = (
    Message.user("where am I?"),
    Message("assistant", (ToolUseBlock("c1", "locate", "{}"), ToolUseBlock("c2", "rain", "{}")), run="run_1"),
    Message("tool", (ToolResultBlock("c2", "rain", (TextBlock("none"),)),), run="run_1"),
)


def body(*messages: Json, **more: Any) -> RunAgentInput:
    return RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": list(messages), **more})


def user(text: str, id: str = "") -> Json:  # noqa: A002 - the wire's word
    return {"id": id or text, "role": "user", "content": text}


def other(role: str, content: object = "x", **more: Any) -> Json:
    return {"id": f"{role}-1", "role": role, "content": content, **more}


def texts(said: Said) -> list[object]:
    return [one.text if isinstance(one, TextBlock) else one for one in said.input]


@pytest.mark.parametrize(
    ("messages", "thread", "wanted"),
    [
        pytest.param([user("hi")], Thread(), ["hi"], id="the first message"),
        pytest.param([user("hi"), other("assistant"), user("more")], Thread(TALKED, "hi"), ["more"], id="the next one"),
        pytest.param([user("more")], Thread(TALKED, "hi"), ["more"], id="a client that sends only the last"),
        pytest.param([user("hi"), user("a"), user("b")], Thread(TALKED, "hi"), ["a", "b"], id="two at once"),
        pytest.param([user("old"), other("assistant"), user("new")], Thread(TALKED), ["new"], id="nothing known of the client"),
        pytest.param([user("hi"), other("reasoning"), user("new")], Thread(TALKED), ["new"], id="an answer of reasoning only"),
        pytest.param([], Thread(TALKED, "hi"), [], id="nothing"),
        pytest.param([other("assistant")], Thread(TALKED), [], id="no user"),
        pytest.param([other("activity", {"a": 1}), user("hi")], Thread(), ["hi"], id="an activity that came back"),
    ],
)  # fmt: skip
def test_only_what_is_new_is_said(messages: list[Json], thread: Thread, wanted: list[str]) -> None:
    assert texts(read_said(body(*messages), thread)) == wanted


def test_the_last_message_is_remembered_and_asked_again_where_nothing_is_new() -> None:
    thread = Thread(TALKED, "u1")

    fresh = read_said(body(user("hi", "u1"), user("more", "u2")), thread)
    again = read_said(body(user("hi", "u1")), thread)

    assert (fresh.last, fresh.is_again) == ("u2", False)
    assert (texts(again), again.last, again.is_again) == (["hi"], "u1", True)


def test_results_of_open_calls_come_first_and_those_of_others_are_history() -> None:
    messages = [
        other("tool", "here", toolCallId="run_1.1.c1"),
        other("tool", "again", toolCallId="run_1.1.c2"),
        other("tool", "whose?", toolCallId="run_0.1.c1"),
        user("and?"),
    ]

    said = read_said(body(*messages), Thread(CALLED, "x"))

    assert said.input == (ToolResultBlock("c1", "locate", (TextBlock("here"),)), TextBlock("and?"))


@pytest.mark.parametrize(
    ("message", "result"),
    [
        pytest.param(
            other("tool", "", toolCallId="c1", error="no permission"),
            ToolResultBlock("c1", "locate", (TextBlock("no permission"),), "error"),
            id="an error, by the provider's id",
        ),
        pytest.param(
            other("tool", [{"type": "text", "text": "here"}], toolCallId="run_1.7.c1"),
            ToolResultBlock("c1", "locate", (TextBlock("here"),)),
            id="parts",
        ),
        pytest.param(
            other("tool", "", toolCallId="run_1.1.c1"),
            ToolResultBlock("c1", "locate", (TextBlock(""),)),
            id="nothing",
        ),
    ],
)
def test_a_result_alone_is_something_new(message: Json, result: ToolResultBlock) -> None:
    assert read_said(body(message), Thread(CALLED, "x")).input == (result,)


def test_an_empty_thread_takes_what_was_said_elsewhere_but_no_state() -> None:
    messages = [
        other("system", "be nice"),
        user("where am I?"),
        other("reasoning", "hm", encryptedValue="c2VjcmV0"),
        other("assistant", "let me see", toolCalls=[{"id": "c1", "type": "function", "function": {"name": "locate", "arguments": "{}"}}]),
        other("tool", "Oslo", toolCallId="c1"),
        other("tool", "lost", toolCallId="c9"),
        other("assistant", "in Oslo"),
        user("thanks"),
    ]  # fmt: skip

    said = read_said(body(*messages), Thread())

    assert [message.role for message in said.input if isinstance(message, Message)] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert said.input[1] == Message.assistant([TextBlock("let me see"), ToolUseBlock("c1", "locate", "{}")])
    assert said.input[2] == Message("tool", (ToolResultBlock("c1", "locate", (TextBlock("Oslo"),)),))
    last = said.input[-1]
    assert isinstance(last, Message)
    assert last.text == f"{ABOUT}\n- be nice\n\nthanks"
    assert "c2VjcmV0" not in repr(said)


def test_what_the_page_says_of_itself_is_said_once() -> None:
    context = [{"description": "open file", "value": "a.py"}, {"value": "dark mode"}]

    first = read_said(body(user("hi"), context=context), Thread())
    second = read_said(body(user("more"), context=context), Thread(TALKED, "hi", first.context))
    third = read_said(body(user("more"), context=context[:1]), Thread(TALKED, "hi", first.context))

    assert texts(first) == [f"{ABOUT}\n- open file: a.py\n- dark mode\n\n", "hi"]
    assert texts(second) == ["more"]
    assert texts(third) == [f"{ABOUT}\n- open file: a.py\n\n", "more"]
    assert second.context == first.context != third.context


@pytest.mark.parametrize(
    ("part", "block"),
    [
        pytest.param({"type": "text", "text": "x"}, TextBlock("x"), id="text"),
        pytest.param(
            {"type": "image", "source": {"type": "data", "value": "aWk=", "mimeType": "image/png"}},
            ImageBlock("image/png", "aWk="),
            id="image",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "url", "value": "https://x.example/a.pdf"}},
            DocumentBlock("", "", "https://x.example/a.pdf"),
            id="document",
        ),
        pytest.param(
            {"type": "binary", "mimeType": "image/png", "url": "https://x.example/a.png", "filename": "a"},
            ImageBlock("image/png", "", "https://x.example/a.png"),
            id="binary of before",
        ),
    ],
)
def test_parts_of_a_message_are_blocks(part: Json, block: Block) -> None:
    assert read_said(body(other("user", [part])), Thread()).input == (block,)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        pytest.param(other("user", {"a": 1}), "messages.0.content", id="an object"),
        pytest.param(other("user", [{"type": "audio", "source": {"type": "url", "value": "x:"}}]), "messages.0.content.0", id="audio"),
        pytest.param(other("user", [{"type": "image", "source": {"type": "file", "value": "f"}}]), "messages.0.content.0", id="a file of a provider"),
        pytest.param(other("user", [{"type": "image", "source": {"type": "data", "value": "*", "mimeType": "image/png"}}]), "messages.0.content[0].data", id="no base64"),
    ],
)  # fmt: skip
def test_what_a_user_cannot_say_is_refused_by_name(message: Json, field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        read_said(body(message), Thread())

    assert (refused.value.problem.status, refused.value.problem.field) == (422, field)


def test_tools_of_the_page_are_client_tools() -> None:
    [tool] = read_tools(
        body(tools=[{"name": "locate", "description": "where", "parameters": {"type": "object"}}])
    )

    assert (tool.name, tool.is_client, tool.parameters) == (
        "locate",
        True,
        {"type": "object", "properties": {}},
    )
    with pytest.raises(ProblemError, match="parameters"):
        read_tools(body(tools=[{"name": "x", "description": "", "parameters": {"type": "string"}}]))


@pytest.mark.parametrize(
    ("entry", "decision"),
    [
        ({"status": "resolved", "payload": {"approved": True}}, Decision("a", approved=True)),
        ({"status": "resolved", "payload": True}, Decision("a", approved=True)),
        ({"status": "resolved", "payload": {"approved": False, "reason": "no"}}, Decision("a", approved=False, reason="no")),
        ({"status": "cancelled"}, Decision("a", approved=False, reason="the user did not answer")),
    ],
)  # fmt: skip
def test_a_person_says_yes_or_no(entry: Json, decision: Decision) -> None:
    assert read_decisions(body(resume=[{"interruptId": "a", **entry}])) == [decision]


@pytest.mark.parametrize("payload", [None, "yes", {}, {"approved": "true"}, {"approved": 1}, ["approved"]])
def test_nothing_else_grants_a_call(payload: object) -> None:
    with pytest.raises(ProblemError, match=r"resume\.0\.payload"):
        read_decisions(body(resume=[{"interruptId": "a", "status": "resolved", "payload": payload}]))
