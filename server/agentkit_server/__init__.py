"""Serve agents over HTTP and WebSocket: `create_app` for your own server, `serve` for ours.

As in the core's face, a name's room is loaded when the name is first used: the command's other parts do without a server.
"""

from typing import TYPE_CHECKING, Final

from agentkit.deferred import lazy_face as _lazy_face

if TYPE_CHECKING:
    from agentkit_server.app import Application, create_app
    from agentkit_server.auth import AnyOf, Auth
    from agentkit_server.auth_jwt import JWTAuth
    from agentkit_server.auth_keys import APIKeyFile, APIKeys
    from agentkit_server.directory import AgentDirectory
    from agentkit_server.identity import Identity
    from agentkit_server.server import serve
    from agentkit_server.settings import Settings

_ROOMS: Final = {
    "app": ("Application", "create_app"),
    "auth": ("AnyOf", "Auth"),
    "auth_jwt": ("JWTAuth",),
    "auth_keys": ("APIKeyFile", "APIKeys"),
    "directory": ("AgentDirectory",),
    "identity": ("Identity",),
    "server": ("serve",),
    "settings": ("Settings",),
}
"""The names that are not here yet, by their rooms."""

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
    __getattr__, __dir__ = _lazy_face(__name__, _ROOMS, extra="server")
