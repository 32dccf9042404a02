"""The agent `local`: a language model that runs on this machine, offered as soon as it is installed.

`make demo` installs it while the server runs already. Until it is there the agent is only announced, with a note that says why; nobody has
to restart anything. It starts no process: the model does, when it is first asked (see `agentkit.local_model`).
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentkit.agent import Agent
from agentkit.errors import ConfigurationError
from agentkit.local_model import SMOLLM2, missing_packages
from agentkit.providers import connect
from agentkit_server.directory import AgentDirectory

NAME: Final = "local"
LOG: Final = ".local-model.log"
"""What the installation said, in `sys.prefix`; its last line is `failed: REASON` where it failed."""
INSTALL_TIME: Final = 900.0
"""Seconds after which an installation that has not ended was broken off."""
LOOK_EVERY: Final = 1.0
"""Seconds: every request reads the directory, and looking costs a millisecond."""

SYSTEM: Final = "You are a friendly assistant. First think about what the user wants, then answer in one or two short sentences."
DESCRIPTION: Final = (
    "A real model on this machine, SmolLM2 with 135 million parameters: small, often wrong. No key."
)


def add_local(
    directory: AgentDirectory,
    model: str = SMOLLM2,
    *,
    prefix: Path = Path(sys.prefix),
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Offer `local`, or announce it and offer it once it can be used. With `LOCAL=0` in the environment it stays announced.

    Args:
        directory: where.
        model: `smollm2`, or the path of a GGUF file.
        prefix: where `make demo` leaves its log.
        clock: seconds, for when to look again.

    Raises:
        ConfigurationError: all is installed, but `model` is no GGUF file.
    """
    if os.environ.get("LOCAL") == "0" and model == SMOLLM2:
        directory.announce(NAME, description=DESCRIPTION, note="switched off (LOCAL=0)")
        return
    if not missing_packages(model):
        directory.offer(local_agent(model))
        return
    directory.announce(NAME, description=DESCRIPTION, note=why_not(prefix))
    looked = clock()

    def look() -> bool:
        nonlocal looked
        if clock() - looked < LOOK_EVERY:
            return False
        looked = clock()
        if missing_packages(model):
            directory.announce(NAME, description=DESCRIPTION, note=why_not(prefix))
            return False
        try:
            directory.offer(local_agent(model))
        except ConfigurationError as error:
            directory.announce(NAME, description=DESCRIPTION, note=str(error))
        return True

    directory.watch(look)


def local_agent(model: str = SMOLLM2) -> Agent:
    """Return the agent. Nothing is started.

    Raises:
        ConfigurationError: a package is missing, or `model` is no GGUF file.
    """
    asked = connect(f"local:{model}")
    if model == SMOLLM2:
        return Agent(NAME, model=asked, system=SYSTEM, description=DESCRIPTION)
    return Agent(NAME, model=asked, description=f"{asked.target.model}, on this machine. No key.")


def why_not(prefix: Path) -> str:
    """Return why the model is not there, by the log of its installation."""
    log = prefix / LOG
    try:
        begun = log.stat().st_mtime
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "not installed: make local"
    if lines and lines[-1].startswith("failed:"):
        reason = lines[-1].removeprefix("failed:").strip()[:300]
        return f"failed: {reason or f'see {LOG}'} (again: make local)"
    if time.time() - begun < INSTALL_TIME:
        return "installing…"
    return "not installed: make local"
