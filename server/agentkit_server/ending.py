"""How an application learns that its server is about to stop, wherever it is mounted.

ASGI tells it too late: the lifespan ends only after all connections are gone, and a feed does not go by itself. Our own server takes
the application's `drain` by an extension in the scope, which reaches it through any router. Plain uvicorn has no such word; there the
flag is watched that its signal handler sets. Under other servers, and with uvicorn in a thread, call `Application.drain` yourself.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import uvicorn

from agentkit.background import spawn
from agentkit_transports.asgi import Scope

DRAIN = "agentkit.drain"
"""The extension: `{"register": Callable[[Drain], None]}`."""
LOOK_EVERY = 0.1
"""Seconds: as often as uvicorn itself looks at the flag."""

Drain: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


def arrange(scope: Scope, drain: Drain) -> None:
    """Have `drain` awaited when the server that made `scope` stops. Call it once, in the loop that serves."""
    extension = scope.get("extensions", {}).get(DRAIN)
    if extension is not None:
        extension["register"](drain)
        return
    server = _uvicorn()
    if server is not None:
        _watch(server, drain, asyncio.get_running_loop())


def _uvicorn() -> uvicorn.Server | None:
    """Return the uvicorn server that has this process's signals, if one has."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGTERM)
    server = getattr(handler, "__self__", None)  # a bound method's, or nothing
    return server if isinstance(server, uvicorn.Server) else None


def _watch(server: uvicorn.Server, drain: Drain, loop: asyncio.AbstractEventLoop) -> None:
    if server.should_exit:
        spawn(drain, name="drain")
    else:
        loop.call_later(LOOK_EVERY, _watch, server, drain, loop)
