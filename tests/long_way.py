"""A dialect whose decoders have no short way: what the short one gives must be the same."""

from typing import Any

from agentkit.chunks import Chunk
from agentkit.dialects.base import Decoder, Dialect, Target


class _Decoder:
    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def feed(self, event: str, data: str) -> list[Chunk]:
        return self._decoder.feed(event, data)

    def close(self) -> list[Chunk]:
        return self._decoder.close()


class LongWay:
    """A dialect, read payload by payload."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.name = dialect.name
        self.framing = dialect.framing

    def decoder(self, target: Target) -> Decoder:
        return _Decoder(self._dialect.decoder(target))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)
