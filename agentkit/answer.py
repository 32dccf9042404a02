"""One answer being made: attempts in, chunks out.

Not pure: it waits and retries; but it knows no HTTP client: `client` gives it attempts (`Exchange`). A request is made again only before
its first chunk; what came is never lost to a later fault: a break after it becomes an `ErrorChunk` behind it.
"""

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, runtime_checkable

import anyio

from agentkit.chunks import Chunk, ErrorChunk, FinishChunk, UsageChunk
from agentkit.dialects.base import Dialect, HTTPParts, Target
from agentkit.errors import ModelError, ModelStatusError, ModelStreamError, WireError
from agentkit.faults import Faults, is_no_stream
from agentkit.model import ModelRequest, Notice, Retry
from agentkit.pace import RetryPolicy, Timeouts, retry_delay
from agentkit.reading import BodyDecoder

MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes read of an answer that is no stream."""
_ERROR_BODY_TIMEOUT: Final = 10.0
"""Seconds for all of it, or `Timeouts.idle` if that is less: an error must not be awaited for minutes."""
_CLOSE_TIMEOUT: Final = 2.0
"""Seconds that closing a connection may take; it waits for the event loop, not for the peer."""
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"
"""What may stand before a body's first byte: white space, a byte order mark."""
_LAST_WORDS: Final = frozenset({FinishChunk, ErrorChunk})


class Broken(Exception):  # noqa: N818 - a signal between two rooms, never seen by a caller
    """The connection broke inside an answer."""

    def __init__(self, reason: str, *, timeout: bool = False) -> None:
        super().__init__(reason)
        self.timeout = timeout
        """True where nothing came for `Timeouts.idle`."""


class Exchange(Protocol):
    """One attempt: a request that was sent and the answer whose head has come."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers; names in any case."""
        ...

    async def read(self) -> bytes:
        """Return what one read brought, b"" at the end. It waits at most `Timeouts.idle`.

        Raises:
            Broken: the connection broke, or nothing came.
        """
        ...

    async def aclose(self) -> None:
        """Let the answer go, and its connection with it unless the body was read to its end."""
        ...


@runtime_checkable
class SecondTry(Protocol):
    """A dialect that knows what to leave out where its provider refuses a part of the history, such as thinking that no longer fits."""

    def second_try(self, request: ModelRequest, target: Target, status: int, body: str) -> HTTPParts | None:
        """Return the request to make instead, once, or None where the answer says nothing of the kind.

        Its notices say what was left out. The request itself is not changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What all attempts have in common."""

    dialect: Dialect
    target: Target
    timeouts: Timeouts
    retry: RetryPolicy
    faults: Faults
    send: Callable[[], Awaitable[Exchange]]
    """Make one attempt. Raises `ModelConnectionError` where no answer came."""
    notices: Sequence[Notice] = ()
    second: "Callable[[int, str], Plan | None] | None" = None
    """The plan to follow instead, once, after a refusal with this status and body."""


