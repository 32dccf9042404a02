"""The contract of numbers, against a plain model of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import WireError
from agentkit_transports.clients.envelope import parse_envelope
from agentkit_transports.clients.position import Position

pytestmark = pytest.mark.pure


def record(seq: int, first: int | None = None, epoch: str = "e") -> Any:
    more = {} if first is None else {"first": first}
    return parse_envelope({"id": f"{epoch}-{seq}", "seq": seq, "type": "x", **more})


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), max_size=12), st.booleans())
def test_numbers_are_taken_once_in_order_or_refused(spans: list[tuple[int, int]], contiguous: bool) -> None:
    position, last = Position("e-0", contiguous=contiguous), 0
    for seq, width in spans:
        first = max(1, seq - width)
        wrong = first <= last or (contiguous and first != last + 1)
        if seq <= last:
            assert not position.admit(record(seq, first))
        elif wrong:
            with pytest.raises(WireError):
                position.admit(record(seq, first))
            return
        else:
            assert position.admit(record(seq, first))
            last = seq
        assert position.cursor == f"e-{last}"


def test_the_first_record_pins_a_reader_who_was_not_greeted() -> None:
    position = Position("now", contiguous=True)

    assert not position.is_pinned
    assert position.admit(record(41))
    assert (position.cursor, position.is_pinned) == ("e-41", True)


def test_a_place_moves_forward_by_word_and_anywhere_by_a_gap() -> None:
    position = Position("e-5", contiguous=False)
    position.advance("e-3")
    assert position.cursor == "e-5"
    position.advance("e-9")
    assert position.cursor == "e-9"
    with pytest.raises(WireError):
        position.advance("f-10")
    position.move("f-0")
    assert position.admit(record(1, epoch="f"))


def test_what_is_no_cursor_is_refused() -> None:
    with pytest.raises(WireError):
        Position("yesterday", contiguous=True)
