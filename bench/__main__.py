"""Measure agentkit beside its floors and its peers: `make bench`, `make bench ARGS=--quick`, `make bench ARGS="--only A C"`.

A whole run writes `docs/img/speed-*.svg` and the figures in `docs/speed.md` and the README. A quick one (without `--write`), or one of some rows, only prints.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import client, fanout, pipeline, report, small  # noqa: E402
from bench.options import Options  # noqa: E402
from bench.row import Row  # noqa: E402
from bench.stand import CORES, LOAD, load  # noqa: E402

PARTS: dict[str, Callable[[Options], list[Row]]] = {
    "B": small.measure,
    "A": client.measure,
    "A3": client.growth,
    "C": fanout.measure,
    "G": pipeline.measure,
}
"""What is measured together: B with H; A with A2 and A4; C with D, E and F."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round of less work, under two minutes")
    parser.add_argument("--rounds", type=int, default=0, help="interleaved rounds (5; quick: 1)")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="some parts only: " + ", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write the documents also after a quick run")
    parser.add_argument("--raw", type=Path, help="write all figures of all rounds to this file, as JSON")
    asked = parser.parse_args()
    if len(CORES) < 2:
        print("bench: needs two cores, one for what is measured and one for what loads it", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, {LOAD})  # this program too keeps off the core where others are measured
    options = Options(asked.quick, asked.rounds or (1 if asked.quick else 5))
    begun, loads, rows = time.monotonic(), [load()], []
    for name in asked.only or PARTS:
        print(f"{time.monotonic() - begun:5.0f} s  measuring {name} …", flush=True)
        rows += PARTS[name](options)
        loads.append(load())
    rows.sort(key=lambda row: row.id)
    if asked.only:
        print(f"\n{report.header(options, loads)}\n\n{report.table(rows)}")
    else:
        print("\n" + report.publish(rows, options, loads, asked.raw, write=asked.write or not asked.quick))
    print(f"\n{time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
