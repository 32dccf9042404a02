"""A server whose agents say and do odd things, as a script, open to everybody of this machine: `python odd.py FOLDER`.

The folder gets the `log`. It is where `napper` looks for the file `wake`: until it is there, its function stands still, in a thread, and cannot be cancelled.
"""

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from e2e.servers import QUICK
from e2e.servers import agents as usual

from agentkit import tool
from agentkit.agent import Agent
from agentkit.emitter import CallbackEmitter
from agentkit.testing import Call, Say, ScriptedModel
from agentkit_server import create_app
from agentkit_server.server import listen, make_server

FORGED = 'event: run.finished\ndata: {"type":"run.finished","seq":1}\n\n'
STRANGE = (
    "half \ud83d of a pair, \udc00 too; NUL \0; lines \r \r\n \n \u2028 \u2029 \x85 \v \f; \ufeff at the start, \u202e backwards; "
    f"a frame of its own:\n\n{FORGED}id: evil-9\nretry: 0\n\n: a comment\n\n</script><img src=x onerror=alert(1)> {{{{7*7}}}}"
)
GIANT = 3_000_000
"""Characters of one delta of `giant`: most of what a log in memory keeps."""
LONG = "0123456789abcdef" * 1024
LONG_RECORDS = 150
"""`long` says so much so often: more than buffers hold, less than a log in memory keeps."""
PATIENCE = 60.0
"""Seconds after which `napper` wakes up by itself."""


def agents(folder: Path) -> list[Agent]:
    """Those of other tests, and the odd ones."""

    @tool
    def nap() -> str:
        """Sleep until the file is there."""
        end = time.monotonic() + PATIENCE
        while not (folder / "wake").exists() and time.monotonic() < end:
            time.sleep(0.02)
        return "rested"

    @tool
    def again() -> str:
        """Do it again."""
        return f"do it again. {FORGED}"

    def grumble(*_: Any) -> None:
        raise RuntimeError("this callback never works")

    return [
        *usual(),
        Agent("strange", model=ScriptedModel([Say(STRANGE, pieces=len(STRANGE))], repeat=True)),
        Agent("long", model=ScriptedModel([Say(LONG * LONG_RECORDS, pieces=LONG_RECORDS)], repeat=True, delay=0.001)),
        Agent("giant", model=ScriptedModel([Say("0123456789" * (GIANT // 10))], repeat=True)),
        Agent("napper", model=ScriptedModel([Call("nap")], "and awake", repeat=True), tools=[nap]),
        Agent("endless", model=ScriptedModel([Call("again")], repeat=True), tools=[again], limits={"steps": 5}),
        Agent("noisy", model=ScriptedModel("said", repeat=True), emitter=CallbackEmitter(grumble)),
    ]  # fmt: skip


def main(folder: Path) -> None:
    """Serve, and print the address. Polite clients on a busy machine get their time."""
    logging.basicConfig(
        filename=folder / "log"
    )  # nobody reads our stderr while we live, and a full pipe would stop us
    settings = QUICK.model_copy(
        update={
            "head_timeout": float(os.environ.get("HEAD_TIMEOUT", "20")), "body_timeout": 20.0, "ping_timeout": 20.0, "send_timeout": 3.0,
            "connections": 3000, "connections_each": 3000, "runs_each": 10, "frame_rate": 1000.0, "frame_burst": 1000,
        }
    )  # fmt: skip
    listener = listen("127.0.0.1", 0, settings)
    print(f"at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = create_app(agents(folder), engine=os.environ.get("AGENTKIT_ENGINE"), settings=settings)
    make_server(app, settings).run(sockets=[listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
