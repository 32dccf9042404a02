"""The native protocol, version 1: records → SSE frames, and → WebSocket text frames.

Pure: bytes from values. It knows neither connections nor who reads. A record's JSON was encoded when it was drafted; here it is only
spliced and framed. Control frames of SSE have no `event:`, so that `onmessage` always sees them, and never an `id` or `seq` in their JSON.
Grounds: design.md §7.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from agentkit.content import JsonValue
from agentkit.log import Cursor, Gap, Record
from agentkit.sse import encode_comment, encode_event

BEAT: Final = encode_comment()
"""A comment: readers ignore it, proxies see life."""


class NativeSSE:
    """Records as frames of `text/event-stream`: `id:`, `event:`, one `data:` line. Without state: any record stands alone."""

    __slots__ = ("exposure", "named")

    folds: Final = False

    def __init__(self, *, named: bool = True, exposure: str = "full") -> None:
        self.named = named
        """False leaves out `event:`, so that one `onmessage` gets everything."""
        self.exposure = exposure
        """How much of the reasoning the reader gets; less than `full` is told in the hello, for then numbers are skipped."""

    def start(self) -> object:
        """Return the state before the first record: nothing is kept."""
        return ()

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        """Return the state and the frame of one record."""
        epoch, seq = record.epoch, record.seq
        event = f"event: {record.type}\n" if self.named else ""
        head = f'id: {epoch}-{seq}\n{event}data: {{"v":1,"id":"{epoch}-{seq}","seq":{seq},'
        return state, b"".join((head.encode(), record.body[1:], b"\n\n"))  # half of what `%` costs

    def is_over(self, state: object) -> bool:  # noqa: ARG002
        """Tell that nothing but the run's end is an end."""
        return False

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the frames as one piece to send."""
        return b"".join(frames)

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:
        """Return `stream.hello`: where this stream begins, and how long to wait before coming back.

        Args:
            after: the place after which it begins; its id becomes the reader's.
            head: the log's last number.
            resumed: True where an id was given and all that follows it can be had.
            retry_ms: for the reader's reconnection, in milliseconds.
        """
        data: dict[str, JsonValue] = {
            "epoch": after.epoch,
            "after": after.seq,
            "head": head,
            "resumed": resumed,
        }
        if self.exposure != "full":
            data["exposure"] = self.exposure
        return _control("stream.hello", data, id=after.id, retry=retry_ms)

    def gap(self, gap: Gap, after: Cursor) -> bytes:
        """Return `stream.gap`: records that cannot be had; the stream goes on behind `after`. A deleted log is an end."""
        if gap.reason == "deleted":
            return _control("stream.end", {"reason": "deleted"}, id=after.id)
        return _control("stream.gap", _gap(gap), id=after.id)

    def position(self, cursor: Cursor) -> bytes:
        """Return `stream.position`: how far a filtered reader has come without seeing a record."""
        return _control("stream.position", {}, id=cursor.id)

    def end(self, cursor: Cursor) -> bytes:
        """Return `stream.end`: the run is over; `cursor` is its terminal record."""
        return _control("stream.end", {}, id=cursor.id)

    def closing(self, retry_ms: int) -> bytes:
        """Return `stream.closing`: the server ends this stream; come back after `retry_ms` milliseconds."""
        return _control("stream.closing", {"retry_ms": retry_ms}, retry=retry_ms)

    def beat(self) -> bytes:
        """Return a sign of life."""
        return BEAT


class NativeSocket:
    """Records as envelopes, joined to `ev` frames of one topic."""

    __slots__ = ("_head", "_topic")

    folds: Final = False

    def __init__(self, topic: str) -> None:
        """Args: topic: its name on the wire, `agents/{agent}/threads/{thread}`."""
        self._topic = topic
        self._head = b'{"op":"ev","topic":%b,"e":[' % _json(topic)

    def start(self) -> object:
        """Return the state before the first record: nothing is kept."""
        return ()

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        """Return the state and the envelope of one record."""
        return state, record.wire

    def is_over(self, state: object) -> bool:  # noqa: ARG002
        """Tell that nothing but the run's end is an end."""
        return False

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the `ev` frame that holds the envelopes."""
        return b"%b%b]}" % (self._head, b",".join(frames))

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return nothing: the `ok` of a subscription says it."""
        return b""

    def gap(self, gap: Gap, after: Cursor) -> bytes:
        """Return the `gap` frame: records that cannot be had; the feed goes on behind `id`. A deleted log is an end."""
        if gap.reason == "deleted":
            return _json({"op": "end", "topic": self._topic, "id": after.id, "reason": "deleted"})
        return _json({"op": "gap", "topic": self._topic, "id": after.id, **_gap(gap)})

    def position(self, cursor: Cursor) -> bytes:
        """Return the `ev` frame without envelopes that moves a filtered reader's cursor."""
        return _json({"op": "ev", "topic": self._topic, "e": [], "id": cursor.id})

    def end(self, cursor: Cursor) -> bytes:
        """Return the `end` frame: the run is over and so is this subscription."""
        return _json({"op": "end", "topic": self._topic, "id": cursor.id})

    def closing(self, retry_ms: int) -> bytes:  # noqa: ARG002 - the socket's `bye` says it
        """Return nothing: a socket says `bye` once, not once a topic."""
        return b""

    def beat(self) -> bytes:
        """Return nothing: sockets have pings of their own."""
        return b""


def _gap(gap: Gap) -> dict[str, JsonValue]:
    return {"from": gap.first, "to": gap.last, "reason": gap.reason}


def _control(
    name: str,
    data: Mapping[str, JsonValue],
    *,
    id: str | None = None,  # noqa: A002 - the field's name
    retry: int | None = None,
) -> bytes:
    return encode_event(_json({"v": 1, "type": name, "data": dict(data)}), id=id, retry=retry)


def _json(value: JsonValue) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
