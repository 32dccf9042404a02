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


class Row(NamedTuple):
    """As the table has it."""

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
    heads = [(r.type, r.kind, r.run, r.block, r.time, len(r.body), int(r.terminal)) for r in records]
    bodies = b"".join([record.body for record in records])
    return Row(records[0].seq, records[-1].seq, _encode(heads), bodies)


def records_of(row: Row, epoch: str, after: int) -> Iterator[Record]:
    """Yield a row's records with numbers above `after`."""
    at, bodies = 0, row.bodies
    for seq, (name, kind, run, block, time, size, terminal) in enumerate(json.loads(row.heads), row.first):
        if seq > after:
            yield Record(epoch, seq, name, kind, run, block, time, bodies[at : at + size], bool(terminal))
        at += size


def entries_of(first: int, heads: str) -> Iterator[tuple[int, float, int]]:
    """Yield number, time and size of each record of a row that begins with `first`."""
    for seq, (_, _, _, _, time, size, _) in enumerate(json.loads(heads), first):
        yield seq, time, size
