"""The Redis engine's threads: messages, runs, titles, idempotency keys. See `ThreadStore`."""

import time as clock
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agentkit.content import JsonValue, Message
from agentkit.engines.redis_scripts import RUNS, WRITE_THREAD
from agentkit.engines.redis_store import Keys, Store, new_token
from agentkit.engines.stored import dump_data, dump_message, dump_run, load_all, load_data, load_run
from agentkit.errors import AppendRejected
from agentkit.history import RunRecord, ThreadRecord, check_messages
from agentkit.log import Topic


class RedisThreads:
    """Threads in Redis. They have no end of their own: delete them."""

    def __init__(self, store: Store, note: Callable[[Topic, str], Awaitable[None]], ttl: float) -> None:
        """Make it.

        Args:
            store: the client.
            note: tells those who look for lost runs to look for this one.
            ttl: seconds in which a run that is kept as queued must have asked for its thread.
        """
        self._store = store
        self._note = note
        self._ttl = round(ttl * 1000)

    async def messages(self, topic: Topic) -> list[Message]:
        """See `ThreadStore.messages`."""
        return load_all(await self._store.command("LRANGE", self._keys(topic).messages, 0, -1))

    async def extend(self, topic: Topic, messages: Sequence[Message], *, fence: int | None = None) -> None:
        """See `ThreadStore.extend`."""
        check_messages(messages)
        await self._write(topic, "extend", [dump_message(message) for message in messages], fence)

    async def put_run(self, topic: Topic, record: RunRecord, *, fence: int | None = None) -> None:
        """See `ThreadStore.put_run`."""
        await self._write(topic, "run", await self._words(topic, record), fence)

    async def swap_run(self, topic: Topic, old: RunRecord, new: RunRecord) -> bool:
        """See `ThreadStore.swap_run`."""
        text: bytes | None = await self._store.command("HGET", self._keys(topic).runs, old.run)
        if text is None or load_run(text) != old:
            return False
        words = await self._words(topic, new)
        answer = await self._write(topic, "swap", [*words, text], None)
        return answer[0] != b"changed"

    async def claim(self, topic: Topic, key: str, record: RunRecord) -> str:
        """See `ThreadStore.claim`."""
        (run,) = await self._write(topic, "claim", [*await self._words(topic, record), key], None)
        return run.decode()

    async def _words(self, topic: Topic, record: RunRecord) -> list[str | bytes]:
        """Return how a script puts a run, and see to it that one which is only announced is looked after."""
        is_queued = record.status == "queued"
        if is_queued:
            await self._note(topic, record.run)
        return [record.run, dump_run(record), str(self._ttl) if is_queued else ""]

    async def claimed(self, topic: Topic, key: str) -> str | None:
        """See `ThreadStore.claimed`."""
        run: bytes | None = await self._store.command("HGET", self._keys(topic)["claims"], key)
        return None if run is None else run.decode()

    async def get_run(self, topic: Topic, run: str) -> RunRecord | None:
        """See `ThreadStore.get_run`."""
        text: bytes | None = await self._store.command("HGET", self._keys(topic).runs, run)
        return None if text is None else load_run(text)

    async def runs(self, topic: Topic, *, after: str = "", limit: int | None = None) -> list[RunRecord]:
        """See `ThreadStore.runs`."""
        keys = self._keys(topic)
        args = [after, -1 if limit is None else limit]
        return [load_run(text) for text in await self._store.eval(RUNS, [keys.runs, keys["order"]], args)]

    async def describe(
        self, topic: Topic, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
    ) -> None:
        """See `ThreadStore.describe`."""
        words: list[str | bytes] = []
        if title is not None:
            words += ("title", title)
        if metadata is not None:
            words += ("metadata", dump_data(metadata))
        await self._write(topic, "describe", words, None)

    async def delete(self, topic: Topic) -> None:
        """See `ThreadStore.delete`."""
        keys = self._keys(topic)
        rest = (keys["order"], keys["claims"], keys["announced"])
        names = (keys.messages, keys.runs, keys.thread, keys.signals, *rest)
        await self._store.command("DEL", *names)
        await self._store.command("ZREM", self._list(topic.owner, topic.agent), topic.thread)

    async def threads(
        self, owner: str, agent: str, *, after: str = "", limit: int = 50
    ) -> list[ThreadRecord]:
        """See `ThreadStore.threads`."""
        start = f"({after}" if after else "-"
        names = await self._store.command(
            "ZRANGEBYLEX", self._list(owner, agent), start, "+", "LIMIT", 0, limit
        )
        records: list[ThreadRecord] = []
        for name in names:
            thread = name.decode()
            key = self._keys(Topic(owner, agent, thread)).thread
            found = await self._store.command("HMGET", key, "created", "updated", "title", "metadata")
            if found[0] is not None:
                title, metadata = (found[2] or b"").decode(), load_data(found[3] or b"{}")
                records.append(ThreadRecord(thread, float(found[0]), float(found[1]), title, metadata))
        return records

    async def _write(
        self, topic: Topic, what: str, words: Sequence[str | bytes], fence: int | None
    ) -> list[bytes]:
        """Write to a thread, which begins with its first word."""
        keys = self._keys(topic)
        # The list is another slot of a cluster. It is told first: a name without a thread is passed over.
        await self._store.command("ZADD", self._list(topic.owner, topic.agent), 0, topic.thread)
        names = [
            keys.meta,
            keys.thread,
            keys.messages,
            keys.runs,
            *(keys[name] for name in ("order", "claims", "announced")),
        ]
        args = ["" if fence is None else fence, repr(clock.time()), what, new_token(), *words]
        answer: list[bytes] = await self._store.eval(WRITE_THREAD, names, args)
        if answer[0] == b"lost":
            raise AppendRejected(f"the lease {fence} of {topic.path} was lost")
        return answer

    def _keys(self, topic: Topic) -> Keys:
        return self._store.keys(topic)

    def _list(self, owner: str, agent: str) -> str:
        return self._store.keys(Topic(owner, agent, ""))["names"]
