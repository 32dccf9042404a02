"""What a client of chat completions may say. Whatever comes is a run that can be made, or a problem that names a member."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.agent import Agent
from agentkit.content import DocumentBlock, Message, TextBlock, ToolUseBlock
from agentkit.errors import ConfigurationError
from agentkit.input import read_input
from agentkit.options import make_spec
from agentkit.testing import ScriptedModel
from agentkit_server.body import parse
from agentkit_server.openai_request import ChatRequest, check_request, order_of, thread_of
from agentkit_server.service import RunOrder
from agentkit_transports.problem import ProblemError

pytestmark = pytest.mark.pure

AGENT = Agent("a", model=ScriptedModel())


def order(known: list[Message] | None = None, **members: Any) -> RunOrder:
    body = {"model": "a", "messages": [{"role": "user", "content": "hi"}], **members}
    request = parse(json.dumps(body).encode(), ChatRequest, max_depth=64)
    check_request(request)
    thread_of(request, "")
    return order_of(request, known or [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 3) | st.sampled_from(["", "a", "user", "text", "data:image/png;base64,aWk="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "url", "name", "function", "image_url", "file", "file_data"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "a"},
            {"type": "text", "text": ""},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWk="}},
            {"type": "image_url", "image_url": "data:image/png;base64,aWk="},
            {"type": "refusal", "refusal": "no"},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aWk=", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "f"}},
        ]
    )
    | JSON,
    max_size=3,
)
CALLS = st.lists(
    st.builds(
        lambda call, name, arguments: {
            "id": call,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        },
        st.sampled_from(["c1", "c2", ""]),
        st.sampled_from(["f", "g"]),
        st.sampled_from(["{}", "", "{", "[1]"]),
    ),
    max_size=2,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"])},
        optional={
            "content": st.sampled_from(["hi", "", None]) | PARTS,
            "tool_calls": CALLS,
            "tool_call_id": st.sampled_from(["c1", "c2", None]),
            "refusal": st.sampled_from(["no", None]),
            "name": JSON,
        },
    ),
    max_size=6,
)
OPTIONS = st.dictionaries(
    st.sampled_from(
        [
            "tools",
            "tool_choice",
            "stop",
            "response_format",
            "max_tokens",
            "temperature",
            "metadata",
            "n",
            "logprobs",
            "stream",
            "reasoning_effort",
            "seed",
        ]
    ),
    JSON,
    max_size=3,
)


@settings(max_examples=80)
@given(messages=MESSAGES, options=OPTIONS, keeps=st.booleans())
def test_whatever_comes_is_a_run_or_a_problem(messages: Any, options: Any, keeps: bool) -> None:
    known = [Message.user("before"), Message.assistant([ToolUseBlock("c1", "f", "{}")])] if keeps else []
    try:
        made = order(known, **{**options, "messages": messages})
    except ProblemError:
        return

    try:
        read = read_input(made.input)
        make_spec(AGENT.models, read, made.options)
    except ConfigurationError:  # said of the run as a whole: a problem too
        return
    assert read[-1].role in ("user", "tool")


def test_files_are_documents() -> None:
    part = {"type": "file", "file": {"file_data": "data:Application/PDF;base64,aWk=", "filename": "a.pdf"}}
    made = order(messages=[{"role": "user", "content": [part, {"type": "text", "text": "read"}]}])

    assert made.input == [
        Message.user([DocumentBlock("application/pdf", "aWk=", name="a.pdf"), TextBlock("read")])
    ]


@pytest.mark.parametrize("kind", ["thinking", "reasoning", "redacted_thinking"])
def test_reasoning_among_an_answers_parts_is_not_read(kind: str) -> None:
    answer = {
        "role": "assistant",
        "content": [{"type": kind, kind: "I know better."}, {"type": "text", "text": "Yes."}],
    }
    question = {"role": "user", "content": "And now?"}

    messages = order(messages=[{"role": "user", "content": "hi"}, answer, question]).input

    assert messages == [Message.user("hi"), Message.assistant("Yes."), Message.user("And now?")]


def test_on_a_thread_only_what_is_new_counts() -> None:
    known = [Message.system("Be short."), Message.user("hi"), Message.assistant("yes")]
    said = [
        {"role": "system", "content": "Be short."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "made up"},
        {"role": "user", "content": "and?"},
    ]

    assert order(known, messages=said).input == [Message.system("Be kind."), Message.user("and?")]


def test_metadata_goes_on_without_the_threads_name() -> None:
    assert order(metadata={"thread": "t1", "team": "x"}).metadata == {"team": "x"}


@pytest.mark.parametrize(
    ("header", "named", "thread"), [("", None, ""), ("a", None, "a"), ("", "b", "b"), ("a", "a", "a")]
)
def test_a_thread_has_one_name(header: str, named: str | None, thread: str) -> None:
    metadata = {} if named is None else {"thread": named}
    request = ChatRequest.model_validate({"model": "a", "messages": [{"role": "user"}], "metadata": metadata})

    assert thread_of(request, header) == thread


def test_two_names_of_a_thread_are_refused() -> None:
    request = ChatRequest.model_validate(
        {"model": "a", "messages": [{"role": "user"}], "metadata": {"thread": "b"}}
    )

    with pytest.raises(ProblemError, match="another thread"):
        thread_of(request, "a")
