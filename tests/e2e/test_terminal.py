"""`agentkit chat` as a person and as a pipe use it: a real process, a real terminal."""

import json
import os
import pty
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from e2e.page_app import ANSWER

pytestmark = pytest.mark.e2e

AGENTKIT = str(Path(sys.executable).with_name("agentkit"))
COMMAND = [AGENTKIT, "chat"]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process on a pseudo-terminal, and what it has shown."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._shown = b""

    @property
    def shown(self) -> str:
        """All that was shown so far, without escapes."""
        return ESCAPES.sub("", self._shown.decode(errors="replace")).replace("\r", "")

    def until(self, words: str, seconds: float = 20) -> None:
        """Read until `words` were shown since the last `type`."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            while words not in self.shown:
                assert selector.select(end - time.monotonic()), f"no {words!r} in {self.shown!r}"
                try:
                    self._shown += os.read(self._master, 65536)
                except OSError:  # Linux says so where the other side is closed
                    assert words in self.shown, f"it ended without {words!r}: {self.shown!r}"

    def type(self, keys: str) -> None:
        """Forget what was shown, and type."""
        self._shown = b""
        os.write(self._master, keys.encode())

    def leave(self) -> None:
        """Type Ctrl-D until it is heard: while a prompt is being made ready, what is typed may be lost."""
        for _ in range(20):
            self.type("\x04")
            try:
                self.process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            return


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [
            "setsid",
            "--ctty",
            *COMMAND,
            *arguments,
        ],  # of util-linux: the terminal is its own, so Ctrl-C is a signal
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        os.close(master)


def test_a_conversation_is_stopped_decided_and_left_by_keyboard() -> None:
    with terminal("approval") as screen:
        screen.until("› ")
        screen.type("send it\r")
        screen.until("Allow it? [y/N]")
        screen.type("y\r")
        screen.until("← send_postcard A postcard to Ada")
        screen.until("finished after")
        screen.type("again\r")
        screen.until("Thinking")
        screen.type("\x03")
        screen.until("stopped after")
        screen.until("› ")
        screen.leave()

        assert screen.process.wait(10) == 0


def test_one_message_stopped_with_control_c_keeps_what_came() -> None:
    with terminal("scripted", "hello") as screen:
        screen.until("I am a scripted agent")
        screen.type("\x03")
        screen.until("stopped after")

        assert screen.process.wait(10) == 130


def run(*arguments: str, typed: str = "", command: str = "chat") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [AGENTKIT, command, *arguments], input=typed, capture_output=True, text=True, timeout=30, check=False
    )


def test_a_pipe_gets_visible_text_only() -> None:
    done = run("redacted", typed="hello\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "Thought" not in done.stdout
    assert done.stdout.endswith("\n")


def test_a_failed_answer_is_kept_and_told_beside_the_pipe() -> None:
    done = run("failing", "hello")

    assert done.returncode == 1
    assert done.stdout == "This answer will not be fin\n"
    assert "overloaded" in done.stderr


def test_a_call_that_nobody_can_decide_is_denied() -> None:
    done = run("approval", "hello")

    assert done.returncode == 0
    assert "stands above" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody:model", "hi"), "unknown provider 'nobody'"),
        (("scripty", "hi"), "a model's name is provider:model"),
        (("scripted",), "nothing was said"),
    ],
    ids=["provider", "name", "silence"],
)
def test_what_cannot_be_done_is_told_in_a_line(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)

    assert done.returncode == 1
    assert done.stderr.startswith("agentkit: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_signal_from_outside_stops_a_piped_answer() -> None:
    with subprocess.Popen([*COMMAND, "scripted", "hello"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

        assert process.wait(10) == 130
    assert "I am a scripted agent: I always say this".startswith((first + rest).rstrip("\n")[:40])


def test_an_agent_on_a_server_answers_as_one_here(quick_url: str) -> None:
    done = run(f"{quick_url}v1/agents/quick", "hello", "--thread", "from-a-terminal")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ANSWER}\n", "")


def test_a_run_on_a_server_is_watched_from_its_begin(quick_url: str) -> None:
    run(f"{quick_url}v1/agents/quick", "hello", "--thread", "watched")
    runs = json.loads(urlopen(f"{quick_url}v1/agents/quick/threads/watched/runs").read())["runs"]
    feed = f"{quick_url}v1/agents/quick/threads/watched/events?run={runs[0]['run']}&after=earliest"

    text = run(feed, command="watch")
    records = run(feed, "--json", "--transport", "websocket", command="watch")

    assert (text.returncode, text.stdout, text.stderr) == (0, f"{ANSWER}\n", "")
    types = [json.loads(line)["type"] for line in records.stdout.splitlines()]
    assert (records.returncode, types[0], types[-1]) == (0, "run.started", "run.finished")
    assert "reasoning" in types


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("watch", ("v1/agents/nobody/threads/t",), "no such agent"),
        ("watch", ("v1/agents/quick",), "thread"),
        ("watch", ("v1/agents/quick/threads/t", "--transport", "pigeon"), "auto or sse or websocket"),
        ("chat", ("v1/agents/nobody", "hello"), "no such agent"),
        ("chat", ("v1/agents/quick", "hello", "--system", "Be brief."), "of its own|its own system prompt"),
    ],
    ids=["agent", "no thread", "transport", "chat agent", "system"],
)
def test_what_a_server_refuses_is_told_in_a_line(
    quick_url: str, command: str, arguments: tuple[str, ...], message: str
) -> None:
    done = run(quick_url + arguments[0], *arguments[1:], command=command)

    assert done.returncode == 1
    assert re.search(message, done.stderr)
    assert done.stderr.startswith("agentkit: ")
    assert done.stderr.count("\n") == 1
