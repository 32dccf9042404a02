"""The public face as its users' type checkers see it: checked by `make lint`, never run."""

from collections.abc import Sequence
from typing import assert_type

from agentkit import (
    Agent,
    AgentKitError,
    AgentRun,
    CallbackEmitter,
    Emitter,
    Event,
    Hooks,
    Limits,
    Message,
    Model,
    ModelStreamError,
    NullEmitter,
    ReasoningEvent,
    RunResult,
    TeeEmitter,
    TextStreamResult,
    ThinkingBlock,
    Tool,
    ToolContext,
    ToolUseBlock,
    Usage,
    connect,
    generate_text,
    has_tool_call,
    step_count_is,
    stream_text,
    tool,
)
from agentkit.client import StreamingClient
from agentkit.events import Reasoning, RunCancelledEvent, RunFailed, RunFinished, TextDelta, ToolCallReady
from agentkit.log import Topic


def watch(event: ReasoningEvent) -> None:
    assert_type(event.provider, str)
    assert_type(event.text, str | None)
    match event.kind:
        case "delta" | "summary" | "signature" | "state":
            pass


async def watch_slowly(event: ReasoningEvent) -> int:
    return len(event.text or "")


def models() -> None:
    assert_type(connect("anthropic:claude-sonnet-4-5"), StreamingClient)


def agents(model: Model, emitter: Emitter) -> None:
    Agent("assistant", model=model)
    Agent(
        "assistant", model="anthropic:claude-sonnet-4-5", reasoning={"budget": 1024}, on_reasoning_event=print
    )
    Agent("assistant", model=model, reasoning={"effort": "low"}, on_reasoning_event=watch)
    Agent("assistant", model=model, on_reasoning_event=watch_slowly, emitter=emitter)
    Agent(
        "assistant", model=model, provider_options={"google": {"thinking_config": {"thinking_budget": 1024}}}
    )
    Agent(model=model)  # type: ignore[call-arg]  # an agent has a name
    Agent("assistant", model)  # type: ignore[call-arg]  # all but the name go by keyword
    Agent("assistant", model=model, on_reasoning_event=lambda a, b: None)  # type: ignore[arg-type, misc]


async def talks(agent: Agent) -> None:
    assert_type(await agent.chat("Hello"), str)
    async for piece in agent.stream("Hello", thread="t1"):
        assert_type(piece, str)
    async with agent.stream("Hello") as pieces:
        async for piece in pieces:
            assert_type(piece, str)

    result = await agent.run("Hello")
    assert_type(result, RunResult)
    assert_type(result.text, str)
    assert_type(result.refusal, str | None)
    assert_type(result.usage, Usage)
    assert_type(result.messages, tuple[Message, ...])
    assert_type(result.thinking, tuple[ThinkingBlock, ...])
    assert_type(result.tool_uses, tuple[ToolUseBlock, ...])

    handle = await agent.start("Hello", on_busy="reject")
    assert_type(handle, AgentRun)
    assert_type(handle.id, str)
    async for event in handle.event_stream:
        assert_type(event, Event)
    handle.cancel("enough")

    assert_type(await agent.emit("order.paid", {"cents": 1200}), str)
    assert_type(await agent.messages(), list[Message])
    async with agent as same:
        assert_type(same, Agent)
    await agent.start("Hello", on_busy="wait")  # type: ignore[arg-type]  # queue, reject or interrupt


async def texts(model: Model) -> None:
    assert_type(await generate_text(model=model, prompt="Hello"), RunResult)
    await generate_text(model="openai-chat:gpt-5.4", messages=[{"role": "user", "content": "Hello"}])

    stream = stream_text(model=model, messages=[Message.user("Hello")], on_reasoning_event=watch)
    assert_type(stream, TextStreamResult)
    async for piece in stream.text_stream:
        assert_type(piece, str)
    async for event in stream.event_stream:
        assert_type(event, Event)
        assert_type(event.type, str)
    assert_type(await stream.text, str)
    assert_type(await stream.usage, Usage)
    assert_type(await stream.refusal, str | None)
    assert_type(await stream.finish, str)
    assert_type(await stream.result(), RunResult)
    stream_text(model, prompt="Hello")  # type: ignore[call-arg]  # everything goes by keyword


def reads(event: Event) -> str:
    match event:
        case Reasoning(event=said):
            assert_type(said, ReasoningEvent)
            return said.text or ""
        case TextDelta(text=text):
            assert_type(text, str)
            return text
        case ToolCallReady():
            return event.name
        case RunFinished() | RunFailed() | RunCancelledEvent():
            return event.run
        case _:
            return event.type


@tool
def plain(city: str) -> str:
    """Return the weather."""
    return city


@tool(name="slow", timeout=1.0, retries=2, requires_approval=True)
async def with_context(context: ToolContext, count: int = 1) -> list[int]:
    """Count."""
    await context.progress("counting", {"to": count})
    return list(range(count))


def ordinary(city: str) -> str:
    """Return the weather, and become a tool where an agent is given it."""
    return city


async def works(model: Model) -> None:
    assert_type(plain, Tool)
    assert_type(with_context, Tool)
    agent = Agent(
        "worker",
        model=[model, "anthropic:claude-sonnet-4-5"],
        tools=[plain, with_context, ordinary],
        stop_when=[step_count_is(3), has_tool_call("slow")],
        limits=Limits(tokens=1000),
        hooks=Hooks(),
    )
    assert_type(agent.as_tool(), Tool)
    handle = await agent.start("Go", on_approval="suspend", metadata={"order": 1})
    await agent.steer(handle.id, "Faster")
    await agent.delete_thread()
    Agent("worker", model=model, tolls=[plain])  # type: ignore[call-arg]  # a misspelt option is found


class Printing:
    """An emitter is whatever has these three methods: nothing to inherit."""

    async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
        print(topic, *events)

    async def flush(self, topic: Topic) -> None: ...

    async def aclose(self) -> None: ...


def emitters() -> Emitter:
    def show(topic: Topic, event: Event) -> None:
        print(topic, event)

    return TeeEmitter(Printing(), CallbackEmitter(show), NullEmitter())


async def failures(agent: Agent) -> None:
    try:
        await agent.chat("Hello")
    except ModelStreamError as error:
        assert_type(error.retryable, bool)
        assert_type(error.request_id, str)
    except AgentKitError as error:
        print(error)
