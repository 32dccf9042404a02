"""`generate_text` and `stream_text`: the face of a run without a thread."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

import anyio

from agentkit.background import Work, spawn
from agentkit.content import Message, load_messages
from agentkit.errors import ConfigurationError
from agentkit.events import Event, Reasoning, ReasoningEvent
from agentkit.options import Models, RunOptions, make_spec, resolve_models
from agentkit.run import Run
from agentkit.run_spec import RunResult, RunSpec
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
    model: Models,
    prompt: str | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    on_reasoning_event: OnReasoning | None = None,
    **options: Unpack[RunOptions],
) -> TextStreamResult:
    """Ask a model and watch it answer. One run, any number of consumers; it starts on first use.

    Args:
        model: a `Model`, a name for `connect`, or several of them.
        prompt: one user message; or
        messages: a history, as `Message`s or their JSON form.
        on_reasoning_event: called with each `ReasoningEvent`, in order.
        **options: see `RunOptions`: `system`, `tools`, `reasoning`, `limits`, …

    Raises:
        ConfigurationError: neither or both of prompt and messages, or an impossible option.
        WireError: `messages` is not a history.
    """
    spec = make_spec(resolve_models(model), _history(prompt, messages), options)
    return TextStreamResult(lambda buffer: _start(spec, buffer, on_reasoning_event))


async def generate_text(
    *,
    model: Models,
    prompt: str | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    on_reasoning_event: OnReasoning | None = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Ask a model and return its whole answer. Parameters and errors as `stream_text`.

    A caller that is cancelled stops the run.

    Raises:
        AgentKitError: the run failed; a `ModelStreamError` keeps what came in `.partial`.
    """
    spec = make_spec(resolve_models(model), _history(prompt, messages), options)
    async with TextStreamResult(lambda buffer: _start(spec, buffer, on_reasoning_event)) as stream:
        return await stream.result()


def _history(prompt: str | None, messages: Sequence[Message | Mapping[str, Any]] | None) -> list[Message]:
    if prompt is not None and messages is None:
        return [Message.user(prompt)]
    if messages is not None and prompt is None:
        return load_messages(messages)
    raise ConfigurationError("give exactly one of prompt and messages")


def _start(spec: RunSpec, buffer: EventBuffer, on_reasoning: OnReasoning | None) -> Work:
    observer = ReasoningObserver(on_reasoning)

    async def publish(events: Sequence[Event]) -> None:
        buffer.extend(events)
        await observer.tell(events)

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


class ReasoningObserver:
    """Tell a function of reasoning events, and keep its troubles away from the run.

    What it raises is logged. One that hangs is dropped for the rest of the run: the run waits for it once, not at every event.
    """

    def __init__(self, observer: OnReasoning | None) -> None:
        self._observer = observer

    async def tell(self, events: Sequence[Event]) -> None:
        """Tell of the reasoning events among `events`, in order."""
        if self._observer is None:
            return
        for event in events:
            if isinstance(event, Reasoning):
                await self._tell(self._observer, event)
            if self._observer is None:
                return

    async def _tell(self, observer: OnReasoning, event: Reasoning) -> None:
        with anyio.move_on_after(OBSERVER_TIMEOUT) as scope:
            try:
                outcome = observer(event.event)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception:
                logger.exception("on_reasoning_event failed in run %s", event.run)
        if scope.cancelled_caught:
            self._observer = None
            logger.error(
                "on_reasoning_event took over %s s in run %s: not called again", OBSERVER_TIMEOUT, event.run
            )
