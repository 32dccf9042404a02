"""`--workers N`: several processes behind one port.

The parent has the listening socket and looks after its workers; it serves nothing and opens no engine. A worker is the same command again,
which finds the socket in its environment. One that ends before its time is replaced. A signal drains them all; a second one ends them at
once. A worker whose parent is gone drains by itself: its standard input, a pipe, has come to its end.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import Final, Literal, TypeAlias

from agentkit.errors import ConfigurationError
from agentkit_server.server import SIGNALS

logger = logging.getLogger("agentkit.server")

SOCKET: Final = "AGENTKIT_WORKER_SOCKET"
"""The environment's word for a worker: the number of the socket that it got from its parent."""
SETTLED: Final = 5.0
"""Seconds after which a worker counts as well begun; one that ends sooner is replaced ever more slowly."""
DELAYS: Final = (0.0, 0.2, 1.0, 5.0)
"""Seconds until a worker is replaced, by how many ended too soon in a row."""


def check_workers(count: int, engine: str) -> None:
    """Refuse what several processes cannot do.

    Raises:
        ConfigurationError: the engine (a URL, or "") is one process's own, or sockets cannot be handed on here.
    """
    if count == 1:
        return
    if engine.startswith("memory:"):
        raise ConfigurationError(
            f"--workers {count} needs an engine that processes share, sqlite:///path or redis://host:port/db; "
            "memory:// is one process's own"
        )
    if sys.platform == "win32":
        raise ConfigurationError("--workers needs Linux, macOS or another Unix")


def inherited_socket() -> socket.socket | None:
    """Return the listening socket that a parent handed on, or None in a process that is no worker."""
    number = os.environ.get(SOCKET, "")
    if not number.isdigit():
        return None
    del os.environ[SOCKET]  # processes that this one starts are no workers
    threading.Thread(target=_watch_parent, name="parent", daemon=True).start()
    listener = socket.socket(fileno=int(number))
    listener.setblocking(False)
    return listener


def command_again() -> list[str]:
    """Return the command that runs this server once more, with the options of this process."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        del arguments[0]
    return [sys.executable, "-m", "agentkit_server", *arguments]


def _watch_parent() -> None:
    """Drain when the parent is gone: it never writes, so that reading ends with it."""
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


class _Worker:
    """One child."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.begun = time.monotonic()


_Word: TypeAlias = _Worker | Literal["begin"] | int
"""What the parent hears: a worker has ended, one is due, a signal came."""


class Supervisor:
    """Keeps workers going until a signal comes. Call `run` in the main thread."""

    def __init__(self, count: int, command: Sequence[str], listener: socket.socket) -> None:
        self._count = count
        self._command = command
        self._listener = listener
        self._workers: set[_Worker] = set()
        self._words: SimpleQueue[_Word] = SimpleQueue()
        self._is_stopping = False
        self._hasty = 0
        """Workers that ended too soon, in a row."""

    def run(self) -> None:
        """Serve; returns once a signal came and all workers have ended."""
        before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        try:
            for _ in range(self._count):
                self._begin()
            while self._workers or not self._is_stopping:
                self._act(self._words.get())
        finally:
            self._kill()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the shape of a handler
        self._words.put(number)

    def _act(self, word: _Word) -> None:
        match word:
            case _Worker():
                self._ended(word)
            case "begin":
                if not self._is_stopping:
                    self._begin()
            case _:
                if self._is_stopping:
                    self._kill()
                    signal.signal(word, signal.SIG_DFL)
                    signal.raise_signal(word)
                self._is_stopping = True
                for worker in self._workers:
                    worker.process.terminate()

    def _begin(self) -> None:
        number = self._listener.fileno()
        process = subprocess.Popen(  # noqa: S603 - our own command again
            self._command,
            stdin=subprocess.PIPE,
            pass_fds=(number,),
            env={**os.environ, SOCKET: str(number)},
            process_group=0,  # a terminal's Ctrl-C is the parent's to tell: twice would mean at once
        )
        worker = _Worker(process)
        self._workers.add(worker)
        threading.Thread(target=self._wait, args=(worker,), name="worker", daemon=True).start()

    def _wait(self, worker: _Worker) -> None:
        worker.process.wait()
        self._words.put(worker)

    def _ended(self, worker: _Worker) -> None:
        self._workers.discard(worker)
        if worker.process.stdin is not None:
            worker.process.stdin.close()
        if self._is_stopping:
            return
        self._hasty = 0 if time.monotonic() - worker.begun > SETTLED else self._hasty + 1
        delay = DELAYS[min(self._hasty, len(DELAYS) - 1)]
        logger.warning(
            "a worker ended with status %d; another takes its place in %.1f s",
            worker.process.returncode,
            delay,
        )
        timer = threading.Timer(delay, self._words.put, ("begin",))
        timer.daemon = True
        timer.start()

    def _kill(self) -> None:
        """End whoever is left, at once."""
        for worker in self._workers:
            worker.process.kill()
