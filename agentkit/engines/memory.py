"""The memory engine: logs are tails, threads are lists. For tests and for one process.

It knows no other process and keeps nothing over the end of this one. All methods end without a real wait, but `acquire`.
"""

import time as clock
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from agentkit.content import JsonValue, Message
from agentkit.engine import Lease, Signal
from agentkit.engines.retention import Retention
from agentkit.errors import AppendRejected
from agentkit.history import RunRecord, ThreadRecord, check_messages
from agentkit.log import Cursor, Draft, Page, Record, Tail, Topic, instant, new_epoch


class MemoryLog:
    """Logs in memory: each topic is one `Tail`."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._tails: dict[Topic, Tail] = {}
        self._ended: dict[Topic, set[str]] = {}
        self._running: dict[Topic, dict[str, int]] = {}
        self._fences: dict[Topic, int] = {}

    def fence(self, topic: Topic, fence: int) -> None:
        """From now on refuse older fences."""
        self._fences[topic] = fence

    def check(self, topic: Topic, fence: int | None) -> None:
        """Refuse a fence that is not the newest."""
        if fence is not None and fence < self._fences.get(topic, 0):
            raise AppendRejected(f"the lease {fence} of {topic.path} was lost")

    async def delete(self, topic: Topic) -> None:
        """See `EventLog.delete`."""
        self._ended.pop(topic, None)
        self._running.pop(topic, None)
        tail = self._tails.get(topic)
        if tail is not None:
            tail.reset(new_epoch(), erased=tail.epoch)

    @instant
    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        """See `EventLog.append`."""
        self.check(topic, fence)
        if not drafts:
            return []
        tail = self._tail(topic)
        ended = self._ended.setdefault(topic, set())
        ending: set[str] = set()
        begins: dict[str, int] = {}
        records: list[Record] = []
        epoch, checked = tail.epoch, ""
        for seq, draft in enumerate(drafts, tail.head + 1):
            run = draft.run
            if run is not checked and run:
                if run in ended or run in ending:
                    raise AppendRejected(f"run {run} has already ended; {draft.type} refused")
                begins.setdefault(run, seq)
                checked = run
            if draft.terminal:
                ending.add(run)
                checked = ""
            records.append(
                Record(
                    epoch,
                    seq,
                    draft.type,
                    draft.kind,
                    run,
                    draft.block,
                    draft.time,
                    draft.body,
                    draft.terminal,
                )
            )
        running = self._running.setdefault(topic, {})
        for run, seq in begins.items():
            running.setdefault(run, seq)
        for run in ending:
            running.pop(run, None)
        ended |= ending
        tail.append(records)
        self._trim(topic, tail)
        return records

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        """See `EventLog.read`."""
        return self._tail(topic).after(after, limit)

    async def tail(self, topic: Topic) -> Tail:
        """See `EventLog.tail`."""
        return self._tail(topic)

    def _tail(self, topic: Topic) -> Tail:
        tail = self._tails.get(topic)
        if tail is None:
            tail = self._tails[topic] = Tail(new_epoch())
        return tail

    def _trim(self, topic: Topic, tail: Tail) -> None:
        oldest, now = tail.records[0], clock.time()
        if self._retention.keeps(oldest.seq, oldest.time, head=tail.head, size=tail.size, now=now):
            return
        protected = min(self._running[topic].values(), default=tail.head + 1)
        entries = ((record.seq, record.time, len(record.body)) for record in tail.records)
        first = self._retention.first_kept(
            entries, head=tail.head, size=tail.size, protected=protected, now=now
        )
        if first is not None:
            tail.trim(first)


@dataclass(slots=True)
class _Thread:
    created: float
    updated: float
    title: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    runs: dict[str, RunRecord] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)


class MemoryThreads:
    """Threads in memory."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._threads: dict[Topic, _Thread] = {}

    async def messages(self, topic: Topic) -> list[Message]:
        """See `ThreadStore.messages`."""
        thread = self._threads.get(topic)
        return list(thread.messages) if thread else []

    async def extend(self, topic: Topic, messages: Sequence[Message], *, fence: int | None = None) -> None:
        """See `ThreadStore.extend`."""
        check_messages(messages)
        self._log.check(topic, fence)
        self._touch(topic).messages.extend(messages)

    async def put_run(self, topic: Topic, record: RunRecord, *, fence: int | None = None) -> None:
        """See `ThreadStore.put_run`."""
        self._log.check(topic, fence)
        self._touch(topic).runs[record.run] = record

    async def swap_run(self, topic: Topic, old: RunRecord, new: RunRecord) -> bool:
        """See `ThreadStore.swap_run`."""
        if await self.get_run(topic, old.run) != old:
            return False
        self._touch(topic).runs[new.run] = new
        return True

    async def claim(self, topic: Topic, key: str, record: RunRecord) -> str:
        """See `ThreadStore.claim`."""
        thread = self._touch(topic)
        run = thread.claims.setdefault(key, record.run)
        if run == record.run:
            thread.runs[run] = record
        return run

    async def claimed(self, topic: Topic, key: str) -> str | None:
        """See `ThreadStore.claimed`."""
        thread = self._threads.get(topic)
        return thread.claims.get(key) if thread else None

    async def get_run(self, topic: Topic, run: str) -> RunRecord | None:
        """See `ThreadStore.get_run`."""
        thread = self._threads.get(topic)
        return thread.runs.get(run) if thread else None

    async def runs(self, topic: Topic, *, after: str = "", limit: int | None = None) -> list[RunRecord]:
        """See `ThreadStore.runs`."""
        thread = self._threads.get(topic)
        records = list(thread.runs.values()) if thread else []
        if after:
            records = records[
                next((n for n, one in enumerate(records, 1) if one.run == after), len(records)) :
            ]
        return records[:limit]

    async def describe(
        self, topic: Topic, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
    ) -> None:
        """See `ThreadStore.describe`."""
        thread = self._touch(topic)
        thread.title = thread.title if title is None else title
        thread.metadata = thread.metadata if metadata is None else dict(metadata)

    async def delete(self, topic: Topic) -> None:
        """See `ThreadStore.delete`."""
        self._threads.pop(topic, None)

    async def threads(
        self, owner: str, agent: str, *, after: str = "", limit: int = 50
    ) -> list[ThreadRecord]:
        """See `ThreadStore.threads`."""
        found = sorted(
            (topic.thread, thread)
            for topic, thread in self._threads.items()
            if (topic.owner, topic.agent) == (owner, agent) and topic.thread > after
        )
        return [
            ThreadRecord(name, thread.created, thread.updated, thread.title, thread.metadata)
            for name, thread in found[:limit]
        ]

    def _touch(self, topic: Topic) -> _Thread:
        now = clock.time()
        thread = self._threads.get(topic)
        if thread is None:
            thread = self._threads[topic] = _Thread(now, now)
        thread.updated = now
        return thread


