"""What has to be true of a server of its own process after each attack: others are served, and nothing is left."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
from e2e.servers import Process, process, until

ODD = Path(__file__).parent / "odd.py"
GROWTH = 48 * 1024 * 1024
"""Bytes of memory that an attack may leave behind, allocators and caches included."""
SECONDS = 30.0
"""For anything that has to come true, on a machine that is busy."""

_NUMBERS = count()


@contextmanager
def odd_server(folder: Path, **env: str) -> Iterator[Process]:
    """Serve the odd agents from a process."""
    path = str(Path(__file__).parents[2])
    with process(str(ODD), str(folder), env={"PYTHONPATH": path, **env}) as one:
        assert is_well(one)
        yield one


def ask(server: Process, method: str, path: str, **options: Any) -> httpx2.Response:
    """Send one request, on a connection of its own."""
    url = f"http://127.0.0.1:{server.port}{path}"
    return httpx2.request(
        method, url, trust_env=False, timeout=SECONDS, headers={"connection": "close"}, **options
    )


def is_well(server: Process) -> bool:
    """Have a run made for somebody who did nothing: it is there, whole. (Its agent has a callback that raises.)"""
    path = f"/v1/agents/noisy/threads/well-{next(_NUMBERS)}/chat"
    answer = ask(server, "POST", path, json={"message": "x"})
    return answer.status_code == 200 and bool(answer.json()["text"] == "said")


def open_files(server: Process) -> int:
    """Return how many files and sockets the server has open."""
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@contextmanager
def undisturbed(server: Process, growth: int = GROWTH) -> Iterator[None]:
    """Whatever is done to the server meanwhile: in the end others are served, and its sockets and memory are given back."""
    files, memory = open_files(server), server.memory()
    yield
    assert is_well(server)
    until(lambda: open_files(server) <= files, SECONDS)
    assert server.memory() < memory + growth
