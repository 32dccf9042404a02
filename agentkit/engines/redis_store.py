"""The way to a Redis server: keys, records as bytes, and calls that are tried again or say what is wrong.

Not here: what is asked (`redis_scripts`) and by whom. Timeouts are set on purpose: the client's own would fail after a minute.
"""

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from agentkit.engines.retention import Retention
from agentkit.errors import ConfigurationError, EngineError
from agentkit.log import Draft, Record, Topic

T = TypeVar("T")

_AGAIN = (
    RedisConnectionError,
    RedisTimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    ClusterDownError,
    MasterDownError,
    TryAgainError,
    OSError,
)
"""What a server that restarts, or that another takes the place of, answers for a while."""


class Keys:
    """The keys of one topic, all in one slot of a cluster. Names are hashed: whatever they hold, they cannot meet."""

    __slots__ = (
        "base",
        "channel",
        "ended",
        "log",
        "messages",
        "meta",
        "open",
        "runs",
        "signals",
        "tag",
        "thread",
    )

    def __init__(self, prefix: str, tag: str) -> None:
        self.tag = tag
        self.base = f"{prefix}:{{{tag}}}"
        self.meta = self.base
        self.log = f"{self.base}:log"
        self.open = f"{self.base}:open"
        self.ended = f"{self.base}:ended"
        self.messages = f"{self.base}:messages"
        self.runs = f"{self.base}:runs"
        self.thread = f"{self.base}:thread"
        self.signals = f"{self.base}:signals"
        self.channel = f"{self.base}:wake"

    def __getitem__(self, name: str) -> str:
        return f"{self.base}:{name}"

    @property
    def of_log(self) -> list[str]:
        """What the scripts of a log need."""
        return [self.meta, self.log, self.open, self.ended]


def pack(draft: Draft, batch: str) -> bytes:
    """Return a record as the stream keeps it: a line of what readers filter by, and the body.

    Raises:
        EngineError: a name holds a separator.
    """
    head = "\x1f".join((draft.type, draft.kind, draft.run, draft.block, "1" if draft.terminal else ""))
    if "\n" in head or head.count("\x1f") != 4:
        raise EngineError("a record's type, run or block holds a control character")
    return f"{len(draft.body)} {draft.time!r} \x1f{head}\x1f {batch}\n".encode() + draft.body


def unpack(data: bytes, epoch: str, seq: int) -> Record:
    """Return the record that `pack` wrote."""
    line, _, body = data.partition(b"\n")
    head, name, kind, run, block, terminal, _ = line.decode().split("\x1f")
    return Record(epoch, seq, name, kind, run, block, float(head.split(" ")[1]), body, terminal == "1")


class Store:
    """A client with patience."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        retention: Retention,
        timeout: float,
        patience: float,
        connections: int,
    ) -> None:
        self.prefix = prefix
        self.retention = retention
        self.patience = patience
        self.timeout = timeout
        try:
            self.pool = BlockingConnectionPool.from_url(
                url,
                max_connections=connections,
                timeout=patience,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                socket_keepalive=True,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                decode_responses=False,
            )
        except ValueError as error:
            raise ConfigurationError(f"the Redis URL cannot be read: {error}") from None
        self.client: Redis = Redis(connection_pool=self.pool)
        self._shas: dict[str, str] = {}
        self._is_checked = False
        self._is_closed = False
        self.on_use: Callable[[], None] = lambda: None
        """Called when the server has answered for the first time."""

    async def aclose(self) -> None:
        """Let go of all connections."""
        self._is_closed = True
        await self.client.aclose()
        await self.pool.disconnect()

    def connection(self) -> AbstractConnection:
        """Return a fresh connection outside of the pool, not yet open."""
        make: Callable[[], AbstractConnection] = self.pool.make_connection
        return make()

    def keys(self, topic: Topic) -> Keys:
        """Return a topic's keys."""
        name = json.dumps(topic).encode()
        return Keys(self.prefix, hashlib.blake2s(name, digest_size=12).hexdigest())

    @property
    def kept(self) -> list[str | int | float]:
        """The retention, as scripts take it."""
        keep = self.retention
        return [keep.records, keep.bytes, keep.age, keep.running_bytes]

    async def eval(
        self, script: str, keys: Sequence[str], args: Sequence[Any], *, again: int | None = None
    ) -> list[Any]:
        """Run a script, again while the server cannot be reached.

        Args:
            script: Lua.
            keys: of one topic.
            args: texts, bytes, numbers.
            again: the place of the argument that is set to 1 when it is sent again.

        Raises:
            EngineError: it failed.
        """
        sha = self._shas.get(script) or self._shas.setdefault(
            script, hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        )
        values = list(args)

        ask: Callable[..., Awaitable[Any]] = self.client.execute_command

        async def call(is_retry: bool) -> list[Any]:
            if is_retry and again is not None:
                values[again] = "1"
            try:
                answer = await ask("EVALSHA", sha, len(keys), *keys, *values)
            except NoScriptError:
                answer = await ask("EVAL", script, len(keys), *keys, *values)
            return list(answer)

        return await self.attempt(call)

    async def command(self, *words: Any) -> Any:
        """Run one command that may be sent twice."""
        ask: Callable[..., Awaitable[Any]] = self.client.execute_command
        return await self.attempt(lambda _: ask(*words))

    async def attempt(self, call: Callable[[bool], Awaitable[T]]) -> T:
        """Call until it works or patience ends.

        Raises:
            EngineError: it failed; whether it was done is not known where the server was lost.
        """
        if self._is_closed:
            raise EngineError("the engine is closed")
        end = anyio.current_time() + self.patience
        delay, is_retry = 0.02, False
        while True:
            try:
                if not self._is_checked:
                    await self._check()
                return await call(is_retry)
            except AuthenticationError:
                raise EngineError("Redis refuses the name or password") from None
            except _AGAIN as error:
                if anyio.current_time() + delay > end:
                    raise EngineError(f"Redis cannot be reached: {type(error).__name__}") from None
                if isinstance(error, ReadOnlyError):  # another server has taken over: ask for it anew
                    await self.pool.disconnect(inuse_connections=False)
            except OutOfMemoryError:
                raise EngineError("Redis has no memory left") from None
            except (MovedError, AskError):
                raise EngineError(
                    "Redis refuses: it is a cluster of several nodes, and this engine speaks to one address; "
                    "put a proxy in front of it, or shard threads over servers"
                ) from None
            except RedisError as error:
                raise EngineError(f"Redis refuses: {type(error).__name__}") from error
            await anyio.sleep(delay)
            delay, is_retry = min(delay * 2, 0.25), True

    async def _check(self) -> None:
        """Refuse a server that forgets what it was told.

        Raises:
            EngineError: it may evict keys.
        """
        info = await self.client.info("memory")
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise EngineError(
                f"Redis has maxmemory-policy {policy}: it would throw logs away; set it to noeviction"
            )
        self._is_checked = True
        self.on_use()


def new_token() -> str:
    """Return a word that nobody else has."""
    return secrets.token_hex(8)
