import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import anyio
import anyio.from_thread
import pytest
from pydantic import BaseModel, Field

from agentkit import (
    ConfigurationError,
    ImageBlock,
    TextBlock,
    Tool,
    ToolContext,
    ToolError,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from agentkit.tool import by_name

pytestmark = pytest.mark.anyio

USE = ToolUseBlock("c1", "t")


class Unit(Enum):
    METRE = "m"
    FOOT = "ft"


class Place(BaseModel):
    name: str
    height: float = 0.0


@tool
def survey(
    place: Place,
    unit: Unit = Unit.METRE,
    mode: Literal["fast", "exact"] = "fast",
    note: str | None = None,
    tags: Annotated[list[str], Field(max_length=2, description="Words")] = [],  # noqa: B006 - a schema's default
    *,
    context: ToolContext,
) -> str:
    """Measure a place.

    More about it.

    Args:
        place: Where,
            and how high.
        mode (str): How.
        context: not the model's matter.

    Returns:
        Something.
    """
    return f"{place.name} {unit.value} {mode} {note} {tags} {context.call}"


async def call(one: Tool, raw: str = "{}", context: ToolContext | None = None) -> ToolResultBlock:
    return await one.call(USE, one.check(raw), context or ToolContext(call="c1"))


def test_the_schema_comes_from_signature_and_docstring() -> None:
    assert (survey.name, survey.description) == ("survey", "Measure a place.\n\nMore about it.")
    properties: Any = survey.parameters["properties"]
    assert set(properties) == {"place", "unit", "mode", "note", "tags"}
    assert survey.parameters["required"] == ["place"]
    assert properties["place"]["description"] == "Where, and how high."
    assert properties["mode"] == {
        "default": "fast",
        "description": "How.",
        "enum": ["fast", "exact"],
        "type": "string",
    }
    assert properties["tags"]["description"] == "Words"
    assert properties["tags"]["maxItems"] == 2


async def test_arguments_are_converted_and_defaults_filled() -> None:
    result = await call(survey, '{"place": {"name": "K2", "height": 8611}, "unit": "ft", "tags": ["a"]}')

    assert result == ToolResultBlock("c1", "t", (TextBlock("K2 ft fast None ['a'] c1"),))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param("{", "are not JSON", id="broken"),
        pytest.param("[1]", "must be a JSON object", id="a list"),
        pytest.param("{}", "- place: Field required", id="missing"),
        pytest.param(
            '{"place": {"name": 3}}', "- place.name: Input should be a valid string", id="wrong type inside"
        ),
        pytest.param(
            '{"place": {"name": "a"}, "colour": 1}', "- colour: Extra inputs are not permitted", id="unknown"
        ),
        pytest.param(
            '{"place": {"name": "a"}, "tags": ["a", "b", "c"]}',
            "- tags: List should have at most 2",
            id="bound",
        ),
    ],
)
def test_what_does_not_fit_is_said_to_the_model(raw: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        survey.check(raw)


def test_blank_arguments_are_none() -> None:
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    assert ping.check("  ") == {}
    assert ping.parameters == {"additionalProperties": False, "properties": {}, "type": "object"}


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("plain", "plain", id="text"),
        pytest.param({"a": [1, None, True]}, '{"a":[1,null,true]}', id="dict"),
        pytest.param([], "[]", id="an empty list"),
        pytest.param(None, "null", id="None"),
        pytest.param(Point(1), '{"x":1}', id="dataclass"),
        pytest.param(Place(name="a"), '{"name":"a","height":0.0}', id="pydantic model"),
        pytest.param("NaN", "NaN", id="the word NaN"),
        pytest.param("a\ud83d", "a\ufffd", id="half a surrogate pair"),
    ],
)
async def test_results_are_text_or_json_and_never_a_repr(value: object, text: str) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    assert await call(give) == ToolResultBlock("c1", "t", (TextBlock(text),))


async def test_content_blocks_are_results_as_they_are() -> None:
    blocks: list[TextBlock | ImageBlock] = [TextBlock("look"), ImageBlock("image/png", "AA")]

    @tool
    def look() -> list[TextBlock | ImageBlock]:
        """Look."""
        return blocks

    assert (await call(look)).content == tuple(blocks)


async def test_rubbish_is_an_error_result_that_names_the_type() -> None:
    @tool
    def rubbish() -> object:
        """Give rubbish."""
        return threading.Lock()

    result = await call(rubbish)
    assert (result.status, "lock" in result.text) == ("error", True)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}], ids=repr)
async def test_numbers_that_are_no_json_are_an_error_result(value: object) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    result = await call(give)
    assert (result.status, "not JSON" in result.text) == ("error", True)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_is_no_exception_is_an_error_result_too(kind: str) -> None:
    class Strange(BaseException):
        pass

    async def strange_async() -> str:
        """Raise."""
        raise Strange("odd")

    def strange_thread() -> str:
        """Raise."""
        raise Strange("odd")

    function: Callable[..., Any] = strange_async if kind == "async" else strange_thread
    assert await call(tool(function)) == ToolResultBlock("c1", "t", (TextBlock("Strange: odd"),), "error")


