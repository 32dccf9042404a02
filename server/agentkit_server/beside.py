"""A second listener in the same loop, for what the public must not reach: the metrics.

uvicorn serves it too, without a lifespan and without a word about signals: it begins after the server and ends after its drain, so that
the drain can be watched.
"""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn

from agentkit_server.protocols import HTTPProtocol, ServerConfig
from agentkit_server.settings import Settings


class _Quiet(uvicorn.Server):
    """uvicorn's server; signals are for somebody else."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals as they are."""
        yield


class Beside:
    """One listener and what it serves."""

    def __init__(self, app: Any, listener: socket.socket, settings: Settings) -> None:
        """Make it; `start` serves.

        Args:
            app: an ASGI application.
            listener: bound, and this object's from now on.
            settings: the server's.
        """
        config = ServerConfig(
            app,
            settings,
            http=HTTPProtocol,
            ws="none",
            lifespan="off",
            timeout_keep_alive=settings.keep_alive,
            timeout_graceful_shutdown=1,
            access_log=False,
            log_config=None,
            server_header=False,
        )
        self.listener = listener
        self._server = _Quiet(config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve, in the running loop, until `stop`."""
        work = self._server.serve(sockets=[self.listener])
        self._task = asyncio.get_running_loop().create_task(work, name="beside")

    async def stop(self) -> None:
        """Close the listener and what it serves; it ends within about a second."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self.listener.close()
