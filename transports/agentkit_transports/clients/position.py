"""Where a feed's reader stands, and what may come next: the contract of numbers.

Pure. On an unfiltered feed each record follows the one before, unless a gap was told; on a filtered one numbers only grow. What comes
a second time is known by its number. A server (or a proxy) that breaks this is told to the caller, not papered over.
Grounds: design.md §6, §7 (seq).
"""

from agentkit.errors import WireError
from agentkit_transports.clients.envelope import Envelope, split_id


class Position:
    """A place in one topic's log."""

    __slots__ = ("_epoch", "_seq", "contiguous", "cursor")

    def __init__(self, after: str, *, contiguous: bool) -> None:
        """Begin at a cursor: an id, `earliest` or `now`.

        Raises:
            WireError: it is none of these.
        """
        self.contiguous = contiguous
        """True where no number may be skipped."""
        self.cursor = after
        """What a new connection begins after."""
        self._epoch = ""
        self._seq = 0
        if after not in ("earliest", "now"):
            self.move(after)

    @property
    def is_pinned(self) -> bool:
        """True once it is a number in an epoch."""
        return bool(self._epoch)

    def move(self, id: str) -> None:  # noqa: A002 - the wire's word
        """Stand behind `id`: a gap's or a position's word for it.

        Raises:
            WireError: it is no id.
        """
        self._epoch, self._seq = split_id(id)
        self.cursor = id

    def advance(self, id: str) -> None:  # noqa: A002
        """Stand behind `id` if that is further on in the same epoch.

        Raises:
            WireError: it is no id, or of another epoch.
        """
        epoch, seq = split_id(id)
        if self._epoch and epoch != self._epoch:
            raise WireError(f"the feed moved from {self.cursor} to {id} without a gap")
        if not self._epoch or seq > self._seq:
            self.move(id)

    def admit(self, envelope: Envelope) -> bool:
        """Stand behind a record; False where it came before.

        Raises:
            WireError: it does not follow, and no gap was told.
        """
        epoch, seq = split_id(envelope.id)
        if self._epoch:
            if epoch != self._epoch:
                raise WireError(f"record {envelope.id} follows {self.cursor} in another epoch without a gap")
            if seq <= self._seq:
                return False
            if envelope.first <= self._seq or (self.contiguous and envelope.first != self._seq + 1):
                span = f"{envelope.first}…{seq}" if envelope.first < seq else str(seq)
                raise WireError(
                    f"records {span} came after {self.cursor}: numbers were skipped without a gap"
                )
        self._epoch, self._seq, self.cursor = epoch, seq, envelope.id
        return True
