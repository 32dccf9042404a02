"""The parts that the bodies of one block's deltas have in common, rendered once.

Pure. Why: a run's log is nearly all deltas, and the bodies of one block's deltas differ in their time and their text only. Building the
JSON of each anew costs ten times what joining its parts does. What a stencil gives is byte for byte what `envelope` would have made: it
is cut out of a body of its making. Fallback: an event for which `draft` returns None is drafted there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from agentkit.content import valid_text
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

    __slots__ = ("_cut", "_prefix", "_render", "_second", "_stamp", "_time")

    def __init__(self, render: Render) -> None:
        self._render = render
        self._cut: dict[tuple[object, ...], _Stencil] = {}
        self._second = 0
        self._prefix = timestamp(0.0)[:-4].encode()
        self._time = 0.0
        self._stamp = timestamp(0.0).encode()

    def draft(self, topic: Topic, event: Event) -> Draft | None:
        """Return the draft of a delta, or None for what is none or does not fit. The hot path of every run, hence in one piece."""
        key: tuple[object, ...]
        if type(event) is Reasoning:
            said = event.event
            text = said.text
            if said.data or text is None or said.kind not in _TEXTS:
                return None
            key = (topic, event.block, event.run, event.step, said.kind, said.provider)
        elif type(event) is TextDelta:
            text = event.text
            key = (topic, event.block, event.run, event.step)
        elif type(event) is ToolCallDelta:
            text = event.text
            key = (topic, event.block, event.run, event.step, event.call)
        else:
            return None
        if len(text) > LONGEST or event.parent is not None:
            return None
        stencil = self._cut.get(key)
        if stencil is None:
            stencil = self._cut_out(key, topic, event)
        time = event.time
        if time != self._time:
            self._tell(time)
        try:
            quoted = encode_basestring(text).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            quoted = encode_basestring(valid_text(text)).encode()
        body = b"".join((stencil.before, self._stamp, stencil.between, quoted, stencil.after))
        return Draft(stencil.type, stencil.kind, event.run, event.step, event.block, time, body)

    def _tell(self, time: float) -> None:
        """Render a time; what a second's times have in common is kept."""
        milliseconds = int((time - self._second) * 1000 + 0.0005)  # half a microsecond: clocks tell no less
        if not 0 <= milliseconds < 1000:
            self._second = int(time // 1)
            self._prefix = timestamp(self._second)[:-4].encode()
            milliseconds = int((time - self._second) * 1000 + 0.0005)
        self._stamp = (
            self._prefix + _MILLISECONDS[milliseconds] if milliseconds < 1000 else timestamp(time).encode()
        )
        self._time = time

    def _cut_out(
        self, key: tuple[object, ...], topic: Topic, event: Reasoning | TextDelta | ToolCallDelta
    ) -> _Stencil:
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
