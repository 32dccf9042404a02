"""The follower: what others have committed to the file comes into this process's tails, handlers and waits.

One task per process, and only while somebody watches. The reader's thread looks every few milliseconds whether another
connection has committed (a counter in shared memory, no query); only then is anything read.
"""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from agentkit.background import Work, spawn
from agentkit.engine import Signal
from agentkit.engines.sqlite_store import Store
from agentkit.engines.sqlite_thread import Call, SQLiteThread, call_soon
from agentkit.engines.stored import load_data
from agentkit.engines.tails import Tails
from agentkit.errors import AgentKitError, EngineError
from agentkit.log import Cursor, Page, Topic

logger = logging.getLogger("agentkit")

PAGE = 512
"""Records that are read for one topic before the others get their turn."""
RETRY = 0.5
"""Seconds until the next try after the file could not be read."""

Handler = Callable[[Signal], None]


@dataclass(slots=True, eq=False)
class Wait:
    """A run that waits for its thread."""

    topic: Topic
    id: int
    """Of its row."""
    may_try: anyio.Event


@dataclass(frozen=True, slots=True)
class _Asked:
    stamp: int
    """Of the last look; -1 for none."""
    listens: bool
    places: dict[Topic, Cursor]
    unsure: frozenset[Topic]
    waits: list[tuple[Topic, int]]


@dataclass(frozen=True, slots=True)
class _Found:
    stamp: int
    pages: list[tuple[Topic, Page]]
    signals: list[tuple[int, Topic, str, Signal]]
    free: set[int]
    """Waits that are first in the line of a free thread."""
    more: set[Topic]


class Follower:
    """Watches the file for one event loop."""

    def __init__(self, store: Store, poll: float) -> None:
        self.tails = Tails()
        self.handlers: dict[tuple[Topic, str], Handler] = {}
        self.waits: set[Wait] = set()
        self._store = store
        self._poll = poll
        self._reader: SQLiteThread | None = None
        self._drop: Callable[[list[int]], None] = lambda _: None
        self._version = -1
        self._stamp = -1
        self._handed: set[int] = set()
        self._unsure: set[Topic] = set()
        self._work: Work | None = None
        self._call: Call | None = None
        self._kicked = anyio.Event()

    def begin(self, reader: SQLiteThread, drop: Callable[[list[int]], None]) -> None:
        """Take the thread that reads, and what lets signals go that were handed on."""
        self._reader = reader
        self._drop = drop

    def look(self, connection: sqlite3.Connection) -> float | None:
        """Look for another's commit: the reader's idle call, in its thread."""
        call = self._call
        if call is None:
            return None
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            try:
                call(self.kick)
            except RuntimeError:  # that loop is gone
                if self._call is call:
                    self._call = None
        return self._poll

    def kick(self) -> None:
        """Look now."""
        self._kicked.set()

    def mistrust(self, topic: Topic) -> None:
        """Bring a tail up to date that may have missed something."""
        self._unsure.add(topic)
        self.kick()

    def watch(self) -> None:
        """See to it that the file is watched."""
        if self._work is None or self._work.done:
            self._kicked = anyio.Event()
            self._call = call_soon()
            self._work = spawn(self._follow, name="follower of an SQLite engine")
            if self._reader is not None:
                self._reader.poke()

    async def aclose(self) -> None:
        """Stop watching."""
        self._call = None
        if self._work is not None and not self._work.done:
            self._work.cancel_soon()
            with anyio.move_on_after(1):  # one of a loop that is gone does not answer
                await self._work.join()

    async def _follow(self) -> None:
        try:
            while True:
                await self._kicked.wait()
                self._kicked = anyio.Event()
                if not (self.tails or self.handlers or self.waits):
                    return
                try:
                    await self._look_around()
                except Exception as error:  # this task must not die: whoever watches would wait for ever
                    if isinstance(error, EngineError):
                        logger.warning("an SQLite engine cannot be followed: %s", error)
                    else:
                        logger.exception("an SQLite engine's follower did not understand the file")
                    await anyio.sleep(RETRY)
                    self.kick()
        finally:
            self._call = None

    async def _look_around(self) -> None:
        if self._reader is None:
            return
        unsure, self._unsure = self._unsure, set()
        places = {topic: Cursor(tail.epoch, tail.head) for topic, tail in self.tails.watched}
        asked = _Asked(
            self._stamp,
            bool(self.handlers),
            places,
            frozenset(unsure),
            [(wait.topic, wait.id) for wait in self.waits],
        )
        try:
            found = await self._reader.do(lambda connection: self._read(connection, asked))
        except Exception:
            self._unsure |= unsure
            raise
        for topic, page in found.pages:
            if not self.tails.catch_up(topic, places[topic], page):
                found.more.add(topic)
        self._stamp = found.stamp
        if found.more:
            self._unsure |= found.more
            self.kick()
        self._hand_on(found)
        for wait in self.waits:
            if wait.id in found.free:
                wait.may_try.set()

    def _hand_on(self, found: _Found) -> None:
        done: list[int] = []
        for number, topic, run, signal in found.signals:
            handler = self.handlers.get((topic, run))
            if handler is not None and number not in self._handed:
                done.append(number)
                try:
                    handler(signal)
                except AgentKitError:
                    logger.exception("a signal of run %s was not understood", run)
        self._handed.intersection_update([number for number, *_ in found.signals])
        if done:
            self._handed.update(done)
            self._drop(done)

    def _read(self, connection: sqlite3.Connection, asked: _Asked) -> _Found:
        """Return what has changed: work for the reader's thread."""
        (stamp,) = connection.execute("SELECT coalesce(max(stamp), 0) FROM topics").fetchone()
        changed = set(asked.unsure)
        if asked.places and 0 <= asked.stamp != stamp:
            changed |= {
                Topic(*name)
                for name in connection.execute(
                    "SELECT owner, agent, thread FROM topics WHERE stamp > ?", (asked.stamp,)
                )
            }
        pages: list[tuple[Topic, Page]] = []
        more: set[Topic] = set()
        for topic in changed & asked.places.keys():
            page = self._store.read(connection, topic, asked.places[topic], PAGE)
            if page.records or page.gap is not None:
                pages.append((topic, page))
            if page.cursor.seq < page.head:
                more.add(topic)
        signals = _signals(connection) if asked.listens else []
        free = {number for topic, number in asked.waits if self._is_free(connection, topic, number)}
        return _Found(stamp, pages, signals, free, more)

    def _is_free(self, connection: sqlite3.Connection, topic: Topic, number: int) -> bool:
        row = self._store.find(connection, topic)
        (is_free,) = connection.execute(
            "SELECT NOT EXISTS (SELECT 1 FROM leases WHERE topic = :topic) AND"
            " (SELECT min(id) FROM waiters WHERE topic = :topic) IS :number",
            {"topic": row.id, "number": number},
        ).fetchone()
        return bool(is_free)


def _signals(connection: sqlite3.Connection) -> list[tuple[int, Topic, str, Signal]]:
    """Return all signals that nobody has taken yet: a few, since they are let go after a minute."""
    rows = connection.execute(
        "SELECT signals.id, owner, agent, thread, run, kind, data FROM signals JOIN topics ON topics.id = signals.topic"
        " ORDER BY signals.id"
    )
    return [
        (number, Topic(owner, agent, thread), run, Signal(kind, load_data(data)))
        for number, owner, agent, thread, run, kind, data in rows
    ]
