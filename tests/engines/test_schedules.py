"""Fault schedules: processes append, die and come back, servers are killed, readers follow.

Whatever the schedule: what was acknowledged is in the log; numbers have no hole; and what each reader got is the log minus declared gaps,
once each, in order. A schedule is made from its seed alone; a failing one is run again by its id.
"""

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from redis_server import PROGRAM, RedisServer

from agentkit.engine import Engine
from agentkit.engines.url import open_engine
from agentkit.errors import EngineError
from agentkit.log import EARLIEST, Cursor, Record, Topic
from agentkit.testing.engine_stand import until

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

APPENDER = Path(__file__).with_name("appender.py")
TOPIC = Topic("", "a", "main")
FEW = 3
MANY = {"sqlite": 200, "redis": 50}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def schedules(engine: str) -> list[object]:
    few = [pytest.param(seed, id=f"{engine} {seed}") for seed in range(FEW)]
    many = range(FEW, FEW + MANY[engine])
    return [*few, *(pytest.param(seed, marks=pytest.mark.full, id=f"{engine} {seed}") for seed in many)]


@pytest.fixture
def server(require: Callable[[str, bool, str], None], tmp_path: Path) -> Iterator[RedisServer]:
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.kill()


class Reader:
    """Follows the log through a tail as a network reader does: live, or by reading pages where it is behind."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.got: list[Record] = []
        self.cursor = EARLIEST

    async def read(self) -> None:
        tail = await self.engine.log.tail(TOPIC)
        woken = anyio.Event()

        def wake() -> None:
            woken.set()

        tail.on_wake(wake)
        while True:
            if tail.holds(self.cursor):
                page = tail.after(self.cursor, 50)
            else:
                try:
                    page = await self.engine.log.read(TOPIC, self.cursor, 50)
                except EngineError:
                    await anyio.sleep(0.05)
                    continue
            assert page.gap is None, page.gap
            self.got += page.records
            self.cursor = page.cursor
            if not page.records:
                await woken.wait()
                woken = anyio.Event()


class Writer:
    """An appender's process, killed and started again."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self.lives = 0
        self.said: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.lives += 1
        words = [sys.executable, str(APPENDER), self.url, f"{self.name}{self.lives}", "40"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)

    def end(self, *, kill: bool) -> None:
        if self.process is not None:
            if kill:
                self.process.send_signal(signal.SIGKILL)
            out, _ = self.process.communicate(timeout=30)
            lines = out.decode().splitlines(keepends=True)
            self.said += [line.strip() for line in lines if line.endswith("\n")]
            self.process = None


async def run_schedule(seed: int, url: str, disturb: Callable[[random.Random], None]) -> None:
    chance = random.Random(seed)
    engines = [open_engine(url) for _ in range(2)]
    readers = [Reader(engine) for engine in engines]
    writers = [Writer(url, name) for name in ("x", "y")]
    try:
        async with anyio.create_task_group() as group:
            for reader in readers:
                group.start_soon(reader.read)
            for writer in writers:
                writer.start()
            for _ in range(2):
                await anyio.sleep(0.3 + chance.random() * 0.4)
                if chance.random() < 0.7:
                    victim = chance.choice(writers)
                    await anyio.to_thread.run_sync(partial(victim.end, kill=True))
                    victim.start()
                if chance.random() < 0.7:
                    await anyio.to_thread.run_sync(disturb, chance)
            for writer in writers:
                await anyio.to_thread.run_sync(partial(writer.end, kill=False))
            log = await whole_log(engines[0])
            await until(
                lambda: all(len(r.got) >= len(log) for r in readers), "readers did not get everything"
            )
            group.cancel_scope.cancel()
    finally:
        for writer in writers:
            writer.end(kill=True)
        for engine in engines:
            await engine.aclose()

    words = [json.loads(record.body)["data"] for record in log]
    assert [record.seq for record in log] == list(range(1, len(log) + 1))
    for reader in readers:
        assert reader.got == log
    for writer in writers:
        kept = [word for word in words if word.startswith(writer.name)]
        assert [word for word in kept if word in set(writer.said)] == writer.said
        assert len(set(kept)) == len(kept), "something was kept twice"


async def whole_log(engine: Engine) -> list[Record]:
    records: list[Record] = []
    cursor: Cursor = EARLIEST
    while True:
        page = await engine.log.read(TOPIC, cursor, 200)
        if not page.records:
            return records
        records += page.records
        cursor = page.cursor


@pytest.mark.parametrize("seed", schedules("sqlite"))
async def test_sqlite(seed: int, tmp_path: Path) -> None:
    await run_schedule(seed, f"sqlite:///{tmp_path / 'log.db'}", lambda _: None)


@pytest.mark.parametrize("seed", schedules("redis"))
async def test_redis(seed: int, server: RedisServer) -> None:
    def disturb(chance: random.Random) -> None:
        match chance.choice(["kill", "clients", "pause"]):
            case "kill":
                server.kill()
                server.start()
            case "clients":
                server.ask("CLIENT", "KILL", "TYPE", "normal")
                server.ask("CLIENT", "KILL", "TYPE", "pubsub")
            case _:
                server.ask("CLIENT", "PAUSE", "400")

    await run_schedule(seed, server.url, disturb)
