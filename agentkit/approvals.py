"""Approvals: calls that wait for a person, and what was decided.

It knows no run: whoever owns the run publishes what is asked and what was answered. Text can never grant an approval: only `decide`.
"""

from dataclasses import dataclass

import anyio


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer."""

    approved: bool
    reason: str = ""


class Approvals:
    """The decisions of one run and of its sub-agents' runs, by approval id.

    The id is `approval_id`'s: a call's id alone will not do, since some providers begin again with each step, and what was granted
    once would be granted for ever.
    """

    def __init__(self, decided: dict[str, Decision] | None = None) -> None:
        self._decided: dict[str, Decision] = dict(decided or {})
        self._waiting: dict[str, anyio.Event] = {}
        self._abandoned = False

    @property
    def waiting(self) -> list[str]:
        """The ids that wait, in the order in which they were asked."""
        return list(self._waiting)

    def decide(self, approval: str, decision: Decision) -> bool:
        """Take a decision; the first one stands. Returns whether it was waited for or is new."""
        if approval in self._decided:
            return False
        self._decided[approval] = decision
        event = self._waiting.pop(approval, None)
        if event is not None:
            event.set()
        return True

    def decision(self, approval: str) -> Decision | None:
        """Return what was decided, or None."""
        return self._decided.get(approval)

    def abandon(self) -> None:
        """Let those that wait go, and those that come: the run takes no more decisions."""
        self._abandoned = True
        for event in self._waiting.values():
            event.set()

    async def wait(self, approval: str) -> Decision | None:
        """Return the decision once there is one, or None where the run takes none. A person has no timeout; the run has."""
        while approval not in self._decided and not self._abandoned:
            event = self._waiting.setdefault(approval, anyio.Event())
            try:
                await event.wait()
            finally:
                self._waiting.pop(approval, None)
        return self._decided.get(approval)


def approval_id(run: str, step: int, call: str) -> str:
    """Return the id of a call's approval, unique in the thread."""
    return f"{run}.{step}.{call}"
