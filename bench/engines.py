"""Measure the engines beside their raw floors: CPU µs per event for appends of 16, and the time from append to delivery.

`python bench/engines.py [--quick]`. Everything runs in one process on one loop. Cases alternate in short turns, for what else the machine
does to fall on all of them; medians of the turns, and of the ratios within a turn. The floors do the least that any engine on the same
store must: a writer thread that commits groups of 16 rows and acknowledges each; a pipeline of 16 XADD and an XREAD of them. Beside them
stands aiosqlite as it is usually written, an INSERT and a commit per event; it is installed under `bench/.peers` when it is not there. A
Redis server is started where there is one; its own CPU is not counted.
"""

import asyncio
import importlib
import queue
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentkit.engine import Engine
from agentkit.engines.memory import MemoryEngine
from agentkit.engines.redis import RedisEngine
from agentkit.engines.retention import Retention
from agentkit.engines.sqlite import SQLiteEngine
from agentkit.envelope import draft_all
from agentkit.events import TextDelta
from agentkit.log import Cursor, Draft, Tail, Topic

TICK = 16
COUNT = 2_000 if "--quick" in sys.argv else 16_000
TURN = 800
"""Events of one turn."""
ROUNDS = 5 if "--quick" in sys.argv else 30
PEERS = Path(__file__).parent / ".peers" / "aiosqlite"
AIOSQLITE = "aiosqlite==0.22.1"
TOPIC = Topic("", "bench", "main")
DRAFTS: list[Draft] = draft_all(
    TOPIC, [TextDelta("run_0123456789abcdef", 1, 1.5e9, "run_0123456789abcdef.1.0", " hello")] * TICK
)

KEEP = Retention(records=10**9, bytes=2**40, running_bytes=2**40)
"""The SQLite floor forgets nothing either."""

Ticks = Callable[[int], Awaitable[None]]


def engine_ticks(engine: Engine) -> Ticks:
    async def ticks(count: int) -> None:
        for _ in range(count):
            await engine.log.append(TOPIC, DRAFTS)

    return ticks


