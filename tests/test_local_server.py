"""The program that serves a model: what it refuses before it loads anything, and when it ends. Without a real model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit import local_server


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", local_server.__file__, *arguments],
        input="",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_weights_that_are_not_there_are_told_in_one_line() -> None:
    result = run("none.gguf")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].endswith("error: no such file: none.gguf")


@pytest.mark.skipif(sys.platform != "linux", reason="cores are counted on Linux")
@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 2), (8, 4)])
def test_one_core_is_left_for_the_rest(monkeypatch: pytest.MonkeyPatch, cores: int, threads: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))

    assert local_server.default_threads() == threads


@pytest.mark.skipif(sys.platform != "linux", reason="only there memory is bounded")
def test_what_is_allocated_past_the_bound_fails() -> None:
    program = (
        "from agentkit import local_server\n"
        "local_server._limit_memory(300 << 20)\n"
        "try:\n    bytearray(400 << 20)\nexcept MemoryError:\n    print('refused')"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )

    assert result.stdout == "refused\n"


@pytest.mark.parametrize("reason", ["standard input closes", "another parent"])
def test_it_ends_with_the_one_that_started_it(reason: str, tmp_path: Path) -> None:
    parent = "os.getppid()" if reason == "standard input closes" else "1"
    program = f"import os\nfrom agentkit import local_server\nlocal_server._end_with_parent({parent})"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        if reason == "standard input closes":
            process.stdin.close()

        assert process.wait(20) == 0
