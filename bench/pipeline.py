"""Row G: the whole way: a provider's stream, an agent, the log, ten SSE readers."""

import time
from contextlib import ExitStack

from bench import peers
from bench.fanout import FEED, LOADER
from bench.options import Options
from bench.row import Row, interleave
from bench.stand import LOAD, Case, ours, program, provider

READERS = 10


def measure(options: Options) -> list[Row]:
    """Measure a burst and a pace."""
    burst, paced = (4_000, 500) if options.quick else (10_000, 3_000)
    rows = []
    for mode, count, what, most in (
        ("burst", burst, "burst", 2.0),
        ("1000", paced, "one delta each ms", 1.3),
    ):
        bounds = {"ai-query": 1 / 10, "pydantic-ai": 1 / 40} if mode == "burst" else {}
        row = Row(
            "G", f"provider → agent → log → {READERS} readers, {what}", "µs a delta", "floor", most, bounds
        )
        everybody = []
        with provider() as server:
            place = (f"http://127.0.0.1:{server.port}", f"bench-{mode}-{count}")
            everybody.append(ours("agentkit", "fanout_ours.py", *place))
            for name, words in (
                ("floor", ("fanout_floor.py", "sse")),
                ("ai-query", ("fanout_peers.py", "ai-query")),
                ("pydantic-ai", ("fanout_peers.py", "pydantic-ai")),
            ):
                python, why = peers.find(name)
                if python:
                    everybody.append(Case(name, python, (*words, *place)))
                else:
                    row.missing[name] = why

            def one(case: Case, _: int, row: Row = row, count: int = count) -> None:
                try:
                    take(case, row, count)
                except Exception as error:
                    row.put(case.name, None, str(error))

            interleave(options.rounds, everybody, one)
        rows.append(row)
    return rows


def take(case: Case, row: Row, count: int) -> None:
    """Run once to warm up, and once measured."""
    with ExitStack() as stack:
        server = stack.enter_context(program(case))
        server.ask("/run")
        path = FEED if case.name == "agentkit" else "/events"
        load = stack.enter_context(program(LOADER, str(server.port), path, str(READERS), "sse", core=LOAD))
        time.sleep(0.2)
        begun = server.cpu()
        load.say(f"sum {count}")
        server.ask("/run")
        said = load.hear()
        spent = server.cpu() - begun
    whole = said["all"] >= READERS * count
    row.put(case.name, spent / count * 1e6 if whole else None, f"{said['all']} of {READERS * count} came")
