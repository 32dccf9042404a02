"""Clients of a server of agents: follow a feed, or use an agent as if it were here.

async with follow("http://localhost:8000/v1/agents/demo/threads/main") as feed: ...
agent = connect_agent("http://localhost:8000/v1/agents/demo", auth=token)
"""

from agentkit_transports.clients.access import Auth
from agentkit_transports.clients.envelope import Envelope, Gap
from agentkit_transports.clients.feed import Feed, Transport, follow
from agentkit_transports.clients.remote_agent import RemoteAgent, connect_agent
from agentkit_transports.clients.remote_run import RemoteRun, RemoteText
from agentkit_transports.clients.settings import ClientSettings

__all__ = [
    "Auth",
    "ClientSettings",
    "Envelope",
    "Feed",
    "Gap",
    "RemoteAgent",
    "RemoteRun",
    "RemoteText",
    "Transport",
    "connect_agent",
    "follow",
]
