"""Records in rows: what goes in comes out, from any place, in rows within their bounds."""

import random

import pytest

from agentkit.engines.sqlite_batch import MAX_RECORDS, MAX_SIZE, entries_of, records_of, rows_of
from agentkit.log import Record

pytestmark = pytest.mark.pure


def made(count: int, chance: random.Random, *, most: int = 300) -> list[Record]:
    names = ["text.delta", "reasoning", "é\ud800", ""]
    return [
        Record(
            "E", 41 + n, chance.choice(names), "k", f"r{n % 3}", "b", 1764489600.123456 + n,
            chance.randbytes(chance.randrange(1, most)), chance.random() < 0.1,
        )
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_records_come_back_from_any_place(seed: int) -> None:
    chance = random.Random(seed)
    records = made(chance.randrange(200), chance)

    rows = rows_of(records)

    for after in (0, 41, 100, 300):
        found = [
            record for row in rows for record in records_of(row.first, row.heads, row.bodies, "E", after)
        ]
        assert found == [record for record in records if record.seq > after]
    assert [entry for row in rows for entry in entries_of(row.first, row.heads)] == [
        (record.seq, record.time, len(record.body)) for record in records
    ]


def test_rows_are_within_their_bounds_and_follow_each_other() -> None:
    records = made(500, random.Random(1))
    records += [
        Record("E", 541 + n, "x", "", "", "", 1.0, b"x" * size)
        for n, size in enumerate([60_000] * 20 + [400_000, 1])
    ]

    rows = rows_of(records)

    assert [row.first for row in rows[1:]] == [row.last + 1 for row in rows[:-1]]
    assert (rows[0].first, rows[-1].last) == (41, 562)
    assert max(row.last - row.first + 1 for row in rows) == MAX_RECORDS
    assert [len(row.bodies) for row in rows if len(row.bodies) > MAX_SIZE] == [400_000]
