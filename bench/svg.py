"""Two kinds of plot as SVG: bars, and lines over a logarithmic axis. Readable on light and dark pages; no script, no font of its own."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

WIDTH = 720
BAR = 20
LABEL = 230
STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}.s{fill:#57606a;font-size:12px}"
    ".o{fill:#0f766e}.f{fill:#8c959f}.p{fill:#c2ccd6}.l{fill:none;stroke-width:2}.lo{stroke:#0f766e}.lf{stroke:#8c959f}.lp{stroke:#b45309}"
    ".a{stroke:#8c959f;stroke-opacity:.4}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9da7b3}.o{fill:#2dd4bf}"
    ".f{fill:#7d8590}.p{fill:#3d4753}.lo{stroke:#2dd4bf}.lp{stroke:#f59e0b}}</style>"
)
DASHES = ("", "6 3", "2 3", "8 2 2 2")


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def page(title: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{STYLE}{"".join(parts)}</svg>\n'
    )


def kind(name: str) -> str:
    """Return the class of a series: ours, the floor, or a peer."""
    return "o" if name.startswith("agentkit") else "f" if name.startswith(("floor", "without")) else "p"


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Return groups of bars; each group has a scale of its own, from 0 to its largest value."""
    parts = [
        f'<text class="t" x="8" y="20">{escape(title)}</text>',
        f'<text class="s" x="8" y="38">{escape(unit)}; less is better</text>',
    ]
    y = 50
    for heading, values in groups.items():
        if len(groups) > 1:
            y += 18
            parts.append(f'<text class="s" x="8" y="{y}">{escape(heading)}</text>')
            y += 6
        most = max(values.values(), default=1.0)
        for name, value in sorted(values.items(), key=lambda item: item[1]):
            wide = max(1.5, value / most * (WIDTH - LABEL - 80))
            parts.append(f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
            parts.append(
                f'<rect class="{kind(name)}" x="{LABEL}" y="{y + 2}" width="{wide:.1f}" height="{BAR - 5}" rx="2"/>'
            )
            parts.append(f'<text class="s" x="{LABEL + wide + 6:.1f}" y="{y + 14}">{number(value)}</text>')
            y += BAR
        y += 6
    return page(title, y + 6, parts)


def lines(title: str, unit: str, across: str, curves: Mapping[str, Mapping[int, float]]) -> str:
    """Return curves over a logarithmic axis."""
    left, right, top, bottom = 60, WIDTH - 220, 54, 300
    places = sorted({place for curve in curves.values() for place in curve})
    most = max((value for curve in curves.values() for value in curve.values()), default=1.0)
    low, high = log10(places[0]), log10(places[-1])

    def x(place: float) -> float:
        return left + (log10(place) - low) / ((high - low) or 1) * (right - left)

    def y(value: float) -> float:
        return bottom - value / most * (bottom - top)

    parts = [
        f'<text class="t" x="8" y="20">{escape(title)}</text>',
        f'<text class="s" x="8" y="38">{escape(unit)}; flat is linear</text>',
        f'<path class="a" d="M{left} {top}V{bottom}H{right}"/>',
        f'<text class="s" x="{left - 6}" y="{bottom + 4}" text-anchor="end">0</text>',
        f'<text class="s" x="{left - 6}" y="{top + 4}" text-anchor="end">{number(most)}</text>',
        f'<text class="s" x="{(left + right) / 2}" y="{bottom + 38}" text-anchor="middle">{escape(across)}</text>',
    ]
    parts += [
        f'<text class="s" x="{x(p):.0f}" y="{bottom + 18}" text-anchor="middle">{p:,}</text>' for p in places
    ]
    taken: list[float] = []
    for order, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in sorted(curve.items()))
        dash = DASHES[order % len(DASHES)]
        parts.append(
            f'<polyline class="l l{kind(name)}" points="{points}"{f" stroke-dasharray={dash!r}" if dash else ""}/>'
        )
        last = max(curve.items())
        place = y(last[1]) + 4
        while any(abs(place - other) < 16 for other in taken):
            place -= 16
        taken.append(place)
        parts.append(
            f'<text x="{x(last[0]) + 8:.0f}" y="{place:.0f}">{escape(name)} {number(last[1])}</text>'
        )
    return page(title, 350, parts)
