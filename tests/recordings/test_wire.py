"""Every recorded stream comes through a real socket as it was recorded, with either HTTP transport of the client."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from provider_server import ProviderServer, stream

from agentkit.chunks import Chunk, ErrorChunk
from agentkit.client import StreamingClient
from agentkit.content import Message
from agentkit.dialects.base import Target
from agentkit.dialects.table import DIALECTS
from agentkit.model import ModelRequest
from agentkit.pace import RetryPolicy, Timeouts
from agentkit.reading import decode_body

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

PIECE = 1000
"""Bytes of a chunk of HTTP: no border of it falls on one of the stream's."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "stock"])
async def test_a_recording_comes_through_a_socket(
    recording: tuple[Path, dict[str, Any]], *, fast: bool
) -> None:
    folder, entry = recording
    dialect, target = DIALECTS[entry["dialect"]], Target(entry["provider"], entry["model"] or "m")
    body = (folder / entry["file"]).read_bytes()
    kind = "text/event-stream" if dialect.framing == "sse" else "application/x-ndjson"
    pieces = [body[at : at + PIECE] for at in range(0, len(body), PIECE)]
    got: list[object] = []

    with ProviderServer(stream(*pieces, content_type=kind)) as server:
        client = StreamingClient(
            dialect, target, server.url, retry=RetryPolicy(retries=0), timeouts=Timeouts(linger=5), fast=fast
        )
        with anyio.fail_after(20):
            async with client.stream(ModelRequest([Message.user("hi")], max_tokens=99)) as answer:
                while items := await answer.next():
                    got += items

    wanted, fault = decode_body(dialect, target, pieces)
    expected: list[Chunk] = wanted + (
        [ErrorChunk("truncated", str(fault), "wire")] if fault is not None else []
    )
    assert got == expected
