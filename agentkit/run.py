"""A run: one answer of an agent, from its start to exactly one terminal event.

It knows no store, no log and no thread: it is given messages and says what happens through `publish`. It owns its provider stream: no
consumer pulls it. Blocks that are open when the run ends, however it ends, are closed by the run.
"""

import secrets
import time as clock
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from agentkit.accumulators import Response
from agentkit.chunks import Chunk
from agentkit.content import JsonValue, Message, RefusalBlock, ThinkingBlock, ToolUseBlock, Usage
from agentkit.errors import AgentKitError, ModelError, ModelStreamError, RunCancelled
from agentkit.events import (
    Event,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunNotice,
    RunStarted,
    StepEvents,
    StepFinished,
    StepRetrying,
    StepStarted,
)
from agentkit.model import Model, ModelRequest, Notice, Retry
from agentkit.reasoning import ReasoningSetting

Publish: TypeAlias = Callable[[Sequence[Event]], Awaitable[None]]
"""Takes the run's events, in order. What it raises fails the run."""
Save: TypeAlias = Callable[[Sequence[Message]], Awaitable[None]]
"""Takes messages that the run has made, as soon as they are whole (or cut)."""

Prepare: TypeAlias = Callable[[], Awaitable[Sequence[Message]]]
"""Waits until the run may begin, and returns the thread's history."""


def new_id(prefix: str) -> str:
    """Return a fresh id: the prefix, `_`, 16 letters and digits."""
    return f"{prefix}_{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run works on."""

    model: Model
    messages: Sequence[Message]
    """What the user just said, or a whole history that ends with it."""
    system: str = ""
    reasoning: ReasoningSetting | None = None
    provider_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_tokens: int | None = None
    temperature: float | None = None
    agent: str = ""
    thread: str = ""
    metadata: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, and what it made."""

    run: str
    text: str
    """Visible text only; "" where the model refused or said nothing."""
    refusal: str | None
    messages: tuple[Message, ...]
    """What the run added to its history."""
    usage: Usage
    finish: str
    """The last step's finish reason."""
    termination: str
    """Why it ended: `completed`, …"""

    @property
    def thinking(self) -> tuple[ThinkingBlock, ...]:
        """All thinking blocks of the run, in order."""
        return tuple(block for message in self.messages for block in message.thinking)

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """All calls of the run, in order."""
        return tuple(block for message in self.messages for block in message.tool_uses)


