"""`examples/multi_worker`: uvicorn's own workers over one engine, watched from outside as its docstring says."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.full]

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "multi_worker"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "app:app", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "AGENTKIT_ENGINE"},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 60
        while not workers(address):
            assert process.poll() is None
            assert time.monotonic() < end, "the workers did not come up"
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def workers(address: str) -> set[int]:
    """Return the workers that a few requests reach, none where nobody is there yet."""
    found = set()
    for _ in range(20):
        try:  # a connection each, so that any worker may take it
            found.add(httpx2.get(f"{address}/worker", trust_env=False).json()["worker"])
        except httpx2.TransportError:
            return set()
    return found


def test_readers_of_any_worker_get_the_same_records(url: str) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, FOLDER / "watch.py", url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Any worker.\n4 readers got the same ")
