"""The words of ASGI, as types. No framework: any server that speaks ASGI 3 will do."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

ABORT: Final = "agentkit.abort"
"""An extension that our own server adds: `scope["extensions"]["agentkit.abort"]` is `{"abort": Callable[[], None]}`.

Calling it drops the connection at once, with what is still unsent. ASGI has no word for that: closing waits for the peer to read.
"""


SETTLE: Final = "agentkit.settle"
"""Another one: `{"settle": Callable[[], None]}`. Calling it after a socket's accept, or once a feed's head is sent, lets the handshake or
the request go, headers and all: some kilobytes that nobody asks for again while the connection is open.
"""


def settle(scope: Scope) -> None:
    """Let a handshake or a request go, where the server can. Headers and extensions are read before."""
    extension = scope.get("extensions", {}).pop(SETTLE, None)
    if extension is not None:
        extension["settle"]()


def abort_of(scope: Scope) -> Callable[[], None] | None:
    """Return what drops the connection of `scope` at once, or None where the server cannot."""
    extension = scope.get("extensions", {}).get(ABORT)
    return None if extension is None else extension["abort"]
