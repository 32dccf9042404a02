"""An agent as a tool of another: a run inside a call.

Its events go out through the run that called it, with `parent`; its answer is the call's result. One level: a sub-agent calls no
further sub-agents, so that neither depth nor a circle can grow.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentkit.content import JsonValue, Message
from agentkit.errors import AgentKitError, RunCancelled, ToolError
from agentkit.events import Event, Parent
from agentkit.options import RunOptions
from agentkit.redaction import redacted
from agentkit.run import Run
from agentkit.run_spec import RunSpec
from agentkit.tool import Tool, ToolContext

MAX_DEPTH = 1
"""Levels below a run of a thread."""


def agent_tool(
    name: str, description: str, agent: str, spec_of: Callable[[list[Message], RunOptions], RunSpec]
) -> Tool:
    """Return a tool that answers by a run of an agent.

    Args:
        name: the tool's name.
        description: what the model is told of it.
        agent: the agent's name, for events.
        spec_of: makes the run's spec of the messages.
    """

    async def ask(message: str, context: ToolContext) -> str:
        if context.depth >= MAX_DEPTH:
            raise ToolError(f"{agent} is itself called as a tool: it may not call further agents")
        host = context.host
        parent = Parent(context.run, context.call)

        async def publish(events: Sequence[Event]) -> None:
            events = list(redacted(spec.redact, events))  # a batch makes its events anew at each look
            for event in events:
                event.parent = event.parent or parent  # made for this run alone, a moment ago
            if isinstance(host, Run):
                await host.publish(events)

        async def save(messages: Sequence[Message]) -> None:
            """Keep nothing: the thread is the caller's, and gets the answer."""

        asked = spec_of([Message.user(message)], {})
        spec = replace(
            asked,
            tools={
                name: tool for name, tool in asked.tools.items() if not tool.is_client
            },  # nobody here could answer
            thread=context.thread,
            depth=context.depth + 1,
            on_approval="wait",
            observers=host.spec.observers if isinstance(host, Run) else (),
        )
        approvals = host.approvals if isinstance(host, Run) else None
        try:
            result = await Run(spec, publish, save, approvals=approvals).execute()
        except RunCancelled:
            raise
        except AgentKitError as error:
            raise ToolError(f"{agent} failed: {error}") from error
        return result.text if result.refusal is None else f"{agent} refused: {result.refusal}"

    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What to ask; it sees nothing else."}},
        "required": ["message"],
        "additionalProperties": False,
    }
    return Tool(name, description, parameters, ask, context="context")
