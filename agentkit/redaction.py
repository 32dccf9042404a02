"""Redaction: an application's last word on what is written down and shown to others.

Pure. A `Redact` hook sees each event before the log, the emitters and the run's record do, and each message before a client does. It does
not see what the model is sent, nor what goes back to the caller in this process: a thread must be replayed to its provider byte for byte.

A word may come in two deltas. `RedactWords` holds back what may be the beginning of one, until the next delta or the block's end tells.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeAlias

from agentkit.content import (
    Message,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentkit.errors import ConfigurationError, HookError
from agentkit.events import (
    TERMINAL_TYPES,
    Event,
    Reasoning,
    ReasoningBlockFinished,
    ReasoningEvent,
    RefusalDelta,
    RefusalFinished,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    TextDelta,
    TextFinished,
    ToolCallDelta,
    ToolCallReady,
    ToolResult,
)

Redact: TypeAlias = Callable[[Event], "Event | Sequence[Event] | None"]
"""Returns the event, another or several in its place, or None to leave it out. It must not change the one it gets (`replace` makes another).

A run's last event cannot be left out. What the hook raises fails the run."""


def chained(first: Redact | None, then: Redact | None) -> Redact | None:
    """Return a hook that asks one hook, and another of what the first gave."""
    if first is None or then is None:
        return first or then
    return lambda event: redacted(then, _ask(first, event))


def redacted(redact: Redact | None, events: Sequence[Event]) -> Sequence[Event]:
    """Return the events that others may see.

    Raises:
        HookError: the hook raised, or gave what is no event. Never for a run's last event, which is then told without any words.
    """
    if redact is None:
        return events
    out: list[Event] = []
    for event in events:
        if event.type in TERMINAL_TYPES and event.parent is None:
            out += _end(redact, event)
        else:
            out += _ask(redact, event)
    return out


def _ask(redact: Redact, event: Event) -> Sequence[Event]:
    try:
        answer = redact(event)
    except Exception as error:
        # Not chained: the hook's own words may hold what it was to hide.
        raise HookError(f"hook redact raised {type(error).__name__}") from None
    given = [] if answer is None else list(answer) if isinstance(answer, Sequence) else [answer]
    for one in given:
        if not isinstance(one, Event):
            raise HookError(f"hook redact must return events or None, got {type(one).__name__}")
    return given


def _end(redact: Redact, event: Event) -> Sequence[Event]:
    """Return a terminal event as others may see it, and what the hook had held back before it."""
    try:
        given = _ask(redact, event)
        if not given or given[-1].type != event.type or any(e.type in TERMINAL_TYPES for e in given[:-1]):
            raise HookError("hook redact left out a run's end")
    except HookError as error:
        usage = event.usage if isinstance(event, RunFinished | RunFailed | RunCancelledEvent) else None
        assert usage is not None, "every terminal event has it"
        return [RunFailed(event.run, 0, event.time, error.code, str(error), False, usage)]
    last = given[-1]
    if isinstance(last, RunFailed | RunCancelledEvent):
        last = replace(last, error=None)  # it holds the partial answer
    return [*given[:-1], last]


def redacted_text(
    redact: Redact | None, text: str, kind: type[TextDelta] | type[RefusalDelta] = TextDelta
) -> str:
    """Return visible text, or a refusal's, as others may see it."""
    if redact is None or not text:
        return text
    end: Event = TextFinished("", 0, 0.0, _BLOCK)
    if kind is RefusalDelta:
        end = RefusalFinished("", 0, 0.0, _BLOCK)
    told = redacted(redact, [kind("", 0, 0.0, _BLOCK, text), end])
    return "".join(event.text for event in told if isinstance(event, kind))


def redacted_message(redact: Redact | None, message: Message) -> Message:
    """Return a message as others may see it: each block goes through the hook as the event that would have told it."""
    if redact is None:
        return message
    return replace(message, content=tuple(_block(redact, block) for block in message.content))


def _block(redact: Redact, block: Any) -> Any:
    match block:
        case TextBlock():
            return replace(block, text=redacted_text(redact, block.text))
        case RefusalBlock():
            return replace(block, refusal=redacted_text(redact, block.refusal, RefusalDelta))
        case ThinkingBlock() if block.thinking:
            said = ReasoningEvent("summary" if block.summary else "delta", "", block.thinking)
            events: list[Event] = [
                Reasoning("", 0, 0.0, _BLOCK, said),
                ReasoningBlockFinished("", 0, 0.0, _BLOCK),
            ]
            seen = redacted(redact, events)
            return replace(
                block, thinking="".join(e.event.text or "" for e in seen if isinstance(e, Reasoning))
            )
        case ToolUseBlock():
            told = redacted(redact, [ToolCallReady("", 0, 0.0, _BLOCK, block.id, block.name, block.input)])
            return replace(block, input="".join(e.input for e in told if isinstance(e, ToolCallReady)))
        case ToolResultBlock():
            told = redacted(redact, [ToolResult("", 0, 0.0, block)])
            kept = next((e.result for e in told if isinstance(e, ToolResult)), None)
            return kept if kept is not None else replace(block, content=())
        case _:
            return block