class MemoryLeases:
    """Leases in memory: first come, first served."""

    heartbeat = 0.0

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._fences: dict[Topic, int] = {}
        self._holders: dict[Topic, Lease] = {}
        self._waiting: dict[Topic, deque[tuple[str, anyio.Event]]] = {}

    async def acquire(self, topic: Topic, run: str, *, wait: bool) -> Lease | None:
        """See `Leases.acquire`."""
        if topic not in self._holders:
            return self._grant(topic, run)
        if not wait:
            return None
        entry = (run, anyio.Event())
        queue = self._waiting.setdefault(topic, deque())
        queue.append(entry)
        try:
            await entry[1].wait()
        except BaseException:
            if entry in queue:
                queue.remove(entry)
            else:  # granted and cancelled at the same time
                self._next(topic)
            raise
        return self._holders[topic]

    async def holder(self, topic: Topic) -> str | None:
        """See `Leases.holder`."""
        lease = self._holders.get(topic)
        return lease.run if lease else None

    async def renew(self, lease: Lease) -> None:
        """See `Leases.renew`."""
        if self._holders.get(lease.topic) != lease:
            raise AppendRejected(f"the lease {lease.fence} of {lease.topic.path} was lost")

    async def release(self, lease: Lease) -> None:
        """See `Leases.release`."""
        if self._holders.get(lease.topic) == lease:
            self._next(lease.topic)

    def _next(self, topic: Topic) -> None:
        del self._holders[topic]
        queue = self._waiting.get(topic)
        if queue:
            run, granted = queue.popleft()
            self._grant(topic, run)
            granted.set()
        else:
            self._waiting.pop(topic, None)

    def _grant(self, topic: Topic, run: str) -> Lease:
        fence = self._fences[topic] = self._fences.get(topic, 0) + 1
        self._log.fence(topic, fence)
        lease = self._holders[topic] = Lease(topic, run, fence)
        return lease


class MemoryControl:
    """Signals in memory: a call of the owner's handler."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[Topic, str], Callable[[Signal], None]] = {}

    async def send(self, topic: Topic, run: str, signal: Signal) -> None:
        """See `Control.send`."""
        handler = self._handlers.get((topic, run))
        if handler is not None:
            handler(signal)

    async def listen(self, topic: Topic, run: str, handler: Callable[[Signal], None]) -> Callable[[], None]:
        """See `Control.listen`."""
        self._handlers[topic, run] = handler
        return lambda: self._handlers.pop((topic, run), None) and None


class MemoryEngine:
    """Everything in this process. It belongs to one event loop at a time."""

    def __init__(self, *, retention: Retention | None = None) -> None:
        self.log = MemoryLog(retention or Retention())
        self.threads = MemoryThreads(self.log)
        self.leases = MemoryLeases(self.log)
        self.control = MemoryControl()

    async def aclose(self) -> None:
        """Nothing to let go of."""
