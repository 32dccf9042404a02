"""The soak, short: 1,000 streams and 250 sockets that come, go, lag and die, and every record once and in order."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.faults, pytest.mark.timeout(400)]

SOAK = Path(__file__).parents[2] / "bench/soak.py"


def test_nothing_is_lost_doubled_or_reordered_and_memory_is_flat() -> None:
    done = subprocess.run(
        [sys.executable, SOAK, "--seconds", "30"], check=False, capture_output=True, text=True, timeout=360
    )

    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_memory_of_idle_readers_is_reported() -> None:
    done = subprocess.run(
        [sys.executable, SOAK, "--idle", "500"], check=False, capture_output=True, text=True, timeout=120
    )

    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["sse", "websocket"]
