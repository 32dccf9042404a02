"""Records in the SQLite file: those of one append stand in one row, or in a few, since a row costs more than a record.

Pure: records to rows and back. A row has the numbers of its first and last record, what readers filter by as JSON, and the bodies on end.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agentkit.log import Record

MAX_RECORDS: Final = 64
"""Records of one row: what a reader of one of them reads too."""
MAX_SIZE: Final = 256 * 1024
"""Bytes of one row's bodies, unless a single one is larger."""

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


_SHIFT: Final = 36


def key_of(topic: int, seq: int) -> int:
    """Return the key of a row whose last record is `seq`: keys of one topic are in order, and lie between those of 0 and of the next topic's 0."""
    return (topic << _SHIFT) + seq


class Row(NamedTuple):
    """As the table has it, but for the key."""

    first: int
    last: int
    heads: str
    bodies: bytes


def rows_of(records: Sequence[Record]) -> list[Row]:
    """Return the rows of records that follow each other."""
    rows: list[Row] = []
    start = size = 0
    for at, record in enumerate(records):
        size += len(record.body)
        if at > start and (at - start >= MAX_RECORDS or size > MAX_SIZE):
            rows.append(_row(records[start:at]))
            start, size = at, len(record.body)
    if records:
        rows.append(_row(records[start:]))
    return rows


def _row(records: Sequence[Record]) -> Row:
    heads: list[tuple[str, str, str, str, int, list[float], list[int]]] = []
    before: tuple[str, str, str, str, bool] | None = None
    times: list[float] = []
    sizes: list[int] = []
    for record in records:  # neighbours mostly differ in time and size only
        same = record.type, record.kind, record.run, record.block, record.terminal
        if same != before:
            before, times, sizes = same, [], []
            heads.append((*same[:4], int(record.terminal), times, sizes))
        times.append(record.time)
        sizes.append(len(record.body))
    bodies = b"".join([record.body for record in records])
    return Row(records[0].seq, records[-1].seq, _encode(heads), bodies)


def records_of(first: int, heads: str, bodies: bytes, epoch: str, after: int) -> Iterator[Record]:
    """Yield a row's records with numbers above `after`."""
    at, seq = 0, first
    for name, kind, run, block, terminal, times, sizes in json.loads(heads):
        for time, size in zip(times, sizes, strict=True):
            if seq > after:
                yield Record(epoch, seq, name, kind, run, block, time, bodies[at : at + size], bool(terminal))
            at += size
            seq += 1


def entries_of(first: int, heads: str) -> Iterator[tuple[int, float, int]]:
    """Yield number, time and size of each record of a row that begins with `first`."""
    seq = first
    for *_, times, sizes in json.loads(heads):
        for time, size in zip(times, sizes, strict=True):
            yield seq, time, size
            seq += 1
