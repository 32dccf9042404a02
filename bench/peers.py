"""The peers: other libraries that do the same work, each in an environment of its own under `bench/.peers/`, made when it is asked for.

What cannot be installed says why, and its figures are missing; nothing fails for it.
"""

import functools
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / ".peers"
SERVER = ("sse-starlette", "uvicorn", "httptools", "pydantic")


@dataclass(frozen=True)
class Peer:
    """What is installed, from which Python on. The first package is the one whose version is told."""

    packages: tuple[str, ...]
    since: tuple[int, int] = (3, 11)


PEERS = {
    "floor": Peer(("msgspec", "httptools", "httpx2")),
    "ai-query": Peer(("ai-query", *SERVER), (3, 12)),
    "anthropic": Peer(("anthropic",)),
    "openai": Peer(("openai",)),
    "pydantic-ai": Peer(("pydantic-ai-slim", "anthropic", "openai", *SERVER)),
    "sse-starlette": Peer(SERVER),
    "websockets": Peer(("websockets",)),
}


def pythons() -> list[str]:
    """Return the interpreters that this machine has, ours first."""
    found = [sys.executable, *filter(None, (shutil.which(f"python3.{minor}") for minor in range(14, 10, -1)))]
    return found + [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))]


@functools.cache
def version(python: str) -> tuple[int, int]:
    """Return an interpreter's version, (0, 0) where it does not run."""
    said = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    numbers = said.stdout.split()
    return (int(numbers[0]), int(numbers[1])) if said.returncode == 0 else (0, 0)


@functools.cache
def find(name: str) -> tuple[str, str]:
    """Return the interpreter of a peer's environment and "", or "" and the reason why there is none."""
    peer = PEERS[name]
    python = FOLDER / name / "bin" / "python"
    stamp = FOLDER / name / ".installed"
    wanted = " ".join(peer.packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python), ""
    base = next((each for each in pythons() if version(each) >= peer.since), None)
    if base is None:
        return "", f"needs Python {peer.since[0]}.{peer.since[1]}, which is not here"
    print(f"making bench/.peers/{name} …", flush=True)
    for words in (
        [base, "-m", "venv", "--clear", str(FOLDER / name)],
        [str(python), "-m", "pip", "install", "-q", *peer.packages],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            return "", f"cannot be installed: {done.stderr.strip().splitlines()[-1][:150]}"
    stamp.write_text(wanted)
    return str(python), ""


def versions() -> dict[str, str]:
    """Return the version of each peer that is there, and its Python where that is another than ours."""
    out = {}
    for name, peer in PEERS.items():
        python = FOLDER / name / "bin" / "python"
        if not python.exists():
            continue
        program = f"from importlib.metadata import version; print(version({peer.packages[0]!r}))"
        said = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False)
        other = version(str(python))
        where = "" if other == sys.version_info[:2] else f" on Python {other[0]}.{other[1]}"
        if said.returncode == 0:
            out[peer.packages[0]] = said.stdout.strip() + where
    return out
