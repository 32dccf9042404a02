"""The SQLite file when it is full, locked, read-only, deleted, damaged or foreign: a clear error, and nothing acknowledged is lost."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentkit.engines import sqlite, sqlite_schema
from agentkit.engines.retention import Retention
from agentkit.engines.sqlite import SQLiteEngine
from agentkit.engines.sqlite_schema import VERSION
from agentkit.envelope import draft_all
from agentkit.errors import EngineError
from agentkit.events import RunStarted
from agentkit.log import EARLIEST, Cursor, Gap, Record, Topic
from agentkit.testing.engine_stand import said, until

pytestmark = pytest.mark.anyio

TOPIC = Topic("", "a", "main")


async def say(engine: SQLiteEngine, *words: str) -> list[Record]:
    return await engine.log.append(TOPIC, draft_all(TOPIC, [said(word) for word in words]))


async def seqs(engine: SQLiteEngine) -> list[int]:
    return [record.seq for record in (await engine.log.read(TOPIC, EARLIEST, 1000)).records]


def limit_pages(engine: SQLiteEngine, count: int) -> None:
    """SQLite's own way to say that the disk is full."""
    engine._writer._connection.execute(f"PRAGMA max_page_count={count}")


async def test_a_full_disk_is_told_and_writing_goes_on_once_there_is_room(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    await say(engine, "kept")
    limit_pages(engine, 40)
    with pytest.raises(EngineError, match="the disk is full"):
        for _ in range(10):
            await say(engine, "x" * 60_000)
    kept = await seqs(engine)
    limit_pages(engine, 100_000)
    (later,) = await say(engine, "on")

    assert kept == list(range(1, later.seq))
    await engine.aclose()


async def test_a_full_disk_fails_only_what_does_not_fit(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    await say(engine, "kept")
    limit_pages(engine, 40)
    failed: list[str] = []

    async def write(word: str) -> None:
        try:
            await say(engine, *[word] * 8)
        except EngineError:
            failed.append(word[0])

    async with anyio.create_task_group() as group:
        for word in ("small", "L" * 60_000, "tiny"):
            group.start_soon(write, word)
    assert failed == ["L"]
    assert await seqs(engine) == list(range(1, 18))
    await engine.aclose()


async def test_a_lock_of_another_program_is_waited_for_and_then_told(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db", busy_timeout=0.2)
    await say(engine, "kept")
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        with pytest.raises(EngineError, match="locked by another process"):
            await say(engine, "refused")
        assert await seqs(engine) == [1]
        group.cancel_scope.cancel()
    other.execute("ROLLBACK")
    other.close()

    assert ticks > 3
    assert [record.seq for record in await say(engine, "on")] == [2]
    await engine.aclose()


async def test_a_file_that_may_only_be_read_is_told_and_read(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    await say(engine, "kept")
    engine._writer._connection.execute(
        "PRAGMA query_only=ON"
    )  # as a file system without write access would do
    with pytest.raises(EngineError, match="it is read-only"):
        await say(engine, "refused")
    kept = await seqs(engine)
    engine._writer._connection.execute("PRAGMA query_only=OFF")

    assert kept == [1]
    assert [record.seq for record in await say(engine, "on")] == [2]
    await engine.aclose()


async def test_a_write_ahead_log_that_readers_made_grow_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_SIZE", 300_000)
    engine = SQLiteEngine(tmp_path / "log.db", lease=0.2)
    wal = tmp_path / "log.db-wal"
    await say(engine, "first")
    reader = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM topics").fetchone()
    while wal.stat().st_size < 600_000:
        await say(engine, "x" * 50_000)
    (during,) = await say(engine, "while somebody reads")
    reader.execute("COMMIT")
    reader.close()

    await until(lambda: wal.stat().st_size < 300_000, "the write-ahead log stayed as it was")
    (after,) = await say(engine, "on")
    assert await seqs(engine) == list(range(1, after.seq + 1))
    assert after.seq == during.seq + 1
    assert engine._writer._connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)
    await engine.aclose()


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
async def test_a_file_that_is_gone_takes_nothing_more_and_is_not_made_anew(
    tmp_path: Path, replaced: bool
) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    await say(engine, "kept")
    os.rename(tmp_path / "log.db", tmp_path / "moved.db")
    if replaced:
        (tmp_path / "log.db").touch()
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            await say(engine, "lost")
        assert str(tmp_path) not in str(caught.value)
    assert (tmp_path / "log.db").exists() == replaced
    await engine.aclose()


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no database": (lambda data: b"what is this?" * 1000, "no SQLite database"),
    "cut": (lambda data: data[: len(data) // 2 // 4096 * 4096], "damaged"),
    "overwritten": (lambda data: data[:4096] + os.urandom(len(data) - 4096), "damaged"),
}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_a_damaged_file_is_refused_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.db"
    engine = SQLiteEngine(path)
    for _ in range(20):
        await say(engine, "x" * 5000)
    await engine.aclose()
    change, words = DAMAGE[kind]
    damaged = change(path.read_bytes())
    path.write_bytes(damaged)

    with pytest.raises(EngineError, match=words) as caught:
        SQLiteEngine(path)
    assert str(tmp_path) not in str(caught.value)
    assert path.read_bytes() == damaged


@pytest.mark.pure
def test_a_file_of_another_program_or_a_newer_schema_is_refused(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE x (y)")
    foreign.close()
    with pytest.raises(EngineError, match="another program"):
        SQLiteEngine(tmp_path / "foreign.db")

    anyio.run(SQLiteEngine(tmp_path / "log.db").aclose)
    newer = sqlite3.connect(tmp_path / "log.db")
    newer.execute(f"PRAGMA user_version={VERSION + 1}")
    newer.close()
    with pytest.raises(EngineError, match=f"schema {VERSION + 1}"):
        SQLiteEngine(tmp_path / "log.db")


@pytest.mark.pure
def test_a_file_that_another_process_brings_further_while_we_open_it_keeps_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anyio.run(SQLiteEngine(tmp_path / "log.db").aclose)
    use_wal = sqlite_schema._use_wal

    def overtaken(connection: sqlite3.Connection, busy_timeout: float) -> None:
        use_wal(connection, busy_timeout)
        connection.execute(f"PRAGMA user_version={VERSION + 1}")

    monkeypatch.setattr(sqlite_schema, "_use_wal", overtaken)
    with pytest.raises(EngineError, match=f"schema {VERSION + 1}"):
        SQLiteEngine(tmp_path / "log.db")
    file = sqlite3.connect(tmp_path / "log.db")
    (version,) = file.execute("PRAGMA user_version").fetchone()
    file.close()

    assert version == VERSION + 1


async def test_a_file_of_an_older_schema_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_schema, "_MIGRATIONS", sqlite_schema._MIGRATIONS[:1])
        patch.setattr(sqlite_schema, "VERSION", 1)
        sqlite_schema.set_up(path, busy_timeout=1)
    old = sqlite3.connect(path)
    old.execute(
        "INSERT INTO topics (id, owner, agent, thread, epoch, head, bytes, updated)"
        " VALUES (1, '', 'a', 'main', 'E', 2, 9, ?)",
        (time.time(),),
    )
    body = '{"x":"\u00e9"}'.encode()
    values = (1, 1, "x", "", "r", "b", 1.5, 0, b"{}"), (1, 2, "y", "k", "r", "", 2.5, 1, body)
    old.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    old.commit()
    old.close()

    engine = SQLiteEngine(path)
    kept = (await engine.log.read(TOPIC, EARLIEST, 10)).records
    (first,) = await say(engine, "x")
    await engine.log.delete(TOPIC)
    page = await engine.log.read(TOPIC, Cursor("E", 1), 10)
    await engine.aclose()

    assert kept == [
        Record("E", 1, "x", "", "r", "b", 1.5, b"{}"),
        Record("E", 2, "y", "k", "r", "", 2.5, body, terminal=True),
    ]
    assert (first.id, page.gap) == ("E-3", Gap("deleted", 0, 0))


@pytest.mark.pure
def test_a_place_where_no_file_can_be_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "log.db", tmp_path):
        with pytest.raises(EngineError) as caught:
            SQLiteEngine(path)
        assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    "retention",
    [Retention(records=20), Retention(bytes=4000), Retention(age=0.05)],
    ids=["count", "bytes", "age"],
)
async def test_a_log_is_kept_within_its_bounds_and_a_gap_tells_what_went(
    tmp_path: Path, retention: Retention
) -> None:
    engine = SQLiteEngine(tmp_path / "log.db", retention=retention)
    (first,) = await say(engine, "first")
    if retention.age < 1:
        await anyio.sleep(0.1)
    for _ in range(300):
        await say(engine, "x" * 50)
    page = await engine.log.read(TOPIC, Cursor(first.epoch, 0), 1000)

    assert page.head == 301
    assert page.gap == Gap("trimmed", 1, page.records[0].seq - 1)
    assert [record.seq for record in page.records] == list(range(page.records[0].seq, 302))
    await engine.aclose()


async def test_a_run_that_goes_on_is_not_trimmed(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db", retention=Retention(records=20))
    await engine.log.append(TOPIC, draft_all(TOPIC, [RunStarted("run_a", 0, time.time(), "a", "main")]))
    for _ in range(100):
        await say(engine, "x")

    assert len(await seqs(engine)) == 101
    await engine.aclose()


async def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    await engine.aclose()
    await engine.aclose()

    with pytest.raises(EngineError, match="closed"):
        await say(engine, "late")


async def test_a_tail_that_nobody_holds_is_let_go(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")
    tail = await engine.log.tail(TOPIC)
    assert tail.head == 0
    del tail
    await until(lambda: len(engine._follower.tails) == 0, "the tail was not let go")
    await engine.aclose()


def test_an_engine_works_in_one_loop_after_another(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path / "log.db")

    async def live(number: int) -> int:
        tail = await engine.log.tail(TOPIC)
        await say(engine, "x")
        await until(lambda: tail.head == number, "the tail was not fed")
        return tail.head

    assert [anyio.run(live, number) for number in (1, 2)] == [1, 2]
    anyio.run(engine.aclose)
