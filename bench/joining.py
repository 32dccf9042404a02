"""Measure what one reader costs that joins a finished run of 10,000 deltas, with `merge=1` and without: CPU, sends, bytes.

`python bench/joining.py`. Hub, encoder and engine are real, the connection takes all. The client's own work is measured beside it: JSON of
every envelope that came. Five rounds, alternating, medians.
"""

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from agentkit.content import Usage
from agentkit.engine import Engine
from agentkit.engines.memory import MemoryEngine
from agentkit.engines.sqlite import SQLiteEngine
from agentkit.envelope import draft_all
from agentkit.events import RunFinished, TextDelta
from agentkit.log import EARLIEST, Topic
from agentkit.sse import SSEDecoder
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub
from agentkit_transports.outlet import Batch, Outlet

COUNT = 10_000
ROUNDS = 5
TOPIC = Topic("", "bench", "main")


class Sink(Outlet):
    """A connection that takes all at once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    async def send(self, batch: Batch) -> None:
        """Keep the bytes."""
        self.parts.append(batch.data)


async def join(engine: Engine, *, merge: bool) -> tuple[float, Sink]:
    """Return CPU µs for one reader, and what came."""
    hub, sink, over = Hub(engine.log), Sink(), asyncio.Event()
    view = View(run="run_0123456789abcdef", merge=merge)
    begun = time.process_time()
    hub.attach(await hub.locate(TOPIC, EARLIEST), view, sink, lambda _: over.set(), has_ended=True)
    await over.wait()
    return (time.process_time() - begun) * 1e6, sink


async def measure(name: str, engine: Engine) -> None:
    run = "run_0123456789abcdef"
    deltas = [TextDelta(run, 1, time.time(), f"{run}.1.0", " hello")] * 16
    for _ in range(COUNT // 16):
        await engine.log.append(TOPIC, draft_all(TOPIC, deltas))
    await engine.log.append(TOPIC, draft_all(TOPIC, [RunFinished(run, 0, time.time(), "", "stop", Usage())]))
    costs: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for merge, each in costs.items():
            cost, _ = await join(engine, merge=merge)
            each.append(cost)
    for merge, each in costs.items():
        _, sink = await join(engine, merge=merge)
        data = b"".join(sink.parts)
        begun = time.process_time()
        events = [json.loads(event.data) for event in SSEDecoder().feed(data) if event.event]
        client = (time.process_time() - begun) * 1e6
        print(
            f"{name:7s} merge={merge:d}   {statistics.median(each) / 1000:7.1f} ms CPU to serve"
            f"   {client / 1000:6.1f} ms to read   {len(events):6d} frames   {len(sink.parts):4d} sends   {len(data):8d} bytes"
        )
    await engine.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure("memory", MemoryEngine()))
        asyncio.run(measure("sqlite", SQLiteEngine(Path(folder) / "log.db")))


if __name__ == "__main__":
    main()
