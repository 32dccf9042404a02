"""What all consumers of a provider's stream share: the measuring. Standard library only: it runs in the peers' environments too.

A program calls `main(consume)`; its arguments are the provider's URL and words `FORMAT:MODE:COUNT`. For each word it consumes once to warm
up, then once measured, and prints a line of JSON. `first` repeats an answer and measures the CPU time until its first delta.
"""

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

REPEATS = 16
"""Answers behind a `first` figure."""


class Sink:
    """Counts deltas, and keeps their texts as whoever consumes would."""

    def __init__(self) -> None:
        self.count = 0
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.first = 0.0

    def add(self, text: str, *, reasoning: bool) -> None:
        if not self.count:
            self.first = time.process_time()
        self.count += 1
        (self.reasoning if reasoning else self.text).append(text)


Consume = Callable[[str, str, str], Awaitable[Sink]]
"""Format, base URL, model → what came."""


async def measure(consume: Consume, base: str, word: str) -> dict[str, object]:
    shape, mode, count = word.split(":")
    if mode == "first":
        model = "bench-300-60"
        firsts = []
        for _ in range(REPEATS):
            begun = time.process_time()
            sink = await consume(shape, base, model)
            firsts.append((sink.first - begun) * 1e3)
        return {"word": word, "ms": statistics.median(firsts[2:])}
    model = f"bench-{mode}-{count}"
    warm = "tool" if mode == "tool" else "burst"
    await consume(shape, base, f"bench-{warm}-2000" if not mode.isdigit() else f"bench-{mode}-200")
    gc.collect()
    begun, wall = time.process_time(), time.perf_counter()
    sink = await consume(shape, base, model)
    spent, took = time.process_time() - begun, time.perf_counter() - wall
    return {
        "word": word,
        "us": spent / int(count) * 1e6,
        "wall": took / int(count) * 1e6,
        "count": sink.count,
        "characters": [len("".join(sink.text)), len("".join(sink.reasoning))],
    }


async def measure_all(consume: Consume, base: str, words: list[str]) -> None:
    for word in words:
        try:
            said = await measure(consume, base, word)
        except NotImplementedError:
            continue
        except Exception as error:
            said = {"word": word, "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(said), flush=True)


def main(consume: Consume) -> None:
    asyncio.run(measure_all(consume, sys.argv[1], sys.argv[2:]))
