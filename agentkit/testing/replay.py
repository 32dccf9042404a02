"""`replay()`: a model that plays a recorded provider stream, byte for byte, through the real decoders.

The bytes are cut at frames and paced, so that what is behind sees what a live provider would give it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import anyio

from agentkit.chunks import Chunk, ErrorChunk
from agentkit.content import Origin
from agentkit.dialects.base import Decoder, Dialect, Profile, Target, origin
from agentkit.errors import WireError
from agentkit.model import ModelRequest
from agentkit.ndjson import NDJSONDecoder
from agentkit.sse import SSEDecoder


class ReplayModel:
    """A `Model` whose every answer is one recorded stream, in turn, for ever."""

    def __init__(
        self, bodies: Sequence[bytes], dialect: Dialect, target: Target, *, delay: float = 0.0, size: int = 0
    ) -> None:
        """Make a model of recorded bodies.

        Args:
            bodies: HTTP bodies as recorded.
            dialect: what they are written in.
            target: the provider and model that events and blocks name.
            delay: seconds between reads.
            size: bytes of a read; 0 reads one frame at a time.
        """
        self._bodies = tuple(bodies)
        self._next = 0
        self._dialect = dialect
        self._target = target
        self._delay = delay
        self._size = size

    @property
    def origin(self) -> Origin:
        """Who the blocks are made by."""
        return origin(self._dialect.name, self._target)

    def stream(self, request: ModelRequest) -> "ReplayStream":  # noqa: ARG002 - a recording does not listen
        """Return the next recording as a stream."""
        body = self._bodies[self._next % len(self._bodies)]
        self._next += 1
        reads = _reads(body, self._size, b"\n" if self._dialect.framing == "ndjson" else b"\n\n")
        return ReplayStream(reads, self._dialect, self._dialect.decoder(self._target), self._delay)


class ReplayStream:
    """One answer, played."""

    def __init__(self, reads: list[bytes], dialect: Dialect, decoder: Decoder, delay: float) -> None:
        self._reads = reads
        self._next = 0
        self._decoder = decoder
        self._framing = SSEDecoder() if dialect.framing == "sse" else NDJSONDecoder()
        self._delay = delay
        self._ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._ended = True

    async def next(self) -> Sequence[Chunk]:
        """Return the chunks of the next read that gives any."""
        await anyio.lowlevel.checkpoint()
        chunks: list[Chunk] = []
        while not chunks and not self._ended:
            try:
                if self._next < len(self._reads):
                    self._next += 1
                    if self._delay:
                        await anyio.sleep(self._delay)
                    self._decode(self._reads[self._next - 1], chunks)
                else:
                    self._ended = True
                    self._decode(None, chunks)
            except WireError as error:
                self._ended = True
                chunks.append(ErrorChunk("provider", str(error), error.code))
        return chunks

    def _decode(self, data: bytes | None, chunks: list[Chunk]) -> None:
        """Decode one read, or the end (None), into `chunks`, which keeps what came before a fault."""
        for event in self._framing.close() if data is None else self._framing.feed(data):
            if isinstance(event, str):
                chunks += self._decoder.feed("", event)
            else:
                chunks += self._decoder.feed(event.event, event.data)
        if data is None:
            chunks += self._decoder.close()


def replay(
    *sources: Path | str | bytes,
    dialect: Dialect,
    provider: str = "replay",
    model: str = "recording",
    profile: Profile | None = None,
    delay: float = 0.0,
    size: int = 0,
) -> ReplayModel:
    """Return a model that plays recorded streams.

    Args:
        *sources: files, or bodies as bytes; each answer plays the next, and after the last the first again.
        dialect: what they are written in.
        provider: the provider that events name.
        model: the model that blocks name.
        profile: what the provider does differently (`think_tags`).
        delay: seconds between reads.
        size: bytes of a read; 0 reads one frame at a time.

    Raises:
        OSError: a file cannot be read.
    """
    bodies = [source if isinstance(source, bytes) else Path(source).read_bytes() for source in sources]
    target = Target(provider, model, profile or Profile())
    return ReplayModel(bodies, dialect, target, delay=delay, size=size)


def _reads(body: bytes, size: int, end: bytes) -> list[bytes]:
    if size > 0:
        return [body[start : start + size] for start in range(0, len(body), size)]
    ends = b"\r\n\r\n" if end == b"\n\n" and b"\r\n\r\n" in body else end
    return [frame + ends for frame in body.split(ends)[:-1]] + (
        [last] if (last := body.split(ends)[-1]) else []
    )
