"""A row of the table: the same work done by us, by a floor and by peers, in interleaved rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.stand import Case, median


@dataclass
class Row:
    """Figures by name, one a round; None where a round gave none."""

    id: str
    what: str
    unit: str
    floor: str = ""
    """The name that ours is held against; "" where the figure itself is."""
    most: float | None = None
    """Ours ÷ floor at most, or the figure itself."""
    peers: dict[str, float] = field(default_factory=dict)
    """Ours ÷ peer at most."""
    figures: dict[str, list[float | None]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why a name has no figures."""

    def put(self, name: str, value: float | None, why: str = "") -> None:
        self.figures.setdefault(name, []).append(value)
        if value is None and why:
            self.missing[name] = why

    def value(self, name: str) -> float | None:
        """Return the median of a name's figures."""
        known = [each for each in self.figures.get(name, []) if each is not None]
        return median(known) if known else None

    def ratio(self, name: str, other: str) -> float | None:
        """Return the median over the rounds of one name's figure divided by another's."""
        pairs = zip(self.figures.get(name, []), self.figures.get(other, []), strict=False)
        known = [one / two for one, two in pairs if one is not None and two]
        return median(known) if known else None

    def spread(self, name: str, other: str) -> str:
        """Return the least and the greatest of these ratios."""
        pairs = zip(self.figures.get(name, []), self.figures.get(other, []), strict=False)
        known = [one / two for one, two in pairs if one is not None and two]
        return f"{min(known):.2f}…{max(known):.2f}" if len(known) > 1 else ""

    def verdicts(self, ours: str = "agentkit") -> list[tuple[str, float, float]]:
        """Return what is held against what, how much it came to, and the most that was wanted."""
        out = []
        if self.most is not None:
            found = self.ratio(ours, self.floor) if self.floor else self.value(ours)
            if found is not None:
                out.append((self.floor or "itself", found, self.most))
        for peer, most in self.peers.items():
            found = self.ratio(ours, peer)
            if found is not None:
                out.append((peer, found, most))
        return out


Measure = Callable[[Case], dict[str, Any]]


def interleave(rounds: int, cases: Sequence[Case], measure: Callable[[Case, int], None]) -> None:
    """Call `measure(case, round)` for all cases, round by round; each round begins with another case."""
    for number in range(rounds):
        turn = number % len(cases)
        for case in (*cases[turn:], *cases[:turn]):
            measure(case, number)
