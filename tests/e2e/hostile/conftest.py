"""One guarded server in a process of its own, and what has to be true of it after every attack: others are served, nothing is left."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from e2e.peers import Raw
from e2e.servers import Process, process, until

SERVER = Path(__file__).parent / "guarded.py"
GROWTH = 48 * 1024 * 1024
"""Bytes of memory that an attack may leave behind, allocators and caches included."""


class House:
    """The server under attack.

    Attributes:
        port: where it serves.
        folder: its files: keys, and all its logs.
        keys: everybody's key, by name.
    """

    def __init__(self, process: Process, folder: Path) -> None:
        self._process = process
        self.port = process.port
        self.url = f"http://127.0.0.1:{process.port}"
        self.folder = folder
        self.keys: dict[str, str] = json.loads((folder / "secrets.json").read_text())
        self._count = 0
        one_each = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.Client(timeout=10, trust_env=False, limits=one_each, verify=False)

    def by(self, name: str) -> dict[str, str]:
        """Return the header by which somebody is known."""
        return {"authorization": f"Bearer {self.keys[name]}"}

    def ask(self, method: str, path: str, name: str = "", **options: Any) -> httpx2.Response:
        """Send one request, as somebody or as nobody."""
        headers = {**(self.by(name) if name else {}), **options.pop("headers", {})}
        return self._http.request(method, self.url + path, headers=headers, **options)

    def ticket(self, thread: str = "t1", name: str = "ann", **body: Any) -> str:
        """Return a ticket for a thread of `quick`."""
        answer = self.ask("POST", "/v1/tickets", name, json={"agent": "quick", "thread": thread, **body})
        assert answer.status_code == 201, answer.text
        word: str = answer.json()["ticket"]
        return word

    def raw(self, method: str, target: str, *headers: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send one request as it is written, and return the status and all that comes until the server closes."""
        lines = [f"{method} {target} HTTP/1.1", "connection: close", *headers]
        if not any(line.lower().startswith("host:") for line in headers):
            lines.append(f"host: 127.0.0.1:{self.port}")
        if body:
            lines.append(f"content-length: {len(body)}")
        with Raw(self.port) as peer:
            peer.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            answer = peer.read_all()
        return int(answer.split(b" ", 2)[1]) if answer else 0, answer

    def head(self, target: str, *headers: str) -> tuple[int, bytes]:
        """As `raw`, for an answer that does not end: the head only."""
        with Raw(self.port) as peer:
            peer.send(
                "\r\n".join([f"GET {target} HTTP/1.1", f"host: 127.0.0.1:{self.port}", *headers]) + "\r\n\r\n"
            )
            answer = peer.read_until(b"\r\n\r\n")
        return int(answer.split(b" ", 2)[1]), answer

    def is_well(self) -> bool:
        """Have a run made for somebody who did nothing: it is there within some seconds, whole."""
        self._count += 1
        answer = self.ask(
            "POST", f"/v1/agents/quick/threads/well-{self._count}/chat", "crowd", json={"message": "x"}
        )
        return answer.status_code == 200 and answer.json()["text"] == "and here it is"

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.process.pid

    def seconds_of_work(self) -> float:
        """Return the processor time that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        """Return how many files and sockets the server has open."""
        return len(os.listdir(f"/proc/{self._process.process.pid}/fd"))

    def memory(self) -> int:
        """Return the server's resident bytes."""
        return self._process.memory()

    def logs(self) -> str:
        """Return all that was logged."""
        return (self.folder / "log").read_text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One server for a file."""
    folder = tmp_path_factory.mktemp("guarded")
    with process(str(SERVER), str(folder)) as one:
        house = House(one, folder)
        assert house.is_well()
        yield house


@pytest.fixture
def house(shared: House) -> Iterator[House]:
    """The server; when the attack is over, others are served, and its sockets and memory are given back."""
    files, memory = shared.open_files(), shared.memory()
    yield shared
    assert shared.is_well()
    until(lambda: shared.open_files() <= files)
    assert shared.memory() < memory + GROWTH