class Run:
    """One run. Make it, then await `execute` once; `cancel` stops it from the same loop."""

    def __init__(
        self,
        spec: RunSpec,
        publish: Publish,
        save: Save,
        *,
        id: str = "",  # noqa: A002 - the field's word
        prepare: Prepare | None = None,
    ) -> None:
        """Make a run.

        Args:
            spec: what it works on.
            publish: takes its events.
            save: takes its messages.
            id: its id, or "" for a fresh one.
            prepare: awaited first, where it may be cancelled; returns the history that goes before `spec.messages`.
        """
        self.id = id or new_id("run")
        self.spec = spec
        self._publish = publish
        self._save = save
        self._prepare = prepare
        self._history: Sequence[Message] = ()
        self._scope = anyio.CancelScope()
        self._reason = ""
        self._messages: list[Message] = []
        self._usage = Usage()
        self._finish = ""
        self._step = 0
        self._response: Response | None = None
        self._events: StepEvents | None = None
        self.error: BaseException | None = None
        """What ended the run badly, or None. A caller's own cancellation stands here as `RunCancelled`."""

    def cancel(self, reason: str = "") -> None:
        """Stop the run now. It ends with `run.cancelled`; a second cancel changes nothing."""
        if not self._scope.cancel_called:
            self._reason = reason
            self._scope.cancel()

    @property
    def result(self) -> RunResult:
        """What there is so far; whole after `execute`."""
        refusals = [b.refusal for m in self._messages for b in m.content if isinstance(b, RefusalBlock)]
        return RunResult(
            self.id,
            "".join(message.text for message in self._messages),
            "".join(refusals) if refusals else None,
            tuple(self._messages),
            self._usage,
            self._finish,
            "completed",
        )

    async def execute(self) -> RunResult:
        """Work until the end, which is told by exactly one terminal event before this returns or raises.

        Raises:
            AgentKitError: the run failed; `.partial` of a `ModelStreamError` holds the cut message.
            RunCancelled: it was stopped by `cancel`.
        """
        try:
            with self._scope:
                if self._prepare is not None:
                    self._history = await self._prepare()
                await self._publish(
                    [
                        RunStarted(
                            self.id, 0, clock.time(), self.spec.agent, self.spec.thread, self.spec.metadata
                        )
                    ]
                )
                await self._steps()
            if self._scope.cancel_called:
                raise RunCancelled(reason=self._reason)
        except Exception as error:
            await self._end_badly(error)
            raise
        except BaseException:  # the caller's own cancellation stays itself
            await self._end_badly(RunCancelled(reason=self._reason or "the caller left"))
            raise
        return self.result

    async def _steps(self) -> None:
        await self._one_step()
        text = self.result.text
        ended = RunFinished(self.id, 0, clock.time(), text, self._finish, self._usage)
        with anyio.CancelScope(shield=True):  # from here on the run has ended well, whoever cancels
            await self._publish([ended])

    async def _one_step(self) -> None:
        self._step += 1
        spec, origin = self.spec, self.spec.model.origin
        response = self._response = Response(origin)
        events = self._events = StepEvents(self.id, self._step, origin.provider)
        request = ModelRequest(
            [*self._history, *spec.messages, *self._messages],
            spec.system,
            reasoning=spec.reasoning,
            max_tokens=spec.max_tokens,
            temperature=spec.temperature,
            provider_options=spec.provider_options,
        )
        await self._publish([StepStarted(self.id, self._step, clock.time(), origin.model, origin.provider)])
        async with spec.model.stream(request) as stream:
            while items := await stream.next():
                await self._take(items, response, events)
        await self._close_step(response, events)

    async def _take(
        self, items: Sequence[Chunk | Notice | Retry], response: Response, events: StepEvents
    ) -> None:
        now = clock.time()
        chunks: list[Chunk] = []
        out: list[Event] = []
        for item in items:
            if isinstance(item, Notice):
                out.append(RunNotice(self.id, self._step, now, item.code, item.message, item.data))
            elif isinstance(item, Retry):
                out.append(
                    StepRetrying(self.id, self._step, now, item.attempt, item.delay, item.code, item.message)
                )
            else:
                response.add(item)
                chunks.append(item)
        out += events.map(chunks, now)
        if out:
            await self._publish(out)

    async def _close_step(self, response: Response, events: StepEvents) -> None:
        """Keep what came, and raise if the stream said error."""
        message = response.message(run=self.id, partial=response.error is not None)
        self._response = self._events = None
        self._usage += response.usage
        self._finish = response.finish.reason if response.finish else ""
        now = clock.time()
        closing = events.close(now)
        error = response.error
        if error is None:
            closing.append(StepFinished(self.id, self._step, now, self._finish, response.usage))
        with anyio.CancelScope(shield=True):
            if message.content:
                self._messages.append(message)
                await self._save([message])
            if closing:
                await self._publish(closing)
        if error is not None:
            origin = self.spec.model.origin
            raise ModelStreamError(
                f"{origin.provider}: {error.message}",
                kind=error.kind,
                provider_code=error.code,
                partial=message,
                provider=origin.provider,
                model=origin.model,
                retryable=error.retryable,
            )

    async def _end_badly(self, error: BaseException) -> None:
        """Close what is open, keep the partial answer, and tell the end, whatever else breaks."""
        self.error = error
        with anyio.CancelScope(shield=True):
            now = clock.time()
            closing: list[Event] = self._events.close(now) if self._events else []
            if self._response is not None:
                self._usage += self._response.usage
                message = self._response.message(run=self.id, partial=True)
                if message.content:
                    self._messages.append(message)
                    if isinstance(error, (ModelStreamError, RunCancelled)) and error.partial is None:
                        error.partial = message
                    try:
                        await self._save([message])
                    except AgentKitError as failure:
                        error.add_note(f"the partial answer was not saved: {failure}")
                self._response = self._events = None
            text = self.result.text
            if isinstance(error, RunCancelled):
                closing.append(RunCancelledEvent(self.id, 0, now, error.reason, self._usage, text, error))
            else:
                code = error.code if isinstance(error, AgentKitError) else "internal"
                said = str(error) if isinstance(error, AgentKitError) else type(error).__name__
                retryable = isinstance(error, ModelError) and error.retryable
                closing.append(RunFailed(self.id, 0, now, code, said, retryable, self._usage, text, error))
            try:
                await self._publish(closing)
            except AgentKitError as failure:
                error.add_note(f"the end was not told to every watcher: {failure}")
