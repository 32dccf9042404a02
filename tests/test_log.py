import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import WireError
from agentkit.log import EARLIEST, NOW, Cursor, Draft, Gap, Page, Record, Tail

pytestmark = pytest.mark.pure


def draft(number: int = 0) -> Draft:
    return Draft("text.delta", "", "r", 1, "r.1.0", float(number), b'{"type":"text.delta"}')


def filled(count: int, *, first: int = 1) -> Tail:
    tail = Tail("E")
    tail.append([Record.of(draft(n), "E", n) for n in range(1, count + 1)])
    tail.trim(first)
    return tail


def seqs(page: Page) -> list[int]:
    return [record.seq for record in page.records]


def test_the_wire_form_is_one_splice_of_the_body() -> None:
    assert Record.of(draft(), "E", 42).wire == b'{"v":1,"id":"E-42","seq":42,"type":"text.delta"}'


@pytest.mark.parametrize(
    ("cursor", "expected", "gap"),
    [
        pytest.param(EARLIEST, [1, 2, 3], None, id="earliest"),
        pytest.param(NOW, [], None, id="now"),
        pytest.param(Cursor("E", 0), [1, 2, 3], None, id="before the first"),
        pytest.param(Cursor("E", 2), [3], None, id="in the middle"),
        pytest.param(Cursor("E", 3), [], None, id="at the head"),
        pytest.param(Cursor("E", 9), [], Gap("future", 4, 9), id="future"),
        pytest.param(Cursor("X", 2), [1, 2, 3], Gap("epoch", 0, 0), id="another epoch"),
    ],
)
def test_any_cursor_is_answered(cursor: Cursor, expected: list[int], gap: Gap | None) -> None:
    page = filled(3).after(cursor, 100)

    assert (seqs(page), page.gap, page.cursor, page.head) == (expected, gap, Cursor("E", 3), 3)


@pytest.mark.parametrize(
    ("cursor", "gap"),
    [
        pytest.param(EARLIEST, Gap("trimmed", 1, 3), id="earliest"),
        pytest.param(Cursor("E", 1), Gap("trimmed", 2, 3), id="behind the ring"),
        pytest.param(Cursor("E", 3), None, id="just at its edge"),
        pytest.param(Cursor("X", 9), Gap("epoch", 0, 3), id="another epoch"),
    ],
)
def test_what_was_trimmed_is_told(cursor: Cursor, gap: Gap | None) -> None:
    tail = filled(5, first=4)

    page = tail.after(cursor, 100)

    assert (seqs(page), page.gap) == ([4, 5], gap)
    assert tail.holds(cursor) == (gap is None)


def test_an_empty_topic_waits_at_its_beginning() -> None:
    assert Tail("E").after(EARLIEST, 10) == Page([], Cursor("E", 0), 0)
    assert Tail("E").after(NOW, 10) == Page((), Cursor("E", 0), 0)


@given(st.integers(0, 30), st.integers(1, 30), st.integers(1, 7))
def test_pages_joined_are_the_log(count: int, first: int, limit: int) -> None:
    tail = filled(count, first=first)
    cursor, got = EARLIEST, []
    while (page := tail.after(cursor, limit)).records:
        got += seqs(page)
        assert len(page.records) <= limit
        cursor = page.cursor

    assert got == list(range(min(first, count + 1), count + 1))


def test_records_that_do_not_follow_are_refused() -> None:
    tail = filled(2)

    for wrong in (Record.of(draft(), "E", 4), Record.of(draft(), "X", 3), Record.of(draft(), "E", 2)):
        with pytest.raises(ValueError, match="does not follow E-2"):
            tail.append([wrong])
    assert tail.head == 2


def test_a_waker_is_called_once_an_append_until_it_leaves() -> None:
    tail, calls = Tail("E"), []
    leave = tail.on_wake(lambda: calls.append(tail.head))
    tail.append([Record.of(draft(), "E", 1), Record.of(draft(), "E", 2)])
    leave()
    leave()
    tail.append([Record.of(draft(), "E", 3)])

    assert calls == [2]


def test_a_reset_begins_a_new_epoch() -> None:
    tail = filled(3)
    tail.reset("F")

    assert tail.after(Cursor("E", 3), 10) == Page([], Cursor("F", 0), 0, Gap("epoch", 0, 0))
    assert tail.size == 0


def test_size_counts_what_is_held() -> None:
    assert filled(5, first=4).size == 2 * len(draft().body)
    assert filled(5).find_time(3.0) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "E",
        "E-",
        "-1",
        "E-01",
        "E--1",
        "E-+1",
        "E- 1",
        "E-1e3",
        "E-１",
        "E-99999999999999999",
        "é-1",
        "a" * 17 + "-1",
        "E-1\n",
        "E-1-2",
    ],
)
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="cursor"):
        Cursor.parse(text)


@given(st.from_regex(r"[A-Za-z0-9]{1,16}", fullmatch=True).filter(str.isascii), st.integers(0, 10**16 - 1))
def test_a_cursor_survives_its_text(epoch: str, seq: int) -> None:
    assert Cursor.parse(Cursor(epoch, seq).id) == Cursor(epoch, seq)


def test_the_words_are_cursors() -> None:
    assert (Cursor.parse("earliest"), Cursor.parse("now")) == (EARLIEST, NOW)
