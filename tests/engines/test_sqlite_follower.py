"""The SQLite follower and its threads when what they meet is not what they expect: told, and on they go; nobody waits for ever."""

import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from agentkit.engine import Signal
from agentkit.engines import sqlite_follower
from agentkit.engines.sqlite import SQLiteEngine
from agentkit.engines.sqlite_store import Store
from agentkit.envelope import draft_all
from agentkit.errors import ConfigurationError
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, Cursor, Page, Topic
from agentkit.testing.engine_stand import follow, said, until

pytestmark = pytest.mark.anyio

TOPIC = Topic("", "a", "main")


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[list[SQLiteEngine]]:
    engines = [SQLiteEngine(tmp_path / "log.db", lease=0.3) for _ in range(2)]
    yield engines
    for engine in engines:
        await engine.aclose()


async def test_a_signal_that_is_not_understood_keeps_no_other_and_no_record_back(
    engines: list[SQLiteEngine],
) -> None:
    owner, other = engines
    heard: list[Signal] = []

    def refuse(_: Signal) -> None:
        raise ConfigurationError("no such mode")

    tail = await owner.log.tail(TOPIC)
    await owner.control.listen(TOPIC, "run_a", refuse)
    await owner.control.listen(TOPIC, "run_b", heard.append)
    for run in ("run_a", "run_b"):
        await other.control.send(TOPIC, run, Signal("cancel"))
    written = await other.log.append(TOPIC, draft_all(TOPIC, [said("on")]))

    assert await follow(tail, Cursor(tail.epoch, 0), 1) == written
    await until(lambda: heard == [Signal("cancel")], "the second signal did not come")


async def test_a_look_that_fails_is_followed_by_another(
    engines: list[SQLiteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_follower, "RETRY", 0.01)
    reader, other = engines
    tail = await reader.log.tail(TOPIC)
    read, faults = Store.read, [ValueError("no heads of ours"), sqlite3.OperationalError("disk I/O error")]

    def failing(
        store: Store, connection: sqlite3.Connection, topic: Topic, after: Cursor, limit: int
    ) -> Page:
        if faults:
            raise faults.pop()
        return read(store, connection, topic, after, limit)

    monkeypatch.setattr(Store, "read", failing)
    written = await other.log.append(TOPIC, draft_all(TOPIC, [said("on")]))

    assert await follow(tail, Cursor(tail.epoch, 0), 1) == written
    assert faults == []


async def test_housekeeping_that_fails_does_not_end_the_writing(
    engines: list[SQLiteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = engines
    faults = [ValueError("no heads of ours")]
    sweep = engine._writer._idle

    def failing(connection: sqlite3.Connection) -> float | None:
        if faults:
            raise faults.pop()
        return sweep(connection)

    monkeypatch.setattr(engine._writer, "_idle", failing)
    for number in range(3):
        with anyio.fail_after(30):
            await engine.log.append(TOPIC, draft_all(TOPIC, [said(number)]))

    assert faults == []


async def test_a_lost_run_whose_record_cannot_be_read_keeps_no_other_from_being_told(
    engines: list[SQLiteEngine], tmp_path: Path
) -> None:
    engine, _ = engines
    other = TOPIC._replace(thread="other")
    for topic in (TOPIC, other):
        assert await engine.leases.acquire(topic, "run_lost", wait=False)
        await engine.threads.put_run(topic, RunRecord("run_lost", "running", time.time()))
    file = sqlite3.connect(tmp_path / "log.db")
    file.execute("UPDATE runs SET record = '{}' WHERE topic = (SELECT id FROM topics WHERE thread = 'main')")
    file.commit()
    file.close()

    tail = await engine.log.tail(other)
    page = await engine.log.read(other, EARLIEST, 10)
    (end,) = page.records or await follow(tail, page.cursor, 1)

    assert (end.type, end.run) == ("run.failed", "run_lost")
    assert [await engine.leases.holder(topic) for topic in (TOPIC, other)] == [None, None]
    assert await engine.leases.acquire(TOPIC, "run_next", wait=False)
