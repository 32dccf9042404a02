"""Where measurements are made: programs on one core, what loads them on another; CPU time as the kernel counts it.

Linux only. Nothing here knows what is measured.
"""

import contextlib
import http.client
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
CORES = sorted(os.sched_getaffinity(0))
PROGRAM, LOAD = CORES[0], CORES[-1]
"""The core of what is measured, and that of what loads it."""
TIMEOUT = 300.0
"""Seconds that a program may take."""


@dataclass(frozen=True)
class Case:
    """One column of a row: a program that does the row's work."""

    name: str
    python: str
    words: tuple[str, ...]
    """The program's file and first arguments."""
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def ours(name: str, *words: str, **env: str) -> Case:
    return Case(name, sys.executable, words, env)


def command(case: Case, *more: str) -> list[str]:
    program, *words = case.words
    return [case.python, str(PROGRAMS / program), *words, *more]


def pinned(core: int) -> Any:
    """Return what a new process does first; it starts no thread before."""
    return lambda: os.sched_setaffinity(0, {core})


def environment(case: Case) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AGENTKIT_")}
    return {**plain, "PYTHONHASHSEED": "0", **case.env}


def run(case: Case, *more: str) -> list[dict[str, Any]]:
    """Run a program to its end on its core; return the lines of JSON that it printed."""
    words = command(case, *more)
    try:
        done = subprocess.run(
            words,
            env=environment(case),
            preexec_fn=pinned(PROGRAM),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [{"error": f"took longer than {TIMEOUT:g} s"}]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return said or [
        {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it said nothing"}
    ]


class Program:
    """A server in a process of its own, on a core of its own. Its first line is its port."""

    def __init__(self, case: Case, *more: str, core: int = PROGRAM) -> None:
        self.process = subprocess.Popen(
            command(case, *more), env=environment(case), preexec_fn=pinned(core), stdout=subprocess.PIPE, text=True,
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().strip()
        if not self.first:
            self.end()
            raise RuntimeError(f"{case.name} did not start")

    @property
    def port(self) -> int:
        return int(self.first)

    def cpu(self) -> float:
        """Return seconds of CPU of all its threads."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def memory(self) -> int:
        """Return bytes of its own share of memory."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))) * 1024

    def ask(self, path: str) -> None:
        """Make a request and wait for its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        answer.read()
        connection.close()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the program ended")
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@contextlib.contextmanager
def program(case: Case, *more: str, core: int = PROGRAM) -> Iterator[Program]:
    """Start a server and end it."""
    started = Program(case, *more, core=core)
    try:
        yield started
    finally:
        started.end()


def provider(*certificate: str) -> "contextlib.AbstractContextManager[Program]":
    """Start the provider, on the load's core."""
    return program(ours("provider", "provider.py"), *certificate, core=LOAD)


def machine() -> str:
    """Say where this is."""
    model = "an unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(": ")[2]
            break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"


def load() -> float:
    """Return the machine's load average of the last minute."""
    return os.getloadavg()[0]


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
