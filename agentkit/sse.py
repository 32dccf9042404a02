"""Frame events as `text/event-stream`, both ways.

Pure and sans-I/O: bytes in, events out, and back. It does not know what an event means, it never connects, and it does not reconnect.
The decoder works per read, not per line: a read is cut at its last blank line, decoded once, and only odd frames are looked at line by
line. An unfinished event is collected in a buffer, so that one giant event is not copied again at each read.
Source: WHATWG HTML, section 9.2 "Server-sent events" (read 2026-11-30). One addition: a line `error: …`, with which some servers end
their stream, is an event of its own; the standard would drop it as an unknown field.
"""

import re
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeVar

from agentkit.content import valid_text
from agentkit.errors import WireError, quote

MAX_EVENT_SIZE: Final = 16 * 1024 * 1024
"""Bytes of one event. The largest honest ones hold a whole response with images; more is a fault or an attack on our memory."""

_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10
_RETRY_DIGITS: Final = 15
"""More milliseconds than that are no wish for a reconnection; Python also refuses to read numbers of thousands of digits."""
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_BEGIN: Final = re.compile(r"event: [^\n]*\ndata: ")
_NAMED: Final = re.compile(r"event: ([^\n]*)\ndata: ([^\n]*)\n\n")
_BARE: Final = re.compile(r"data: ([^\n]*)\n\n")

_T = TypeVar("_T")


@dataclass(slots=True)
class ServerSentEvent:
    """One event of a stream, as it was dispatched."""

    event: str = ""
    """The event's name; "" where the stream did not name it (browsers then say `message`)."""
    data: str = ""
    """The data lines, joined with LF."""
    id: str | None = None
    """The id that this event set, or None."""
    retry: int | None = None
    """The reconnection time that came with this event, in milliseconds, or None."""


class SSEDecoder:
    """Decode one event stream. One object a body."""

    __slots__ = ("_after_cr", "_fault", "_head", "_tail", "last_event_id", "max_event_size", "retry")

    def __init__(self, max_event_size: int = MAX_EVENT_SIZE) -> None:
        self.max_event_size = max_event_size
        self.last_event_id = ""
        """The last id that a whole event set, with data or without: where a reconnection goes on."""
        self.retry: int | None = None
        """The last reconnection time that came, in milliseconds, or None."""
        self._head: bytes | None = (
            b""  # what may be the start of a BOM; None once the first bytes are settled
        )
        self._after_cr = False
        self._tail = bytearray()  # the unfinished frame, line ends as LF; never begins with one
        self._fault: WireError | None = None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that `data` completes, in order.

        Data may be cut anywhere, also inside a UTF-8 sequence or between CR and LF.

        Args:
            data: bytes as they came; empty is allowed and returns [].

        Raises:
            WireError: an event, with the comments around it, grows past `max_event_size` bytes. Events that the same read completed
                before it are returned first; the next call raises.
        """
        frames = self._whole(data)
        return self._checked(self._decode(frames) if frames else [])

    def feed_groups(self, data: bytes) -> list[tuple[str, list[str]]]:
        """Return the events that `data` completes as names with data: `(name, data of the events of that name that follow each other)`.

        As `feed`, for who wants nothing else, at half its cost: what a model streams in one read has nearly always one name.

        Raises:
            WireError: as `feed`.
        """
        frames = self._whole(data)
        return self._checked((_alike(frames) or self._decode_groups(frames)) if frames else [])

    def _whole(self, data: bytes) -> str:
        """Take `data` and return the frames that it completes, line ends as LF."""
        if self._fault is not None:
            raise self._fault
        if self._head is not None:
            data = self._skip_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._only_lf(data)
        tail = self._tail
        if not tail:
            data = data.lstrip(b"\n")
        if not data:
            return ""

        cut = data.rfind(b"\n\n") + 2
        if cut == 1:  # no blank line in `data`, but one may begin in the tail
            if not (tail and tail[-1] == _LF and data[0] == _LF):
                tail += data
                return ""
            cut = 1
        frames = data[:cut]
        if tail:
            tail += frames
            frames = bytes(tail)
            self._tail = tail = bytearray()
        if cut < len(data):
            tail += data[cut:].lstrip(b"\n")
        if len(frames) > self.max_event_size:
            frames = self._bounded(frames)
        return frames.decode("utf-8", "replace")

    def close(self) -> list[ServerSentEvent]:
        """The body has ended: drop the unfinished event, as the standard says, but for `error: …` lines, which are returned.

        Raises:
            WireError: an event grew too large and the last `feed` returned what was before it.
        """
        if self._fault is not None:
            raise self._fault
        lines = bytes(self._tail).decode("utf-8", "replace").split("\n")
        self._tail = bytearray()
        return [_error_event(line) for line in lines if line.startswith("error:")]

    def _skip_bom(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _only_lf(self, data: bytes) -> bytes:
        """Return `data` with every line end as LF. A CR ends its line at once; a LF right after it, in the next read too, is no other."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            lines = data.splitlines()  # twice as fast as to replace one by one
            if data[-1] in b"\r\n":
                lines.append(b"")
            data = b"\n".join(lines)
        return data

    def _bounded(self, frames: bytes) -> bytes:
        """Return the frames before the first that is too large; that one becomes the fault."""
        good: list[bytes] = []
        for frame in frames.split(b"\n\n"):
            size = len(frame.lstrip(b"\n"))
            if size > self.max_event_size:
                self._fault = self._too_large(size)
                self._tail = bytearray()
                break
            good.append(frame)
        return b"\n\n".join(good)

    def _checked(self, events: list[_T]) -> list[_T]:
        """Return the events, or raise the fault where there are none before it."""
        tail = self._tail
        size = len(tail) - (tail[-1] == _LF if tail else 0)
        if size > self.max_event_size:
            self._fault = self._too_large(size)
            self._tail = bytearray()
        if self._fault is not None and not events:
            raise self._fault
        return events

    def _too_large(self, size: int) -> WireError:
        return WireError(f"SSE event grew to {size} bytes, limit is {self.max_event_size}")

    def _decode(self, frames: str) -> list[ServerSentEvent]:
        out: list[ServerSentEvent] = []
        for frame in frames.split("\n\n"):
            if frame[:6] == "data: ":
                if "\n" not in frame:
                    out.append(ServerSentEvent("", frame[6:]))
                    continue
            elif frame[:7] == "event: ":
                end = frame.find("\n")
                if frame[end + 1 : end + 7] == "data: " and "\n" not in frame[end + 7 :]:
                    out.append(ServerSentEvent(frame[7:end], frame[end + 7 :]))
                    continue
            if frame:
                self._decode_lines(frame, out)
        return out

    def _decode_groups(self, frames: str) -> list[tuple[str, list[str]]]:
        out: list[tuple[str, list[str]]] = []
        for name, data in _pairs(frames) or [(event.event, event.data) for event in self._decode(frames)]:
            if out and out[-1][0] == name:
                out[-1][1].append(data)
            else:
                out.append((name, [data]))
        return out

    def _decode_lines(self, frame: str, out: list[ServerSentEvent]) -> None:
        """The standard's way, for frames that are not one data line with at most a name before it."""
        event = ""
        data: list[str] = []
        event_id: str | None = None
        retry: int | None = None
        errors: list[ServerSentEvent] = []
        for line in frame.split("\n"):
            field, colon, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "data":
                    data.append(value)
                case "event":
                    event = value
                case "id" if "\0" not in value:
                    event_id = value
                case "retry" if value.isascii() and value.isdigit() and len(value) <= _RETRY_DIGITS:
                    retry = int(value)
                case "error" if colon:
                    errors.append(_error_event(line))
                case _:
                    pass  # comments and unknown fields, as the standard says
        if event_id is not None:
            self.last_event_id = event_id
        if retry is not None:
            self.retry = retry
        if data:
            out.append(ServerSentEvent(event, "\n".join(data), event_id, retry))
        out.extend(errors)


