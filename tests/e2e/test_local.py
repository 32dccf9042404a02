"""A real model, served by llama.cpp, end to end: through three dialects, and as the agent `local` of a server.

By grammar its words are exact; without one only their structure is looked at. One server for all tests: it takes seconds to load.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from e2e.servers import process, until

from agentkit.accumulators import Response
from agentkit.agent import Agent
from agentkit.chunks import BlockEndChunk, Chunk, ErrorChunk, FinishChunk, TextChunk, ThinkingChunk
from agentkit.client import StreamingClient
from agentkit.content import Message, TextBlock, ThinkingBlock
from agentkit.errors import ModelStatusError, ModelStreamError
from agentkit.local_model import LocalModel, missing_packages
from agentkit.model import ModelRequest
from agentkit.providers import connect
from agentkit.reasoning import ReasoningSetting

pytestmark = [pytest.mark.local, pytest.mark.e2e, pytest.mark.anyio]

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

ENDLESS = "[a-z ] root"
"""A rule without an end. After `[a-z ]+` the model may stop when it likes, and does: one answer of three ended in half a second."""

BOUND = 60
"""Seconds for an answer: hundreds of times what it takes where nobody else wants the processor."""


@pytest.fixture
def anyio_backend() -> str:
    """One loop, but for what differs between them."""
    return "asyncio"


@pytest.fixture(scope="session")
def smol(require: Callable[[str, bool, str], None]) -> Iterator[LocalModel]:
    """SmolLM2. It loads when the first test asks it."""
    missing = missing_packages()
    require("local model", not missing, f"make local ({', '.join(missing)})")
    model = connect("local:smollm2")
    assert isinstance(model, LocalModel)
    yield model
    model.server.stop()


def request(grammar: str | None = None, *, provider: str = "local", **settings: Any) -> ModelRequest:
    """Say hello; the answer is what the grammar says, a GBNF rule."""
    if grammar is not None:
        settings["provider_options"] = {provider: {"grammar": f"root ::= {grammar}"}}
    return ModelRequest([Message.user("Hello")], **settings)


async def read(model: StreamingClient, asked: ModelRequest) -> list[Chunk]:
    """All chunks of an answer."""
    out: list[Chunk] = []
    with anyio.fail_after(BOUND):
        async with model.stream(asked) as stream:
            while items := await stream.next():
                out += [item for item in items if isinstance(item, Chunk)]
    return out


def message(model: StreamingClient, chunks: list[Chunk]) -> Message:
    response = Response(model.origin)
    for chunk in chunks:
        response.add(chunk)
    return response.message()


def finish(chunks: list[Chunk]) -> list[str]:
    return [chunk.reason for chunk in chunks if isinstance(chunk, FinishChunk)]


def slots(url: str, key: str) -> list[bool]:
    """Which of the server's slots are busy."""
    answer = httpx2.get(f"{url}/slots", headers={"authorization": f"Bearer {key}"}, trust_env=False)
    return [slot["is_processing"] for slot in answer.json()]


# by grammar


@both_loops
async def test_reasoning_and_answer_are_exact(smol: LocalModel) -> None:
    chunks = await read(smol, request(r'"Grüß zuerst. 👋</think>\n\nHallo, Wörld! 👩‍🚀"'))

    assert message(smol, chunks).content == (
        ThinkingBlock("Grüß zuerst. 👋", origin=smol.origin),
        TextBlock("Hallo, Wörld! 👩‍🚀", origin=smol.origin),
    )
    assert finish(chunks) == ["stop"]
    assert sum(isinstance(chunk, ThinkingChunk) for chunk in chunks) > 3
    assert sum(isinstance(chunk, TextChunk) for chunk in chunks) > 3


async def test_an_agents_text_is_the_answer_alone(smol: LocalModel) -> None:
    agent = Agent("local", model=smol)

    with anyio.fail_after(BOUND):
        result = await agent.run(
            "Hello",
            provider_options={"local": {"grammar": r'root ::= "I greet.</think>\n\nHello there!"'}},
        )

    assert result.text == "Hello there!"
    assert [block.thinking for block in result.thinking] == ["I greet."]
    assert result.usage.output_tokens > 4


