"""`agentkit watch`: a thread or a run on a server, as it goes on.

It only looks: Ctrl-C leaves, and the run goes on. The client behind it comes back by itself after whatever ends a connection.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.console import Console

from agentkit.content import JsonValue
from agentkit.errors import AgentKitError
from agentkit_server.terminal.stream import flushed
from agentkit_server.terminal.view import PlainView, TerminalView, View, told
from agentkit_transports.clients import Envelope, Feed, Gap

OK: Final = 0
FAILED: Final = 1


class JSONView:
    """One record a line, as on the wire."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def show(self, envelope: Mapping[str, Any]) -> None:
        """Write one record."""
        self._write(json.dumps(envelope, ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Nothing is held."""


def watch(feed: Feed, *, is_json: bool = False, is_reasoning_kept: bool = False) -> int:
    """Show what comes until the feed ends or the person leaves. Returns the exit status.

    Args:
        feed: where from.
        is_json: write records as they are, one a line, and gaps as `stream.gap`.
        is_reasoning_kept: leave the reasoning on the screen.
    """
    console = Console(highlight=False)
    view: View
    if is_json:
        view = JSONView(flushed(sys.stdout))
    elif console.is_terminal:
        view = TerminalView(console, is_reasoning_kept=is_reasoning_kept)
    else:
        view = PlainView(flushed(sys.stdout), flushed(sys.stderr))
    try:
        return asyncio.run(_show(feed, view, is_json=is_json))
    finally:
        view.close()


async def _show(feed: Feed, view: View, *, is_json: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, task.cancel)
    except NotImplementedError:
        pass  # not on this system: Ctrl-C ends the program
    complain = flushed(sys.stderr)
    try:
        async with feed:
            async for item in feed:
                match item:
                    case Envelope():
                        view.show(item.members)
                    case Gap() if is_json:
                        view.show(_gap(item))
                    case Gap():
                        view.close()
                        complain(f"agentkit: records {item.first} to {item.last} are lost ({item.reason})\n")
    except asyncio.CancelledError:
        return OK  # who leaves has seen what there was to see
    except AgentKitError as error:
        view.close()
        complain(told(error))
        return FAILED
    return OK


def _gap(gap: Gap) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"from": gap.first, "to": gap.last, "reason": gap.reason}
    return {"v": 1, "type": "stream.gap", "data": data}
