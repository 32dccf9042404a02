"""A connection's way out: batches of bytes → ASGI messages.

The plain outlets here await the server's `send` under a timeout: they work with any server and any middleware. `direct` has outlets that
write without waiting. No outlet decides what is sent, or when.
"""

import asyncio
from collections.abc import Callable

from agentkit_transports.asgi import Message, Receive, Scope, Send, abort_of


class SlowReader(Exception):  # noqa: N818 - what happened, not a fault of ours
    """A send did not go through in time."""


class Batch:
    """Bytes that one send carries, shared by all readers that stand at the same place of the same view."""

    __slots__ = ("data", "is_last", "message", "seq", "state", "told", "wire")

    def __init__(
        self, data: bytes, seq: int = 0, told: int = 0, state: object = None, *, is_last: bool = False
    ) -> None:
        self.data = data
        """b"" where the view admits none of the records."""
        self.seq = seq
        """The place behind its records."""
        self.told = told
        """The last record that has a frame in it; 0 if none has."""
        self.state = state
        """The encoder's, behind its records."""
        self.is_last = is_last
        """True where it holds the terminal record of the view's run."""
        self.message: Message | None = None
        """The ASGI message of it, once an outlet has made it."""
        self.wire: bytes | None = None
        """Its bytes on a connection, framed, once an outlet has made them."""


class Outlet:
    """What sends batches through one connection. Its kinds know the messages."""

    __slots__ = ("_abort", "_send", "_timeout")

    is_direct = False
    """True where `offer` may succeed."""

    def __init__(self, scope: Scope, send: Send, timeout: float) -> None:
        """Args: timeout: seconds for one send."""
        self._send = send
        self._timeout = timeout
        self._abort: Callable[[], None] | None = abort_of(scope)

    def offer(self, batch: Batch) -> bool:  # noqa: ARG002 - the plain outlets take nothing without waiting
        """Write at once if that needs no wait; False where it does, and nothing was written.

        Raises:
            OSError: the client has left.
        """
        return False

    async def send(self, batch: Batch) -> None:
        """Write as soon as the connection takes more. It ends within the timeout.

        Raises:
            SlowReader: the connection took nothing in time.
            OSError: the client has left.
        """
        if not self.is_direct or not self.offer(batch):
            await self._deliver(batch.message or self._wrap(batch))

    def abort(self) -> bool:
        """Drop the connection at once; False where the server has no way to."""
        if self._abort is None:
            return False
        self._abort()
        return True

    def _wrap(self, batch: Batch) -> Message:
        """Return the message of a batch, and note it there."""
        raise NotImplementedError

    async def _deliver(self, message: Message) -> None:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                await self._send(message)
        except TimeoutError:
            if limit.expired():
                raise SlowReader from None
            raise


class BodyOutlet(Outlet):
    """An HTTP response's body, chunk by chunk."""

    __slots__ = ()

    def can_wake(self, receive: Receive) -> bool:  # noqa: ARG002 - ASGI has no word for it
        """Tell whether `wake` ends a wait for this `receive`."""
        return False

    def wake(self) -> None:
        """Have the request's `receive` return, where that can be done; else nothing happens."""

    async def finish(self, data: bytes) -> None:
        """Send the last piece and end the body cleanly; raises as `send`."""
        await self._deliver({"type": "http.response.body", "body": data, "more_body": False})

    def _wrap(self, batch: Batch) -> Message:
        batch.message = {"type": "http.response.body", "body": batch.data, "more_body": True}
        return batch.message


class SocketOutlet(Outlet):
    """A WebSocket's text frames. Several readers and the conversation share it: one writes at a time."""

    __slots__ = ("_lock", "_senders")

    def __init__(self, scope: Scope, send: Send, timeout: float) -> None:
        super().__init__(scope, send, timeout)
        self._senders = 0
        """How many write, or wait for their turn."""
        self._lock: asyncio.Lock | None = None
        """While there are any: an idle socket does not need it."""

    async def close(self, code: int, reason: str = "") -> None:
        """Close the socket; raises as `send`."""
        await self._deliver({"type": "websocket.close", "code": code, "reason": reason})

    def _wrap(self, batch: Batch) -> Message:
        batch.message = {"type": "websocket.send", "text": batch.data.decode()}
        return batch.message

    async def _deliver(self, message: Message) -> None:
        """As `Outlet`; the timeout counts from this one's turn."""
        lock = self._lock = self._lock or asyncio.Lock()
        self._senders += 1
        try:
            async with lock:
                await super()._deliver(message)
        except RuntimeError as error:
            # Servers say so of a socket that was closed meanwhile, by either side.
            raise ConnectionResetError("the socket is closed") from error
        finally:
            self._senders -= 1
            if not self._senders:
                self._lock = None
