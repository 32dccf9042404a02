"""What a feed's connection says, whatever carries it: values, and their two wire forms read.

Pure. Frames that are unknown are passed over: a newer server may say more.
Grounds: design.md §7 (SSE control frames; WebSocket frames).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import JsonValue
from pydantic_core import from_json

from agentkit.errors import WireError, quote
from agentkit.sse import ServerSentEvent
from agentkit_transports.clients.envelope import Envelope, Gap, parse_envelope, split_id

_FOREVER: Final = 1e12
"""Milliseconds that nobody means."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first word of a connection: where it begins."""

    id: str
    head: int
    """The log's last number then."""
    resumed: bool
    hides: bool
    """True where the operator keeps some of the reasoning back: numbers are skipped for that."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A filtered reader's place, without a record for it."""

    id: str


@dataclass(frozen=True, slots=True)
class End:
    """Nothing follows."""

    id: str
    """"" where none was told."""
    deleted: bool


@dataclass(frozen=True, slots=True)
class Closing:
    """The server ends this connection; the client is to come back."""

    delay: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How long to wait before a return, should one be needed."""

    delay: float
    """Seconds."""


Frame: TypeAlias = Hello | Envelope | Gap | Moved | End | Closing | Retry


def frames_of_event(event: ServerSentEvent) -> list[Frame]:
    """Return what a server-sent event says.

    Raises:
        WireError: it is not the native protocol's.
    """
    out: list[Frame] = [] if event.retry is None else [Retry(event.retry / 1000)]
    value = parse_object(event.data)
    name = value.get("type")
    if "seq" in value:
        out.append(parse_envelope(value))
        return out
    data = value.get("data")
    data = data if isinstance(data, dict) else {}
    match name:
        case "stream.hello":
            out.append(hello_of(data, event.id or ""))
        case "stream.gap":
            out.append(_gap(data, event.id))
        case "stream.position":
            out.append(Moved(_id(event.id)))
        case "stream.end":
            out.append(End(event.id or "", data.get("reason") == "deleted"))
        case "stream.closing":
            out.append(Closing(_milliseconds(data)))
        case _:
            pass
    return out


def frames_of_message(value: Mapping[str, Any]) -> list[Frame]:
    """Return what a socket's frame says about a topic; `ok`, `err` and `welcome` are the conversation's matter.

    Raises:
        WireError: it is not the native protocol's.
    """
    match value.get("op"):
        case "ev":
            records = value.get("e")
            if not isinstance(records, list):
                raise WireError(f"e of an ev frame should be a list, got {quote(records)}")
            if not records and "id" in value:
                return [Moved(_id(value["id"]))]
            return [parse_envelope(record) for record in records]
        case "gap":
            return [_gap(value, value.get("id"))]
        case "end":
            return [End(str(value.get("id", "")), value.get("reason") == "deleted")]
        case "bye":
            return [Closing(_milliseconds(value))]
        case _:
            return []


def hello_of(data: Mapping[str, JsonValue], id: str = "") -> Hello:  # noqa: A002 - the wire's word
    """Return a hello: an SSE control frame's data with its id, or a subscription's `ok`.

    Raises:
        WireError: it does not say where the connection begins.
    """
    place = id or f"{data.get('epoch')}-{data.get('after')}"
    head = data.get("head", 0)
    hides = data.get("exposure", "full") != "full"
    return Hello(_id(place), head if type(head) is int else 0, data.get("resumed") is True, hides)


def parse_object(text: str) -> dict[str, JsonValue]:
    """Return a JSON object.

    Raises:
        WireError: it is none.
    """
    try:
        value = from_json(text)
    except ValueError:
        value = _patiently(text)
    if not isinstance(value, dict):
        raise WireError(f"a frame should be a JSON object, got {quote(text)}")
    return value


def _patiently(text: str) -> object:
    """Return what the standard parser reads: half a surrogate pair, at which the quick one stops."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WireError(f"a frame should be JSON, got {quote(text)}") from None


def _gap(data: Mapping[str, Any], id: object) -> Gap:  # noqa: A002
    first, last = data.get("from"), data.get("to")
    if type(first) is not int or type(last) is not int:
        raise WireError(f"a gap should say from and to, got {quote(dict(data))}")
    return Gap(str(data.get("reason", "")), first, last, _id(id))


def _id(value: object) -> str:
    split_id(value)
    return str(value)


def _milliseconds(data: Mapping[str, Any]) -> float:
    value = data.get("retry_ms", 0)
    return value / 1000 if isinstance(value, int | float) and 0 <= value < _FOREVER else 0.0
