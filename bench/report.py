"""What was measured, as a table, as plots, and between the marks of the documents that tell it."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import peers, svg
from bench.options import Options
from bench.row import Row
from bench.stand import load, machine

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"
NAME = "agentkit"


def header(options: Options, loads: Sequence[float]) -> str:
    """Say when, where and with what it was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in peers.versions().items())
    quick = (
        " A quick run of little work on a machine that was busy with other things: to see that it runs, not to quote."
        if options.quick
        else ""
    )
    return (
        f"Measured {time.strftime('%Y-%m-%d')} on {machine()}; {options.rounds} interleaved rounds, medians; load average "
        f"{min(loads):.1f} to {max(loads):.1f} (the benchmark alone makes 1 to 2).{quick} Against {versions}."
    )


def table(rows: Sequence[Row]) -> str:
    """Return the table of all rows."""
    lines = [
        "| row | what | agentkit | others | ratio (spread) | wanted | |",
        "|---|---|---:|---|---|---|---|",
    ]
    for row in rows:
        if row.id.startswith("growth"):
            continue
        own = row.value(NAME)
        said = (
            f"{svg.number(own)} {row.unit}"
            if own is not None
            else f"– ({row.missing.get(NAME, 'not measured')})"
        )
        named = [(name, row.value(name)) for name in row.figures if name != NAME]
        others = [f"{name} {svg.number(value)}" for name, value in named if value is not None]
        others += [
            f"{name}: {why}" for name, why in row.missing.items() if name != NAME and row.value(name) is None
        ]
        ratios, wanted, marks = [], [], []
        for name, found, most in row.verdicts():
            spread = row.spread(NAME, name) if name != "itself" else ""
            against = "" if name == "itself" else f"{found:.2f} × {name}"
            ratios.append(against + (f" ({spread})" if spread else ""))
            wanted.append(f"≤ {most:.3g}")
            marks.append("✓" if found <= most else "✗")
        cells = (
            row.id,
            row.what,
            said,
            "; ".join(others),
            "<br>".join(ratios),
            "<br>".join(wanted),
            "<br>".join(marks),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plots(rows: Sequence[Row]) -> list[str]:
    """Write the plots; return their files' names."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    made: dict[str, str] = {}
    for file, ids, title in (
        ("speed-client", ("A",), "From the provider's socket to typed deltas: CPU"),
        ("speed-paced", ("A2", "A4"), "At a model's pace, and the first delta: CPU"),
        ("speed-fanout", ("C", "D"), "One event to many readers: CPU of the server"),
        ("speed-late", ("F",), "From emit to receive, median"),
        ("speed-pipeline", ("G",), "Provider → agent → log → ten readers: CPU"),
        ("speed-small", ("B", "H"), "One event encoded; one import: CPU"),
    ):
        chosen = [row for row in rows if row.id in ids]
        groups = {
            f"{row.what} ({row.unit})": {
                name: value for name in row.figures if (value := row.value(name)) is not None
            }
            for row in chosen
        }
        if any(groups.values()):
            made[file] = svg.bars(
                title, chosen[0].unit if len({row.unit for row in chosen}) == 1 else "units as told", groups
            )
    curves: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.id == "growth":
            for name in row.figures:
                value = row.value(name)
                if value is not None:
                    curves.setdefault(name, {})[int(row.what)] = value
    if curves:
        made["speed-growth"] = svg.lines(
            "Does a delta cost more in a long answer?", "µs of CPU a delta", "deltas in the answer", curves
        )
    for file, text in made.items():
        (IMAGES / f"{file}.svg").write_text(text)
    return list(made)


def tell(document: Path, text: str) -> None:
    """Put text between a document's marks, if it has any."""
    if not document.exists():
        return
    before = document.read_text()
    block = f"<!-- bench: begin -->\n{text}\n<!-- bench: end -->"
    after = re.sub(r"<!-- bench: begin -->.*?<!-- bench: end -->", lambda _: block, before, flags=re.DOTALL)
    if after != before:
        document.write_text(after)


def summary(rows: Sequence[Row]) -> str:
    """Return the few figures that the README tells."""
    wanted = (("A", "floor"), ("A", "ai-query"), ("A", "anthropic SDK"), ("A", "openai SDK"), ("A", "pydantic-ai"), ("C", "floor"),
              ("C", "sse-starlette"), ("G", "floor"), ("G", "ai-query"), ("G", "pydantic-ai"))  # fmt: skip
    lines = ["| | agentkit | against |", "|---|---:|---|"]
    for id, other in wanted:  # noqa: A001 - the row's name
        row = next((each for each in rows if each.id == id and each.ratio(NAME, other) is not None), None)
        if row is None:
            continue
        own, their, ratio = row.value(NAME), row.value(other), row.ratio(NAME, other)
        assert own is not None
        assert their is not None
        assert ratio is not None
        times = f"{ratio:.1f} times its cost" if ratio >= 1 else f"1/{1 / ratio:.0f} of its cost"
        lines.append(f"| {row.what} | {svg.number(own)} {row.unit} | {other}: {svg.number(their)}, {times} |")
    return "\n".join(lines)


def publish(
    rows: Sequence[Row], options: Options, loads: Sequence[float], into: Path | None, *, write: bool
) -> str:
    """Write plots and documents, and the raw figures; return the table."""
    loads = [*loads, load()]
    text = header(options, loads)
    whole = table(rows)
    if into is not None:
        raw: dict[str, Any] = {"header": text, "rows": [asdict(row) for row in rows]}
        into.write_text(json.dumps(raw, ensure_ascii=False, indent=1))
    if write:
        plots(rows)
        tell(ROOT / "docs" / "speed.md", f"{text}\n\n{whole}")
        tell(ROOT / "README.md", f"{summary(rows)}\n\n{text}")
    return f"{text}\n\n{whole}"
