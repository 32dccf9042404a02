"""Tools that the caller of a run answers: the run ends with their calls open, and the next one goes on from their results."""

from typing import Any

import anyio
import pytest

from agentkit import (
    Agent,
    ConfigurationError,
    Message,
    Output,
    TextBlock,
    ToolResultBlock,
    client_tool,
    generate_text,
    tool,
)
from agentkit.testing import Call, RecordingEmitter, Say, ScriptedModel, Think

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
locate = client_tool("locate", "Find a place on the user's map.", SCHEMA)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def answer(call: str, text: str, name: str = "locate") -> ToolResultBlock:
    return ToolResultBlock(call, name, (TextBlock(text),))


async def test_a_run_ends_well_where_a_client_tool_is_called() -> None:
    model = ScriptedModel(
        [Think("where?", signature="s"), Say("Let me see. "), Call("locate", {"city": "Oslo"}, id="c1")]
    )
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", client_tools=[locate])

    assert (result.termination, result.finish, result.text) == ("client_tools", "tool_calls", "Let me see. ")
    assert [(use.id, use.name, use.input) for use in result.open_calls] == [
        ("c1", "locate", '{"city": "Oslo"}')
    ]
    assert [message.role for message in result.messages] == ["assistant"]
    (spec,) = model.requests[0].tools
    assert (spec.name, spec.parameters) == ("locate", SCHEMA)


async def test_the_next_run_of_the_thread_begins_with_the_results() -> None:
    model = ScriptedModel([Call("locate", {"city": "Oslo"}, id="c1")], "At 59.9 north.")
    agent = Agent("a", model=model, tools=[locate])
    with anyio.fail_after(20):
        first = await agent.run("Where is Oslo?")
        second = await agent.run([answer("c1", "59.9 N")])

    assert [use.id for use in first.open_calls] == ["c1"]
    assert (second.text, second.termination, second.open_calls) == ("At 59.9 north.", "completed", ())
    sent = model.requests[1].messages
    assert [message.role for message in sent] == ["user", "assistant", "tool"]
    assert sent[2].content == (answer("c1", "59.9 N"),)
    assert [m.role for m in await agent.messages()] == ["user", "assistant", "tool", "assistant"]


async def test_own_calls_of_the_same_step_are_run_and_keep_their_place() -> None:
    model = ScriptedModel(
        [
            Call("locate", {"city": "Oslo"}, id="c1"),
            Call("add", {"a": 1, "b": 2}, id="c2"),
            Call("locate", {"city": "Rome"}, id="c3"),
        ],
        "ok",
    )
    emitter = RecordingEmitter()
    agent = Agent("a", model=model, tools=[add], emitter=emitter)
    with anyio.fail_after(20):
        first = await agent.run("go", client_tools=[locate])
        await agent.run([answer("c3", "south"), answer("c1", "north")], client_tools=[locate])

    assert [use.id for use in first.open_calls] == ["c1", "c3"]
    assert [event.type for event in emitter.events if event.type.startswith("tool_execution")] == [
        "tool_execution.started",
        "tool_execution.finished",
    ]
    results = [
        block
        for message in model.requests[1].messages
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    assert [(block.tool_use_id, block.text) for block in results] == [
        ("c1", "north"),
        ("c2", "3"),
        ("c3", "south"),
    ]


async def test_watchers_learn_which_tools_are_the_callers() -> None:
    emitter = RecordingEmitter()
    agent = Agent("a", model=ScriptedModel("1", "2"), tools=[add], emitter=emitter)
    with anyio.fail_after(20):
        await agent.run("go", client_tools=[locate])
        await agent.run("go")

    started = [event for event in emitter.events if event.type == "run.started"]
    assert [event.client_tools for event in started] == [["locate"], None]  # type: ignore[union-attr]


async def test_a_user_may_say_something_beside_the_results_or_instead_of_them() -> None:
    model = ScriptedModel(
        [Call("locate", {"city": "Oslo"}, id="c1")], [Call("locate", {"city": "Oslo"}, id="c2")], "ok"
    )
    agent = Agent("a", model=model, tools=[locate])
    with anyio.fail_after(20):
        await agent.run("go")
        await agent.run([answer("c1", "north"), TextBlock("and now?")])
        await agent.run("never mind")

    second, third = (request.messages for request in model.requests[1:])
    assert [message.role for message in second] == ["user", "assistant", "tool", "user"]
    assert [message.role for message in third][4:] == ["assistant", "tool", "user"]
    (left,) = third[5].content
    assert isinstance(left, ToolResultBlock)
    assert (left.tool_use_id, left.status) == ("c2", "interrupted")


async def test_a_call_that_cannot_be_read_is_told_to_the_model_and_not_to_the_caller() -> None:
    model = ScriptedModel([Call("locate", "{broken", id="c1")], "sorry")
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", client_tools=[locate])

    assert (result.text, result.open_calls) == ("sorry", ())
    assert "not a JSON object" in model.requests[1].messages[-1].text


async def test_a_choice_holds_for_the_first_step_only() -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 1})], "2")
    with anyio.fail_after(20):
        await generate_text(model=model, prompt="go", tools=[add], tool_choice="required", stop=["END"])

    assert [request.tool_choice for request in model.requests] == ["required", "auto"]
    assert [request.stop for request in model.requests] == [("END",), ("END",)]


async def test_an_output_of_any_schema_goes_to_the_model() -> None:
    model = ScriptedModel("{}")
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", output_type=Output(SCHEMA, str))

    assert model.requests[0].output_schema == SCHEMA
    assert result.output == "{}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"client_tools": [locate, locate]}, "two tools", id="twice"),
        pytest.param({"tools": [locate], "client_tools": [locate]}, "two tools", id="own and client"),
        pytest.param({"client_tools": [add]}, "has a function", id="a function"),
        pytest.param({"tool_choice": ""}, "tool_choice", id="choice"),
        pytest.param({"stop": "END"}, "stop", id="stop"),
        pytest.param({"stop": [""]}, "stop", id="empty stop"),
    ],
)
async def test_impossible_options_are_refused(options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await generate_text(model=ScriptedModel(), prompt="go", **options)


def test_a_schema_must_be_an_objects() -> None:
    assert client_tool("now").parameters == {"type": "object", "properties": {}}
    with pytest.raises(ConfigurationError, match="object's schema"):
        client_tool("f", "", {"type": "string"})
    with pytest.raises(ConfigurationError, match="must be a JSON Schema"):
        client_tool("f", "", "string")  # type: ignore[arg-type]


async def test_a_whole_history_may_begin_a_thread() -> None:
    model = ScriptedModel("three")
    agent = Agent("a", model=model)
    said = [
        Message.system("Be short."),
        Message.user("one?"),
        Message.assistant("one"),
        Message.user("and now?"),
    ]
    with anyio.fail_after(20):
        result = await agent.run(said, thread="fresh")

    assert result.text == "three"
    assert list(model.requests[0].messages) == said
    assert (await agent.messages(thread="fresh"))[:4] == said


async def test_an_agent_that_is_a_tool_offers_none_to_its_model() -> None:
    inner = ScriptedModel("inside")
    helper = Agent("helper", model=inner, tools=[locate, add], description="Helps.").as_tool()
    model = ScriptedModel([Call("helper", {"message": "?"})], "outside")
    with anyio.fail_after(20):
        result = await generate_text(model=model, prompt="go", tools=[helper])

    assert result.text == "outside"
    assert [spec.name for spec in inner.requests[0].tools] == ["add"]
