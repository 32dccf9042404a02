"""What the fold of the AI SDK's stream is made of: its state, and how values of ours are said in the SDK's words.

Pure: values and functions of values. Nothing here decides when a chunk is told.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from agentkit.content import JsonValue

Chunk: TypeAlias = dict[str, JsonValue]
Kind: TypeAlias = Literal["text", "reasoning"]

_FINISH: Final = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
}
"""Our word for why a model stopped, and theirs; anything else is `other`."""
_SERVER_RUN: Final[Chunk] = {"providerExecuted": True, "dynamic": True}
_CLIENT_RUN: Final[Chunk] = {"dynamic": True}


@dataclass(frozen=True, slots=True)
class Options:
    """What a stream is told about its reader."""

    sdk: int = 5
    """The major version of the SDK whose chunks may be used."""
    pauses: int = 0
    """How often the run has waited for a person and gone on: it is over at the next time."""
    again: bool = False
    """The stream begins behind the last of these pauses, and so with a `start` of its own."""
    message: str = ""
    """The message's id; "" for the run's."""


@dataclass(frozen=True, slots=True)
class Part:
    """Text or reasoning that is open."""

    kind: Kind
    id: str
    number: int | None = None
    """Which part of a summary it is."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Told at its end."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call without a result."""

    id: str
    call: str
    """The provider's id."""
    name: str
    step: int
    is_client: bool = False
    pieces: Any = None
    """The arguments so far: a list that shares its beginning, `(all before, the last)`."""
    is_whole: bool = False
    is_asked: bool = False
    """True where the client was told that a person has to decide."""


@dataclass(frozen=True, slots=True)
class State:
    """What a client has been told."""

    run: str = ""
    """"" until the stream has started."""
    step: int = 0
    """The open step; 0 where none is."""
    parts: Mapping[tuple[Kind, str], Part] = field(default_factory=dict)
    calls: Mapping[str, Call] = field(default_factory=dict)
    """By block."""
    used: Mapping[str, int] = field(default_factory=dict)
    """How many parts had each block's id."""
    client_tools: frozenset[str] = frozenset()
    pauses: int = 0
    is_over: bool = False


def flags(call: Call) -> Chunk:
    """Return who runs a call. All chunks of a call must agree on these, or a client makes two parts of it."""
    return _CLIENT_RUN if call.is_client else _SERVER_RUN


def joined(call: Call) -> str:
    """Return the arguments that came so far."""
    pieces: list[str] = []
    node = call.pieces
    while node is not None:
        node, text = node
        pieces.append(text)
    return "".join(reversed(pieces))


def finish_word(finish: JsonValue) -> str:
    """Return their word for why the model stopped."""
    return _FINISH.get(finish, "other") if isinstance(finish, str) else "other"


def usage_of(data: Mapping[str, Any]) -> Chunk:
    """Return usage in the SDK's words."""
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return {}
    out: Chunk = {
        theirs: usage[ours]
        for theirs, ours in (
            ("inputTokens", "input_tokens"),
            ("outputTokens", "output_tokens"),
            ("totalTokens", "total_tokens"),
            ("reasoningTokens", "reasoning_tokens"),
            ("cachedInputTokens", "cache_read_tokens"),
        )
        if ours in usage
    }
    return {"usage": out}


def text_of(data: Mapping[str, Any]) -> str:
    """Return the text of a result."""
    parts = data.get("content") or ()
    return "".join(part.get("text", "") for part in parts if part.get("type") == "text")


def output_of(data: Mapping[str, Any]) -> JsonValue:
    """Return a result as a page wants it: JSON as the value that it is, text as text, anything else as its parts."""
    if data.get("truncated") is True:
        return {"truncated": True, "bytes": data.get("bytes")}
    if any(part.get("type") != "text" for part in data.get("content") or ()):
        return list(data["content"])
    text = text_of(data)
    if text[:1] in ("{", "["):
        try:
            return json_value(text)
        except ValueError:
            return text
    return text


def json_value(text: str) -> JsonValue:
    """Return what JSON text holds, if it can be said again as JSON.

    Raises:
        ValueError: it is not JSON, holds a number that JSON has no word for, or is nested too deep.
    """
    try:
        value: JsonValue = json.loads(text)
        json.dumps([[[[value]]]], allow_nan=False)  # it will stand some levels deeper
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def opaque(data: Mapping[str, Any]) -> Chunk:
    """Return the metadata of a signature or state that the log holds, under the key that the SDK's provider package reads."""
    label = data.get("format")
    if isinstance(signature := data.get("signature"), str):
        match label:
            case "anthropic-messages":
                return {"anthropic": {"signature": signature}}
            case "gemini":
                return {"google": {"thoughtSignature": signature}}
            case _:
                return {"agentkit": {"signature": signature, "signatureFormat": label}}
    if not isinstance(state := data.get("state"), str):
        return {}
    try:
        item = json.loads(state)
    except ValueError:
        item = None
    if isinstance(item, dict):
        if label == "anthropic-messages" and isinstance(item.get("data"), str):
            return {"anthropic": {"redactedData": item["data"]}}
        if label == "openai-responses" and isinstance(item.get("id"), str):
            sealed = item.get("encrypted_content")
            return {
                "openai": {"itemId": item["id"], **({"reasoningEncryptedContent": sealed} if sealed else {})}
            }
    return {"agentkit": {"state": state, "stateFormat": label}}


def merged(one: Mapping[str, JsonValue], other: Mapping[str, JsonValue]) -> Chunk:
    """Return both metadata, those of one provider in one object."""
    out = dict(one)
    for key, value in other.items():
        kept = out.get(key)
        out[key] = {**kept, **value} if isinstance(kept, dict) and isinstance(value, dict) else value
    return out
