"""What several workers need, and how a parent begins one. That they serve is tried in `e2e`."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentkit.errors import ConfigurationError
from agentkit_server.cli import app
from agentkit_server.workers import SOCKET, check_workers, command_again, inherited_socket


@pytest.mark.pure
def test_one_worker_may_have_any_engine_and_several_one_that_they_share() -> None:
    check_workers(1, "memory://")
    for engine in ("", "sqlite:///x.db", "redis://localhost/0"):
        check_workers(4, engine)
    with pytest.raises(
        ConfigurationError, match=r"--workers 4 needs an engine .* sqlite:///path or redis://"
    ):
        check_workers(4, "memory://")


def test_the_command_refuses_memory_for_several_workers() -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", "--workers", "2", "--engine", "memory://"])

    assert result.exit_code == 1
    assert "memory:// is one process" in result.stderr


@pytest.mark.pure
@pytest.mark.parametrize(
    "words", [["agentkit", "serve", "--workers", "2"], ["__main__.py", "--workers", "2"]]
)
def test_a_worker_is_the_same_command_again(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", words)

    assert command_again() == [sys.executable, "-m", "agentkit_server", "--workers", "2"]


@pytest.mark.pure
def test_who_has_no_parent_inherits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET, raising=False)

    assert inherited_socket() is None


WORKER = """
import itertools, os, signal, socket, sys
for number in itertools.count(1):
    try:
        open(f"{sys.argv[1]}/{number}", "x").close()
        break
    except FileExistsError:
        pass
listener = socket.socket(fileno=int(os.environ["AGENTKIT_WORKER_SOCKET"]))
assert listener.getsockname()[1] == int(sys.argv[2])
if number <= 2:
    sys.exit(3)  # the first two do not last
if number == 4:
    os.kill(os.getppid(), signal.SIGTERM)
signal.pause()
"""

PARENT = """
import socket, sys
from agentkit_server.workers import Supervisor
listener = socket.create_server(("127.0.0.1", 0))
command = [sys.executable, "-c", sys.argv[2], sys.argv[1], str(listener.getsockname()[1])]
Supervisor(2, command, listener).run()
print("ended")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
def test_workers_that_end_too_soon_are_replaced_until_a_signal_ends_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT, str(tmp_path), WORKER],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "4"]
    assert done.stderr.count("ended with status 3") == 2
