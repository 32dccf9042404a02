"""A toy dialect and a client that speaks it: what the tests of the HTTP side need of a provider's format.

A payload is a word and its rest, so that a test reads as what the provider says: `data("text Hello", "finish end")`.
"""

import json
from typing import Any, Literal

import anyio
import pytest
from provider_server import stream

from agentkit.chunks import Chunk, ErrorChunk, FinishChunk, TextChunk, UsageChunk
from agentkit.client import StreamingClient
from agentkit.content import Message, Usage
from agentkit.dialects.base import HTTPParts, StatusFault, Target
from agentkit.errors import ConfigurationError, WireError
from agentkit.model import ModelRequest, Retry
from agentkit.pace import RetryPolicy, Timeouts

CLIENTS = ("asyncio", "asyncio-stock", "trio")
"""Event loops, and on asyncio both HTTP transports: the fast one, which is the default where it can be had, and the stock one."""


def choose(client: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Turn the fast transport off where the name says so, and return the event loop's name."""
    loop, _, stock = client.partition("-")
    if stock:
        monkeypatch.setenv("AGENTKIT_FAST", "0")
    return loop


KEY = "key-0123456789-secret"
REQUEST = ModelRequest([Message.user("hi")])
QUICK = Timeouts(connect=5, first_byte=5, idle=5, linger=0.05)
ONCE = RetryPolicy(retries=0)
AGAIN = RetryPolicy(retries=2, base=0.001, max_delay=0.01)


class ToyDecoder:
    """`text`, `usage`, `finish`, `failed`, `later` (held back until something else), `error CODE`, `overloaded`; all else is broken."""

    def __init__(self) -> None:
        self.held: list[Chunk] = []
        self.finished = False

    def feed(self, event: str, data: str) -> list[Chunk]:
        word, _, rest = data.partition(" ")
        match word:
            case "text":
                return [TextChunk(rest)]
            case "usage":
                return [UsageChunk(Usage(input_tokens=int(rest)))]
            case "later":
                self.held.append(TextChunk(rest))
                return []
            case "finish":
                self.finished = True
                return [FinishChunk("stop", rest)]
            case "failed":
                self.finished = True
                return [FinishChunk("error", rest)]
            case "error":
                return [ErrorChunk("provider", rest, "bad")]
            case "overloaded":
                return [ErrorChunk("provider", rest, "overloaded", retryable=True)]
            case _:
                raise WireError(f"toy payload {data!r}")

    def close(self) -> list[Chunk]:
        return [
            *self.held,
            *([] if self.finished else [ErrorChunk("truncated", "toy ended", retryable=True)]),
        ]


class ToyDialect:
    name = "toy"

    def __init__(self, framing: Literal["sse", "ndjson"] = "sse", **parts: Any) -> None:
        self.framing: Literal["sse", "ndjson"] = framing
        self.parts = parts

    def encode(self, request: ModelRequest, target: Target) -> HTTPParts:
        if request.temperature is not None:
            raise ConfigurationError("toys have no temperature")
        return HTTPParts(
            "/v1/toy?x=1", {"model": target.model, "say": request.messages[0].text}, **self.parts
        )

    def decoder(self, target: Target) -> ToyDecoder:
        return ToyDecoder()

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def status_fault(self, status: int, body: str) -> StatusFault:
        try:
            error = json.loads(body)["error"]
            return StatusFault(error["message"], error.get("type", ""), error.get("again"))
        except (ValueError, KeyError, TypeError):
            return StatusFault(body[:100])


def client(url: str, dialect: ToyDialect | None = None, **settings: Any) -> StreamingClient:
    settings.setdefault("timeouts", QUICK)
    settings.setdefault("retry", ONCE)
    settings.setdefault("key", KEY)
    return StreamingClient(dialect or ToyDialect(), Target("toys", "bear"), url, **settings)


async def collect(model: StreamingClient, request: ModelRequest = REQUEST) -> list[Any]:
    """Everything that the stream gives, flat. `Retry` without its jittered delay."""
    out: list[Any] = []
    with anyio.fail_after(20):
        async with model.stream(request) as answer:
            while items := await answer.next():
                out += items
            assert await answer.next() == []
    return [Retry(i.attempt, 0, i.code, i.message) if isinstance(i, Retry) else i for i in out]


def data(*words: str) -> bytes:
    return "".join(f"data: {word}\n\n" for word in words).encode()


GOOD = stream(data("text Hello", "finish end"))
HELLO = [TextChunk("Hello"), FinishChunk("stop", "end")]
