"""Give blocks their index where the wire numbers them itself.

Pure; for Anthropic and Responses. Blocks mostly come in the order of their numbers, and then indexes are dense. One that comes before
others that stand before it leaves them their places, so that the answer keeps the order of the wire.
"""

from typing import Final

_MOST_LEFT: Final = 16
"""Numbers that a block may leave out: more are no order but another way of counting, which must not cost memory."""


class Places:
    """The indexes of one answer."""

    __slots__ = ("_left", "_next", "_seen")

    def __init__(self) -> None:
        self._next = 0
        self._seen = 0  # the wire's numbers below it have a place
        self._left: dict[int, int] = {}  # by number: places of blocks that have not come

    def new(self) -> int:
        """Return the index of a block that begins now and has no number."""
        index = self._next
        self._next += 1
        return index

    def at(self, number: int) -> int:
        """Return the index of a block that begins now and has this number; a number that comes again is that of a new block."""
        if number in self._left:
            return self._left.pop(number)
        if self._seen <= number <= self._seen + _MOST_LEFT:
            for missing in range(self._seen, number):
                self._left[missing] = self.new()
            self._seen = number + 1
        return self.new()
