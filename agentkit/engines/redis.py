"""The Redis engine: logs, threads, leases and signals in a Redis server, for many processes on many hosts.

As durable as the server is: with its append-only file, what was acknowledged outlives any process of ours, and the server's own end but for
what its `appendfsync` allows. A server that lost data begins new epochs, and readers are told. Asyncio only; it belongs to one event
loop. Needs Redis 5 or newer with `maxmemory-policy noeviction`.
"""

import logging

import anyio

from agentkit.background import Work, spawn
from agentkit.engines.redis_leases import RedisControl, RedisLeases
from agentkit.engines.redis_log import RedisLog
from agentkit.engines.redis_store import Store
from agentkit.engines.redis_threads import RedisThreads
from agentkit.engines.retention import Retention
from agentkit.errors import EngineError

logger = logging.getLogger("agentkit")


class RedisEngine:
    """Everything in one Redis server, or in what stands behind one address: a promoted replica, a cluster behind a proxy."""

    def __init__(
        self,
        url: str,
        *,
        retention: Retention | None = None,
        lease: float = 15.0,
        prefix: str = "agentkit",
        timeout: float = 2.0,
        patience: float = 4.5,
        connections: int = 32,
    ) -> None:
        """Prepare a client; the server is first asked when something is.

        Args:
            url: `redis://[user:password@]host[:port][/db]`, or `rediss://`.
            retention: how much of each log is kept; a log that nobody writes to goes after `age`.
            lease: seconds after which a run whose process is silent counts as lost.
            prefix: of all keys.
            timeout: seconds for one answer.
            patience: seconds for which a call is tried again while the server cannot be reached. Less than an emitter waits (5 s).
            connections: at most, beside the follower's.

        Raises:
            ConfigurationError: the URL cannot be read.
        """
        self._store = Store(
            url,
            prefix=prefix,
            retention=retention or Retention(),
            timeout=timeout,
            patience=patience,
            connections=connections,
        )
        self.log = RedisLog(self._store)
        self.leases = RedisLeases(self._store, self.log.follower, lease)
        self.threads = RedisThreads(self._store, self.leases.note, lease)
        self.control = RedisControl(self._store, self.log.follower)
        self._sweep_every = lease / 5
        self._sweeper: Work | None = None
        self._is_closed = False
        self._store.on_use = self._begin

    async def aclose(self) -> None:
        """Let go of all connections."""
        self._is_closed = True
        if self._sweeper is not None and not self._sweeper.done:
            self._sweeper.cancel_soon()
            with anyio.move_on_after(1):
                await self._sweeper.join()
        await self.log.follower.aclose()
        await self._store.aclose()

    def _begin(self) -> None:
        """Look after dead owners from the first use on."""
        if self._sweeper is None and not self._is_closed:
            self._sweeper = spawn(self._sweep, name="sweeper of a Redis engine")

    async def _sweep(self) -> None:
        while True:
            try:
                await self.leases.sweep()
            except EngineError as error:
                logger.warning("a Redis engine cannot look for lost runs: %s", error)
            await anyio.sleep(self._sweep_every)
