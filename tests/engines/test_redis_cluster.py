"""What is supported beyond one Redis server: one node with all slots, an address that moves to a promoted replica; not a client of its own.

A server in cluster mode refuses every command and script whose keys lie in two slots: the conformance table against it shows that none does.
"""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import pytest
from redis.crc import key_slot
from redis_server import PROGRAM, RedisServer

from agentkit.engines.redis import RedisEngine
from agentkit.engines.redis_store import Keys
from agentkit.envelope import draft_all
from agentkit.errors import EngineError
from agentkit.log import EARLIEST, Cursor, Gap, Record, Topic
from agentkit.testing.engine_stand import follow, said, until
from agentkit.testing.engines import ENGINE_CHECKS, EngineCheck

pytestmark = [pytest.mark.anyio, pytest.mark.faults]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def cluster_node(folder: Path) -> RedisServer:
    folder.mkdir(exist_ok=True)
    return RedisServer(folder, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))


@pytest.fixture(scope="module")
def node(
    require: Callable[[str, bool, str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    """A cluster of one node."""
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    server = cluster_node(tmp_path_factory.mktemp("redis"))
    try:
        assert server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383").startswith(b"+OK")
        wait_until_ok(server)
        yield server
    finally:
        server.kill()


def wait_until_ok(server: RedisServer) -> None:
    """Wait until a cluster serves: a second or two, since a node does not trust its own start sooner."""
    end = time.monotonic() + 30
    while b"cluster_state:ok" not in server.ask("CLUSTER", "INFO"):
        assert time.monotonic() < end, "the cluster did not begin"
        time.sleep(0.05)


@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=str)
async def test_no_command_and_no_script_has_keys_in_two_slots(check: EngineCheck, node: RedisServer) -> None:
    await check.run(lambda: RedisEngine(node.url))


@pytest.mark.pure
def test_all_keys_of_a_topic_are_in_one_slot_and_topics_are_spread() -> None:
    slots = set()
    for number in range(200):
        keys = Keys("agentkit", f"{number:024x}")
        names = [
            *keys.of_log,
            keys.messages,
            keys.runs,
            keys.thread,
            keys.signals,
            keys.channel,
            keys["claims"],
        ]
        found = {key_slot(name.encode()) for name in names}
        assert len(found) == 1
        slots |= found
    assert len(slots) > 190


@pytest.mark.full
async def test_a_cluster_of_several_nodes_is_refused_in_words(
    require: Callable[[str, bool, str], None], tmp_path: Path
) -> None:
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    nodes = [cluster_node(tmp_path / name) for name in ("a", "b")]
    engine = RedisEngine(nodes[0].url, timeout=1.0, patience=1.0)
    try:
        nodes[0].ask("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
        nodes[1].ask("CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
        bus = nodes[1].options[-1]
        nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(nodes[1].port), bus)
        for node in nodes:
            await anyio.to_thread.run_sync(wait_until_ok, node)
        refused: list[str] = []
        for number in range(20):
            topic = Topic("", "a", f"t{number}")
            try:
                await engine.log.append(topic, draft_all(topic, [said("x")]))
            except EngineError as error:
                refused.append(str(error))
        assert 0 < len(refused) < 20
        assert all("it is a cluster of several nodes" in words for words in refused)
    finally:
        await engine.aclose()
        for node in nodes:
            node.kill()


class Address:
    """One address, behind which there is one server or another: what a virtual IP, a proxy or a name does in a failover."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._streams: set[anyio.abc.SocketStream] = set()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve)
            yield
            group.cancel_scope.cancel()

    async def move(self, target: int) -> None:
        self.target = target
        for stream in list(self._streams):
            await stream.aclose()

    async def _serve(self, client: anyio.abc.SocketStream) -> None:
        with contextlib.suppress(
            OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream
        ):
            async with client, await anyio.connect_tcp("127.0.0.1", self.target) as server:
                self._streams |= {client, server}
                async with anyio.create_task_group() as group:
                    group.start_soon(self._copy, client, server)
                    group.start_soon(self._copy, server, client)

    async def _copy(self, source: anyio.abc.SocketStream, sink: anyio.abc.SocketStream) -> None:
        with contextlib.suppress(
            OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream
        ):
            while True:
                await sink.send(await source.receive())
        for stream in (source, sink):
            self._streams.discard(stream)
            await stream.aclose()


def offset(server: RedisServer) -> str:
    """How far a server has come in what its master wrote. WAIT would not do: it looks at what its own connection wrote."""
    words = server.ask("INFO", "replication").decode()
    return words.partition("master_repl_offset:")[2].split()[0]


@pytest.mark.parametrize("is_behind", [False, True], ids=["in step", "behind"])
async def test_a_failover_goes_on_with_what_the_replica_had(
    is_behind: bool, require: Callable[[str, bool, str], None], tmp_path: Path
) -> None:
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = RedisServer(tmp_path / "first", "--repl-diskless-sync-delay", "0")
    second = RedisServer(tmp_path / "second")
    address, topic = Address(first.port), Topic("", "a", "main")

    async def say(engine: RedisEngine, *words: str) -> list[Record]:
        return await engine.log.append(topic, draft_all(topic, [said(word) for word in words]))

    try:
        second.ask("REPLICAOF", "127.0.0.1", str(first.port))
        await until(lambda: b"master_link_status:up" in second.ask("INFO", "replication"), "no replication")
        async with address.open():
            engine = RedisEngine(f"redis://127.0.0.1:{address.port}/0", timeout=1.0, patience=4.5)
            tail = await engine.log.tail(topic)
            kept = await say(engine, "a", "b")
            await until(lambda: offset(first) == offset(second), "the replica is behind")
            if is_behind:
                second.ask("REPLICAOF", "NO", "ONE")
                await say(engine, "lost")
            first.kill()
            second.ask("REPLICAOF", "NO", "ONE")
            with anyio.fail_after(20):
                await address.move(second.port)
                (after,) = await say(engine, "after")
                page = await engine.log.read(topic, EARLIEST, 10)
                gap = (await engine.log.read(topic, Cursor(kept[0].epoch, 3), 10)).gap
                await until(
                    lambda: tail.epoch == after.epoch and tail.head == after.seq, "the tail is behind"
                )
                assert await follow(tail, Cursor(after.epoch, after.seq - 1), 1) == [after]
            await engine.aclose()
    finally:
        first.kill()
        second.kill()

    if is_behind:
        assert after.epoch != kept[0].epoch
        assert (list(page.records), gap) == ([after], Gap("epoch", 0, 0))
    else:
        assert (page.records, gap) == ([*kept, after], None)
