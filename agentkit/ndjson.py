"""Frame values as newline-delimited JSON, both ways.

Pure and sans-I/O: bytes in, lines of JSON text out, and back. It does not parse the lines, but for the one question whether a last line
without its end is whole. Unlike an event stream a body that breaks off inside a line is broken: nothing tells such a line from a whole one.
Source: the NDJSON specification 1.0 (lines end with LF, a CR before it is white space; blank lines are skipped here).
"""

import json
from typing import Final

from agentkit.content import JsonValue
from agentkit.errors import WireError, quote

MAX_LINE_SIZE: Final = 16 * 1024 * 1024
"""Bytes of one line: as for one event of an event stream."""


class NDJSONDecoder:
    """Decode one body of JSON lines. One object a body."""

    __slots__ = ("_fault", "_tail", "max_line_size")

    def __init__(self, max_line_size: int = MAX_LINE_SIZE) -> None:
        self.max_line_size = max_line_size
        self._tail = bytearray()
        self._fault: WireError | None = None

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes, in order, without their ends.

        Data may be cut anywhere, also inside a UTF-8 sequence.

        Args:
            data: bytes as they came; empty is allowed and returns [].

        Raises:
            WireError: a line grows past `max_line_size` bytes. Lines that the same read completed before it are returned first; the
                next call raises.
        """
        if self._fault is not None:
            raise self._fault
        cut = data.rfind(b"\n") + 1
        out: list[str] = []
        if cut:
            lines = data[:cut]
            if self._tail:
                self._tail += lines
                lines = bytes(self._tail)
                self._tail = bytearray()
            if len(lines) > self.max_line_size:
                lines = self._bounded(lines)
            out = _lines(lines)
        if cut < len(data) and not self._fault:
            self._tail += data[cut:]
            if len(self._tail) > self.max_line_size:
                self._fault = self._too_large(len(self._tail))
                self._tail = bytearray()
        if self._fault is not None and not out:
            raise self._fault
        return out

    def close(self) -> list[str]:
        """The body has ended: return its last line if that has no end but is whole JSON.

        Raises:
            WireError: it is not whole; or a line grew too large and the last `feed` returned what was before it.
        """
        if self._fault is not None:
            raise self._fault
        line = bytes(self._tail).decode("utf-8", "replace")
        self._tail = bytearray()
        if not line or line.isspace():
            return []
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            raise WireError(f"NDJSON body ended inside a line: {quote(line)}") from None
        return [line]

    def _bounded(self, lines: bytes) -> bytes:
        """Return the lines before the first that is too large; that one becomes the fault."""
        good: list[bytes] = []
        for line in lines.split(b"\n"):
            if len(line) > self.max_line_size:
                self._fault = self._too_large(len(line))
                break
            good.append(line)
        return b"\n".join(good)

    def _too_large(self, size: int) -> WireError:
        return WireError(f"NDJSON line grew to {size} bytes, limit is {self.max_line_size}")


def _lines(data: bytes) -> list[str]:
    return [line for line in data.decode("utf-8", "replace").split("\n") if line.strip()]


def encode_line(value: JsonValue) -> bytes:
    """Return a value as one line of JSON, its LF included: ASCII, so that no character can break a line.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"
