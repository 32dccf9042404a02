"""Against a server that nobody here wrote and that speaks all five dialects: npm's aimock, which cuts text in the middle of characters.

It is a mock: it says nothing of how faithful the providers' own endpoints are. `make npm` installs it.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from checkers.table import CHECKERS, answered, through_the_store

from agentkit.chunks import TextChunk
from agentkit.client import StreamingClient
from agentkit.content import Message, ToolUseBlock
from agentkit.envelope import draft_all
from agentkit.errors import ModelConnectionError, ModelError, ModelStatusError, ModelStreamError
from agentkit.events import Event
from agentkit.generate import generate_text, stream_text
from agentkit.log import Topic
from agentkit.model import ModelRequest, Retry
from agentkit.pace import RetryPolicy
from agentkit.providers import connect

pytestmark = [pytest.mark.full, pytest.mark.e2e, pytest.mark.anyio]

NODE_MODULES = Path(__file__).resolve().parents[1] / "npm" / "node_modules"
CLI = NODE_MODULES / "@copilotkit" / "aimock" / "dist" / "cli.js"

PROVIDERS = {
    "anthropic": "anthropic-messages",
    "openai": "openai-responses",
    "openai-chat": "openai-chat",
    "google": "gemini",
    "ollama": "ollama",
}

TEXT = "Hi 👧👦👧 there 🎉, ünïcödé and 漢字 too! 😀"
THOUGHT = "Let me 🤔🤔 think 👩‍👩‍👧 about it."
FIXTURES = [
    {"match": {"userMessage": "plain"}, "response": {"content": TEXT, "reasoning": THOUGHT}},
    {"match": {"userMessage": "call"}, "response": {"toolCalls": [{"name": "f", "arguments": json.dumps({"x": "👧"}, ensure_ascii=False)}]}},
    {"match": {"userMessage": "limit"}, "response": {"error": {"message": "Slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7}},
    {"match": {"userMessage": "busy"}, "response": {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529}},
    {"match": {"userMessage": "cut"}, "response": {"content": "This answer breaks off in the middle of it all."}, "truncateAfterChunks": 3},
    {"match": {"userMessage": "once", "sequenceIndex": 0}, "response": {"error": {"message": "Busy", "type": "overloaded_error"}, "status": 529}},
    {"match": {"userMessage": "once"}, "response": {"content": "At last."}},
    {"match": {"userMessage": "more"}, "response": {"content": "Good."}},
]  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=[1, 3, 20])
def mock(
    request: pytest.FixtureRequest,
    require: Callable[[str, bool, str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The address of a mock that cuts every text after so many UTF-16 units."""
    node = shutil.which("node")
    require("node", node is not None, "apt-get install nodejs npm")
    require("aimock", CLI.is_file(), "make npm")
    assert node is not None
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
    command = [node, str(CLI), "-p", "0", "-f", str(fixtures), "-c", str(request.param)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        found = None
        while found is None:
            line = process.stdout.readline()
            assert line, "the mock has ended"
            found = re.search(r"listening on (http://\S+)", line)
        yield found.group(1)
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def model_of(provider: str, url: str, retries: int = 0) -> StreamingClient:
    return connect(f"{provider}:demo", key="test-key", base_url=url, retry=RetryPolicy(retries, base=0.01))


def leaves(events: list[Event]) -> str:
    """Return all that the events would put on a wire; whatever is no UTF-8 raises here."""
    return b"".join(draft.body for draft in draft_all(Topic("", "agent", "main"), events)).decode()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_text_that_is_cut_inside_of_characters_arrives_whole(provider: str, mock: str) -> None:
    with anyio.fail_after(20):
        result = stream_text(model=model_of(provider, mock), prompt="plain")
        events = [event async for event in result.event_stream]
        run = await result.result()

    wire = leaves(events)
    assert "\ufffd" not in wire
    assert not re.search(r"\\ud[89a-f]", wire, re.IGNORECASE)
    assert run.text == TEXT
    assert "".join(block.thinking for block in run.thinking) == THOUGHT


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_call_can_be_answered_and_goes_back(provider: str, mock: str) -> None:
    model = model_of(provider, mock)
    with anyio.fail_after(20):
        first = await generate_text(model=model, prompt="call")
        turn = first.messages[0]
        history = through_the_store(answered(turn))
        second = await generate_text(model=model, messages=history)

    [call] = first.tool_uses
    assert (call.name, json.loads(call.input)) == ("f", {"x": "👧"})
    assert second.text == "Good."
    body: Any = model.dialect.encode(ModelRequest(history), model.target).body
    assert CHECKERS[PROVIDERS[provider]](body) == []


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("prompt", "status", "fault", "seconds"),
    [pytest.param("limit", 429, "rate_limit", 7.0, id="429"), pytest.param("busy", 529, "overloaded", None, id="529")],
)  # fmt: skip
async def test_a_refusal_is_told_with_its_pause(
    provider: str, prompt: str, status: int, fault: str, seconds: float | None, mock: str
) -> None:
    with anyio.fail_after(20), pytest.raises(ModelStatusError) as raised:
        await generate_text(model=model_of(provider, mock), prompt=prompt)

    error = raised.value
    assert (error.status, error.fault, error.retryable) == (status, fault, True)
    if seconds is not None:
        assert error.retry_after == seconds


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cut_connection_is_never_an_answer(provider: str, mock: str) -> None:
    with anyio.fail_after(20), pytest.raises(ModelError) as raised:
        await generate_text(model=model_of(provider, mock), prompt="cut")

    error = raised.value
    assert isinstance(error, ModelStreamError | ModelConnectionError)
    assert error.retryable
    if isinstance(error, ModelStreamError):
        assert error.kind == "truncated"
        assert isinstance(error.partial, Message)
        assert "This answer breaks off".startswith(error.partial.text[:4])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_broke_off_can_be_sent_again(provider: str, mock: str) -> None:
    model = model_of(provider, mock)
    with anyio.fail_after(20):
        half = Message.assistant([ToolUseBlock("t1", "f", '{"x":', complete=False)])
        result = await generate_text(model=model, messages=[Message.user("go"), half, Message.user("more")])

    assert result.text == "Good."


async def test_a_busy_provider_is_asked_again(mock: str) -> None:
    retries: list[Retry] = []
    text = ""
    with anyio.fail_after(20):
        async with model_of("anthropic", mock, retries=2).stream(
            ModelRequest([Message.user("once")])
        ) as stream:
            while items := await stream.next():
                retries += [item for item in items if isinstance(item, Retry)]
                text += "".join(item.text for item in items if isinstance(item, TextChunk))

    assert text == "At last."
    assert [(retry.attempt, retry.code) for retry in retries] == [(2, "529")]
