"""The Redis follower on its connection: a silent one is left, and what is watched is subscribed to and read again, whatever comes between."""

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import pytest
from redis.asyncio.connection import Connection

from agentkit.engines import redis_follower
from agentkit.engines.redis_follower import Follower
from agentkit.engines.redis_store import Store
from agentkit.engines.retention import Retention
from agentkit.log import Cursor, Page, Tail, Topic
from agentkit.testing.engine_stand import until

pytestmark = pytest.mark.anyio

A, B = Topic("", "a", "main"), Topic("", "a", "other")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """Takes connections and notes what each subscribes to. It knows no more of Redis than a follower asks."""

    def __init__(self) -> None:
        self.connections = 0
        self.subscribed: list[str] = []
        self.silent = 0
        """How many of the first connections get no answer to subscriptions and pings."""
        self.said = b""
        """What is published to the first who subscribes."""
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        is_silent = self.connections <= self.silent
        try:
            while line := await reader.readline():
                words = [await self._word(reader) for _ in range(int(line[1:]))]
                if not is_silent or words[0] == "CLIENT":
                    writer.write(self._answer(words))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _word(self, reader: asyncio.StreamReader) -> str:
        size = int((await reader.readline())[1:])
        return (await reader.readexactly(size + 2))[:-2].decode()

    def _answer(self, words: list[str]) -> bytes:
        match words:
            case ["SUBSCRIBE", *channels]:
                self.subscribed += channels
                said, self.said = self.said, b""
                parts = [b"*3\r\n$9\r\nsubscribe\r\n" + _bulk(name.encode()) + b":1\r\n" for name in channels]
                if said:
                    parts.append(b"*3\r\n$7\r\nmessage\r\n" + _bulk(channels[0].encode()) + _bulk(said))
                return b"".join(parts)
            case ["PING"]:
                return b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
            case ["CLIENT", *_]:
                return b"+OK\r\n"
            case _:
                return b""


def _bulk(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listener = await asyncio.start_server(server.talk, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    yield server
    listener.close()


class Truth:
    """What followers read: always that nothing is new."""

    def __init__(self) -> None:
        self.read: list[Topic] = []
        self.on_read: Callable[[Topic], None] = lambda _: None

    async def __call__(self, topic: Topic, after: Cursor, limit: int) -> Page:
        self.read.append(topic)
        self.on_read(topic)
        await anyio.lowlevel.checkpoint()
        return Page((), after, after.seq)


@pytest.fixture
def truth() -> Truth:
    return Truth()


@pytest.fixture
async def follower(server: Server, truth: Truth) -> AsyncIterator[Follower]:
    url = f"redis://127.0.0.1:{server.port}/0"
    store = Store(url, prefix="t", retention=Retention(), timeout=2.0, patience=4.0, connections=4)
    follower = Follower(store, truth)
    yield follower
    await follower.aclose()
    await store.aclose()


@pytest.fixture
def tails(follower: Follower) -> list[Tail]:
    """Tails of both topics, held as a reader holds one: a follower keeps none alive."""
    return [follower.tails.add(topic, "E", 0) for topic in (A, B)]


def channel(follower: Follower, topic: Topic) -> str:
    return follower._store.keys(topic).channel


async def test_a_connection_that_says_nothing_is_left_for_another(
    server: Server, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_follower, "SILENCE", 0.1)
    tail = follower.tails.add(A, "E", 0)
    server.silent = 2
    await follower.watch(A)

    await until(
        lambda: channel(follower, A) in server.subscribed, "the follower stayed with a silent connection"
    )
    assert (server.connections > 2, tail.head) == (True, 0)


async def test_a_quiet_connection_that_answers_is_kept(
    server: Server, follower: Follower, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = follower.tails.add(A, "E", 0)
    await follower.watch(A)
    await until(lambda: bool(server.subscribed), "the follower did not come")
    monkeypatch.setattr(redis_follower, "CHECK_EVERY", 0.01)
    seen = len(truth.read)
    follower.mistrust(A)
    await until(lambda: len(truth.read) > seen + 20, "the truth is not read")

    assert (server.connections, tail.head) == (1, 0)


@pytest.mark.usefixtures("tails")
async def test_what_is_watched_is_read_again_however_much_else_is_in_doubt(
    follower: Follower, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_follower, "CHECK_EVERY", 0.05)

    def doubt(topic: Topic) -> None:
        if topic == B:
            follower.mistrust(B)

    await follower.watch(A)
    await follower.watch(B)
    await until(lambda: A in truth.read, "the first look did not come")
    truth.on_read = doubt
    truth.read.clear()
    follower.mistrust(B)

    await until(lambda: truth.read.count(A) > 1, "the other topic took all the turns")


@pytest.mark.usefixtures("tails")
async def test_a_topic_that_cannot_be_read_keeps_no_other_from_being_read(
    follower: Follower, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_follower, "CHECK_EVERY", 0.05)

    def refuse(topic: Topic) -> None:
        if topic == B:
            raise ValueError("no record of ours")

    truth.on_read = refuse
    await follower.watch(A)
    await follower.watch(B)

    await until(lambda: min(truth.read.count(A), truth.read.count(B)) > 2, "the follower has given up")


async def test_a_message_that_is_not_ours_does_not_end_the_listening(
    server: Server, follower: Follower
) -> None:
    tail = follower.tails.add(A, "E", 0)
    server.said = b"r E nonsense\n"
    await follower.watch(A)

    await until(lambda: server.subscribed.count(channel(follower, A)) > 1, "the follower did not come back")
    assert tail.head == 0


@pytest.mark.usefixtures("tails")
async def test_who_comes_while_the_follower_subscribes_is_subscribed_to(
    server: Server, follower: Follower
) -> None:
    class Slow(Connection):
        async def send_command(self, *words: str, **options: object) -> None:
            await super().send_command(*words, **options)
            if words[0] == "SUBSCRIBE" and channel(follower, B) not in words:
                await follower.watch(B)

    follower._store.pool.connection_class = Slow
    await follower.watch(A)

    await until(lambda: channel(follower, B) in server.subscribed, "nobody subscribed to the second topic")


async def test_who_comes_while_channels_are_let_go_is_subscribed_to(
    server: Server, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    await follower.watch(A)
    await follower.watch(B)
    await until(lambda: len(set(server.subscribed)) == 2, "the follower did not come")
    server.subscribed.clear()
    tails: list[Tail] = []
    say = follower._say

    async def interrupted(*words: str) -> None:
        await say(*words)
        if not tails:
            tails.append(follower.tails.add(B, "E", 0))
            await follower.watch(B)

    monkeypatch.setattr(follower, "_say", interrupted)
    await follower._forget_channels()

    await until(lambda: server.subscribed == [channel(follower, B)], "nobody subscribed to the topic again")
    assert set(follower._channels.values()) == {B}
