"""A model's reasoning, text and tool work: out of the process, live, in order, resumable, to whoever may see it.

A name's room is loaded when the name is first used: who imports one room, or only errors, does not pay for a client of HTTP.
`tool` alone is there at once: it is a room's name too, and the one that is loaded last would keep it.
"""

from typing import TYPE_CHECKING, Final

from agentkit.deferred import lazy_face as _lazy_face
from agentkit.tool import Tool, ToolContext, client_tool, tool

if TYPE_CHECKING:
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

_ROOMS: Final = {
    "agent": ("Agent",),
    "compaction": ("keep_turns",),
    "content": (
        "Block",
        "DocumentBlock",
        "ImageBlock",
        "Message",
        "RefusalBlock",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "Usage",
    ),
    "emitter": ("CallbackEmitter", "Emitter", "LogEmitter", "NullEmitter", "TeeEmitter"),
    "errors": (
        "AgentKitError",
        "AlreadyStarted",
        "AppendRejected",
        "ConfigurationError",
        "EngineError",
        "ForeignSignatureError",
        "HookError",
        "LimitError",
        "ModelConnectionError",
        "ModelError",
        "ModelStatusError",
        "ModelStreamError",
        "OutputError",
        "RunCancelled",
        "ThreadBusy",
        "ThreadExists",
        "ToolError",
        "WireError",
    ),
    "events": ("Event", "ReasoningEvent"),
    "generate": ("TextStreamResult", "generate_text", "stream_text"),
    "history": ("RunRecord", "ThreadRecord"),
    "hooks": ("CallContext", "CallControl", "Hooks", "StepContext", "StepControl"),
    "input": ("Input",),
    "limits": ("Limits", "StepResult", "StopCondition", "has_tool_call", "step_count_is"),
    "model": ("Model",),
    "options": ("RunOptions",),
    "providers": ("connect",),
    "run_spec": ("Output", "RunResult"),
    "thread_run": ("AgentRun",),
}
"""The names that are not here yet, by their rooms."""

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


if not TYPE_CHECKING:  # a type checker would take any name for known
    __getattr__, __dir__ = _lazy_face(__name__, _ROOMS)
