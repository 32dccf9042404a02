"""Many readers for a while: nothing lost, doubled or out of order, and memory that does not grow.

    python bench/soak.py [--seconds 30] [--sse 1000] [--sockets 250] [--runs 50]
    python bench/soak.py --idle 5000          memory of an idle reader, over SSE and over WebSocket

The server is a process of its own with a memory engine. Readers come and go, some read slowly and some not at all; whoever was cut or left
comes back with its cursor. In the end each must have seen every record of its thread once, in order. Exit status 1 if not.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import resource
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import websockets

KIB = 1024
THREADS = 25
PIECES = 100
"""Deltas of a run."""
FRAME = re.compile(rb"id: (\w+)-(\d+)\nevent: ")
GOALS = {"sse": 14, "websocket": 20}
"""KiB of an idle reader."""


def serve() -> None:
    """Serve one agent; the address is the first line of the output."""
    from agentkit import Agent
    from agentkit.testing import Say, ScriptedModel, Think
    from agentkit.testing.scripted import Part
    from agentkit_server import Settings, create_app
    from agentkit_server.server import listen, make_server

    many = 1_000_000
    settings = Settings(
        connections=many, connections_each=many, threads_each=many, runs_each=many, send_timeout=2.0,
        head_timeout=60.0, stream_age=36_000.0, retry_ms=(1, 50), drain_timeout=0.5, farewell_timeout=2.0,
    )  # fmt: skip
    step: list[Part] = [
        Think("hm " * PIECES, pieces=PIECES // 2),
        Say("word " * PIECES * 100, pieces=PIECES // 2),
    ]
    agent = Agent("a", model=ScriptedModel(step, repeat=True, delay=0.005))
    listener = listen("127.0.0.1", 0, settings)
    print(listener.getsockname()[1], flush=True)
    make_server(create_app([agent], settings=settings), settings).run(sockets=[listener])


class Server:
    """The server's process."""

    def __init__(self) -> None:
        env = {**os.environ, "AGENTKIT_ENGINE": "memory://"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True, env=env
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def memory(self) -> int:
        """Return the resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


class Reader:
    """One reader of one thread, whatever befalls its connection."""

    def __init__(self, server: Server, thread: str, kind: str, temper: str, counts: "Counter[str]") -> None:
        self.server = server
        self.thread = thread
        self.kind = kind
        self.temper = temper
        self.counts = counts
        self.epoch = ""
        self.seq = 0
        self.faults: list[str] = []

    def take(self, epoch: str, seq: int) -> None:
        """See a record."""
        if seq != self.seq + 1 or (self.epoch and epoch != self.epoch):
            self.faults.append(f"{self.kind} {self.thread}: {epoch}-{seq} after {self.epoch}-{self.seq}")
        self.epoch, self.seq = epoch, seq
        self.counts["records"] += 1

    @property
    def cursor(self) -> str:
        return f"{self.epoch}-{self.seq}" if self.epoch else "earliest"

    async def read(self, until: "asyncio.Event") -> None:
        """Read until the event is set, again and again."""
        while not until.is_set():
            follow = self.stream if self.kind == "sse" else self.socket
            # Churn: a polite reader leaves after a while of its own accord too.
            stay = random.uniform(2, 12) if self.temper == "churn" else 3600.0
            with contextlib.suppress(OSError, TimeoutError, websockets.ConnectionClosed, EOFError):
                async with asyncio.timeout(stay):
                    await follow(until)
            self.counts["connections"] += 1
            await asyncio.sleep(random.uniform(0.01, 0.1))

    async def idle(self) -> None:
        """Read slowly, or not at all for so long that the server cuts the connection."""
        if self.temper == "slow" and random.random() < 0.05:
            await asyncio.sleep(random.uniform(0.2, 1.0))
        if self.temper == "dead" and random.random() < 0.02:
            await asyncio.sleep(5.0)

    async def stream(self, until: "asyncio.Event") -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=64 * KIB)
        if self.temper == "dead":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        path = f"/v1/agents/a/threads/{self.thread}/events?after={self.cursor}"
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head[:20], head
            self.counts["greeted"] += 1
            rest = b""
            while not until.is_set():
                size = int(await reader.readline() or b"0", 16)
                data = await reader.readexactly(size + 2)
                if not size:
                    return
                rest += data[:-2]
                frames, cut, rest = rest.rpartition(b"\n\n")
                if b'"stream.gap"' in frames:
                    self.faults.append(f"{self.kind} {self.thread}: a gap")
                for epoch, seq in FRAME.findall(frames + cut):
                    self.take(epoch.decode(), int(seq))
                await self.idle()
        finally:
            writer.transport.abort()

    async def socket(self, until: "asyncio.Event") -> None:
        url = f"ws://127.0.0.1:{self.server.port}/v1/ws"
        topic = f"agents/a/threads/{self.thread}"
        async with websockets.connect(
            url, compression=None, proxy=None, ping_interval=None, close_timeout=0.1
        ) as one:
            await one.send(json.dumps({"op": "sub", "rid": "1", "topic": topic, "after": self.cursor}))
            self.counts["greeted"] += 1
            while not until.is_set():
                frame: dict[str, Any] = json.loads(await one.recv())
                if frame["op"] == "gap":
                    self.faults.append(f"{self.kind} {self.thread}: a gap")
                for envelope in frame.get("e", ()):
                    self.take(envelope["id"].partition("-")[0], envelope["seq"])
                await self.idle()


TEMPERS = ["calm"] * 6 + ["churn"] * 2 + ["slow", "dead"]


async def soak(server: Server, options: argparse.Namespace) -> bool:
    counts: Counter[str] = Counter()
    over = asyncio.Event()
    kinds = ["sse"] * options.sse + ["websocket"] * options.sockets
    readers = [
        Reader(server, f"t{n % THREADS}", kind, TEMPERS[n // THREADS % len(TEMPERS)], counts)
        for n, kind in enumerate(kinds)
    ]
    tasks = [asyncio.create_task(reader.read(over)) for reader in readers]
    await asyncio.sleep(3)
    memory = [server.memory()]
    heads: Counter[str] = Counter()

    async with httpx2.AsyncClient(
        trust_env=False, timeout=180, limits=httpx2.Limits(keepalive_expiry=1.0)
    ) as http:

        async def run(number: int) -> None:
            await asyncio.sleep(options.seconds * number / options.runs)
            path = f"{server.url}/v1/agents/a/threads/t{number % THREADS}"
            started = (await http.post(f"{path}/runs", json={"input": "x", "on_busy": "queue"})).json()
            while True:
                found = (await http.get(f"{path}/runs/{started['run']}?wait=5")).json()
                if found.get("ended"):
                    break
            counts[found["status"]] += 1

        running = asyncio.gather(*(run(number) for number in range(options.runs)))
        while not running.done():
            await asyncio.sleep(options.seconds / 10)
            memory.append(server.memory())
        await running
        metrics = (await http.get(f"{server.url}/metrics")).text

    end = time.monotonic() + 90  # a busy machine
    while time.monotonic() < end:
        heads = Counter({f"t{n}": max(r.seq for r in readers if r.thread == f"t{n}") for n in range(THREADS)})
        if all(reader.seq == heads[reader.thread] for reader in readers):
            break
        await asyncio.sleep(0.2)
    over.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    behind = [r for r in readers if r.seq != heads[r.thread]]
    faults = [fault for reader in readers for fault in reader.faults]
    expected = THREADS and all(heads[f"t{n}"] > PIECES for n in range(THREADS))
    half = len(memory) // 2
    growth = max(memory[half:]) - max(memory[:half] or memory)
    print(
        f"readers      {options.sse} SSE, {options.sockets} WebSocket; {counts['connections']} connections made again"
    )
    print(
        f"runs         {counts['finished']} finished of {options.runs}; {counts['records']} records delivered"
    )
    cuts = re.search(r"^agentkit_feed_cuts_total (\S+)", metrics, re.MULTILINE)
    print(f"cut          {cuts[1] if cuts else '?'} readers that did not keep up")
    print(
        f"memory       {' '.join(f'{m / KIB / KIB:.0f}' for m in memory)} MiB; second half against first: {growth / KIB / KIB:+.1f} MiB"
    )
    print(f"faults       {len(faults)}; behind at the end: {len(behind)}")
    for fault in faults[:10]:
        print(f"             {fault}")
    flat = growth < 24 * KIB * KIB
    return not faults and not behind and bool(expected) and counts["finished"] == options.runs and flat


async def idle(kind: str, count: int) -> None:
    """Report what an idle reader costs a server that has had no others."""
    server = Server()
    counts: Counter[str] = Counter()
    until = asyncio.Event()
    try:
        warm = [Reader(server, f"i{n % THREADS}", kind, "calm", counts) for n in range(50)]
        tasks = [asyncio.create_task(reader.read(until)) for reader in warm]
        await asyncio.sleep(2)
        before = server.memory()
        for start in range(0, count, 250):
            readers = [
                Reader(server, f"i{n % THREADS}", kind, "calm", counts)
                for n in range(start, min(start + 250, count))
            ]
            tasks += [asyncio.create_task(reader.read(until)) for reader in readers]
            async with asyncio.timeout(60):
                while counts["greeted"] < len(tasks):  # noqa: ASYNC110 - it is looked at now and then
                    await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        used = (server.memory() - before) / count / KIB
        print(f"idle {kind:10} {used:5.1f} KiB a reader at {count} (goal {GOALS[kind]})", flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--sse", type=int, default=1000)
    parser.add_argument("--sockets", type=int, default=250)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.serve:
        serve()
        return 0
    random.seed(1)
    if options.idle:
        for kind in GOALS:
            asyncio.run(idle(kind, options.idle))
        return 0
    server = Server()
    try:
        return 0 if asyncio.run(soak(server, options)) else 1
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
