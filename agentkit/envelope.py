"""Event → draft: the JSON body that watchers get, encoded once.

Pure: no I/O, no clock. It decides what leaves the process: signatures and provider state become `{"bytes": N}` unless
`expose_state` says otherwise; texts are valid UTF-8; no body passes `MAX_RECORD`, so long deltas become several drafts.
Grounds: design.md §5, §7 (envelope).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Final

from agentkit.content import Usage, plain, valid_text
from agentkit.errors import ConfigurationError, quote
from agentkit.events import (
    TERMINAL_TYPES,
    CustomEvent,
    Event,
    Reasoning,
    ReasoningEvent,
    RunCancelledEvent,
    RunFailed,
    ToolResult,
)
from agentkit.log import MAX_RECORD, Draft, Topic
from agentkit.stencils import Stencils, timestamp

__all__ = ["MAX_CUSTOM", "draft_all", "encode", "timestamp"]

MAX_CUSTOM = MAX_RECORD - 1024
"""Bytes of an application event's data: a record's, less room for the envelope."""
_COMMON = frozenset({"run", "step", "time", "parent", "block"})
_IN_PROCESS = frozenset({"error"})
_SPLIT_AT = 15 * 1024
"""Characters of a delta in one record: at four bytes each, or escaped, it stays under `MAX_RECORD`."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(value: object) -> bytes:
    """Return compact JSON, UTF-8, without lone surrogates.

    Raises:
        ConfigurationError: it is not JSON (NaN, infinity, a foreign type).
    """
    try:
        text = _ENCODER.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"event data is not JSON: {quote(str(error))}") from None
    return valid_text(text).encode()


def draft_all(topic: Topic, events: Iterable[Event], *, expose_state: bool = False) -> list[Draft]:
    """Return the drafts of `events`, in order."""
    return _stencils.draft(topic, events, _draft_exposed if expose_state else _draft_guarded)


def _draft_guarded(topic: Topic, event: Event) -> list[Draft]:
    return [_draft(topic, event, *wire) for wire in _wire(event, expose_state=False)]


def _draft_exposed(topic: Topic, event: Event) -> list[Draft]:
    return [_draft(topic, event, *wire) for wire in _wire(event, expose_state=True)]


def _draft_whole(topic: Topic, event: Event) -> Draft:
    """Return the one draft of an event that is not split."""
    [draft] = _draft_guarded(topic, event)
    return draft


_stencils = Stencils(_draft_whole)


def _draft(topic: Topic, event: Event, name: str, kind: str, data: Any) -> Draft:
    block = getattr(event, "block", "")
    head: dict[str, object] = {"type": name, "agent": topic.agent, "thread": topic.thread}
    if event.run:
        head["run"] = event.run
    if event.step:
        head["step"] = event.step
    if block:
        head["block"] = block
    if event.parent is not None:
        head["parent"] = {"run": event.parent.run, "call": event.parent.call}
    head["time"] = timestamp(event.time)
    head["data"] = data
    body = encode(head)
    if len(body) > MAX_RECORD:
        head["data"] = {"truncated": True, "bytes": len(body)}
        body = encode(head)
    # A sub-agent's records belong to the run that called it: they come with its feed, and do not end it.
    run = event.run if event.parent is None else event.parent.run
    terminal = name in TERMINAL_TYPES and event.parent is None
    return Draft(name, kind, run, event.step, block, event.time, body, terminal)


def _wire(event: Event, *, expose_state: bool) -> Iterator[tuple[str, str, Any]]:
    """Yield type, kind and data of each record that `event` becomes."""
    match event:
        case Reasoning():
            for piece in _pieces(event.event.text):
                data = _reasoning(event.event, piece, expose_state=expose_state)
                yield "reasoning", event.event.kind, data
        case CustomEvent():
            yield event.name, "", event.data
        case ToolResult():
            result = event.result
            yield (
                event.type,
                "",
                {
                    "call": result.tool_use_id,
                    "name": result.name,
                    "status": result.status,
                    "content": plain(result.content),
                },
            )
        case _:
            data = {
                name: _member(value)
                for name in _members(event)
                if (value := getattr(event, name)) is not None
            }
            if event.type.endswith(".delta") and isinstance(data.get("text"), str):
                for piece in _pieces(data["text"]):
                    yield event.type, "", {**data, "text": piece}
            else:
                yield event.type, "", _fit(event, data)


_names: dict[type, tuple[str, ...]] = {}


def _members(event: Event) -> tuple[str, ...]:
    """Return the names of what an event tells besides what all tell; looked up once a kind of event."""
    names = _names.get(type(event))
    if names is None:
        told = (f.name for f in fields(event) if f.name not in _COMMON and f.name not in _IN_PROCESS)
        names = _names[type(event)] = tuple(told)
    return names


def _member(value: object) -> Any:
    """Return a member of an event as JSON data; usage with all its numbers."""
    if isinstance(value, Usage):
        return {f.name: getattr(value, f.name) for f in fields(Usage)} | {"total_tokens": value.total_tokens}
    return plain(value)


def _reasoning(event: ReasoningEvent, text: str | None, *, expose_state: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": event.kind, "provider": event.provider}
    if text is not None:
        out["text"] = text
    if event.kind in ("signature", "state") and not expose_state:
        out["data"] = {"bytes": len(str(event.data.get(event.kind, "")).encode(errors="replace"))}
    else:
        out["data"] = event.data
    return out


def _fit(event: Event, data: dict[str, Any]) -> dict[str, Any]:
    """Shorten the convenience text of a terminal event that would not fit: the deltas have it all."""
    if event.type in TERMINAL_TYPES:
        if isinstance(event, (RunFailed, RunCancelledEvent)) and not event.text:
            del data["text"]
        elif len(data["text"]) > _SPLIT_AT:
            data["text"] = data["text"][:_SPLIT_AT]
            data["truncated"] = True
    return data


def _pieces(text: str | None) -> Iterator[str | None]:
    if text is None or len(text) <= _SPLIT_AT:
        yield text
        return
    for start in range(0, len(text), _SPLIT_AT):
        yield text[start : start + _SPLIT_AT]
