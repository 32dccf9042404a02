"""The Redis engine when its server restarts, forgets, is full, is slow or turns into a replica: told, never doubled, never silent."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import pytest
from redis_server import PROGRAM, RedisServer

from agentkit.engines.redis import RedisEngine
from agentkit.engines.redis_scripts import APPEND
from agentkit.engines.redis_store import pack
from agentkit.engines.retention import Retention
from agentkit.envelope import draft_all
from agentkit.errors import ConfigurationError, EngineError
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, Cursor, Gap, Record, Topic
from agentkit.testing.engine_stand import follow, said, until

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

TOPIC = Topic("", "a", "main")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(
    request: pytest.FixtureRequest, require: Callable[[str, bool, str], None], tmp_path: Path
) -> Iterator[RedisServer]:
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    server = RedisServer(tmp_path, *getattr(request, "param", ()))
    yield server
    server.kill()


@pytest.fixture
async def engine(server: RedisServer) -> AsyncIterator[RedisEngine]:
    engine = RedisEngine(server.url, timeout=0.3, patience=3.0)
    yield engine
    await engine.aclose()


async def say(engine: RedisEngine, *words: str) -> list[Record]:
    return await engine.log.append(TOPIC, draft_all(TOPIC, [said(word) for word in words]))


async def seqs(engine: RedisEngine) -> list[int]:
    return [record.seq for record in (await engine.log.read(TOPIC, EARLIEST, 256)).records]


@pytest.mark.parametrize("server", [("--appendonly", "yes", "--appendfsync", "always")], indirect=True)
async def test_a_restart_with_its_data_is_waited_for(server: RedisServer, engine: RedisEngine) -> None:
    tail = await engine.log.tail(TOPIC)
    written = await say(engine, "a", "b")
    server.kill()
    async with anyio.create_task_group() as group:
        group.start_soon(say, engine, "c")
        await anyio.to_thread.run_sync(server.start)

    got = await follow(tail, Cursor(written[0].epoch, 0), 3)
    assert got[:2] == written
    assert got == list((await engine.log.read(TOPIC, EARLIEST, 10)).records)


@pytest.mark.parametrize("way", ["restart", "flush"])
async def test_a_server_that_lost_its_data_begins_a_new_epoch_and_watchers_learn_it(
    server: RedisServer, engine: RedisEngine, way: str
) -> None:
    tail = await engine.log.tail(TOPIC)
    old = (await say(engine, "a", "b"))[-1]
    if way == "flush":
        server.ask("FLUSHALL")
    else:
        server.kill()
        server.start()
    await until(lambda: tail.epoch != old.epoch, "the watcher did not learn it")
    page = await engine.log.read(TOPIC, Cursor(old.epoch, 2), 10)
    (new,) = await say(engine, "c")

    assert (list(page.records), page.gap) == ([], Gap("epoch", 0, 0))
    assert (new.seq, new.epoch) == (1, tail.epoch)
    assert await follow(tail, Cursor(new.epoch, 0), 1) == [new]


async def test_a_server_that_lost_its_last_second_begins_a_new_epoch(
    server: RedisServer, engine: RedisEngine
) -> None:
    old = (await say(engine, "a", "b"))[-1]
    meta = engine._store.keys(TOPIC).meta
    server.ask("HSET", meta, "head", "1")  # as a server that restarted without the last of its file
    (new,) = await say(engine, "c")

    assert new.epoch != old.epoch


async def test_connections_that_are_killed_double_nothing_and_lose_nothing(
    server: RedisServer, engine: RedisEngine
) -> None:
    tail = await engine.log.tail(TOPIC)
    start = Cursor(tail.epoch, 0)
    is_done = False

    async def kill() -> None:
        while not is_done:
            await anyio.to_thread.run_sync(server.ask, "CLIENT", "KILL", "TYPE", "normal")
            await anyio.to_thread.run_sync(server.ask, "CLIENT", "KILL", "TYPE", "pubsub")
            await anyio.sleep(0.01)

    words = [f"word {number}" for number in range(60)]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(kill)
            for word in words:
                await say(engine, word)
            is_done = True
        got = await follow(tail, start, len(words))
    assert [record.seq for record in got] == list(range(1, 61))
    assert [word.encode() in record.body for word, record in zip(words, got, strict=True)] == [True] * 60


async def test_a_slow_server_gets_each_append_once(server: RedisServer, engine: RedisEngine) -> None:
    await say(engine, "a")
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, server.ask, "DEBUG", "SLEEP", "1")
        await anyio.sleep(0.05)
        await say(engine, "b")
        await say(engine, "c")
    await anyio.sleep(0.1)  # what waited in the server's sockets has come through

    assert await seqs(engine) == [1, 2, 3]


async def test_a_server_that_is_gone_is_told_in_time(server: RedisServer, engine: RedisEngine) -> None:
    await say(engine, "a")
    server.kill()

    with anyio.fail_after(20), pytest.raises(EngineError, match="cannot be reached") as caught:
        await say(engine, "b")
    assert str(server.port) not in str(caught.value)


async def test_a_server_without_memory_says_so_and_goes_on_later(
    server: RedisServer, engine: RedisEngine
) -> None:
    await say(engine, "a")
    server.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(EngineError, match="no memory left"):
        await say(engine, "b")
    assert await seqs(engine) == [1]
    server.ask("CONFIG", "SET", "maxmemory", "0")

    assert [record.seq for record in await say(engine, "c")] == [2]


async def test_a_replica_is_told_and_a_server_that_was_promoted_serves(
    server: RedisServer, engine: RedisEngine
) -> None:
    await say(engine, "a")
    server.ask("REPLICAOF", "127.0.0.1", "1")
    async with anyio.create_task_group() as group:
        group.start_soon(say, engine, "b")
        await anyio.sleep(0.3)
        server.ask("REPLICAOF", "NO", "ONE")

    assert await seqs(engine) == [1, 2]


@pytest.mark.parametrize("server", [("--maxmemory-policy", "allkeys-lru")], indirect=True)
async def test_a_server_that_evicts_is_refused(engine: RedisEngine) -> None:
    with pytest.raises(EngineError, match="set it to noeviction"):
        await say(engine, "a")


async def test_a_log_is_kept_within_its_bounds(server: RedisServer) -> None:
    engine = RedisEngine(server.url, retention=Retention(records=20))
    first = (await say(engine, "first"))[0]
    for _ in range(60):
        await say(engine, "x")
    page = await engine.log.read(TOPIC, Cursor(first.epoch, 0), 100)

    assert page.head == 61
    assert page.gap == Gap("trimmed", 1, page.records[0].seq - 1)
    assert 20 <= len(page.records) <= 23
    await engine.aclose()


def test_a_url_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Redis URL"):
        RedisEngine("http://localhost")


async def test_a_first_try_that_comes_after_its_second_is_not_kept_again(engine: RedisEngine) -> None:
    (record,) = await say(engine, "a")
    store, keys = engine._store, engine._store.keys(TOPIC)
    draft = draft_all(TOPIC, [said("b")])[0]
    answers = []
    for again in ("1", "0"):  # the slow server does the second try first
        args: list[object] = [keys.channel, *store.kept, "", "batch", again, "none", record.epoch, 1]
        args += ["", "0", pack(draft, "batch")]
        answers.append(await store.eval(APPEND, [*keys.of_log, keys["retried"]], args))

    assert answers[0] == answers[1]
    assert await seqs(engine) == [1, 2]


async def lose(engine: RedisEngine, topic: Topic = TOPIC) -> None:
    """Leave a run behind as a process does that dies."""
    assert await engine.leases.acquire(topic, "run_lost", wait=False)
    await engine.threads.put_run(topic, RunRecord("run_lost", "running", 1.0))


async def told(engine: RedisEngine, topic: Topic = TOPIC) -> None:
    tail = await engine.log.tail(topic)
    page = await engine.log.read(topic, EARLIEST, 10)
    (end,) = page.records or await follow(tail, page.cursor, 1)
    assert (end.type, end.run) == ("run.failed", "run_lost")


async def test_a_run_is_told_lost_in_time_whatever_the_clock_of_its_host_said(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = RedisEngine(server.url, lease=0.4), RedisEngine(server.url, lease=0.4)
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: now + 3600.0)
        await lose(owner)
    await owner.aclose()

    await told(other)
    await other.aclose()


async def test_a_lease_that_is_taken_while_a_sweep_looks_is_looked_after(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = RedisEngine(server.url, lease=0.4), RedisEngine(server.url, lease=0.4)
    owner._store.on_use = lambda: None  # only the other one sweeps
    before = await owner.leases.acquire(TOPIC, "run_before", wait=False)
    assert before is not None
    await owner.leases.release(before)
    owners, looks = other.leases._owners, 0

    async def slow(topic: Topic) -> list[tuple[str, str]]:
        nonlocal looks
        looks += 1
        found = await owners(topic)
        if looks == 1:
            await lose(owner)
            await owner.aclose()
        return found

    monkeypatch.setattr(other.leases, "_owners", slow)

    await told(other)
    assert looks > 1
    await other.aclose()


async def test_a_lost_run_whose_record_cannot_be_read_keeps_no_other_from_being_told(
    server: RedisServer,
) -> None:
    owner, other = RedisEngine(server.url, lease=0.4), RedisEngine(server.url, lease=0.4)
    second = TOPIC._replace(thread="other")
    await lose(owner)
    await lose(owner, second)
    server.ask("HSET", owner._store.keys(TOPIC).runs, "run_lost", "{}")
    await owner.aclose()

    await told(other, second)
    assert await other.leases.acquire(TOPIC, "run_next", wait=False)
    await other.aclose()