_BLOCK: Final = "message"
"""The block of a stored message's text, which has none."""


Delta: TypeAlias = TextDelta | RefusalDelta | ToolCallDelta | Reasoning
"""Events that bring a piece of a text."""


class RedactWords:
    """A `Redact` hook that puts `[redacted]` in the place of given words, also where a word comes in several deltas.

    It reads every text of an event but ids, names and types, in any depth. Words that a model writes in an escaped form (`\\u0061` inside of a
    call's raw arguments) are found once the arguments are whole, not in their deltas. One object may serve any number of agents.
    """

    def __init__(
        self, words: Iterable[str], *, replacement: str = "[redacted]", ignore_case: bool = True
    ) -> None:
        """Make a hook.

        Args:
            words: what nobody shall see; not as patterns.
            replacement: stands in their place.
            ignore_case: find them in upper and lower case.

        Raises:
            ConfigurationError: a word is empty, or none was given.
        """
        given = sorted({*words}, key=len, reverse=True)
        if not given or not all(given):
            raise ConfigurationError("redaction needs words, none of them empty")
        self._pattern = re.compile("|".join(map(re.escape, given)), re.IGNORECASE if ignore_case else 0)
        self._replacement = replacement
        self._ignore_case = ignore_case
        self._begins = {self._fold(word[:size]) for word in given for size in range(1, len(word))}
        self._longest = max(map(len, given)) - 1
        self._held: dict[tuple[str, type], Delta] = {}
        """By block and kind: a delta with what may be the beginning of a word."""

    def __call__(self, event: Event) -> Sequence[Event]:
        """See `Redact`."""
        match event:
            case TextDelta() | RefusalDelta() | ToolCallDelta() | Reasoning():
                return self._delta(event)
            case TextFinished():
                return [*self._let_go(event.block, TextDelta), event]
            case RefusalFinished():
                return [*self._let_go(event.block, RefusalDelta), event]
            case ReasoningBlockFinished():
                return [*self._let_go(event.block, Reasoning), event]
            case ToolCallReady():
                return [*self._let_go(event.block, ToolCallDelta), self._whole(event)]
            case RunFinished() | RunFailed() | RunCancelledEvent():
                return [*self._let_go_run(event.run), self._whole(event)]
            case _:
                return [self._whole(event)]

    def _delta(self, event: Delta) -> Sequence[Event]:
        text = _text_of(event)
        if text is None:
            return [event]  # a signature or a state: no words
        held = self._held.pop((event.block, type(event)), None)
        before = _text_of(held) if held is not None else None
        said = self._pattern.sub(self._replacement, (before or "") + text)
        kept = self._beginning(said)
        if kept:
            self._held[event.block, type(event)] = _with_text(event, said[len(said) - kept :])
            said = said[: len(said) - kept]
        return [_with_text(event, said)] if said else []

    def _beginning(self, text: str) -> int:
        """Return how many characters at the end may be the beginning of a word."""
        end = self._fold(text[-self._longest :]) if self._longest else ""
        return next((size for size in range(len(end), 0, -1) if end[-size:] in self._begins), 0)

    def _let_go(self, block: str, kind: type) -> Sequence[Event]:
        held = self._held.pop((block, kind), None)
        return [] if held is None else [held]

    def _let_go_run(self, run: str) -> Sequence[Event]:
        return [self._held.pop(key) for key in [key for key in self._held if key[0].startswith(f"{run}.")]]

    def _whole(self, event: Event) -> Event:
        changed = {
            one.name: self._value(getattr(event, one.name), one.name)
            for one in fields(event)
            if one.name not in _NO_WORDS
        }
        return replace(event, **changed)

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self._json(value) if name == "input" else self._pattern.sub(self._replacement, value)
        if isinstance(value, dict):
            return {self._value(key): self._value(member) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._value(member) for member in value)
        if is_dataclass(value) and not isinstance(value, type):
            words = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in _NO_WORDS}
            return replace(value, **{name: self._value(member, name) for name, member in words.items()})
        return value

    def _json(self, text: str) -> str:
        """Redact JSON text by its values where it is JSON: a word may be written with escapes."""
        try:
            value = json.loads(text)
        except ValueError:
            return self._pattern.sub(self._replacement, text)
        changed = self._value(value)
        return text if changed == value else json.dumps(changed, ensure_ascii=False, separators=(",", ":"))

    def _fold(self, text: str) -> str:
        return text.lower() if self._ignore_case else text


def _text_of(event: Delta) -> str | None:
    return event.event.text if isinstance(event, Reasoning) else event.text


def _with_text(event: Delta, text: str) -> Delta:
    if isinstance(event, Reasoning):
        return replace(event, event=replace(event.event, text=text))
    return replace(event, text=text)


_NO_WORDS: Final = frozenset(
    {"run", "step", "time", "parent", "block", "call", "approval", "id", "agent", "thread", "tool_use_id", "type",
     "status", "code", "kind", "provider", "model", "media_type", "usage", "error", "origin", "signature",
     "signature_format", "provider_state", "provider_state_format", "finish", "termination", "discarded"}
)  # fmt: skip
"""Fields that hold what the runtime itself wrote, or what only the provider reads."""
