"""Repair a thread's messages before a request: every whole call gets exactly one result, directly after its turn.

Pure and idempotent; the stored history is never changed. It knows no dialect: what may be sent where (signatures, state, ids) is the
dialects' matter. It does not judge text or thinking.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from agentkit.content import Block, Message, TextBlock, ToolResultBlock, ToolUseBlock, plain
from agentkit.errors import quote

INTERRUPTED = "This call was interrupted before it gave a result. What it had already done is not known."
"""What stands for a result that never came. Not a refusal: the model must not read that somebody said no."""


def parsed_input(call: ToolUseBlock) -> dict[str, object] | None:
    """Return a call's arguments, {} for blank ones, or None where they are not a JSON object."""
    if not call.input.strip():
        return {}
    try:
        value = parse_arguments(call.input)
    except (ValueError, RecursionError):
        return None
    # JSON can escape half a surrogate pair; no request that holds one is accepted.
    return plain(value) if isinstance(value, dict) else None


def parse_arguments(text: str) -> Any:
    """Return the JSON value of a call's arguments.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    """Return a number that JSON has; Python's parser also takes NaN, Infinity and what is too large, which no request can hold."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of JSON")
    return value


def is_whole(call: ToolUseBlock) -> bool:
    """Tell whether a call may be run and replayed: its end was seen, it has an id and a name, its arguments are a JSON object."""
    return call.complete and bool(call.id and call.name) and parsed_input(call) is not None


def runnable(calls: Iterable[ToolUseBlock]) -> list[ToolUseBlock]:
    """Return the calls of a turn that may be run: those that `repair` keeps, whole and the first of their id."""
    out: dict[str, ToolUseBlock] = {}
    for call in calls:
        if is_whole(call):
            out.setdefault(call.id, call)
    return list(out.values())


def open_calls(calls: Iterable[ToolUseBlock], messages: Sequence[Message]) -> list[ToolUseBlock]:
    """Return those of the last turn's `calls` that `messages` hold no result for."""
    turn = max((place for place, message in enumerate(messages) if message.tool_uses), default=-1)
    answered = _results(messages[turn + 1 :])
    return [call for call in calls if call.id not in answered]


def unreadable(use: ToolUseBlock) -> str:
    """Return what the model is told of a call that it has ended and that cannot be read."""
    if not use.name:
        return "A call without a name was not run. Make it again, with the name of a tool."
    return f"Your call of {quote(use.name)} was not run: its arguments are not a JSON object. Make it again."


def repair(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as a model may get them.

    Calls that broke off go, a second call of one id in a turn goes (no result could say which it answers), and results that answer no
    call of the turn before them go. A call without a result gets one with status
    `interrupted`. The results of a turn stand in one `tool` message directly after it, in the order of its calls. Messages that are
    empty afterwards go.
    """
    out: list[Message] = []
    for position, message in enumerate(messages):
        content = tuple(_kept(message))
        if not content:
            continue
        out.append(message if content == message.content else replace(message, content=content))
        if message.role == "assistant" and (calls := out[-1].tool_uses):
            results = _results(messages[position + 1 :])
            answers = tuple(_answer(call, results.get(call.id)) for call in calls)
            out.append(Message("tool", answers, run=message.run))
    return out


def _kept(message: Message) -> Iterator[Block]:
    """Yield the blocks that stay: in a turn all but broken calls and those that repeat an id, elsewhere all but results."""
    seen: set[str] = set()
    for block in message.content:
        if message.role != "assistant":
            if not isinstance(block, ToolResultBlock):
                yield block
        elif not isinstance(block, ToolUseBlock):
            yield block
        elif is_whole(block) and block.id not in seen:
            seen.add(block.id)
            yield block


def _results(messages: Iterable[Message]) -> dict[str, ToolResultBlock]:
    """Return the results that came before the next turn with calls, by the call's id; the first of an id stands."""
    found: dict[str, ToolResultBlock] = {}
    for message in messages:
        if message.role == "assistant":
            if message.tool_uses:
                break
            continue
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                found.setdefault(block.tool_use_id, block)
    return found


def _answer(call: ToolUseBlock, result: ToolResultBlock | None) -> ToolResultBlock:
    if result is None:
        return ToolResultBlock(call.id, call.name, (TextBlock(INTERRUPTED),), "interrupted")
    if result.status == "interrupted" and not result.content:
        return replace(result, content=(TextBlock(INTERRUPTED),))
    return result