async def test_reasoning_alone_is_a_good_end_without_text(smol: LocalModel) -> None:
    chunks = await read(smol, request('"Nothing to say."'))

    assert message(smol, chunks).content == (ThinkingBlock("Nothing to say.", origin=smol.origin),)
    assert finish(chunks) == ["stop"]


async def test_a_limit_inside_the_reasoning_is_told(smol: LocalModel) -> None:
    chunks = await read(smol, request('"One two three four five six seven."', max_tokens=5))

    said = message(smol, chunks)
    assert "One two three four five six seven.".startswith(said.thinking[0].thinking)
    assert (said.thinking[0].thinking != "", said.text) == (True, "")
    assert finish(chunks) == ["length"]


@both_loops
async def test_an_error_after_status_200_is_raised_with_what_came(smol: LocalModel) -> None:
    # The budget ends the reasoning with a word that the grammar has not: the server gives up in the middle of its stream.
    options = {"grammar": 'root ::= "Only thoughts, and no end."', "reasoning_budget_tokens": 3}
    agent = Agent("local", model=smol, provider_options={"local": options})

    with anyio.fail_after(BOUND), pytest.raises(ModelStreamError) as caught:
        await agent.chat("Hello")

    assert (caught.value.kind, caught.value.provider_code) == ("provider", "500")
    thought = caught.value.partial.thinking[0].thinking
    assert thought
    assert "Only thoughts, and no end.".startswith(thought)
    assert caught.value.partial.text == ""


# left and lost


@both_loops
async def test_a_reader_that_leaves_frees_the_servers_slot(smol: LocalModel) -> None:
    endless = request(ENDLESS, max_tokens=3000)

    def busy() -> list[bool]:
        return slots(url, smol.server.key)

    with anyio.fail_after(BOUND):
        url = await smol.server.address()
        async with AsyncExitStack() as stack:
            for _ in range(2):
                stream = await stack.enter_async_context(smol.stream(endless))
                await stream.next()
            await to_thread.run_sync(until, lambda: all(busy()))
        await to_thread.run_sync(until, lambda: not any(busy()))


async def test_a_server_that_dies_cuts_its_answer_and_is_started_again(smol: LocalModel) -> None:
    with anyio.fail_after(BOUND):
        async with smol.stream(request(ENDLESS, max_tokens=3000)) as stream:
            await stream.next()
            before = smol.server.pid
            assert before is not None
            os.kill(before, signal.SIGKILL)
            rest = [item async for item in _items(stream)]

    chunks = await read(smol, request(r'"Back.</think>\n\nHere I am."'))

    last = rest[-1]
    assert isinstance(last, ErrorChunk)
    assert (last.kind, last.retryable) == ("truncated", True)
    assert message(smol, chunks).text == "Here I am."
    assert smol.server.pid not in (before, None)


async def _items(stream: Any) -> Any:
    while items := await stream.next():
        for item in items:
            yield item


async def test_models_of_the_same_weights_share_a_process(smol: LocalModel) -> None:
    other = connect("local:smollm2")
    by_path = connect(f"local:{smol.server.weights}")
    asked = request(r'"Yes.</think>\n\nNo."')

    texts = [message(model, await read(model, asked)).text for model in (smol, other, by_path)]

    assert texts == ["No."] * 3
    assert isinstance(other, LocalModel)
    assert isinstance(by_path, LocalModel)
    assert other.server is by_path.server is smol.server
    before = smol.server.pid
    await other.aclose()
    assert smol.server.pid == before


# steered


async def test_unasked_it_reasons_and_then_answers(smol: LocalModel) -> None:
    asked = ModelRequest(
        [Message.user("What is the capital of France?")], reasoning=ReasoningSetting("minimal")
    )
    chunks: list[Chunk] = []
    with anyio.fail_after(BOUND):
        async with smol.stream(asked) as stream:
            while not any(isinstance(chunk, TextChunk) for chunk in chunks):
                items = await stream.next()
                assert items
                chunks += [item for item in items if isinstance(item, Chunk)]

    thought = message(smol, chunks).thinking[0].thinking
    assert len(thought) > 12
    assert thought[-1] in ".!?"


