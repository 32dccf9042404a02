"""The deltas of one block that came with one read, as one value: events that are made when somebody looks.

Pure. Why: in a burst most events of a run go into a log and to nobody in this process; to make an object of each costs a tenth of the
whole way, and to keep them until the run's end ten times what their texts need. What a `Deltas` stands for is, event for event, what
`StepEvents` would make of the chunks one by one. Fallback: who iterates over an `EventBatch` gets events, made there and then.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, overload

from agentkit.events import Event, Reasoning, ReasoningEvent, TextDelta


@dataclass(slots=True)
class Deltas:
    """Pieces of visible text, or of reasoning, that follow each other in one block. Never empty."""

    run: str
    step: int
    time: float
    block: str
    provider: str | None
    """Of reasoning; None for visible text."""
    texts: list[str]

    def event(self, at: int) -> TextDelta | Reasoning:
        """Make the event of one piece."""
        text = self.texts[at]
        if self.provider is None:
            return TextDelta(self.run, self.step, self.time, self.block, text)
        said = ReasoningEvent("delta", self.provider, text, {})
        return Reasoning(self.run, self.step, self.time, self.block, said)


Part: TypeAlias = Event | Deltas


class EventBatch(Sequence[Event]):
    """Events in order, deltas among them as `Deltas`. Each look at one of these makes it anew: equal, not the same."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(len(part.texts) if type(part) is Deltas else 1 for part in self.parts)

    def __iter__(self) -> Iterator[Event]:
        for part in self.parts:
            if type(part) is Deltas:
                for at in range(len(part.texts)):
                    yield part.event(at)
            else:
                yield part  # type: ignore[misc]  # a union of thirty is not narrowed by what it is not

    @overload
    def __getitem__(self, at: int) -> Event: ...

    @overload
    def __getitem__(self, at: slice) -> list[Event]: ...

    def __getitem__(self, at: int | slice) -> Event | list[Event]:
        if at == -1 and self.parts:
            last = self.parts[-1]
            return last.event(-1) if isinstance(last, Deltas) else last
        return list(self)[at]


def parts_of(events: Iterable[Event]) -> Iterable[Part]:
    """Return events as they are kept: a batch's parts."""
    if type(events) is EventBatch:  # asking an abstract class costs a third of a microsecond
        return events.parts
    return events
