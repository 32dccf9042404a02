"""The JSON of answers, as models: for the description of the API. Handlers write their answers themselves; tests hold both together."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class _Answer(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid")


class ProblemAnswer(_Answer):
    """A refusal or failure (RFC 9457). Without prompts, keys, SQL or paths of the server."""

    # Here alone: to find these strings pydantic reads the source again for each class, which was half of what loading this room took.
    model_config = ConfigDict(use_attribute_docstrings=True)

    type: Literal["about:blank"]
    title: str
    status: int = Field(ge=400, le=599)
    code: str
    """The word that programs read."""
    detail: str | None = None
    field: str | None = None
    """The member, parameter or header at fault."""
    instance: str | None = None
    retry_after_ms: int | None = None


class UsageAnswer(_Answer):
    """Tokens of a run."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    total_tokens: int


class RunAnswer(_Answer):
    """What is known of a run."""

    run: str
    agent: str
    thread: str
    status: Literal["queued", "running", "suspended", "finished", "failed", "cancelled"]
    created: str
    metadata: dict[str, JsonValue] | None = None
    ended: str | None = None
    text: str | None = None
    usage: UsageAnswer | None = None
    refusal: str | None = None
    finish: str | None = None
    message: str | None = None
    code: str | None = None
    retryable: bool | None = None


class RunsAnswer(_Answer):
    """A page of a thread's runs."""

    runs: list[RunAnswer]
    next: str | None = None


class AcceptedAnswer(_Answer):
    """A run that was started, and where its feed is."""

    run: str
    thread: str
    events: str


class ChatAnswer(_Answer):
    """The visible text of an answer."""

    text: str
    run: str
    refusal: str | None = None


class CancelAnswer(_Answer):
    """The run as it was when it was asked to stop; the outcome is an event."""

    run: str
    status: str


class SteerAnswer(_Answer):
    """The id under which the message goes in; the outcome is an event."""

    run: str
    steering: str


class ApprovalAnswer(_Answer):
    """The decision was taken; the outcome is an event."""

    run: str
    approval: str


class AgentAnswer(_Answer):
    """An agent."""

    name: str
    description: str
    model: str
    provider: str
    default: bool
    available: bool
    note: str | None = None


class AgentsAnswer(_Answer):
    """The agents."""

    agents: list[AgentAnswer]


class ThreadAnswer(_Answer):
    """A thread, in a list."""

    thread: str
    created: str
    updated: str
    title: str | None = None


class ThreadsAnswer(_Answer):
    """A page of threads."""

    threads: list[ThreadAnswer]
    next: str | None = None


class MessageAnswer(BaseModel):
    """A message; its blocks have a `type` and what belongs to it. Signatures and provider state are `{"bytes": N}`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: list[dict[str, JsonValue]]
    status: str | None = None
    run: str | None = None


class MessagesAnswer(_Answer):
    """A thread's messages."""

    messages: list[MessageAnswer]


class StatusAnswer(_Answer):
    """How the server is."""

    status: Literal["ok", "ready"]


class TicketAnswer(_Answer):
    """A word that opens one feed or socket, once."""

    ticket: str
    expires: str
    events: str


class OpenObject(BaseModel):
    """An object of another protocol; its own documents say what it holds."""

    model_config = ConfigDict(defer_build=True, extra="allow")