async def test_reasoning_can_be_switched_off(smol: LocalModel) -> None:
    asked = ModelRequest([Message.user("Hello")], reasoning=ReasoningSetting("none"), max_tokens=8)

    said = message(smol, await read(smol, asked))

    assert [type(block) for block in said.content] == [TextBlock]
    assert said.text


# the same server through other dialects


async def test_overlapping_blocks_of_v1_messages_keep_apart(smol: LocalModel) -> None:
    model = connect("anthropic:smollm2", base_url=await smol.server.address(), key=smol.server.key)
    thinking = {"type": "enabled", "budget_tokens": 6}
    asked = ModelRequest(
        [Message.user("Tell me a story about a fox.")],
        max_tokens=20,
        temperature=0,
        provider_options={"anthropic": {"thinking": thinking}},
    )

    chunks = await read(model, asked)

    said = message(model, chunks)
    assert [type(block) for block in said.content] == [ThinkingBlock, TextBlock]
    assert said.thinking[0].thinking
    assert said.text
    texts = [place for place, chunk in enumerate(chunks) if isinstance(chunk, TextChunk)]
    assert chunks.index(BlockEndChunk(0)) > texts[-1], "the blocks did not overlap"
    assert finish(chunks) == ["length"]


async def test_v1_responses_without_indexes_keeps_its_items_apart(smol: LocalModel) -> None:
    model = connect("openai:smollm2", base_url=await smol.server.address(), key=smol.server.key)

    chunks = await read(model, request(r'"First I greet.</think>\n\nHello 😀!"', provider="openai"))

    said = message(model, chunks)
    assert [type(block) for block in said.content] == [ThinkingBlock, TextBlock]
    assert (said.thinking[0].thinking, said.text) == ("First I greet.", "Hello 😀!")
    state = json.loads(said.thinking[0].provider_state or "")
    assert state["content"] == [{"type": "reasoning_text", "text": "First I greet."}]
    assert finish(chunks) == ["stop"]


# refused


async def test_a_wrong_key_is_refused_and_not_told(smol: LocalModel) -> None:
    model = connect("llama.cpp:smollm2", base_url=await smol.server.address(), key="a-wrong-key-0123")

    with pytest.raises(ModelStatusError) as caught:
        await read(model, request())

    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert "a-wrong-key-0123" not in str(caught.value)


async def test_a_conversation_that_does_not_fit_is_refused_at_once(smol: LocalModel) -> None:
    asked = ModelRequest([Message.user("word " * 9000)])

    with pytest.raises(ModelStatusError) as caught:
        await read(smol, asked)

    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert "context" in str(caught.value)


# a server's agent


async def test_a_servers_default_agent_is_local_and_its_process_dies_with_the_server(
    smol: LocalModel,
) -> None:
    with process("-m", "agentkit_server", "--port", "0", env={"LOCAL": "1"}) as server:
        url = f"http://127.0.0.1:{server.port}/v1/agents"
        async with httpx2.AsyncClient(trust_env=False, timeout=BOUND) as http:
            agents = (await http.get(url)).json()["agents"]
            await http.post(f"{url}/local/threads/t/runs", json={"input": "Hello"})
            with anyio.fail_after(BOUND):
                await _until_reasoning(http, f"{url}/local/threads/t/events?after=earliest")
        children = _children(server.process.pid)

        server.process.kill()
        await to_thread.run_sync(until, lambda: not any(map(_lives, children)))

    assert [agent["name"] for agent in agents if agent["default"]] == ["local"]
    assert len(children) == 1


async def _until_reasoning(http: httpx2.AsyncClient, url: str) -> None:
    async with http.stream("GET", url) as answer:
        async for line in answer.aiter_lines():
            if line == "event: reasoning":
                return
    raise AssertionError("the feed ended before any reasoning")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # a dead one that nobody has buried has none
    except OSError:
        return False
