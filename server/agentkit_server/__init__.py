"""Serve agents over HTTP and WebSocket: `create_app` for your own server, `serve` for ours.

As in the core's face, a name's room is loaded when the name is first used: the command's other parts do without a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentkit_server.app import Application, create_app
    from agentkit_server.auth import AnyOf, Auth
    from agentkit_server.auth_jwt import JWTAuth
    from agentkit_server.auth_keys import APIKeyFile, APIKeys
    from agentkit_server.directory import AgentDirectory
    from agentkit_server.identity import Identity
    from agentkit_server.server import serve
    from agentkit_server.settings import Settings

_ROOM_OF: Final = {
    "APIKeyFile": "auth_keys",
    "APIKeys": "auth_keys",
    "AgentDirectory": "directory",
    "AnyOf": "auth",
    "Application": "app",
    "Auth": "auth",
    "Identity": "identity",
    "JWTAuth": "auth_jwt",
    "Settings": "settings",
    "create_app": "app",
    "serve": "server",
}

__all__ = [
    "APIKeyFile",
    "APIKeys",
    "AgentDirectory",
    "AnyOf",
    "Application",
    "Auth",
    "Identity",
    "JWTAuth",
    "Settings",
    "create_app",
    "serve",
]


if not TYPE_CHECKING:  # a type checker would take any name for known

    def __getattr__(name: str) -> object:
        if name not in _ROOM_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"agentkit_server.{_ROOM_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
