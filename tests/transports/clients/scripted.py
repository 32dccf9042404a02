"""A server of feeds by a script, in process: each connection says what the test wrote, on asyncio and trio."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2

from agentkit.sse import encode_event
from agentkit_transports.clients import ClientSettings, Envelope, Feed, Gap

URL = "http://testserver/v1/agents/a/threads/t/events"
QUICK = ClientSettings(
    first_delay=0.001, longest_delay=0.005, idle_timeout=5, call_timeout=2, max_event_size=10_000
)


def record(seq: int, *, epoch: str = "e", type: str = "text.delta", **members: Any) -> dict[str, Any]:  # noqa: A002
    """An envelope."""
    return {
        "v": 1, "id": f"{epoch}-{seq}", "seq": seq, "type": type, "agent": "a", "thread": "t", "run": "r", "step": 1,
        "block": "r.1.0", "time": "2026-01-01T00:00:00.000Z", "data": {"text": str(seq)}, **members,
    }  # fmt: skip


def ev(*seqs: int, epoch: str = "e", **members: Any) -> bytes:
    """Records as SSE frames."""
    return b"".join(
        encode_event(json.dumps(record(seq, epoch=epoch, **members)), id=f"{epoch}-{seq}", event="text.delta")
        for seq in seqs
    )


def control(name: str, id: str | None = None, retry: int | None = None, **data: Any) -> bytes:  # noqa: A002
    """A control frame."""
    return encode_event(json.dumps({"v": 1, "type": f"stream.{name}", "data": data}), id=id, retry=retry)


def hello(after: int = 0, *, epoch: str = "e", head: int = 9, resumed: bool = False, **data: Any) -> bytes:
    """The first frame."""
    return control(
        "hello", f"{epoch}-{after}", retry=1, epoch=epoch, after=after, head=head, resumed=resumed, **data
    )


def gap(first: int, last: int, reason: str, id: str) -> bytes:  # noqa: A002
    """A gap."""
    data: dict[str, Any] = {"from": first, "to": last, "reason": reason}
    return control("gap", id, **data)


END = control("end", "e-9")
BREAK = object()
"""In a connection's pieces: the link breaks here."""
HANG = object()
"""Nothing more comes."""


@dataclass
class Say:
    """One answer."""

    pieces: Sequence[object] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


def refuse(status: int, headers: dict[str, str] | None = None, **problem: Any) -> Say:
    """A problem."""
    body = json.dumps({"status": status, **problem}).encode()
    return Say([body], status, {"content-type": "application/problem+json", **(headers or {})})


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: Sequence[object], script: "Script") -> None:
        self._pieces = pieces
        self._script = script

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await anyio.lowlevel.checkpoint()
            if piece is BREAK:
                raise httpx2.ReadError("the link broke")
            if piece is HANG:
                await anyio.sleep_forever()
            assert isinstance(piece, bytes)
            yield piece

    async def aclose(self) -> None:
        self._script.open -= 1


class Script(httpx2.AsyncBaseTransport):
    """Answers requests in turn; an exception is raised in an answer's place.

    Attributes:
        asked: the requests.
        open: how many answers were not closed.
    """

    def __init__(self, *answers: Say | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []
        self.open = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else RuntimeError("nobody expected this request")
        if isinstance(answer, Exception):
            raise answer
        self.open += 1
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer.pieces, self))

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self)

    @property
    def cursors(self) -> list[str]:
        """Where each connection began."""
        return [request.url.params["after"] for request in self.asked]


async def read(feed: Feed, most: int = 1000) -> list[object]:
    """Return what a feed gives: numbers of records, gaps as they are."""
    out: list[object] = []
    with anyio.fail_after(20):
        async for item in feed:
            out.append(
                item
                if isinstance(item, Gap)
                else f"{item.first}-{item.seq}"
                if item.first < item.seq
                else item.seq
            )
            assert isinstance(item, Envelope | Gap)
            if len(out) == most:
                break
    return out
