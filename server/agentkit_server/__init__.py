"""Serve agents over HTTP and WebSocket: `create_app` for your own server, `serve` for ours."""

from agentkit_server.app import Application, create_app
from agentkit_server.auth import AnyOf, Auth
from agentkit_server.auth_jwt import JWTAuth
from agentkit_server.auth_keys import APIKeyFile, APIKeys
from agentkit_server.directory import AgentDirectory
from agentkit_server.identity import Identity
from agentkit_server.serve import serve
from agentkit_server.settings import Settings

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
