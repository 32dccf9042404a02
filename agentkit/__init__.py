"""A model's reasoning, text and tool work: out of the process, live, in order, resumable, to whoever may see it."""

from agentkit.agent import Agent
from agentkit.compaction import keep_turns
from agentkit.content import (
    Block,
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
    AlreadyStarted,
    AppendRejected,
    ConfigurationError,
    EngineError,
    ForeignSignatureError,
    HookError,
    LimitError,
    ModelConnectionError,
    ModelError,
    ModelStatusError,
    ModelStreamError,
    OutputError,
    RunCancelled,
    ThreadBusy,
    ThreadExists,
    ToolError,
    WireError,
)
from agentkit.events import Event, ReasoningEvent
from agentkit.generate import TextStreamResult, generate_text, stream_text
from agentkit.history import RunRecord, ThreadRecord
from agentkit.hooks import CallContext, CallControl, Hooks, StepContext, StepControl
from agentkit.input import Input
from agentkit.limits import Limits, StepResult, StopCondition, has_tool_call, step_count_is
from agentkit.model import Model
from agentkit.options import RunOptions
from agentkit.providers import connect
from agentkit.run_spec import Output, RunResult
from agentkit.thread_run import AgentRun
from agentkit.tool import Tool, ToolContext, client_tool, tool

__all__ = [
    "Agent",
    "AgentKitError",
    "AgentRun",
    "AlreadyStarted",
    "AppendRejected",
    "Block",
    "CallContext",
    "CallControl",
    "CallbackEmitter",
    "ConfigurationError",
    "DocumentBlock",
    "Emitter",
    "EngineError",
    "Event",
    "ForeignSignatureError",
    "HookError",
    "Hooks",
    "ImageBlock",
    "Input",
    "LimitError",
    "Limits",
    "LogEmitter",
    "Message",
    "Model",
    "ModelConnectionError",
    "ModelError",
    "ModelStatusError",
    "ModelStreamError",
    "NullEmitter",
    "Output",
    "OutputError",
    "ReasoningEvent",
    "RefusalBlock",
    "RunCancelled",
    "RunOptions",
    "RunRecord",
    "RunResult",
    "StepContext",
    "StepControl",
    "StepResult",
    "StopCondition",
    "TeeEmitter",
    "TextBlock",
    "TextStreamResult",
    "ThinkingBlock",
    "ThreadBusy",
    "ThreadExists",
    "ThreadRecord",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "WireError",
    "client_tool",
    "connect",
    "generate_text",
    "has_tool_call",
    "keep_turns",
    "step_count_is",
    "stream_text",
    "tool",
]
