"""The Redis engine's log: a stream per topic, numbered by one script. See `EventLog`."""

from collections.abc import Sequence

from agentkit.engines.redis_follower import Follower
from agentkit.engines.redis_scripts import APPEND, DELETE, READ
from agentkit.engines.redis_store import Store, new_token, pack, unpack
from agentkit.errors import AppendRejected
from agentkit.log import NOW, Cursor, Draft, Page, Record, Tail, Topic, locate, new_epoch

_AGAIN = 7
"""The place of the argument that says: this was sent before."""
_KNOWN = 512
"""Topics of which this process remembers what it has appended last."""


class RedisLog:
    """Logs in Redis Streams."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.follower = Follower(store, self.read)
        self._known: dict[Topic, Cursor] = {}

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        """See `EventLog.append`. It is tried again by itself, and never kept twice."""
        if not drafts:
            return []
        store, batch = self._store, new_token()
        keys = store.keys(topic)
        known = self._known.get(topic, NOW)
        args: list[object] = [
            keys.channel, *store.kept, "" if fence is None else fence, batch, "0", new_epoch(), known.epoch, known.seq,
        ]  # fmt: skip
        mark = batch
        for draft in drafts:
            args += (draft.run, "1" if draft.terminal else "0", pack(draft, mark))
            mark = ""
        answer = await store.eval(APPEND, [*keys.of_log, keys["retried"]], args, again=_AGAIN)
        match answer[0]:
            case b"lost":
                raise AppendRejected(f"the lease {fence} of {topic.path} was lost")
            case b"ended":
                raise AppendRejected(f"run {answer[1].decode()} has already ended")
            case _:
                epoch, first = answer[1].decode(), int(answer[2])
        records = [Record.of(draft, epoch, first + n) for n, draft in enumerate(drafts)]
        self._remember(topic, Cursor(epoch, records[-1].seq))
        if not self.follower.tails.feed(topic, records):
            self.follower.mistrust(topic)
        return records

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        """See `EventLog.read`."""
        store = self._store
        # A page is a megabyte or two at most, so that nobody else waits for it long.
        args = [after.epoch, after.seq, min(limit, 256), new_epoch()]
        found = await store.eval(READ, store.keys(topic).of_log, args)
        epoch, first, head = found[0].decode(), int(found[1]), int(found[2])
        seq, gap = locate(after, epoch, first, head, erased=found[3].decode())
        records = [unpack(data, epoch, seq + n) for n, data in enumerate(found[4:], 1)]
        return Page(records, Cursor(epoch, seq + len(records)), head, gap)

    async def delete(self, topic: Topic) -> None:
        """See `EventLog.delete`."""
        keys = self._store.keys(topic)
        self._known.pop(topic, None)
        await self._store.eval(DELETE, keys.of_log, [new_epoch(), keys.channel])
        self.follower.mistrust(topic)

    async def tail(self, topic: Topic) -> Tail:
        """See `EventLog.tail`."""
        await self.follower.watch(topic)
        page = await self.read(topic, NOW, 0)
        tail = self.follower.tails.add(topic, page.cursor.epoch, page.head)
        await self.follower.watch(topic)
        self.follower.mistrust(topic)  # what was appended between reading and adding
        return tail

    def _remember(self, topic: Topic, place: Cursor) -> None:
        """Remember what was acknowledged: a server that knows less has lost data, and its numbers begin anew."""
        before = self._known.pop(topic, None)
        is_older = before is not None and before.epoch == place.epoch and before.seq > place.seq
        self._known[topic] = before if before is not None and is_older else place
        while len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