def sqlite_floor(path: Path) -> Ticks:
    """A thread that commits what a tick brings, and says so."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(
        "CREATE TABLE ev (run TEXT, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID"
    )
    work: queue.SimpleQueue[tuple[list[tuple[str, int, bytes]], asyncio.Future[None]]] = queue.SimpleQueue()

    def write() -> None:
        while True:
            rows, done = work.get()
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO ev VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
            done.get_loop().call_soon_threadsafe(done.set_result, None)

    threading.Thread(target=write, daemon=True).start()
    seq = 0

    async def ticks(count: int) -> None:
        nonlocal seq
        for _ in range(count):
            done = asyncio.get_running_loop().create_future()
            work.put(([("run", seq + n, draft.body) for n, draft in enumerate(DRAFTS)], done))
            seq += TICK
            await done

    return ticks


def redis_floor(url: str) -> Ticks:
    """A pipeline of XADD, and an XREAD of what came."""
    import redis.asyncio as redis

    client = redis.Redis.from_url(url, protocol=2)
    last: Any = "0"

    async def ticks(count: int) -> None:
        nonlocal last
        for _ in range(count):
            pipe = client.pipeline(transaction=False)
            for draft in DRAFTS:
                pipe.xadd("floor", {"d": draft.body}, maxlen=20000, approximate=True)
            await pipe.execute()
            answer: Any = await client.xread({"floor": last}, count=512)
            last = answer[0][1][-1][0]

    return ticks


async def aiosqlite_ticks(path: Path) -> Ticks:
    """An INSERT and a commit per event, each awaited: sixteen a tick."""
    if not PEERS.is_dir():
        words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(PEERS), AIOSQLITE]
        await asyncio.to_thread(subprocess.run, words, check=True)
    sys.path.append(str(PEERS))
    aiosqlite: Any = importlib.import_module("aiosqlite")
    connection = await aiosqlite.connect(path)
    connection.daemon = True
    await connection.execute("PRAGMA journal_mode=WAL")
    await connection.execute("PRAGMA synchronous=NORMAL")
    await connection.execute(
        "CREATE TABLE ev (run TEXT, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID"
    )
    seq = 0

    async def ticks(count: int) -> None:
        nonlocal seq
        if count < 0:
            await connection.close()
        for _ in range(count):
            for draft in DRAFTS:
                await connection.execute("INSERT INTO ev VALUES (?, ?, ?)", ("run", seq, draft.body))
                await connection.commit()
                seq += 1

    return ticks


async def cpu(ticks: Ticks) -> float:
    """Return CPU µs per event, all threads of this process."""
    begun = time.process_time()
    await ticks(TURN // TICK)
    return (time.process_time() - begun) / TURN * 1e6


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios turn by turn."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


async def latency(writer: Engine, reader: Engine) -> tuple[float, float]:
    """Return median and 99th percentile, in µs, from an append in one engine to its delivery in another over the same store."""
    topic = TOPIC._replace(thread="latency")
    tail: Tail = await reader.log.tail(topic)
    woken = asyncio.Event()
    tail.on_wake(woken.set)
    times = []
    for _ in range(COUNT // 50):
        cursor = Cursor(tail.epoch, tail.head)
        begun = time.perf_counter()
        await writer.log.append(topic, DRAFTS[:1])
        while not tail.after(cursor, 1).records:
            woken.clear()
            await woken.wait()
        times.append((time.perf_counter() - begun) * 1e6)
    times.sort()
    return statistics.median(times), times[len(times) * 99 // 100]


async def measure(folder: Path, url: str | None) -> None:
    engines: dict[str, tuple[Engine, Engine]] = {}
    memory = MemoryEngine()
    engines["memory"] = memory, memory
    engines["sqlite"] = (
        SQLiteEngine(folder / "log.db", retention=KEEP),
        SQLiteEngine(folder / "log.db", retention=KEEP),
    )
    cases: dict[str, Ticks] = {"sqlite floor": sqlite_floor(folder / "floor.db")}
    peer = await aiosqlite_ticks(folder / "peer.db")
    cases["aiosqlite"] = peer
    if url is not None:
        engines["redis"] = RedisEngine(url), RedisEngine(url)
        cases["redis floor"] = redis_floor(url)
    cases |= {name: engine_ticks(writer) for name, (writer, _) in engines.items()}
    rounds: dict[str, list[float]] = {name: [] for name in cases}
    for name, ticks in cases.items():
        await ticks(20)
        rounds[name].clear()
    for _ in range(ROUNDS):
        for name, ticks in cases.items():
            rounds[name].append(await cpu(ticks))
    costs = {name: statistics.median(each) for name, each in rounds.items()}
    for name in sorted(costs):
        floor = rounds.get(f"{name} floor")
        print(
            f"append, {TICK} a tick   {name:13s} {costs[name]:7.2f} µs CPU/event"
            + (f"   x {ratio(rounds[name], floor):.2f} of its floor" if floor else "")
        )
    print(f"aiosqlite costs x {ratio(rounds['aiosqlite'], rounds['sqlite']):.1f} of sqlite")
    await peer(-1)
    for name, (writer, reader) in engines.items():
        for where, follower in (("here", writer), ("elsewhere", reader)):
            median, worst = await latency(writer, follower)
            print(f"append → delivered {where:10s} {name:8s} p50 {median:7.0f} µs   p99 {worst:7.0f} µs")
    for pair in engines.values():
        for engine in pair:
            await engine.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = shutil.which("redis-server")
        server, url = None, None
        if program is not None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", name]
            server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
            url = f"redis://127.0.0.1:{port}/0"
            time.sleep(0.5)
        try:
            asyncio.run(measure(folder, url))
        finally:
            if server is not None:
                server.terminate()
                server.wait(10)


if __name__ == "__main__":
    main()