class AnswerStream:
    """One answer being made: a `ModelStream`. One task uses it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._notices = plan.notices
        self._repetitions = 0
        self._pause = 0.0
        """Seconds to wait before the next attempt."""
        self._exchange: Exchange | None = None
        self._decoder = BodyDecoder(plan.dialect, plan.target)
        self._begun = False
        """True once the body's first byte was seen and may begin a stream."""
        self._given = False
        """True once a chunk was given out that a repetition could not take back."""
        self._linger_until: float | None = None
        """When the waiting ends, once the model has finished, by the event loop's clock."""
        self._ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._ended = True
        await self._leave()

    async def next(self) -> Sequence[Chunk | Notice | Retry]:
        """Return all that came with one read of the socket; see `ModelStream.next`.

        A `Retry` is returned before its wait: the following call waits and asks again.

        Raises:
            ModelError: not reached, refused, or no stream; retries, where they can help, are used up.
        """
        while not self._ended:
            if self._notices:
                notices, self._notices = self._notices, ()
                return notices
            if self._pause:
                await anyio.sleep(self._pause)
                self._pause = 0.0
            try:
                chunks = await self._receive()
            except ModelError as error:
                await self._leave()
                retry = self._again(_code(error), str(error), error.retry_after) if error.retryable else None
                if retry is None:
                    self._ended = True
                    raise
                return [retry]
            if chunks:
                retry = None if self._given else await self._weigh_first(chunks)
                return chunks if retry is None else [retry]
        return []

    async def _weigh_first(self, chunks: Sequence[Chunk]) -> Retry | None:
        """Return a repetition if the first that the stream says is an error that asking again can help.

        Usage does not count as said: the next attempt's replaces it. Nor does a finish that only says that there is an error.
        """
        first = next((chunk for chunk in chunks if not _says_nothing(chunk)), None)
        retry = None
        if isinstance(first, ErrorChunk) and first.retryable:
            retry = self._again(first.code or first.kind, self._plan.faults.mask(first.message), None)
        if retry is not None:
            await self._leave()
            self._ended = False
        else:
            self._given = first is not None
        return retry

    def _again(self, code: str, message: str, asked: float | None) -> Retry | None:
        """Return the repetition that comes next and set its pause, or None where there is none left."""
        policy = self._plan.retry
        if self._repetitions >= policy.retries:
            return None
        self._repetitions += 1
        self._pause = retry_delay(self._repetitions, asked, policy, random.random)
        return Retry(self._repetitions + 1, self._pause, code, message)

    async def _receive(self) -> list[Chunk]:
        """Return the chunks of one read, [] where it completed none.

        Raises:
            ModelError: there is no stream, or none any more and nothing had come of it.
        """
        exchange = self._exchange or await self._open()
        if exchange is None:
            return []
        try:
            data = await self._read(exchange)
        except Broken as broken:
            return await self._break_off(broken)
        if not self._begun and data:
            await self._begin(exchange, data)
        try:
            chunks = self._decoder.feed(data) if data else self._decoder.close()
        except WireError:
            chunks = []  # the fault stands in the decoder
        if self._decoder.fault is not None:
            chunks.append(ErrorChunk("truncated", str(self._decoder.fault), "wire"))
        if not data or self._decoder.fault is not None:
            self._ended = True
            await self._leave()
        elif chunks and (
            self._linger_until is not None or not _LAST_WORDS.isdisjoint(map(type, chunks))
        ):  # some gateways write a finish on every chunk: who still speaks has not finished
            self._linger_until = anyio.current_time() + self._plan.timeouts.linger
        return chunks

    async def _read(self, exchange: Exchange) -> bytes:
        """Return what one read brings, b"" at the end: the body's, or that of the patience after the model has finished."""
        if self._linger_until is None:
            return await exchange.read()
        with anyio.CancelScope(deadline=self._linger_until):
            return await exchange.read()
        return b""

    async def _open(self) -> Exchange | None:
        """Make an attempt and return it, if its answer may be a stream; None where another request is to be made instead.

        Raises:
            ModelError: no answer, or another one.
        """
        plan = self._plan
        self._decoder = BodyDecoder(plan.dialect, plan.target)
        self._begun, self._linger_until = False, None
        self._exchange = exchange = await plan.send()
        encoding = exchange.headers.get("content-encoding", "").strip().lower()
        encoded = encoding not in ("", "identity")
        if exchange.status != 200:
            body = f"(content-encoding {encoding})" if encoded else await self._read_error(exchange, b"")
            other = plan.second(exchange.status, body) if plan.second else None
            if other is not None:
                await self._leave()
                self._plan, self._notices = other, other.notices
                return None
            raise plan.faults.status(exchange.status, exchange.headers, body, time.time())
        if encoded:
            raise plan.faults.encoded(exchange.headers, encoding, time.time())
        return exchange

    async def _begin(self, exchange: Exchange, data: bytes) -> None:
        """Look at the first bytes of the body.

        Raises:
            ModelStreamError: they begin no stream.
        """
        head = data.lstrip(_BLANKS)
        self._begun = bool(head)
        content_type = exchange.headers.get("content-type", "")
        if head and is_no_stream(self._plan.dialect.framing, content_type, head):
            body = await self._read_error(exchange, data)
            raise self._plan.faults.no_stream(exchange.headers, body, time.time())

    async def _read_error(self, exchange: Exchange, head: bytes) -> str:
        """Return the text of an answer that is no stream: bounded in size and time."""
        body = bytearray(head)
        with anyio.move_on_after(min(self._plan.timeouts.idle, _ERROR_BODY_TIMEOUT)):
            try:
                while len(body) < MAX_ERROR_BODY and (more := await exchange.read()):
                    body += more
            except Broken:
                pass  # what came has to do
        return body[:MAX_ERROR_BODY].decode("utf-8", "replace")

    async def _break_off(self, broken: Broken) -> list[Chunk]:
        """Return what the decoder held back and, if the answer was not whole, an `ErrorChunk`.

        Raises:
            ModelConnectionError: nothing had come yet.
        """
        self._ended = True
        await self._leave()
        try:
            chunks = self._decoder.close()
        except WireError:
            chunks = []
        whole = self._decoder.fault is None and not any(_is_cut(chunk) for chunk in chunks)
        if whole:  # all was said; that the body has no proper end harms nobody
            return chunks
        chunks = [chunk for chunk in chunks if not _is_cut(chunk)]
        if not self._given and not chunks:
            self._ended = False
            raise self._plan.faults.connection(f"broke off before an answer: {broken}") from broken
        code = "timeout" if broken.timeout else "connection"
        return [*chunks, ErrorChunk("truncated", f"the stream broke off: {broken}", code, retryable=True)]

    async def _leave(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await exchange.aclose()


def _says_nothing(chunk: Chunk) -> bool:
    return isinstance(chunk, UsageChunk) or (isinstance(chunk, FinishChunk) and chunk.reason == "error")


def _is_cut(chunk: Chunk) -> bool:
    return isinstance(chunk, ErrorChunk) and chunk.kind == "truncated"


def _code(error: ModelError) -> str:
    match error:
        case ModelStatusError():
            return str(error.status)
        case ModelStreamError():
            return error.provider_code or error.code
        case _:
            return error.code
