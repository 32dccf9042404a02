"""The parts that the bodies of one block's deltas have in common, rendered once.

Pure. Why: a run's log is nearly all deltas, and the bodies of one block's deltas differ in their time and their text only. Building the
JSON of each anew costs ten times what joining its parts does. What a stencil gives is byte for byte what `envelope` would have made: it
is cut out of a body of its making. Fallback: an event that is no delta, or does not fit, is drafted there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from agentkit.content import valid_text
from agentkit.deltas import Deltas, parts_of
from agentkit.events import Event, Reasoning, ReasoningEvent, TextDelta, ToolCallDelta
from agentkit.log import Draft, Topic

LONGEST: Final = 4096
"""Characters of a text that certainly fits a record, however it is escaped; longer ones may have to be split."""
_KEPT: Final = 1024
"""Stencils that are remembered, over all runs: more blocks than are written at once."""

_MILLISECONDS: Final = tuple(b"%03dZ" % number for number in range(1000))

_TEXTS: Final = frozenset({"delta", "summary"})
"""Kinds of reasoning that are text."""

Render: TypeAlias = Callable[[Topic, Event], Draft]
"""Draft an event without a stencil."""
Rest: TypeAlias = Callable[[Topic, Event], Iterable[Draft]]
"""Draft an event that no stencil fits."""


@dataclass(slots=True)
class _Stencil:
    """Three parts of a body: its time stands between the first two, its text between the last two."""

    type: str
    kind: str
    before: bytes
    between: bytes
    after: bytes


class Stencils:
    """Stencils of the blocks that are being written."""

    __slots__ = ("_cut", "_prefix", "_render", "_second", "_time", "_told")

    def __init__(self, render: Render) -> None:
        self._render = render
        self._cut: dict[tuple[object, ...], _Stencil] = {}
        self._second = 0
        self._prefix = timestamp(0.0)[:-4].encode()
        self._time = 0.0
        self._told = timestamp(0.0).encode()

    def draft(self, topic: Topic, events: Iterable[Event], rest: Rest) -> list[Draft]:
        """Return the drafts of `events`, in order. The hot path of every run, hence in one piece.

        Args:
            topic: whose log.
            events: of any kind.
            rest: drafts what is no delta, or does not fit.
        """
        drafts: list[Draft] = []
        key: tuple[object, ...] = ()
        known: tuple[object, ...] = ()
        before = between = after = b""
        name = kind = block = ""
        for event in parts_of(events):
            text: str | None = None
            if type(event) is Reasoning:
                said = event.event
                if not said.data and said.kind in _TEXTS:
                    text, block = said.text, event.block
                    key = (topic, block, event.run, event.step, said.kind, said.provider)
            elif type(event) is TextDelta:
                text, block = event.text, event.block
                key = (topic, block, event.run, event.step)
            elif type(event) is ToolCallDelta:
                text, block = event.text, event.block
                key = (topic, block, event.run, event.step, event.call)
            elif isinstance(event, Deltas):
                self._fill(topic, event, drafts, rest)
                continue
            if text is None or len(text) > LONGEST or event.parent is not None:
                drafts += rest(topic, event)
                continue
            if key != known:
                stencil = self._cut.get(key) or self._cut_out(key, topic, event)
                known = key
                before, between, after = stencil.before, stencil.between, stencil.after
                name, kind = stencil.type, stencil.kind
            time = event.time
            try:
                quoted = encode_basestring(text).encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                quoted = encode_basestring(valid_text(text)).encode()
            body = b"".join((before, self._stamp(time), between, quoted, after))
            drafts.append(Draft(name, kind, event.run, event.step, block, time, body))
        return drafts

    def _fill(self, topic: Topic, deltas: Deltas, drafts: list[Draft], rest: Rest) -> None:
        """Draft what stands for many deltas, none of which is made."""
        run, step, block, time, provider = deltas.run, deltas.step, deltas.block, deltas.time, deltas.provider
        key: tuple[object, ...] = (topic, block, run, step)
        if provider is not None:
            key = (topic, block, run, step, "delta", provider)
        stencil = self._cut.get(key) or self._cut_out(key, topic, deltas.event(0))
        head = b"".join((stencil.before, self._stamp(time), stencil.between))
        after, name, kind = stencil.after, stencil.type, stencil.kind
        for at, text in enumerate(deltas.texts):
            if len(text) > LONGEST:
                drafts += rest(topic, deltas.event(at))
                continue
            try:
                quoted = encode_basestring(text).encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                quoted = encode_basestring(valid_text(text)).encode()
            drafts.append(Draft(name, kind, run, step, block, time, b"".join((head, quoted, after))))

    def _stamp(self, time: float) -> bytes:
        """Render a time; what a second's times have in common is kept."""
        if time != self._time:
            # Half a microsecond is added: clocks tell no less.
            milliseconds = int((time - self._second) * 1000 + 0.0005)
            if not 0 <= milliseconds < 1000:
                self._second = int(time // 1)
                self._prefix = timestamp(self._second)[:-4].encode()
                milliseconds = int((time - self._second) * 1000 + 0.0005)
            if milliseconds < 1000:
                self._told = self._prefix + _MILLISECONDS[milliseconds]
            else:
                self._told = timestamp(time).encode()
            self._time = time
        return self._told

    def _cut_out(self, key: tuple[object, ...], topic: Topic, event: Event) -> _Stencil:
        after = b"}}"
        if type(event) is Reasoning:
            said = event.event
            draft = self._render(
                topic, replace(event, time=0.0, event=ReasoningEvent(said.kind, said.provider, ""))
            )
            after = b',"data":{}' + after
        elif type(event) is TextDelta:
            draft = self._render(topic, replace(event, time=0.0, text=""))
        else:
            assert type(event) is ToolCallDelta
            draft = self._render(topic, replace(event, time=0.0, text=""))
        stamp = timestamp(0.0).encode()
        before, mark, rest = draft.body.partition(
            b'"time":"%b"' % stamp
        )  # no text can hold it: its quotes are escaped
        end = b'""' + after
        assert mark
        assert rest.endswith(b'"text":' + end)
        stencil = _Stencil(draft.type, draft.kind, before + b'"time":"', b'"' + rest.removesuffix(end), after)
        if len(self._cut) >= _KEPT:
            self._cut.clear()
        self._cut[key] = stencil
        return stencil


def timestamp(time: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC, with milliseconds."""
    seconds = int(time // 1)
    micros = round((time - seconds) * 1_000_000)
    if micros >= 1_000_000:
        seconds, micros = seconds + 1, 0
    return f"{_second(seconds)}.{micros // 1000:03d}Z"


@lru_cache(4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")
