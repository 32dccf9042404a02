"""A Redis server of a test's own: on a free port, in a folder of its own, killed and started again at will."""

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAM = shutil.which("redis-server")


class RedisServer:
    """Debian's redis-server."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        assert PROGRAM is not None
        self.process = subprocess.Popen(
            [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder),
             "--enable-debug-command", "yes", *self.options],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                if self.ask("PING").startswith(b"+PONG"):
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def ask(self, *words: str) -> bytes:
        """Send one command and return the first bytes of its answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
            parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            client.sendall(f"*{len(words)}\r\n{parts}".encode())
            return client.recv(65536)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
            self.process = None
