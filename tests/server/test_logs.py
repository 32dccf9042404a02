"""Logs: whom a line is about, in both forms, and nothing of what was said unless asked for."""

import json
import logging
import sys
from collections.abc import Iterator
from io import StringIO

import anyio
import pytest
from asgi import client

from agentkit import Agent, Usage, tool
from agentkit.redaction import RedactWords
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think
from agentkit_server import create_app
from agentkit_server.logs import About, JSONFormatter, RunLog, TextFormatter, configure_logging

pytestmark = pytest.mark.anyio

CHAT = "/v1/agents/planner/threads/t1/chat"
SECRET = "Rumpelstilzchen"


@pytest.fixture
def written() -> Iterator[StringIO]:
    """What the house logs, as JSON."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    handler.addFilter(About())
    house = logging.getLogger("agentkit")
    level = house.level
    house.addHandler(handler)
    house.setLevel(logging.DEBUG)
    yield stream
    house.removeHandler(handler)
    house.setLevel(level)


def lines(stream: StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@tool
def look(name: str) -> str:
    """Look somebody up."""
    logging.getLogger("agentkit.tools").warning("looking")
    return f"{name} lives in the wood"


def script() -> ScriptedModel:
    return ScriptedModel(
        [Think(SECRET, signature="sig-secret"), Call("look", {"name": SECRET}), Usage(1, 2)],
        [Say(SECRET), Usage(3, 4)],
        [Say("so far"), Fail(f"{SECRET} broke it")],
        provider="p",
        model="m",
    )


async def chat(agent: Agent, observer: RunLog, times: int = 1) -> str:
    app = create_app([agent], observers=[observer])
    async with client(app) as http:
        answers = [await http.post(CHAT, json={"message": f"is it {SECRET}?"}) for _ in range(times)]
    await app.aclose()
    run: str = answers[-1].json().get("run", "")
    return run


async def test_a_run_its_steps_and_calls_have_a_line_each_and_a_tools_own_lines_name_the_run(
    written: StringIO,
) -> None:
    run = await chat(Agent("planner", model=script(), tools=[look]), RunLog())

    found = lines(written)
    assert [line["message"] for line in found] == [
        "step ended", "looking", "tool ok", "step ended", "run completed",
    ]  # fmt: skip
    assert all((line["run"], line["thread"], line["agent"]) == (run, "t1", "planner") for line in found)
    last = found[-1]
    assert (last["level"], last["logger"], last["end"], last["steps"]) == (
        "info",
        "agentkit.runs",
        "completed",
        2,
    )
    assert (last["input_tokens"], last["output_tokens"]) == (4, 6)
    assert found[0]["model"] == "m"
    assert found[2]["tool"] == "look"


async def test_nothing_of_what_was_said_is_written(written: StringIO) -> None:
    await chat(Agent("planner", model=script(), tools=[look]), RunLog(), times=2)

    found = lines(written)
    assert found[-1]["error"] == "model_stream"
    assert SECRET not in written.getvalue()
    assert "sig-secret" not in written.getvalue()


async def test_with_content_it_is_as_far_as_the_redact_hook_allows(written: StringIO) -> None:
    agent = Agent("planner", model=script(), tools=[look], redact=RedactWords([SECRET]))
    await chat(agent, RunLog(content=True))

    found = lines(written)
    assert SECRET not in written.getvalue()
    assert "sig-secret" not in written.getvalue()
    assert found[0]["request"] == "is it [redacted]?"
    assert found[2]["result"] == "[redacted] lives in the wood"
    assert found[3]["answer"] == "[redacted]"


def test_a_line_for_people_names_the_run_behind_the_message() -> None:
    record = logging.makeLogRecord(
        {"name": "agentkit", "levelname": "INFO", "msg": "run %s", "args": ("ended",)}
    )
    record.about = {"run": "run_1", "owner": ""}

    line = TextFormatter().format(record)

    assert line.endswith(" INFO agentkit: run ended run=run_1")


def test_a_json_line_is_one_line_whatever_it_holds() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.makeLogRecord(
            {"name": "x", "levelname": "ERROR", "msg": "a\nb \ud800", "exc_info": (ValueError, error, None)}
        )
    record.thing = object()

    line = JSONFormatter().format(record)

    assert "\n" not in line
    line.encode()
    assert json.loads(line)["message"].startswith("a\nb")


def test_what_a_client_says_ends_no_line_and_steers_no_terminal() -> None:
    said = "x\n2030-01-01 INFO agentkit.runs: forged\r\x1b[2J\x9b1m\u2028\u202e\ud83d"
    record = logging.makeLogRecord({"name": "a", "levelname": "INFO", "msg": "%s", "args": (said,)})
    record.request = said
    try:
        raise ValueError(said)
    except ValueError:
        record.exc_info = sys.exc_info()

    text, told = TextFormatter().format(record), JSONFormatter().format(record)

    first, *trace = text.splitlines()
    assert first.count("\\u000a2030") == 2
    assert all(line.startswith("  ") for line in trace)
    assert (set(text) | set(told)) & set("\r\x1b\x9b\u2028\u202e\ud83d") == set()
    assert json.loads(told)["message"] == said.replace("\ud83d", "\ufffd")


def test_the_level_is_the_houses_own_and_other_libraries_stay_quiet() -> None:
    root, house = logging.getLogger(), logging.getLogger("agentkit")
    before = (list(root.handlers), root.level, house.level)
    try:
        configure_logging("json", level="DEBUG")
        assert (root.level, house.level) == (logging.WARNING, logging.DEBUG)
        assert len(root.handlers) == 1
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        house.setLevel(before[2])


async def test_lines_of_runs_at_once_are_not_mixed_up(written: StringIO) -> None:
    @tool
    async def note(name: str) -> str:
        """Log."""
        await anyio.lowlevel.checkpoint()
        logging.getLogger("agentkit.tools").warning("for %s", name)
        return name

    agents = [
        Agent(
            name,
            model=ScriptedModel([Call("note", {"name": name})], "done"),
            tools=[note],
            observers=[RunLog()],
        )
        for name in ("one", "two", "three")
    ]
    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(agent.chat, "hi")

    said = [line for line in lines(written) if str(line["message"]).startswith("for ")]
    assert len(said) == 3
    assert all(line["message"] == f"for {line['agent']}" for line in said)
