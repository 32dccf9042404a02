"""Real servers for tests: one in a thread, whose inside a test can see, and one in a process, which can be ended."""

import asyncio
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from agentkit.agent import Agent
from agentkit.testing import Say, ScriptedModel, Think, Wait
from agentkit_server import Application, Settings, create_app
from agentkit_server.server import listen, make_server

T = TypeVar("T")

QUICK = Settings(
    head_timeout=1.0,
    keep_alive=1,
    body_timeout=1.0,
    send_timeout=0.5,
    heartbeat=0.2,
    ping_interval=0.4,
    ping_timeout=0.4,
    drain_timeout=0.3,
    farewell_timeout=0.5,
    retry_ms=(1, 2),
)
END_TIMEOUT = 20.0
"""Seconds that a server may take to end: far more than the quick timers add up to (two), far less than for ever."""
FLOOD = "0123456789abcdef" * 1024
"""What one record of `flood` says."""
FLOOD_RECORDS = 300


def agents() -> list[Agent]:
    """`quick` answers in 20 pieces with pauses; `flood` says 5 MB; `held` never ends."""
    return [
        Agent(
            "quick",
            model=ScriptedModel(
                [Think("one two three four ", pieces=20), Say("and here it is", pieces=10)],
                repeat=True,
                delay=0.01,
            ),
        ),
        Agent(
            "flood",
            model=ScriptedModel([Say(FLOOD * FLOOD_RECORDS, pieces=FLOOD_RECORDS)], repeat=True, delay=0.001),
        ),
        Agent("held", model=ScriptedModel([Think("hm"), Wait(3600), Say("done")], repeat=True)),
    ]


class Running:
    """A server in a thread.

    Attributes:
        app: what it serves.
        port: where.
        url: the same.
    """

    def __init__(self, app: Application, settings: Settings) -> None:
        self.app = app
        self._listener = listen("127.0.0.1", 0, settings)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = make_server(app, settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="server")

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            await self.server.serve(sockets=[self._listener])

        factory = self.server.config.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    def start(self) -> None:
        """Return once it serves."""
        self._thread.start()
        until(lambda: self.server.started)

    def stop(self) -> None:
        """Stop, and return once it has."""
        self.server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server did not stop"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something in the server's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def look(self) -> tuple[int, int, int]:
        """Return how many tasks, connections and watched topics there are."""

        async def count() -> tuple[int, int, int]:
            return (
                len(asyncio.all_tasks()) - 1,
                len(self.server.server_state.connections),
                self.app.service.hub.topics,
            )

        return self.do(count())


@contextmanager
def running(settings: Settings = QUICK, made: Sequence[Agent] | None = None) -> Iterator[Running]:
    """Serve agents from a thread."""
    one = Running(create_app(agents() if made is None else made, settings=settings), settings)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


class Process:
    """A server in a process of its own.

    Attributes:
        port: where it serves.
    """

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], [], [], 30)[0]
        line = self.process.stdout.readline() if ready else ""
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"no address in {line!r}; {self.process.communicate()[1]}")
        self.port = int(found[1])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal, wait for the end, and return the status and what was said on stderr.

        Raises:
            TimeoutExpired: it goes on.
        """
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=END_TIMEOUT)
        return self.process.returncode, said

    def memory(self) -> int:
        """Return the resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def kill(self) -> None:
        """End it without asking."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()


@contextmanager
def process(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Process]:
    """Serve from a process; without arguments the agents above, with quick timers."""
    one = Process(*(arguments or (__file__,)), env=env)
    try:
        yield one
    finally:
        one.kill()


def main() -> None:
    """Serve the agents above, and print the address. Polite clients on a busy machine get their time."""
    patient = dict.fromkeys(("head_timeout", "body_timeout", "ping_timeout"), 50.0)
    drain = float(os.environ.get("DRAIN", QUICK.drain_timeout))
    settings = QUICK.model_copy(update={**patient, "drain_timeout": drain})
    listener = listen("127.0.0.1", 0, settings)
    print(f"at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    engine = os.environ.get("AGENTKIT_ENGINE")
    make_server(create_app(agents(), engine=engine, settings=settings), settings).run(sockets=[listener])


if __name__ == "__main__":
    main()
