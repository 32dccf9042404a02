"""`generate_text` and `stream_text`: the face of a run without a thread."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import anyio

from agentkit.background import Work, spawn
from agentkit.content import Message, load_messages
from agentkit.errors import ConfigurationError
from agentkit.events import Event, Reasoning, ReasoningEvent
from agentkit.model import Model
from agentkit.providers import connect
from agentkit.reasoning import ReasoningSetting, parse_reasoning
from agentkit.run import Run, RunResult, RunSpec
from agentkit.stream import EventBuffer, RunStream

logger = logging.getLogger("agentkit")

OnReasoning: TypeAlias = Callable[[ReasoningEvent], Awaitable[object] | object]
"""An observer of reasoning events, sync or async. What it raises is logged and changes nothing for the run."""

OBSERVER_TIMEOUT = 10.0
"""Seconds that a run waits for an async observer: a guard against one that hangs, not a budget."""


class TextStreamResult(RunStream):
    """What `stream_text` returns: `event_stream`, `text_stream`, and values to await (`text`, `usage`, `refusal`, `finish`)."""


def stream_text(
    *,
    model: Model | str,
    prompt: str | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    system: str = "",
    reasoning: Mapping[str, Any] | ReasoningSetting | None = None,
    provider_options: Mapping[str, Mapping[str, Any]] | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    on_reasoning_event: OnReasoning | None = None,
) -> TextStreamResult:
    """Ask a model and watch it answer. One request, any number of consumers; it starts on first use.

    Args:
        model: a `Model`, or a name for `connect`.
        prompt: one user message; or
        messages: a history, as `Message`s or their JSON form.
        system: the system prompt.
        reasoning: `{"effort": …}` or `{"budget": tokens}`.
        provider_options: `{provider: {member: value}}`, merged into that provider's requests.
        max_tokens: tokens of the answer at most, as the provider counts them.
        temperature: as the provider understands it.
        on_reasoning_event: called with each `ReasoningEvent`, in order.

    Raises:
        ConfigurationError: neither or both of prompt and messages, or an impossible setting.
    """
    spec = _spec(model, prompt, messages, system, reasoning, provider_options, max_tokens, temperature)
    return TextStreamResult(lambda buffer: _start(spec, buffer, on_reasoning_event))


async def generate_text(
    *,
    model: Model | str,
    prompt: str | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    system: str = "",
    reasoning: Mapping[str, Any] | ReasoningSetting | None = None,
    provider_options: Mapping[str, Mapping[str, Any]] | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    on_reasoning_event: OnReasoning | None = None,
) -> RunResult:
    """Ask a model and return its whole answer. Parameters and errors as `stream_text`.

    Raises:
        AgentKitError: the run failed; a `ModelStreamError` keeps what came in `.partial`.
    """
    spec = _spec(model, prompt, messages, system, reasoning, provider_options, max_tokens, temperature)
    async with TextStreamResult(lambda buffer: _start(spec, buffer, on_reasoning_event)) as stream:
        return await stream.result()


def _spec(
    model: Model | str,
    prompt: str | None,
    messages: Sequence[Message | Mapping[str, Any]] | None,
    system: str,
    reasoning: Mapping[str, Any] | ReasoningSetting | None,
    provider_options: Mapping[str, Mapping[str, Any]] | None,
    max_tokens: int | None,
    temperature: float | None,
) -> RunSpec:
    if (prompt is None) == (messages is None):
        raise ConfigurationError("give exactly one of prompt and messages")
    history = [Message.user(prompt)] if prompt is not None else load_messages(messages or ())
    return RunSpec(
        connect(model) if isinstance(model, str) else model,
        history,
        system,
        parse_reasoning(reasoning),
        provider_options or {},
        max_tokens,
        temperature,
    )


def _start(spec: RunSpec, buffer: EventBuffer, on_reasoning: OnReasoning | None) -> Work:
    async def publish(events: Sequence[Event]) -> None:
        buffer.extend(events)
        await observe(on_reasoning, events)

    async def save(messages: Sequence[Message]) -> None:
        """Keep nothing: the result has them."""

    run = Run(spec, publish, save)
    return spawn(lambda: drive(run, buffer), name=f"run {run.id}")


async def drive(run: Run, buffer: EventBuffer) -> None:
    """Execute a run and close its buffer with how it ended."""
    result: RunResult | None = None
    try:
        result = await run.execute()
    except Exception as error:
        if run.error is None:
            run.error = error
    finally:
        buffer.close(result, run.error)


async def observe(observer: OnReasoning | None, events: Sequence[Event]) -> None:
    """Tell an observer of the reasoning events among `events`; isolate what it raises."""
    if observer is None:
        return
    for event in events:
        if isinstance(event, Reasoning):
            try:
                outcome = observer(event.event)
                if inspect.isawaitable(outcome):
                    with anyio.fail_after(OBSERVER_TIMEOUT):
                        await outcome
            except Exception:
                logger.exception("on_reasoning_event failed in run %s", event.run)
