"""Rows B and H: one event drafted and encoded; what importing costs."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

from bench.options import Options
from bench.row import Row
from bench.stand import PROGRAM, pinned

REPEATS = 20_000


def measure(options: Options) -> list[Row]:
    """Measure both."""
    return [encoding(options), *importing(options)]


def encoding(options: Options) -> Row:
    """One event, at a time of its own, drafted and encoded to SSE bytes: ours, and a pydantic model with sse-starlette's event."""
    from pydantic import BaseModel
    from sse_starlette import ServerSentEvent

    from agentkit.envelope import draft_all
    from agentkit.events import TextDelta
    from agentkit.log import Record, Topic
    from agentkit_transports.protocols.native import NativeSSE

    class Data(BaseModel):
        text: str

    class Envelope(BaseModel):
        v: int
        id: str
        seq: int
        type: str
        agent: str
        thread: str
        run: str
        step: int
        block: str
        time: float
        data: Data

    run = "run_0123456789abcdef"
    topic, encoder = Topic("", "bench", "main"), NativeSSE()

    def mine(number: int) -> bytes:
        event = TextDelta(run, 1, 1.5e9 + number / 1000, f"{run}.1.0", "eleven char")
        [draft] = draft_all(topic, [event])
        return encoder.step((), Record.of(draft, "0123abcd", number))[1]

    def theirs(number: int) -> bytes:
        id = f"0123abcd-{number}"  # noqa: A001 - the field's name
        envelope = Envelope(
            v=1, id=id, seq=number, type="text.delta", agent="bench", thread="main", run=run, step=1, block=f"{run}.1.0",
            time=1.5e9 + number / 1000, data=Data(text="eleven char"),
        )  # fmt: skip
        return ServerSentEvent(envelope.model_dump_json(), id=id, event="text.delta", sep="\n").encode()

    def cost(make: Callable[[int], bytes]) -> float:
        begun = time.process_time()
        for number in range(REPEATS):
            make(number)
        return (time.process_time() - begun) / REPEATS * 1e6

    row = Row("B", "one event drafted and encoded to SSE bytes", "µs", "pydantic + sse-starlette", 0.25)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {PROGRAM})
    try:
        for make in (mine, theirs):
            cost(make)
        for _ in range(options.rounds):
            row.put("agentkit", cost(mine))
            row.put("pydantic + sse-starlette", cost(theirs))
    finally:
        os.sched_setaffinity(0, before)
    return row


def importing(options: Options) -> list[Row]:
    """CPU time of a process that only imports: the face, which loads little, and what is then used of it, which loads the rest."""
    floor = "import pydantic, anyio, httpx2"
    ready = "from agentkit import Agent; Agent('bench', model='ollama:any')"
    programs = {"import agentkit": 1.3, "from agentkit import Agent": 1.3, ready: None}
    rows = [Row("H", program, "ms", floor, most) for program, most in programs.items()]
    for program in (floor, *programs):
        spent(program)  # writes the byte code, which installing does otherwise
    for _ in range(max(options.rounds, 3) * 2):
        own = spent(floor) * 1e3
        for row in rows:
            row.put("agentkit", spent(row.what) * 1e3)
            row.put(floor, own)
    return rows


def spent(program: str) -> float:
    """Return the CPU seconds of a Python that runs a line."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, preexec_fn=pinned(PROGRAM))
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime
