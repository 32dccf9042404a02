"""What is written into the SQLite file, as plain statements on a connection: topics, records, ends, leases that were lost.

Synchronous: every function here is work for the writer's or the reader's thread, inside a transaction. Who refuses does so before it writes.
"""

import hashlib
import sqlite3
import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentkit.engines.retention import Retention
from agentkit.engines.sqlite_batch import entries_of, key_of, records_of, rows_of
from agentkit.engines.stored import dump_run, end_of_lost, load_lost
from agentkit.errors import AppendRejected
from agentkit.log import NOW, Cursor, Draft, Page, Record, Topic, locate

_INSERT = "INSERT INTO batches (key, first, heads, bodies) VALUES (?, ?, ?, ?)"
PAGE_SIZE = 2 * 1024 * 1024
"""Bytes of bodies after which a page is full: who reads pages shares the process with others."""
_STAMP = "(SELECT max(stamp) + 1 FROM topics)"
"""A change of a log is numbered over all topics, so that followers find what changed since they looked."""


class TopicRow(NamedTuple):
    """A topic as the file has it."""

    id: int
    """0 for one that the file does not have yet."""
    epoch: str
    head: int
    first: int
    bytes: int
    fence: int
    erased: str = ""
    """The epoch that was deleted last."""


@dataclass(frozen=True, slots=True)
class Store:
    """What all statements need to know."""

    secret: str
    """Of the file: a topic's first epoch is made from it, so that whoever looks before the first record finds the same one."""
    retention: Retention

    def find(self, connection: sqlite3.Connection, topic: Topic) -> TopicRow:
        """Return a topic's row; one that was never used has `id` 0 and stands at its beginning."""
        row = connection.execute(
            "SELECT id, epoch, head, first, bytes, fence, erased FROM topics WHERE owner = ? AND agent = ? AND thread = ?",
            topic,
        ).fetchone()
        return TopicRow(*row) if row else TopicRow(0, self._first_epoch(topic), 0, 1, 0, 0)

    def require(self, connection: sqlite3.Connection, topic: Topic) -> TopicRow:
        """Return a topic's row; it is made where there is none."""
        row = self.find(connection, topic)
        if row.id:
            return row
        made = connection.execute(
            "INSERT INTO topics (owner, agent, thread, epoch) VALUES (?, ?, ?, ?)", (*topic, row.epoch)
        )
        return row._replace(id=made.lastrowid or 0)

    def _first_epoch(self, topic: Topic) -> str:
        name = "\0".join(topic).encode(errors="surrogatepass")
        return hashlib.blake2s(name, key=self.secret.encode(), digest_size=4).hexdigest()

    def append(
        self, connection: sqlite3.Connection, topic: Topic, drafts: Sequence[Draft], fence: int | None
    ) -> list[Record]:
        """Number drafts and keep them.

        Raises:
            AppendRejected: the lease was lost, or a run has ended.
        """
        row = self.find(connection, topic)
        check_fence(row, topic, fence)
        seen = self._runs(connection, row.id, drafts)
        if not drafts:
            return []
        if not row.id:
            row = self.require(connection, topic)
        seq, size = row.head + len(drafts), row.bytes + sum([len(draft.body) for draft in drafts])
        records = [Record.of(draft, row.epoch, number) for number, draft in enumerate(drafts, row.head + 1)]
        for values in rows_of(records):
            connection.execute(
                _INSERT, (key_of(row.id, values.last), values.first, values.heads, values.bodies)
            )
        connection.execute(
            f"UPDATE topics SET head = ?, bytes = ?, updated = ?, stamp = {_STAMP} WHERE id = ?",  # noqa: S608 - no foreign text
            (seq, size, clock.time(), row.id),
        )
        self._keep_runs(connection, row.id, records, seen)
        keep = self.retention
        # Exactly at its bound a log would be trimmed with every append: a little more is kept in between.
        slack = min(256, keep.records // 10)
        is_large = seq - row.first >= keep.records + slack or size > keep.bytes + keep.bytes // 16
        if is_large or seq // 256 != row.head // 256:
            self.trim(connection, row._replace(head=seq, bytes=size))
        return records

    def _runs(
        self, connection: sqlite3.Connection, topic: int, drafts: Sequence[Draft]
    ) -> dict[str, bool | None]:
        """Return of each run in `drafts` whether it has ended, None where the log does not know it.

        Raises:
            AppendRejected: something of it would stand after its end.
        """
        known: dict[str, bool | None] = {}
        ending: set[str] = set()
        for draft in drafts:
            run = draft.run
            if not run:
                continue
            if run not in known:
                row = connection.execute(
                    "SELECT ended FROM log_runs WHERE topic = ? AND run = ?", (topic, run)
                ).fetchone()
                known[run] = bool(row[0]) if row else None
            if known[run] or run in ending:
                raise AppendRejected(f"run {run} has already ended; {draft.type} refused")
            if draft.terminal:
                ending.add(run)
        return known

    def _keep_runs(
        self,
        connection: sqlite3.Connection,
        topic: int,
        records: Sequence[Record],
        seen: dict[str, bool | None],
    ) -> None:
        for record in records:
            if not record.run:
                continue
            if seen[record.run] is None:
                seen[record.run] = False
                connection.execute(
                    "INSERT INTO log_runs (topic, run, first) VALUES (?, ?, ?)",
                    (topic, record.run, record.seq),
                )
            if record.terminal:
                connection.execute(
                    "UPDATE log_runs SET ended = 1 WHERE topic = ? AND run = ?", (topic, record.run)
                )

    def trim(self, connection: sqlite3.Connection, row: TopicRow) -> None:
        """Forget the records that the retention does not keep."""
        (oldest,) = connection.execute(
            "SELECT min(first) FROM log_runs WHERE topic = ? AND NOT ended", (row.id,)
        ).fetchone()
        rows = connection.execute(
            "SELECT first, heads FROM batches WHERE key > ? AND key < ? ORDER BY key",
            (key_of(row.id, 0), key_of(row.id + 1, 0)),
        )
        gone = 0

        def entries() -> Iterator[tuple[int, float, int]]:
            nonlocal gone
            for first, heads in rows:
                for seq, time, size in entries_of(first, heads):
                    if seq >= row.first:  # the others were forgotten before, but a row goes as a whole
                        yield seq, time, size
                        gone += size  # it goes on only where this one is forgotten

        first = self.retention.first_kept(
            entries(),
            head=row.head,
            size=row.bytes,
            protected=row.head + 1 if oldest is None else oldest,
            now=clock.time(),
        )
        rows.close()
        if first is None:
            return
        connection.execute(
            "DELETE FROM batches WHERE key > ? AND key < ?", (key_of(row.id, 0), key_of(row.id, first))
        )
        connection.execute(
            "UPDATE topics SET first = ?, bytes = bytes - ? WHERE id = ?", (first, gone, row.id)
        )

    def trim_old(self, connection: sqlite3.Connection) -> None:
        """Trim logs that nobody writes to any more."""
        names = connection.execute(
            "SELECT owner, agent, thread FROM topics WHERE updated < ? AND first <= head LIMIT 100",
            (clock.time() - self.retention.age,),
        ).fetchall()
        for name in names:
            self.trim(connection, self.find(connection, Topic(*name)))

    def read(self, connection: sqlite3.Connection, topic: Topic, after: Cursor, limit: int) -> Page:
        """Return what stands after a cursor."""
        row = self.find(connection, topic)
        seq, gap = locate(after, row.epoch, row.first, row.head, erased=row.erased)
        if after == NOW or seq >= row.head:
            return Page([], Cursor(row.epoch, seq), row.head, gap)
        rows = connection.execute(
            "SELECT first, heads, bodies FROM batches WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
            (key_of(row.id, seq), key_of(row.id + 1, 0), limit),
        )
        records: list[Record] = []
        size = 0
        for first, heads, bodies in rows:
            records += records_of(first, heads, bodies, row.epoch, seq)
            size += len(bodies)
            if len(records) >= limit or size >= PAGE_SIZE:
                break
        rows.close()
        del records[limit:]
        return Page(records, Cursor(row.epoch, seq + len(records)), row.head, gap)

    def delete_log(self, connection: sqlite3.Connection, topic: Topic, epoch: str) -> None:
        """Erase a topic's records and begin a new epoch."""
        row = self.require(connection, topic)
        connection.execute(
            "DELETE FROM batches WHERE key > ? AND key < ?", (key_of(row.id, 0), key_of(row.id + 1, 0))
        )
        connection.execute("DELETE FROM log_runs WHERE topic = ?", (row.id,))
        connection.execute(
            f"UPDATE topics SET epoch = ?, erased = ?, head = 0, first = 1, bytes = 0, stamp = {_STAMP} WHERE id = ?",  # noqa: S608
            (epoch, row.epoch, row.id),
        )

    def lose(self, connection: sqlite3.Connection, topic_id: int, run: str) -> None:
        """End a run whose owner is gone: its record, its log, and the right to write of whoever may come back."""
        connection.execute("UPDATE topics SET fence = fence + 1 WHERE id = ?", (topic_id,))
        self.end_lost(connection, topic_id, run)

    def end_lost(self, connection: sqlite3.Connection, topic_id: int, run: str) -> None:
        """Write the end of a run whose process is gone: its record and its log."""
        topic = Topic(
            *connection.execute(
                "SELECT owner, agent, thread FROM topics WHERE id = ?", (topic_id,)
            ).fetchone()
        )
        found = connection.execute(
            "SELECT record FROM runs WHERE topic = ? AND run = ?", (topic_id, run)
        ).fetchone()
        known = load_lost(found[0], run) if found is not None else None
        if known is None:
            return  # a fork or a deletion has no record
        record, draft = end_of_lost(topic, known, clock.time())
        connection.execute(
            "UPDATE runs SET record = ? WHERE topic = ? AND run = ?", (dump_run(record), topic_id, run)
        )
        ended = connection.execute(
            "SELECT ended FROM log_runs WHERE topic = ? AND run = ?", (topic_id, run)
        ).fetchone()
        if draft is not None and not (ended and ended[0]):
            self.append(connection, topic, [draft], None)


def check_fence(row: TopicRow, topic: Topic, fence: int | None) -> None:
    """Refuse a fence that is not the newest.

    Raises:
        AppendRejected: it is not.
    """
    if fence is not None and fence < row.fence:
        raise AppendRejected(f"the lease {fence} of {topic.path} was lost")


def announce(connection: sqlite3.Connection, topic: int, run: str, ttl: float) -> None:
    """Note that a run will ask for its thread: if it has not when the time is over, its process is gone."""
    connection.execute(
        "INSERT OR REPLACE INTO announced (topic, run, expires, ttl) VALUES (?, ?, ?, ?)",
        (topic, run, clock.monotonic() + ttl, ttl),
    )


def forget_announced(connection: sqlite3.Connection, topic: int, run: str) -> None:
    """Note that a run has asked for its thread, or ended: its lease, or its place in the line, tells whether it lives."""
    connection.execute("DELETE FROM announced WHERE topic = ? AND run = ?", (topic, run))
