"""The SQLite engine's log. See `EventLog`; statements are the store's, tails the follower's."""

from collections.abc import Sequence

from agentkit.engines.sqlite_follower import Follower
from agentkit.engines.sqlite_store import Store
from agentkit.engines.sqlite_thread import SQLiteThread
from agentkit.log import Cursor, Draft, Page, Record, Tail, Topic, new_epoch


class SQLiteLog:
    """Logs in a SQLite file."""

    def __init__(self, store: Store, writer: SQLiteThread, reader: SQLiteThread, follower: Follower) -> None:
        self._store = store
        self._writer = writer
        self._reader = reader
        self._follower = follower

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        """See `EventLog.append`. An error means that nothing was kept, so that it may be tried again."""
        store = self._store
        records = await self._writer.do(lambda connection: store.append(connection, topic, drafts, fence))
        if not self._follower.tails.feed(topic, records):
            self._follower.mistrust(topic)
        return records

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        """See `EventLog.read`."""
        store = self._store
        return await self._reader.do(lambda connection: store.read(connection, topic, after, limit))

    async def delete(self, topic: Topic) -> None:
        """See `EventLog.delete`."""
        store, epoch = self._store, new_epoch()
        await self._writer.do(lambda connection: store.delete_log(connection, topic, epoch))
        self._follower.mistrust(topic)

    async def tail(self, topic: Topic) -> Tail:
        """See `EventLog.tail`."""
        store = self._store
        row = await self._reader.do(lambda connection: store.find(connection, topic))
        tail = self._follower.tails.add(topic, row.epoch, row.head)
        self._follower.watch()
        self._follower.mistrust(topic)  # what was appended between reading and adding
        return tail
