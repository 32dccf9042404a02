"""The SQLite engine's threads: messages, runs, titles, idempotency keys. See `ThreadStore`."""

import sqlite3
import time as clock
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agentkit.content import JsonValue, Message
from agentkit.engines.sqlite_store import Store, announce, check_fence, forget_announced
from agentkit.engines.sqlite_thread import SQLiteThread
from agentkit.engines.stored import dump_data, dump_message, dump_run, load_all, load_data, load_run
from agentkit.history import RunRecord, ThreadRecord, check_messages
from agentkit.log import Topic

T = TypeVar("T")


class SQLiteThreads:
    """Threads in a SQLite file."""

    def __init__(self, store: Store, writer: SQLiteThread, reader: SQLiteThread, ttl: float) -> None:
        """Args: ttl: seconds in which a run that is kept as queued must have asked for its thread."""
        self._store = store
        self._writer = writer
        self._reader = reader
        self._ttl = ttl

    async def messages(self, topic: Topic) -> list[Message]:
        """See `ThreadStore.messages`."""
        rows = await self._rows(topic, "SELECT body FROM messages WHERE topic = ? ORDER BY place")
        return load_all([row[0] for row in rows])

    async def extend(self, topic: Topic, messages: Sequence[Message], *, fence: int | None = None) -> None:
        """See `ThreadStore.extend`."""
        check_messages(messages)
        bodies = [dump_message(message) for message in messages]

        def extend(connection: sqlite3.Connection, thread: int) -> None:
            connection.executemany(
                "INSERT INTO messages (topic, place, body) VALUES"
                " (?, (SELECT coalesce(max(place), 0) + 1 FROM messages WHERE topic = ?), ?)",
                [(thread, thread, body) for body in bodies],
            )

        await self._write(topic, extend, fence)

    async def put_run(self, topic: Topic, record: RunRecord, *, fence: int | None = None) -> None:
        """See `ThreadStore.put_run`."""
        text = dump_run(record)
        await self._write(
            topic, lambda connection, thread: self._put_run(connection, thread, record, text), fence
        )

    async def swap_run(self, topic: Topic, old: RunRecord, new: RunRecord) -> bool:
        """See `ThreadStore.swap_run`."""
        text = dump_run(new)

        def swap(connection: sqlite3.Connection, thread: int) -> bool:
            found = connection.execute(
                "SELECT record FROM runs WHERE topic = ? AND run = ?", (thread, old.run)
            ).fetchone()
            if found is None or load_run(found[0]) != old:
                return False
            self._put_run(connection, thread, new, text)
            return True

        return await self._write(topic, swap, None)

    async def claim(self, topic: Topic, key: str, record: RunRecord) -> str:
        """See `ThreadStore.claim`."""
        text = dump_run(record)

        def claim(connection: sqlite3.Connection, thread: int) -> str:
            found = connection.execute(
                "SELECT run FROM claims WHERE topic = ? AND key = ?", (thread, key)
            ).fetchone()
            if found is not None:
                return str(found[0])
            connection.execute(
                "INSERT INTO claims (topic, key, run) VALUES (?, ?, ?)", (thread, key, record.run)
            )
            self._put_run(connection, thread, record, text)
            return record.run

        return await self._write(topic, claim, None)

    async def claimed(self, topic: Topic, key: str) -> str | None:
        """See `ThreadStore.claimed`."""
        rows = await self._rows(topic, "SELECT run FROM claims WHERE topic = ? AND key = ?", key)
        return rows[0][0] if rows else None

    async def get_run(self, topic: Topic, run: str) -> RunRecord | None:
        """See `ThreadStore.get_run`."""
        rows = await self._rows(topic, "SELECT record FROM runs WHERE topic = ? AND run = ?", run)
        return load_run(rows[0][0]) if rows else None

    async def runs(self, topic: Topic, *, after: str = "", limit: int | None = None) -> list[RunRecord]:
        """See `ThreadStore.runs`."""
        most = -1 if limit is None else limit

        def read(connection: sqlite3.Connection) -> list[tuple[str]]:
            thread, place = self._store.find(connection, topic).id, 0
            if after:
                found = connection.execute(
                    "SELECT place FROM runs WHERE topic = ? AND run = ?", (thread, after)
                ).fetchone()
                if found is None:
                    return []
                (place,) = found
            return connection.execute(
                "SELECT record FROM runs WHERE topic = ? AND place > ? ORDER BY place LIMIT ?",
                (thread, place, most),
            ).fetchall()

        return [load_run(text) for (text,) in await self._reader.do(read)]

    async def describe(
        self, topic: Topic, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
    ) -> None:
        """See `ThreadStore.describe`."""
        text = None if metadata is None else dump_data(metadata)

        def describe(connection: sqlite3.Connection, thread: int) -> None:
            connection.execute(
                "UPDATE threads SET title = coalesce(?, title), metadata = coalesce(?, metadata) WHERE topic = ?",
                (title, text, thread),
            )

        await self._write(topic, describe, None)

    async def delete(self, topic: Topic) -> None:
        """See `ThreadStore.delete`."""

        def delete(connection: sqlite3.Connection) -> None:
            thread = self._store.find(connection, topic).id
            for table in ("messages", "runs", "claims", "threads", "signals", "announced"):
                connection.execute(f"DELETE FROM {table} WHERE topic = ?", (thread,))  # noqa: S608 - our own names

        await self._writer.do(delete)

    async def threads(
        self, owner: str, agent: str, *, after: str = "", limit: int = 50
    ) -> list[ThreadRecord]:
        """See `ThreadStore.threads`."""

        def read(connection: sqlite3.Connection) -> list[tuple[str, float, float, str, str]]:
            return connection.execute(
                "SELECT thread, created, threads.updated, title, metadata FROM topics JOIN threads ON threads.topic = topics.id"
                " WHERE owner = ? AND agent = ? AND thread > ? ORDER BY thread LIMIT ?",
                (owner, agent, after, limit),
            ).fetchall()

        return [ThreadRecord(*row[:4], load_data(row[4])) for row in await self._reader.do(read)]

    async def _rows(self, topic: Topic, statement: str, *values: str) -> list[tuple[Any, ...]]:
        def read(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            row = self._store.find(connection, topic)
            return connection.execute(statement, (row.id, *values)).fetchall()

        return await self._reader.do(read)

    async def _write(
        self, topic: Topic, write: Callable[[sqlite3.Connection, int], T], fence: int | None
    ) -> T:
        """Write to a thread, which begins with its first word."""
        now = clock.time()

        def work(connection: sqlite3.Connection) -> T:
            row = self._store.find(connection, topic)
            check_fence(row, topic, fence)
            thread = row.id or self._store.require(connection, topic).id
            connection.execute(
                "INSERT INTO threads (topic, created, updated) VALUES (?, ?, ?)"
                " ON CONFLICT (topic) DO UPDATE SET updated = excluded.updated",
                (thread, now, now),
            )
            return write(connection, thread)

        return await self._writer.do(work)

    def _put_run(self, connection: sqlite3.Connection, thread: int, record: RunRecord, text: str) -> None:
        connection.execute(
            "INSERT INTO runs (topic, place, run, record) VALUES"
            " (:topic, (SELECT coalesce(max(place), 0) + 1 FROM runs WHERE topic = :topic), :run, :record)"
            " ON CONFLICT (topic, run) DO UPDATE SET record = excluded.record",
            {"topic": thread, "run": record.run, "record": text},
        )
        if record.status == "queued":
            announce(connection, thread, record.run, self._ttl)
        else:
            forget_announced(connection, thread, record.run)
