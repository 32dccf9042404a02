"""The Redis engine's leases and signals. See `Leases` and `Control`. Times are the server's."""

import json
import time as clock
from collections.abc import Callable
from contextlib import suppress

import anyio

from agentkit.engine import Lease, Signal
from agentkit.engines.redis_follower import Follower, Handler
from agentkit.engines.redis_scripts import ACQUIRE, DUE, FORGET, HOLDER, LOSE, NOTE, RELEASE, RENEW
from agentkit.engines.redis_store import Store, new_token, pack
from agentkit.engines.stored import dump_data, dump_run, end_of_lost, load_lost
from agentkit.errors import AppendRejected, EngineError
from agentkit.log import Topic, new_epoch

SIGNAL_AGE = 60
"""Seconds that a signal waits for a run that does not listen: one that is about to begin, or to go on."""


class RedisLeases:
    """Leases in Redis: first come, first served, over all processes."""

    def __init__(self, store: Store, follower: Follower, ttl: float) -> None:
        self._store = store
        self._follower = follower
        self._ttl = round(ttl * 1000)
        self._tokens: dict[tuple[Topic, int], str] = {}
        self.heartbeat = ttl / 3
        self._index = f"{store.prefix}:leases"

    async def acquire(self, topic: Topic, run: str, *, wait: bool) -> Lease | None:
        """See `Leases.acquire`."""
        token = new_token()
        try:
            lease = await self._try(topic, run, token, wait=wait)
            if lease is None and wait:
                lease = await self._wait(topic, run, token)
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(EngineError):  # what is not given back expires
                await self._let_go(topic, token)
            raise
        return lease

    async def holder(self, topic: Topic) -> str | None:
        """See `Leases.holder`."""
        found = await self._store.eval(HOLDER, [self._store.keys(topic).meta], [])
        return found[0].decode() if found and found[0] is not None else None

    async def renew(self, lease: Lease) -> None:
        """See `Leases.renew`."""
        token = self._tokens.get((lease.topic, lease.fence), "")
        await self.note(lease.topic)
        answer = await self._store.eval(
            RENEW, [self._store.keys(lease.topic).meta], [lease.run, token, lease.fence, self._ttl]
        )
        if answer[0] == b"lost":
            raise AppendRejected(f"the lease {lease.fence} of {lease.topic.path} was lost")

    async def release(self, lease: Lease) -> None:
        """See `Leases.release`."""
        token = self._tokens.pop((lease.topic, lease.fence), "")
        if token:
            await self._let_go(lease.topic, token)

    async def _let_go(self, topic: Topic, token: str) -> None:
        keys = self._store.keys(topic)
        await self._store.eval(RELEASE, [keys.meta, keys["waiters"], keys["waiting"]], [token, keys.channel])

    async def _wait(self, topic: Topic, run: str, token: str) -> Lease:
        """Wait for the thread; the place in its line is kept alive as a lease is."""
        may_try = anyio.Event()
        self._follower.waits[token] = topic, may_try
        try:
            await self._follower.watch(topic)
            while True:
                lease = await self._try(topic, run, token, wait=True)
                if lease is not None:
                    return lease
                with anyio.move_on_after(min(self.heartbeat, 1.0)):
                    await may_try.wait()
                may_try = anyio.Event()
                self._follower.waits[token] = topic, may_try
        finally:
            self._follower.waits.pop(token, None)

    async def _try(self, topic: Topic, run: str, token: str, *, wait: bool) -> Lease | None:
        keys = self._store.keys(topic)
        names = [keys.meta, keys["waiters"], keys["waiting"], keys["tickets"], keys["announced"]]
        await self.note(topic)
        while True:
            answer = await self._store.eval(ACQUIRE, names, [run, token, self._ttl, "1" if wait else "0"])
            match answer[0]:
                case b"granted":
                    lease = Lease(topic, run, int(answer[1]))
                    self._tokens[topic, lease.fence] = token
                    return lease
                case b"expired":
                    await self.lose(topic, answer[1].decode(), answer[2].decode())
                case _:
                    return None

    async def note(self, topic: Topic, *announced: str) -> None:
        """Note where a lease, or an announced run, is, for those who look for expired ones.

        In a cluster that is another slot: it is told before. Heartbeats put off the look at a topic, not that at an announced run.
        """
        await self._store.eval(NOTE, [self._index], [self._ttl, json.dumps([*topic, *announced])])

    async def sweep(self) -> None:
        """End the runs of dead owners.

        Raises:
            EngineError: the server cannot be reached.
        """
        store = self._store
        now, *names = await store.eval(DUE, [self._index], [])
        for name in names:
            owner, agent, thread, *announced = json.loads(name)
            topic = Topic(owner, agent, thread)
            owners = [("", run) for run in announced] or await self._owners(topic)
            alive = [ends for token, run in owners if (ends := await self.lose(topic, token, run))]
            if alive:
                await store.command("ZADD", self._index, max(min(alive), int(now) + self._ttl // 5), name)
            else:
                await store.eval(FORGET, [self._index], [name, now])

    async def _owners(self, topic: Topic) -> list[tuple[str, str]]:
        """Return who holds a thread, and who waits for it: tokens and runs."""
        keys = self._store.keys(topic)
        held = await self._store.command("HMGET", keys.meta, "lease_token", "lease_run")
        waiting = await self._store.command("HGETALL", keys["waiting"])
        if isinstance(waiting, list):
            waiting = dict(zip(waiting[::2], waiting[1::2], strict=True))
        owners = [(token, value.partition(b" ")[2]) for token, value in waiting.items()]
        if held[0] is not None:
            owners.append((held[0], held[1]))
        return [(token.decode(), run.decode()) for token, run in owners]

    async def lose(self, topic: Topic, token: str, run: str) -> int:
        """End a run whose lease, place in the line or announcement (token "") has expired.

        Returns:
            When it will, if it has not (milliseconds); else 0.
        """
        store, keys = self._store, self._store.keys(topic)
        if not token and not await store.command("HEXISTS", keys["announced"], run):
            return 0
        text = await store.command("HGET", keys.runs, run)
        args: list[object] = [keys.channel, *store.kept, token, run]
        known = load_lost(text, run) if text is not None else None
        if known is None:
            args += ("", new_epoch())  # a fork or a deletion has no record
        else:
            record, draft = end_of_lost(topic, known, clock.time())
            args += (dump_run(record), new_epoch())
            if draft is not None:
                args += (run, "1", pack(draft, ""))
        names = [*keys.of_log, keys["waiters"], keys["waiting"], keys.runs, keys["announced"]]
        answer = await store.eval(LOSE, names, args)
        return int(answer[1]) if answer[0] == b"alive" else 0


class RedisControl:
    """Signals through Redis; within a process, a call."""

    def __init__(self, store: Store, follower: Follower) -> None:
        self._store = store
        self._follower = follower

    async def send(self, topic: Topic, run: str, signal: Signal) -> None:
        """See `Control.send`."""
        handler = self._follower.handlers.get((topic, run))
        if handler is not None:
            handler(signal)
            return
        keys = self._store.keys(topic)
        text = json.dumps([new_token(), run, signal.kind, dump_data(signal.data)])
        await self._store.command("RPUSH", keys.signals, text)
        await self._store.command("EXPIRE", keys.signals, SIGNAL_AGE)
        await self._store.command("PUBLISH", keys.channel, "s")

    async def listen(self, topic: Topic, run: str, handler: Handler) -> Callable[[], None]:
        """See `Control.listen`. Signals that came shortly before are handed on too."""
        self._follower.handlers[topic, run] = handler
        await self._follower.watch(topic)
        self._follower.look_for_signals(topic)
        return lambda: self._follower.handlers.pop((topic, run), None) and None
