"""The rings of a process: what an engine read for one is not put into another that stands elsewhere."""

import pytest

from agentkit.engines.tails import Tails
from agentkit.log import Cursor, Gap, Page, Record, Topic

pytestmark = pytest.mark.pure

TOPIC = Topic("", "a", "main")


def records(epoch: str, first: int, last: int) -> list[Record]:
    return [Record(epoch, seq, "said", "", "", "", 0.0, b"{}") for seq in range(first, last + 1)]


def test_a_gap_that_was_read_for_a_ring_does_not_set_back_the_one_that_took_its_place() -> None:
    tails = Tails()
    tail = tails.add(TOPIC, "new", 8)
    page = Page(records("new", 1, 5), Cursor("new", 5), 8, Gap("deleted", 0, 0))

    took = tails.catch_up(TOPIC, Cursor("old", 3), page)

    assert not took
    assert (tail.epoch, tail.head, tail.erased) == ("new", 8, "")


def test_a_gap_that_was_read_for_a_ring_empties_it_and_what_follows_is_added() -> None:
    tails = Tails()
    tail = tails.add(TOPIC, "old", 3)
    page = Page(records("new", 1, 5), Cursor("new", 5), 5, Gap("deleted", 0, 0))

    assert tails.catch_up(TOPIC, Cursor("old", 3), page)
    assert (tail.epoch, tail.first, tail.head, tail.erased) == ("new", 1, 5, "old")


def test_a_page_that_others_have_overtaken_adds_what_is_new() -> None:
    tails = Tails()
    tail = tails.add(TOPIC, "E", 3)
    assert tails.feed(TOPIC, records("E", 4, 6))

    assert tails.catch_up(TOPIC, Cursor("E", 3), Page(records("E", 4, 8), Cursor("E", 8), 8))
    assert list(tail.records) == records("E", 4, 8)
