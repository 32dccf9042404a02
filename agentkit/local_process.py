"""A child process that serves one weights file: started when its address is first asked for, and again where it has died.

Not pure: it starts and ends processes. It knows the program (`local_server`), no HTTP and no model. The child ends when this object is let
go or this process ends, however that ends: its standard input closes then. No wait blocks the event loop: the pipe is looked at, not
waited for.
"""

import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio

START_TIMEOUT: Final = 300.0
"""Seconds until the address must be there: large weights on a slow disk take minutes."""
LOOK_EVERY: Final = 0.02
"""Seconds between two looks at a child that loads."""
MAX_SAID: Final = 64 * 1024
"""Bytes read of what a child said before it died."""
MAX_REASON: Final = 300
"""Characters of it that an error quotes."""

_PROGRAM: Final = Path(__file__).with_name("local_server.py")
_COMPLAINT: Final = re.compile(r"^[\d.]+ E +(.*)$", re.MULTILINE)
"""How llama.cpp marks an error; the first says most."""


class Unserved(Exception):  # noqa: N818 - a signal between two rooms, never seen by a caller
    """The child serves nothing; the text says why."""


class ServerProcess:
    """The server of one weights file. Any thread, any event loop."""

    def __init__(
        self, weights: Path, arguments: Sequence[str] = (), *, timeout: float = START_TIMEOUT
    ) -> None:
        """Make it; nothing is started.

        Args:
            weights: a GGUF file.
            arguments: more of the program's (see `local_server`).
            timeout: seconds from the start of the child until it serves.
        """
        self.weights = weights
        self.key = secrets.token_urlsafe(24)
        """What the server asks of everybody: others on this machine cannot use it, or read the prompts in its slots."""
        self._arguments = [str(weights), *arguments]
        self._timeout = timeout
        self._lock = threading.Lock()
        self._children: list[_Child] = []
        """The running one, or none: a list, so that the finalizer sees who it is without holding this object."""
        self._finalizer = weakref.finalize(self, _stop_all, self._children)

    @property
    def pid(self) -> int | None:
        """The child's process id, or None where none runs."""
        with self._lock:
            return next((child.pid for child in self._children if child.runs), None)

    async def address(self) -> str:
        """Return the server's base address once it serves. Starts it, if none runs.

        Raises:
            Unserved: it ended before, or did not come in time.
        """
        child = self._child()
        with anyio.move_on_after(self._timeout):
            while True:
                with self._lock:
                    address = child.address()
                if address:
                    return address
                await anyio.sleep(LOOK_EVERY)
        self.stop()
        raise Unserved(f"it did not serve within {self._timeout:g} s")

    def stop(self) -> None:
        """End the child at once; it has nothing to save. The next `address` starts another."""
        with self._lock:
            _stop_all(self._children)

    def _child(self) -> "_Child":
        with self._lock:
            if not (self._children and self._children[0].runs):
                _stop_all(self._children)
                self._children.append(_Child(self._arguments, self.key))
            return self._children[0]


def _stop_all(children: "list[_Child]") -> None:
    while children:
        children.pop().stop()


class _Child:
    """One process, from its start to its end."""

    def __init__(self, arguments: Sequence[str], key: str) -> None:
        self._weights = Path(arguments[0])
        self._owner = os.getpid()
        self._address = ""
        self._line = b""
        self._fate = ""
        """Why it serves no longer, once that is known."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-P", str(_PROGRAM), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "LLAMA_API_KEY": key},
            start_new_session=True,  # a Ctrl-C in the terminal is for this process, which may want to end its answers first
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        """True while it lives and is this process's own: after a fork it is the other's."""
        return self._owner == os.getpid() and not self._fate and self._process.poll() is None

    def address(self) -> str:
        """Return its base address, or "" while it loads.

        Raises:
            Unserved: it has ended.
        """
        if self._fate:
            raise Unserved(self._fate)
        if not self._address:
            ended = self._process.poll() is not None  # before the pipe is read: what it said last is in there
            try:
                self._line += os.read(self._pipe, 4096)
            except BlockingIOError:
                pass
            line, newline, _ = self._line.partition(b"\n")
            if newline:
                self._address = line.decode(errors="replace")
            elif ended:
                self._fate = self._reason()
                raise Unserved(self._fate)
        return self._address

    def stop(self) -> None:
        """End it, if it is this process's own, and let its pipes go."""
        if self._owner != os.getpid():
            return
        self._fate = self._fate or "it was stopped"
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout, self._said):
            if end is not None:
                end.close()

    def _reason(self) -> str:
        said = os.pread(self._said.fileno(), MAX_SAID, 0).decode(errors="replace")
        said = said.replace(str(self._weights), self._weights.name)
        complaint = _COMPLAINT.search(said)
        words = complaint[1] if complaint else (said.strip().splitlines() or ["it said nothing"])[-1]
        return f"it ended with status {self._process.returncode}: {words.strip()[:MAX_REASON]}"
