"""The follower: one connection per process on which a Redis server tells what was appended, signalled and set free.

What it tells is a hint that mostly carries the records themselves; the truth is read from the server where they do not follow, after
each reconnection, and once in a while in any case: a message that was lost, or a server that lost its data, is found within seconds.
"""

import json
import logging
from collections.abc import Awaitable, Callable

import anyio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from agentkit.background import Work, spawn
from agentkit.engine import Signal
from agentkit.engines.redis_store import Store, unpack
from agentkit.engines.stored import load_data
from agentkit.engines.tails import Tails
from agentkit.errors import AgentKitError, EngineError
from agentkit.log import Cursor, Page, Record, Topic

logger = logging.getLogger("agentkit")

PAGE = 256
CHECK_EVERY = 1.0
"""Seconds between two looks at the truth: what a lost message may cost."""
SILENCE = 3.0
"""Seconds without any word, though it was asked for one, after which the connection counts as dead."""

Handler = Callable[[Signal], None]
ReadPage = Callable[[Topic, Cursor, int], Awaitable[Page]]


class Follower:
    """Follows a server for one event loop."""

    def __init__(self, store: Store, read: ReadPage) -> None:
        self.tails = Tails()
        self.handlers: dict[tuple[Topic, str], Handler] = {}
        self.waits: dict[str, tuple[Topic, anyio.Event]] = {}
        """Runs that wait for their thread, by token."""
        self._store = store
        self._read = read
        self._works: list[Work] = []
        self._connection: AbstractConnection | None = None
        self._channels: dict[str, Topic] = {}
        self._unsure: set[Topic] = set()
        self._signalled: set[Topic] = set()
        self._handed: dict[str, None] = {}
        self._kicked = anyio.Event()

    async def watch(self, topic: Topic) -> None:
        """See to it that a topic is followed."""
        channel = self._store.keys(topic).channel
        if channel not in self._channels:
            self._channels[channel] = topic
            await self._say("SUBSCRIBE", channel)
        if not self._works or any(work.done for work in self._works):
            for work in self._works:
                work.cancel_soon()
            self._kicked = anyio.Event()
            self._works = [
                spawn(self._listen, name="follower of a Redis engine"),
                spawn(self._keep_true, name="truth of a Redis engine"),
            ]

    def mistrust(self, topic: Topic) -> None:
        """Read what a tail may have missed."""
        self._unsure.add(topic)
        self._kicked.set()

    def look_for_signals(self, topic: Topic) -> None:
        """Read the signals that wait for a topic's runs."""
        self._signalled.add(topic)
        self._kicked.set()

    async def aclose(self) -> None:
        """Stop following."""
        works, self._works = self._works, []
        for work in works:
            if not work.done:
                work.cancel_soon()
                with anyio.move_on_after(1):
                    await work.join()

    async def _say(self, *words: str) -> None:
        connection = self._connection
        if connection is not None:
            try:
                await connection.send_command(*words)
            except (RedisError, OSError):
                pass  # the listener finds out, and subscribes to all anew

    async def _listen(self) -> None:
        """Listen on a connection, and on the next when it breaks."""
        delay = 0.05
        while True:
            connection = self._store.connection()
            try:
                await connection.connect()  # type: ignore[no-untyped-call]  # the driver leaves it so
                self._connection = connection  # first: who comes while we subscribe does so himself
                if self._channels:
                    await connection.send_command("SUBSCRIBE", *self._channels)
                self._unsure.update(topic for topic, _ in self.tails.watched)
                self._signalled.update(topic for topic, _ in self.handlers)
                self._free(None)
                self._kicked.set()
                while True:
                    answer = await _answer(connection)
                    delay = 0.05
                    if isinstance(answer, list) and answer[0] == b"message":
                        self._hear(answer[1].decode(), answer[2])
            except (RedisError, OSError) as error:
                logger.info("a Redis engine's follower comes back: %s", type(error).__name__)
            except Exception:  # this task must not die: whoever watches would wait for ever
                logger.exception("a Redis engine's follower did not understand the server")
            finally:
                self._connection = None
                with anyio.CancelScope(shield=True):
                    await connection.disconnect(nowait=True)
            await anyio.sleep(delay)
            delay = min(delay * 2, 1.0)

    def _hear(self, channel: str, message: bytes) -> None:
        topic = self._channels.get(channel)
        if topic is None:
            return
        match message[:1]:
            case b"r":
                records = _records(message)
                if topic in self.tails and not (records and self.tails.feed(topic, records)):
                    self.mistrust(topic)
            case b"x":
                self.mistrust(topic)
            case b"s":
                self.look_for_signals(topic)
            case _:
                self._free(topic)

    def _free(self, topic: Topic | None) -> None:
        for waiting, may_try in self.waits.values():
            if topic is None or waiting == topic:
                may_try.set()

    async def _keep_true(self) -> None:
        """Read what is in doubt at once, and everything that is watched once in a while, however much else is in doubt."""
        due = anyio.current_time() + CHECK_EVERY
        while True:
            with anyio.move_on_after(max(due - anyio.current_time(), 0)):
                await self._kicked.wait()
            self._kicked = anyio.Event()
            is_due = anyio.current_time() >= due
            if is_due:
                self._unsure.update(topic for topic, _ in self.tails.watched)
                self._signalled.update(topic for topic, _ in self.handlers)
                await self._forget_channels()
            unsure, self._unsure = self._unsure, set()
            signalled, self._signalled = self._signalled, set()
            try:
                for topic in unsure:
                    await self._guard(self._catch_up, topic)
                for topic in signalled:
                    await self._guard(self._hand_on, topic)
            except EngineError as error:
                logger.warning("a Redis engine cannot be followed: %s", error)
                self._unsure |= unsure
                self._signalled |= signalled
                await anyio.sleep(0.2)
            if is_due:
                due = anyio.current_time() + CHECK_EVERY

    async def _guard(self, look: Callable[[Topic], Awaitable[None]], topic: Topic) -> None:
        """Look at one topic. One whose keys hold what is not ours keeps no other from being looked at."""
        try:
            await look(topic)
        except EngineError:
            raise
        except Exception:  # this task must not die: whoever watches would wait for ever
            logger.exception("what a Redis engine keeps of %s cannot be read", topic.path)

    async def _forget_channels(self) -> None:
        used = {topic for topic, _ in self.tails.watched} | {topic for topic, _ in self.handlers}
        used |= {topic for topic, _ in self.waits.values()}
        unused = [channel for channel, topic in self._channels.items() if topic not in used]
        for channel in unused:  # all at once: while we speak, somebody may come who needs one of them
            del self._channels[channel]
        if unused:
            await self._say("UNSUBSCRIBE", *unused)

    async def _catch_up(self, topic: Topic) -> None:
        while (place := self.tails.place(topic)) is not None:
            page = await self._read(topic, place, PAGE)
            if self.tails.catch_up(topic, place, page) and page.cursor.seq >= page.head:
                return

    async def _hand_on(self, topic: Topic) -> None:
        keys = self._store.keys(topic)
        for text in await self._store.command("LRANGE", keys.signals, 0, -1):
            number, run, kind, data = json.loads(text)
            handler = self.handlers.get((topic, run))
            if handler is None:
                continue
            if number not in self._handed:
                self._handed[number] = None
                while len(self._handed) > 1000:
                    del self._handed[next(iter(self._handed))]
                try:
                    handler(Signal(kind, load_data(data)))
                except AgentKitError:
                    logger.exception("a signal of run %s was not understood", run)
            await self._store.command("LREM", keys.signals, 1, text)


async def _answer(connection: AbstractConnection) -> object:
    """Return the next word of the server; a quiet one is asked for it.

    Raises:
        RedisError: the connection broke, or says nothing: the driver itself takes silence for nothing to read.
    """
    answer = await connection.read_response(timeout=SILENCE / 2)
    if answer is None:
        await connection.send_command("PING")
        answer = await connection.read_response(timeout=SILENCE / 2)
    if answer is None:
        raise RedisTimeoutError(f"no word in {SILENCE} s")
    return answer


def _records(message: bytes) -> list[Record]:
    """Return the records that a message carries: none where they were too large for it."""
    line, _, rest = message.partition(b"\n")
    _, epoch, first, count = line.decode().split(" ")
    records: list[Record] = []
    at = 0
    for seq in range(int(first), int(first) + int(count)):
        end = rest.index(b"\n", at)
        size = int(rest[at:end])
        records.append(unpack(rest[end + 1 : end + 1 + size], epoch, seq))
        at = end + 1 + size
    return records