async def test_another_loops_cancellation_is_its_own() -> None:
    @tool
    def nested() -> str:
        """Run a loop inside."""

        async def inner() -> None:
            task = asyncio.ensure_future(asyncio.sleep(1))
            task.cancel()
            await task

        asyncio.run(inner())
        return ""

    result = await call(nested)
    assert (result.status, result.text.startswith("CancelledError")) == ("error", True)


async def test_an_exception_is_an_error_result() -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise ValueError("no such row")

    assert await call(broken) == ToolResultBlock("c1", "t", (TextBlock("ValueError: no such row"),), "error")


async def test_a_tool_error_is_said_in_its_own_words_and_not_repeated() -> None:
    calls = []

    @tool(retries=3)
    async def picky() -> str:
        """Refuse."""
        calls.append(1)
        raise ToolError("only on Mondays")

    assert (await call(picky)).text == "only on Mondays"
    assert len(calls) == 1


async def test_retries_follow_an_exception_until_one_succeeds() -> None:
    calls = []

    @tool(retries=2)
    async def flaky() -> int:
        """Fail twice."""
        calls.append(1)
        if len(calls) < 3:
            raise OSError("busy")
        return len(calls)

    assert (await call(flaky)).text == "3"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_timeout_is_an_error_result(kind: str) -> None:
    seen = threading.Event()

    async def slow_async() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    def slow_thread(context: ToolContext) -> str:
        """Wait."""
        while not context.cancelled:
            seen.wait(0.01)
        seen.set()
        return ""

    function: Callable[..., Any] = slow_async if kind == "async" else slow_thread
    with anyio.fail_after(20):
        result = await call(tool(timeout=0.05)(function))

    assert (result.status, result.text) == ("error", f"{function.__name__} took longer than 0.05 s")
    assert kind == "async" or seen.wait(5)


async def test_a_functions_own_timeout_error_is_its_own() -> None:
    @tool
    async def inner() -> str:
        """Raise."""
        raise TimeoutError("the database")

    assert (await call(inner)).text == "TimeoutError: the database"


async def test_sync_functions_do_not_block_the_loop() -> None:
    gate, ran = threading.Event(), []

    @tool
    def block() -> str:
        """Block."""
        gate.wait(5)
        return "free"

    async with anyio.create_task_group() as group:

        async def work() -> None:
            ran.append((await call(block)).text)

        group.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert ran == ["free"]


async def test_concurrency_is_bounded() -> None:
    at_work, most = 0, 0

    @tool(max_concurrency=2)
    async def busy() -> str:
        """Work."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        at_work -= 1
        return "done"

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(call, busy)
    assert most == 2


async def test_progress_reaches_whoever_listens() -> None:
    told: list[tuple[str, object]] = []

    async def listen(message: str, data: object) -> None:
        told.append((message, data))

    @tool
    async def step(context: ToolContext) -> str:
        """Step."""
        await context.progress("half", 0.5)
        return "x"

    await call(step, context=ToolContext(progress=listen))
    assert told == [("half", 0.5)]


async def test_approval_may_depend_on_the_arguments() -> None:
    @tool(requires_approval=lambda arguments: arguments["amount"] > 100)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    assert [await pay.needs_approval({"amount": amount}) for amount in (1, 1000)] == [False, True]


def greet(name: str) -> str:
    return name


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tool(lambda x: x), id="no annotation and no name"),
        pytest.param(lambda: tool(name="a b")(greet), id="name"),
        pytest.param(lambda: tool(timeout=0)(greet), id="timeout"),
        pytest.param(lambda: tool(max_concurrency=0)(greet), id="concurrency"),
        pytest.param(lambda: by_name([survey, survey]), id="twice"),
        pytest.param(lambda: by_name([3]), id="no tool"),  # type: ignore[list-item]  # that is the point
    ],
)
def test_impossible_tools_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_parameters_that_no_model_can_give_are_refused() -> None:
    def many(*values: int) -> str:
        """Many."""
        return ""

    def bare(x) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 - that is the point
        """Bare."""
        return ""

    def odd(x: threading.Lock) -> str:
        """Odd."""
        return ""

    for function in (many, bare, odd):
        with pytest.raises(ConfigurationError, match=function.__name__):
            tool(function)


def test_a_parameter_may_be_named_like_a_method_of_pydantic() -> None:
    @tool
    def write(json: str, copy: bool = False) -> str:
        """Write."""
        return json

    assert write.check('{"json": "x"}') == {"json": "x", "copy": False}


def test_sphinx_docstrings_are_read_too() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add.

        :param a: the first
        :param int b: the second
        """
        return a + b

    properties: Any = add.parameters["properties"]
    assert (add.description, properties["a"]["description"], properties["b"]["description"]) == (
        "Add.",
        "the first",
        "the second",
    )


def test_plain_functions_are_made_tools_and_a_mapping_names_them() -> None:
    def ping() -> str:
        """Ping."""
        return ""

    assert list(by_name([ping])) == ["ping"]
    assert by_name({"other": survey})["other"].name == "other"
