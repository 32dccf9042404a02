"""Taking back: an answer made again, or a message edited, where a thread keeps all that was ever said.

Pure. A run's metadata names the run whose place it takes; from there on the thread's older runs are not shown to models any more. Nothing is
deleted, and readers of the thread still see it.
"""

from collections.abc import Sequence
from typing import Final

from agentkit.content import Message
from agentkit.history import RunRecord

REPLACES: Final = "replaces"
"""In a run's metadata: the run whose place it takes, with all that came after it."""
MESSAGE: Final = "message"
"""In a run's metadata: the client's own id of the message that it answers."""

CONTINUES: Final = "continues"
"""In a run's metadata: the assistant message that it goes on with."""


def standing(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs that still count, oldest first."""
    out: list[RunRecord] = []
    for record in records:
        replaced = record.metadata.get(REPLACES)
        place = next((place for place, one in enumerate(out) if one.run == replaced), None)
        if place is not None:
            del out[place:]
        out.append(record)
    return out


def taken_back(records: Sequence[RunRecord], replaces: str = "") -> set[str]:
    """Return the runs that do not count any more, once a run that takes the place of `replaces` is there too."""
    kept = [record.run for record in standing(records)]
    if replaces in kept:
        kept = kept[: kept.index(replaces)]
    return {record.run for record in records} - set(kept)


def answered_by(records: Sequence[RunRecord], message: str) -> str:
    """Return the run that answers a client's message, "" where none is known to."""
    return next((one.run for one in standing(records) if one.metadata.get(MESSAGE) == message), "")


def question_of(messages: Sequence[Message], run: str) -> list[Message]:
    """Return what the user had said to begin a run, as far as the thread tells."""
    first = next((place for place, one in enumerate(messages) if one.run == run), 0)
    start = first
    while start and messages[start - 1].role == "user" and not messages[start - 1].run:
        start -= 1
    return list(messages[start:first])
