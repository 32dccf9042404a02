"""A remote agent is used as a local one, over an application in process whose link breaks when the test says so."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable

import anyio
import httpx2
import pytest
from asgi_transport import ASGIStream

from agentkit.agent import Agent
from agentkit.content import ImageBlock, TextBlock, Usage
from agentkit.errors import (
    ConfigurationError,
    LimitError,
    LostEventsError,
    ModelStreamError,
    RemoteConnectionError,
    RemoteError,
    RunCancelled,
    ThreadBusy,
)
from agentkit.events import RunNotice, TextDelta, ToolApprovalRequested
from agentkit.limits import Limits
from agentkit.testing import Call, Fail, Refuse, Say, ScriptedModel, Think, Wait
from agentkit.tool import tool
from agentkit_server import Application, Settings, create_app
from agentkit_transports.clients import ClientSettings, RemoteAgent, connect_agent

pytestmark = pytest.mark.anyio

QUICK = ClientSettings(first_delay=0.001, longest_delay=0.01, call_timeout=3, idle_timeout=5)


@pytest.fixture
def anyio_backend() -> str:
    """The application runs on asyncio."""
    return "asyncio"


@tool(requires_approval=True)
def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


@tool
def look() -> str:
    """Look."""
    return "seen"


def agents() -> list[Agent]:
    think = Think("hm, well", pieces=4, signature="sig")
    return [
        Agent("quick", model=ScriptedModel([think, Say("and here it is", pieces=7), Usage(5, 7, 3)], repeat=True)),
        Agent("slow", model=ScriptedModel([Say("one two ", pieces=2), Wait(3600), Say("three")], repeat=True)),
        Agent("failing", model=ScriptedModel([Say("half of it"), Fail("broke off", "overloaded", retryable=True)], repeat=True)),
        Agent("refusing", model=ScriptedModel([Refuse("I will not")], repeat=True)),
        Agent("asking", model=ScriptedModel([Call("erase", {"path": "/x"})], [Say("done")], repeat=True), tools=[erase]),
        Agent("limited", model=ScriptedModel([Call("look", {}), Usage(5, 5)], repeat=True), tools=[look], limits=Limits(tokens=1)),
    ]  # fmt: skip


@pytest.fixture
async def app() -> AsyncIterator[Application]:
    one = create_app(agents(), settings=Settings(retry_ms=(1, 2)))
    yield one
    with anyio.fail_after(20):
        await one.aclose()


@pytest.fixture
def wire(app: Application) -> ASGIStream:
    return ASGIStream(app)


@pytest.fixture
def connect(wire: ASGIStream) -> Callable[[str], RemoteAgent]:
    def connect(name: str) -> RemoteAgent:
        return connect_agent(f"http://testserver/v1/agents/{name}", client=wire.client(), settings=QUICK)

    return connect


Connect = Callable[[str], RemoteAgent]


async def test_chat_returns_the_visible_text(connect: Connect) -> None:
    assert await connect("quick").chat("hello") == "and here it is"
    assert await connect("refusing").chat("hello") == ""


async def test_stream_yields_visible_text_and_nothing_else(connect: Connect) -> None:
    async with connect("quick").stream("hello") as text:
        pieces = [piece async for piece in text]

    assert "".join(pieces) == "and here it is"
    assert len(pieces) == 7


async def test_run_returns_all_that_came(connect: Connect) -> None:
    result = await connect("quick").run("hello")
    refused = await connect("refusing").run("hello")

    assert (result.text, result.refusal, result.finish, result.termination) == ("and here it is", None, "stop", "completed")  # fmt: skip
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.reasoning_tokens) == (5, 7, 3)
    assert [block.thinking for block in result.thinking] == ["hm, well"]
    assert [block.signature for block in result.thinking] == [""]
    assert (refused.text, refused.refusal) == ("", "I will not")


async def test_a_started_run_has_events_text_and_an_end(connect: Connect) -> None:
    agent = connect("quick")
    run = await agent.start("hello", metadata={"a": 1})
    kinds = [event.type async for event in run.event_stream]

    assert kinds[0] == "run.started" and kinds[-1] == "run.finished"
    assert "".join([piece async for piece in run.text_stream]) == await run.text == "and here it is"
    assert (await run.usage).output_tokens == 7
    assert [one.run for one in await agent.runs()] == [run.id]
    record = await agent.get_run(run.id)
    assert record is not None and (record.status, record.metadata) == ("finished", {"a": 1})
    assert await agent.get_run("run_none") is None


async def test_a_link_that_breaks_at_any_place_makes_one_run_and_the_whole_text(
    app: Application, connect: Connect, wire: ASGIStream
) -> None:
    for cut in (0, 1, 150, 700, 1500, 2500):
        wire.breaks = [0, cut, 300, 0, 500]
        thread = f"t{cut}"
        async with connect("quick").stream("hello", thread=thread) as text:
            assert "".join([piece async for piece in text]) == "and here it is"
        assert wire.breaks == []
        assert len(await connect("quick").runs(thread=thread)) == 1


async def test_a_start_that_is_sent_again_is_one_run(connect: Connect, wire: ASGIStream) -> None:
    wire.breaks = [0, 0]
    agent = connect("quick")

    run = await agent.start("hello", idempotency_key="k1")
    again = await agent.start("hello", idempotency_key="k1")

    assert run.id == again.id
    assert len(await agent.runs()) == 1
    assert [method for method, path in wire.requests if path.endswith("/runs") and method == "POST"] == [
        "POST"
    ] * 4


async def test_a_failed_run_raises_its_error_with_what_came(connect: Connect) -> None:
    with pytest.raises(ModelStreamError, match="broke off") as caught:
        await connect("failing").chat("hello")
    assert caught.value.retryable
    assert caught.value.partial.text == "half of it"
    pieces = []
    with pytest.raises(ModelStreamError):
        async for piece in connect("failing").stream("hello", thread="other"):
            pieces.append(piece)
    assert "".join(pieces) == "half of it"
    with pytest.raises(LimitError):
        await connect("limited").chat("hello")


async def status(agent: RemoteAgent, thread: str = "main") -> str:
    return (await agent.runs(thread=thread))[-1].status


async def until_status(agent: RemoteAgent, wanted: str, thread: str = "main") -> None:
    with anyio.fail_after(20):
        while await status(agent, thread) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_leaving_a_stream_stops_its_run(connect: Connect) -> None:
    agent = connect("slow")

    async with agent.stream("hello") as text:
        assert await anext(text) == "one "

    assert await status(agent) == "cancelled"


async def test_dropping_a_stream_stops_its_run(connect: Connect) -> None:
    agent = connect("slow")
    text = agent.stream("hello")
    assert await anext(text) == "one "

    del text
    gc.collect()

    await until_status(agent, "cancelled")


async def test_a_caller_that_is_cancelled_cancels_its_run(connect: Connect) -> None:
    agent = connect("slow")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.chat, "hello")
            while [run.status for run in await agent.runs()] != ["running"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            group.cancel_scope.cancel()

    assert await status(agent) == "cancelled"


async def test_a_started_run_goes_on_whoever_leaves_and_is_cancelled_by_word(connect: Connect) -> None:
    agent = connect("slow")
    run = await agent.start("hello")
    async with run:
        async for _ in run.text_stream:
            break
    assert await status(agent) == "running"

    await agent.cancel(run.id, reason="enough")

    with pytest.raises(RunCancelled, match="enough") as caught:
        await agent.watch(run.id).result()
    assert caught.value.reason == "enough"
    assert caught.value.partial.text == "one two "


async def test_a_busy_thread_is_refused_or_waited_for(connect: Connect) -> None:
    agent = connect("slow")
    run = await agent.start("hello")
    await until_status(agent, "running")

    with pytest.raises(ThreadBusy):
        await agent.start("again", on_busy="reject")
    with pytest.raises(ThreadBusy):
        await agent.chat("again", on_busy="reject")

    queued = await agent.start("again")
    await run.cancel()
    async with anyio.create_task_group() as tasks:
        async for event in queued.event_stream:
            if isinstance(event, TextDelta):
                tasks.start_soon(queued.cancel)
                break


async def test_calls_are_approved_and_runs_are_steered(connect: Connect) -> None:
    agent = connect("asking")
    run = await agent.start("erase it")
    said = []
    async for event in run.event_stream:
        said.append(event.type)
        if isinstance(event, ToolApprovalRequested):
            assert (await run.steer("and say so")).startswith("steer")
            await agent.approve(run.id, event.approval)

    assert {"tool_approval.resolved", "tool_result", "run.steered"} <= set(said)
    assert (await run.result()).text == "done"


async def test_threads_and_messages(connect: Connect) -> None:
    agent = connect("quick")
    await agent.chat("hello", thread="a")
    await agent.chat([TextBlock("look"), ImageBlock("image/png", "QUJD")], thread="b")

    assert [one.thread for one in await agent.threads()] == ["a", "b"]
    assert [one.thread for one in await agent.threads(after="a", limit=1)] == ["b"]
    messages = await agent.messages(thread="b")
    assert [message.role for message in messages] == ["user", "assistant"]
    assert messages[0].content == (TextBlock("look"), ImageBlock("image/png", "QUJD"))
    assert messages[1].text == "and here it is"
    assert await agent.messages(thread="none") == []
    await agent.delete_thread(thread="a")
    assert [one.thread for one in await agent.threads()] == ["b"]


async def test_a_server_has_a_default_agent(wire: ASGIStream) -> None:
    agent = connect_agent("http://testserver", client=wire.client(), settings=QUICK)
    feed = connect_agent("http://testserver/v1", client=wire.client(), settings=QUICK).events(types=["run"])

    async def listen() -> list[str]:
        async with feed:
            return [(await anext(feed)).id[-2:], str(feed.head)]

    async with asyncio.timeout(20):
        listening = asyncio.create_task(listen())
        while not feed.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await agent.chat("hello") == "and here it is"
        assert (await listening)[0] == "-1"
    assert agent.name == "quick"


async def test_refusals_are_errors_of_the_tree(connect: Connect) -> None:
    agent = connect("quick")

    with pytest.raises(ConfigurationError):
        await agent.chat("")
    with pytest.raises(ConfigurationError):
        await agent.start("hello", thread="../x")
    with pytest.raises(ConfigurationError):
        await agent.start("hello", reasoning={"effort": "all"})
    with pytest.raises(ConfigurationError):
        connect_agent("http://h/v1/agents/a", agent="b")
    with pytest.raises(ConfigurationError):
        connect_agent("http://h", transport="pigeon")  # type: ignore[arg-type]
    for call in (agent.cancel("run_none"), agent.steer("run_none", "x"), agent.approve("run_none", "a")):
        with pytest.raises(RemoteError) as caught:
            await call
        assert caught.value.status == 404
    with pytest.raises(RemoteError) as caught:
        await connect("nobody").chat("hello")
    assert caught.value.status == 404


async def test_a_server_that_is_not_there_is_an_error_in_the_end() -> None:
    class Nowhere(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectError("refused")

    settings = ClientSettings(first_delay=0.01, longest_delay=0.02, call_timeout=0.1)
    agent = connect_agent(
        "http://testserver/v1/agents/a", client=httpx2.AsyncClient(transport=Nowhere()), settings=settings
    )

    with pytest.raises(RemoteConnectionError, match="refused"):
        await agent.chat("hello")


async def test_a_steer_whose_answer_is_lost_is_not_sent_again(connect: Connect, wire: ASGIStream) -> None:
    agent = connect("slow")
    run = await agent.start("hello")
    wire.breaks = [0]

    with pytest.raises(RemoteConnectionError, match="may have been done"):
        await run.steer("once")
    await run.cancel()


async def test_a_hole_in_a_runs_events_is_told(app: Application, connect: Connect, wire: ASGIStream) -> None:
    agent = connect("slow")
    run = await agent.start("hello")
    texts = run.text_stream
    assert await anext(texts) == "one "
    events = run.event_stream
    engine = app.service.engine
    topic = app.service.topic("slow", "main", "")
    tail = await engine.log.tail(topic)
    tail.reset("fresh", tail.head)

    with pytest.raises(LostEventsError):
        async with asyncio.timeout(20):
            while True:
                await anext(texts)
    async with asyncio.timeout(20):
        notices: list[RunNotice] = []
        while not notices:
            event = await anext(events)
            notices += [event] if isinstance(event, RunNotice) else []
    assert (notices[0].code, notices[0].data["reason"]) == ("events_lost", "epoch")
    await run.cancel()
