"""Tools for testing agents, part of the product."""

from agentkit.network import no_network
from agentkit.testing.recording import RecordingEmitter
from agentkit.testing.replay import ReplayModel, replay
from agentkit.testing.scripted import Call, Fail, Refuse, Say, ScriptedModel, Think, Wait

__all__ = [
    "Call",
    "Fail",
    "RecordingEmitter",
    "Refuse",
    "ReplayModel",
    "Say",
    "ScriptedModel",
    "Think",
    "Wait",
    "no_network",
    "replay",
]
