"""Adjacent deltas of one block → one record: what a reader that is far behind gets if it asked for it.

Pure: records in, records out. Who is far behind is the reader's matter, who asked is the view's. Nothing is dropped: a merged record's text
is that of all it stands for, its `id`, `seq` and `time` are the last one's, and `first` is the number of the first.
Grounds: design.md §7 (slow readers).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from agentkit.log import Record

MAX_TEXT: Final = 60 * 1024
"""Bytes of a merged text: with what stands around it, it stays under the bound of a record."""

_TYPES: Final = frozenset({"text.delta", "refusal.delta", "tool_call.delta"})
_KINDS: Final = frozenset({"delta", "summary"})
"""Of `reasoning`. Signatures and provider state are opaque: they are never merged."""
_STRING: Final = re.compile(rb'((?:[^"\\]|\\.)*)"', re.DOTALL)
"""The rest of a JSON string."""


def merge(records: Sequence[Record]) -> list[Record]:
    """Return the records with adjacent deltas of one block merged, never across another record.

    Args:
        records: as they follow each other in the log, without holes.
    """
    merged: list[Record] = []
    for block, group in groupby(records, _block):
        if block is None:
            merged.extend(group)
        else:
            merged.extend(_join(list(group)))
    return merged


def _block(record: Record) -> tuple[str, str, str, str] | None:
    """Return what deltas that may be merged have in common, None for a record that is none."""
    name = record.type
    if name in _TYPES or (name == "reasoning" and record.kind in _KINDS):
        return name, record.kind, record.run, record.block
    return None


def _join(deltas: Sequence[Record]) -> Iterator[Record]:
    """Merge deltas of one block as far as they differ in nothing but time and text, and as one record can hold."""
    group: list[Record] = []
    texts: list[bytes] = []
    size, form = 0, None
    for record in deltas:
        text, other = _open(record.body)
        if group and (form is None or other != form or size + len(text) > MAX_TEXT):
            yield _close(group, texts)
            group, texts, size = [], [], 0
        group.append(record)
        texts.append(text)
        size += len(text)
        form = other
    if group:
        yield _close(group, texts)


def _open(body: bytes) -> tuple[bytes, tuple[bytes, bytes, bytes] | None]:
    """Return a delta's text, as JSON writes it, and all around it but the time; None where the body is not of the usual form.

    In JSON a quote stands bare only around a name or a string, so that the first `"time":"` and `"text":"` are members' names.
    """
    head, _, rest = body.partition(b'"time":"')
    _, _, rest = rest.partition(b'"')
    lead, _, rest = rest.partition(b'"text":"')
    text, quote, tail = rest.partition(b'"')
    if text.endswith(b"\\"):
        found = _STRING.match(rest)
        text, quote, tail = (found[1], b'"', rest[found.end() :]) if found else (b"", b"", b"")
    if not quote or not lead.startswith(b',"data":{') or lead.count(b"{") != 1:
        return b"", None
    return text, (head, lead, tail)


def _close(group: Sequence[Record], texts: Sequence[bytes]) -> Record:
    """Return one record for a group: the last one, with all their texts."""
    last = group[-1]
    if len(group) == 1:
        return last
    body = last.body
    at = body.index(b'"text":"') + len(b'"text":"')
    joined = b'{"first":%d,%b%b%b' % (
        group[0].seq, body[1:at], b"".join(texts), body[at + len(texts[-1]) :],
    )  # fmt: skip
    return Record(last.epoch, last.seq, last.type, last.kind, last.run, last.block, last.time, joined)
