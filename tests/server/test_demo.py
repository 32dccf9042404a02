"""The agents that need no key."""

from pathlib import Path

import pytest

from agentkit.agent import Agent
from agentkit.content import ThinkingBlock, ToolResultBlock
from agentkit.errors import ConfigurationError, ModelStreamError
from agentkit.events import ToolApprovalRequested
from agentkit.run_spec import RunResult
from agentkit_server import demo

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """At full speed."""
    monkeypatch.setattr(demo, "PACE", 0.0)


async def kinds(agent: Agent) -> list[str]:
    handle = await agent.start("hello")
    events = [event async for event in handle.event_stream]
    return [event.type for event in events]


def results_of(result: RunResult) -> list[tuple[str, str]]:
    """The status of each tool result and its words up to a colon."""
    said = [block for message in result.messages if message.role == "tool" for block in message.content]
    return [(one.status, one.text.partition(":")[0]) for one in said if isinstance(one, ToolResultBlock)]


async def test_scripted_reasons_in_forty_pieces_signs_and_then_speaks() -> None:
    types = await kinds(demo.scripted_agent())

    reasoning = [place for place, name in enumerate(types) if name == "reasoning.delta"]
    text = [place for place, name in enumerate(types) if name == "text.delta"]
    assert 38 <= len(reasoning) <= 40
    assert types.count("reasoning.signature") == 1
    assert reasoning[-1] < types.index("reasoning.signature") < text[0]
    assert types[-1] == "run.finished"


async def test_scripted_says_it_again_and_keeps_nothing() -> None:
    agent = demo.scripted_agent()

    assert await agent.chat("one") == await agent.chat("two") == demo.ANSWER


async def test_replay_plays_its_streams_in_turn() -> None:
    agent = demo.replay_agent(delay=0)
    results = [await agent.run("hello") for _ in range(4)]

    shapes = [
        [(block.signature_format, block.provider_state_format) for block in result.thinking]
        for result in results
    ]
    assert shapes == [
        [("anthropic-messages", "")],
        [("", "")],
        [("", "anthropic-messages"), ("anthropic-messages", "")],
        [("anthropic-messages", "")],
    ]
    assert all(result.text and result.usage.output_tokens for result in results)


async def test_redacted_has_a_block_that_only_the_provider_reads() -> None:
    result = await demo.redacted_agent().run("hello")

    first = result.thinking[0]
    assert isinstance(first, ThinkingBlock)
    assert (first.thinking, first.replayable_as("anthropic-messages")) == ("", True)


async def test_tools_calls_twice_at_once_of_which_one_fails_and_then_answers() -> None:
    agent = demo.tools_agent()
    for _ in range(2):  # the second time after its own answer
        result = await agent.run("hello")

        assert [use.name for use in result.tool_uses] == ["weather", "weather"]
        assert results_of(result) == [("ok", "Oslo"), ("error", "there is no weather station in Atlantis")]
        assert len(result.thinking) == 2
        assert "Oslo" in result.text


async def test_approval_waits_for_a_person_and_then_says_so() -> None:
    agent = demo.approval_agent()
    run = await agent.start("hello")
    async for event in run.event_stream:
        if isinstance(event, ToolApprovalRequested):
            await agent.approve(run.id, event.approval)
    result = await run.result()

    assert results_of(result) == [("ok", "A postcard to Ada is on its way")]
    assert "stands above" in result.text


async def test_failing_fails_after_some_text() -> None:
    with pytest.raises(ModelStreamError) as caught:
        await demo.failing_agent().chat("hello")

    assert caught.value.retryable
    assert caught.value.partial.text == "This answer will not be fin"


async def test_a_named_file_is_played_instead(tmp_path: Path) -> None:
    file = tmp_path / "mine.sse"
    file.write_text(
        'data: {"choices":[{"index":0,"delta":{"content":"mine"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )

    agent = demo.replay_agent([file], dialect="openai-chat", delay=0)

    assert await agent.chat("hello") == "mine"
    assert agent.models[0].origin.model == "mine"


@pytest.mark.parametrize(
    ("name", "dialect", "message"),
    [
        ("none.sse", "openai-chat", "cannot read .*none.sse"),
        ("none.sse", "morse", "unknown dialect 'morse'; known: anthropic-messages"),
        ("none.sse", "", "say what .none.sse. is written in"),
    ],
)
async def test_a_file_that_cannot_be_played_is_told(
    tmp_path: Path, name: str, dialect: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        demo.replay_agent([tmp_path / name], dialect=dialect)
