"""A model's reasoning, text and tool work: out of the process, live, in order, resumable, to whoever may see it."""

from agentkit.agent import Agent, AgentRun
from agentkit.content import (
    DocumentBlock,
    ImageBlock,
    Message,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from agentkit.emitter import CallbackEmitter, Emitter, LogEmitter, NullEmitter, TeeEmitter
from agentkit.errors import (
    AgentKitError,
    ConfigurationError,
    EngineError,
    ForeignSignatureError,
    LimitError,
    ModelConnectionError,
    ModelError,
    ModelStatusError,
    ModelStreamError,
    RunCancelled,
    ThreadBusy,
    ToolError,
    WireError,
)
from agentkit.events import Event, ReasoningEvent
from agentkit.generate import TextStreamResult, generate_text, stream_text
from agentkit.model import Model
from agentkit.providers import connect
from agentkit.run import RunResult

__all__ = [
    "Agent",
    "AgentKitError",
    "AgentRun",
    "CallbackEmitter",
    "ConfigurationError",
    "DocumentBlock",
    "Emitter",
    "EngineError",
    "Event",
    "ForeignSignatureError",
    "ImageBlock",
    "LimitError",
    "LogEmitter",
    "Message",
    "Model",
    "ModelConnectionError",
    "ModelError",
    "ModelStatusError",
    "ModelStreamError",
    "NullEmitter",
    "ReasoningEvent",
    "RefusalBlock",
    "RunCancelled",
    "RunResult",
    "TeeEmitter",
    "TextBlock",
    "TextStreamResult",
    "ThinkingBlock",
    "ThreadBusy",
    "ToolError",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "WireError",
    "connect",
    "generate_text",
    "stream_text",
]
