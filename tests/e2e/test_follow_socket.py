"""`follow` over WebSocket against a server by a script: close codes, tokens, broken rules."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeAlias

import pytest
import websockets
from transports.clients.scripted import record
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from agentkit.errors import AccessError, AgentKitError, RemoteError, WireError
from agentkit_transports.clients import ClientSettings, Feed, Gap, follow

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

QUICK = ClientSettings(first_delay=0.001, longest_delay=0.01, idle_timeout=2, max_event_size=20_000)
Talk: TypeAlias = Callable[["Said"], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Said:
    """One connection of the script."""

    def __init__(self, socket: ServerConnection, sub: dict[str, Any]) -> None:
        self.socket = socket
        self.sub = sub

    async def say(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def ok(self, after: int = 0, **more: Any) -> None:
        await self.say(op="ok", rid=self.sub["rid"], topic=self.sub["topic"], epoch="e", after=after, head=9, resumed=False, **more)  # fmt: skip

    async def ev(self, *seqs: int, **more: Any) -> None:
        await self.say(op="ev", topic=self.sub["topic"], e=[record(seq) for seq in seqs], **more)


class Server:
    """Connections by a script.

    Attributes:
        subs: what was subscribed.
        tokens: who asked.
    """

    def __init__(self, *talks: Talk | int) -> None:
        self.talks = list(talks)
        self.subs: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.url = ""

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.tokens.append(request.headers.get("authorization", ""))
        talk = self.talks[0]
        if isinstance(talk, int):
            del self.talks[0]
            return connection.respond(HTTPStatus(talk), "no")
        return None

    async def _talk(self, socket: ServerConnection) -> None:
        talk = self.talks.pop(0)
        assert not isinstance(talk, int)
        self.subs.append(json.loads(await socket.recv()))
        await talk(Said(socket, self.subs[-1]))

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Server"]:
        protocol = websockets.Subprotocol("agentkit.v1")
        async with serve(
            self._talk, "127.0.0.1", 0, process_request=self._admit, subprotocols=[protocol]
        ) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            self.url = f"ws://127.0.0.1:{port}/v1/agents/a/threads/t?after=earliest"
            yield self


async def read(feed: Feed) -> list[object]:
    out: list[object] = []
    async with asyncio.timeout(20), feed:
        async for item in feed:
            out.append(item if isinstance(item, Gap) else item.seq)
    return out


async def end(said: Said) -> None:
    await said.ok(9)
    await said.say(op="end", topic=said.sub["topic"], id="e-9")


def closes(code: int, *seqs: int, after: int = 0) -> Talk:
    async def talk(said: Said) -> None:
        await said.ok(after)
        await said.ev(*seqs)
        await said.say(op="bye", code=code, retry_ms=1)
        await said.socket.close(code, "why")

    return talk


async def test_close_codes_below_4500_are_returns_with_the_cursor() -> None:
    async def breaks(said: Said) -> None:
        await said.ok(7)
        await said.ev(7, 8)
        said.socket.transport.abort()

    codes = [4000, 4001, 4002, 4005, 1001, 1011]
    talks = [closes(code, number + 1, after=number) for number, code in enumerate(codes)]
    async with Server(*talks, 503, breaks, end).open() as server:
        assert await read(follow(server.url, settings=QUICK)) == [1, 2, 3, 4, 5, 6, 7, 8]

    assert [sub["after"] for sub in server.subs] == [
        "earliest",
        *(f"e-{number}" for number in range(1, 7)),
        "e-8",
    ]


@pytest.mark.parametrize("code", [4501, 4502, 4503, 4504, 4505, 4509, 1008])
async def test_close_codes_from_4500_stop_it(code: int) -> None:
    async with Server(closes(code, 1)).open() as server:
        with pytest.raises(RemoteError, match=f"{code}: why") as caught:
            await read(follow(server.url, settings=QUICK))

    assert caught.value.status == code
    assert isinstance(caught.value, AccessError) == (code in (4502, 4503))


async def test_an_expired_token_is_asked_for_again() -> None:
    tokens = iter(["one", "two", "three", "four"])
    async with Server(closes(4004, 1), closes(4500, 2, after=1), end).open() as server:
        assert await read(follow(server.url, auth=lambda: next(tokens), settings=QUICK)) == [1, 2]
    assert server.tokens == ["Bearer one", "Bearer two", "Bearer three"]


async def test_a_token_that_is_refused_twice_in_a_row_is_an_error() -> None:
    async with Server(closes(4004, 1), 401, end).open() as server:
        with pytest.raises(AccessError, match="401"):
            await read(follow(server.url, auth=lambda: "another", settings=QUICK))
        assert len(server.tokens) == 2


async def test_what_a_subscription_is_refused_for_is_raised() -> None:
    async def refuse(said: Said) -> None:
        await said.say(op="err", rid=said.sub["rid"], problem={"status": 404, "code": "not_found", "detail": "no such run"})  # fmt: skip
        await said.socket.wait_closed()

    async with Server(refuse).open() as server:
        with pytest.raises(RemoteError, match="no such run") as caught:
            await read(
                follow(server.url, run="r", types=["text"], kinds=["delta"], merge=True, settings=QUICK)
            )

    assert caught.value.problem == "not_found"
    assert server.subs == [{"op": "sub", "rid": "feed", "topic": "agents/a/threads/t", "after": "earliest", "run": "r", "types": ["text"], "kinds": ["delta"], "merge": True}]  # fmt: skip


async def test_gaps_and_places_come_by_frames_too() -> None:
    async def talk(said: Said) -> None:
        await said.ok(2)
        await said.say(op="gap", topic="t", id="e-4", reason="trimmed", **{"from": 1, "to": 4})
        await said.ev(5, 6)
        await said.say(op="welcome", limits={})
        await said.say(op="ev", topic="t", e=[], id="e-8")
        await said.socket.close(4000)

    async with Server(talk, end).open() as server:
        assert await read(follow(server.url, types=["text"], settings=QUICK)) == [Gap("trimmed", 1, 4, "e-4"), 5, 6]  # fmt: skip
    assert server.subs[1]["after"] == "e-8"


@pytest.mark.parametrize(
    "frame", ["x" * 30_000, "[]", "no", b"\0", '{"op":"ev","e":3}', '{"op":"ev","e":[{"id":"e-3","seq":3,"type":"x"}]}'], ids=lambda frame: str(frame)[:20],
)  # fmt: skip
async def test_what_breaks_the_rules_is_an_error(frame: str | bytes) -> None:
    async def talk(said: Said) -> None:
        await said.ok()
        await said.socket.send(frame)
        await said.socket.wait_closed()

    async with Server(talk).open() as server:
        with pytest.raises(WireError):
            await read(follow(server.url, settings=QUICK))


async def test_a_server_that_speaks_something_else_is_an_error() -> None:
    async with Server(404).open() as server:
        with pytest.raises(AgentKitError):
            await read(follow(server.url, settings=QUICK))