def _alike(frames: str) -> list[tuple[str, list[str]]]:
    """Return the one group of frames that begin as the first does and hold one data line; [] where one of them does not."""
    begin = frames[: frames.find("data: ") + 6]
    if begin != "data: " and _BEGIN.fullmatch(begin) is None:
        return []
    between = "\n\n" + begin
    body = frames[len(begin) :].removesuffix("\n\n")
    if body.count("\n") != body.count(between) * between.count("\n"):
        return []
    return [(begin[7:-7], body.split(between))]


def _pairs(frames: str) -> list[tuple[str, str]]:
    """Return the pairs of frames that are all of one plain shape, [] where one of them is not.

    The regular expression skips what does not match; that nothing was skipped is seen by the lengths.
    """
    if frames.startswith("event: "):
        pairs = _NAMED.findall(frames)
        size = len("event: \ndata: \n\n") * len(pairs) + sum(map(len, chain.from_iterable(pairs)))
    else:
        bare = _BARE.findall(frames)
        pairs = [("", data) for data in bare]
        size = len("data: \n\n") * len(bare) + sum(map(len, bare))
    return pairs if size == len(frames) else []


def _error_event(line: str) -> ServerSentEvent:
    return ServerSentEvent("error", line.removeprefix("error:").removeprefix(" "))


def encode_event(
    data: str | bytes,
    *,
    event: str = "",
    id: str | None = None,  # noqa: A002 - the field's name
    retry: int | None = None,
) -> bytes:
    """Return one event, framed with LF, its blank line included.

    Args:
        data: text of any lines, each gets its own `data:`; or UTF-8 bytes. Lone surrogates become U+FFFD.
        event: the event's name; "" leaves the field out.
        id: the event's id; "" resets the reader's last id, None leaves the field out.
        retry: reconnection time in milliseconds.

    Raises:
        ValueError: a line break or NUL in `event` or `id`, or a negative `retry`.
    """
    head = ""
    if id is not None:
        head += f"id: {_one_line('id', id)}\n"
    if event:
        head += f"event: {_one_line('event', event)}\n"
    if retry is not None:
        if retry < 0:
            raise ValueError(f"retry must be ≥ 0 milliseconds, got {retry}")
        head += f"retry: {retry}\n"
    body = data if isinstance(data, bytes) else valid_text(data).encode()
    if b"\n" in body or b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return b"%bdata: %b\n\n" % (valid_text(head).encode(), body)


def encode_comment(text: str = "") -> bytes:
    """Return a comment and a blank line, which readers ignore: a sign of life. Each line of `text` becomes a comment line."""
    lines = _LINE_BREAK.split(valid_text(text))
    return "".join(f": {line}\n" if line else ":\n" for line in lines).encode() + b"\n"


def _one_line(name: str, value: str) -> str:
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError(f"SSE {name} must not hold a line break or NUL, got {quote(value)}")
    return value
