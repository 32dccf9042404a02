"""What agents cost in one process: memory of an idle thread and of a running run, CPU time of a run.

    python bench/agents.py [RUNS]

`ScriptedModel` and the memory engine, so that nothing but the house is measured. Memory is what the process's resident set grew by;
an idle thread is one that was used once (its messages, its run's record, its log); a running run has spoken and waits for its model.
"""

import gc
import multiprocessing
import platform
import resource
import sys
import time

import anyio

from agentkit import Agent, RunCancelled
from agentkit.testing import Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Step

ANSWER: Step = [
    Think("let me see", signature="c2ln", pieces=4),
    Say("a short answer, in ten pieces", pieces=10),
]
HELD: Step = [Think("let me see", pieces=4), Say("half", pieces=2), Wait(seconds=3600)]


def resident() -> int:
    """Return the bytes of this process's resident set."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def idle(count: int) -> tuple[float, float]:
    """Return KiB of an idle thread and CPU milliseconds of the run that made it."""
    agent = Agent("bench", model=ScriptedModel(ANSWER, repeat=True))
    await agent.chat("hi", thread="warm-up")
    before, began = resident(), time.process_time()
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(lambda n=number: agent.chat("hi", thread=f"t{n}"))  # type: ignore[misc]
    spent = time.process_time() - began
    return (resident() - before) / count / 1024, spent / count * 1000


async def running(count: int) -> float:
    """Return KiB of a running run, with its thread."""
    agent = Agent("bench", model=ScriptedModel(HELD, repeat=True))
    before = resident()
    runs = [await agent.start("hi", thread=f"t{number}") for number in range(count)]
    for run in runs:
        async for event in run.event_stream:
            if event.type == "text.delta":
                break
    grown = (resident() - before) / count / 1024
    await agent.join(cancel=True)
    for run in runs:
        try:
            await run.result()
        except RunCancelled:
            continue
        raise AssertionError("a run that was cancelled ended well")
    return grown


def measure(what: str, backend: str, count: int) -> tuple[float, float]:
    """Return KiB and CPU milliseconds; the latter of idle threads only."""
    if what == "idle":
        return anyio.run(idle, count, backend=backend)
    return anyio.run(running, count, backend=backend), 0.0


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(
        f"{count} runs, Python {platform.python_version()}, {platform.machine()}, {time.strftime('%Y-%m-%d')}"
    )
    spawn = multiprocessing.get_context("spawn")
    for backend in ("asyncio", "trio"):
        found: dict[str, tuple[float, float]] = {}
        for what in ("idle", "running"):
            with spawn.Pool(1) as fresh:  # what a measurement before has freed would be used again
                found[what] = fresh.apply(measure, (what, backend, count))
        (kept, spent), (held, _) = found["idle"], found["running"]
        print(
            f"{backend:8} idle thread {kept:6.1f} KiB   running run {held:6.1f} KiB   CPU {spent:6.2f} ms a run"
        )


if __name__ == "__main__":
    main()
