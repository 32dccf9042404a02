"""`Agent`: a model with a name, threads, an emitter and a log.

An agent is configuration: it holds no thread. Threads, logs and runs live in its engine. Its `chat()` and `stream()` give visible text
and nothing else, because they read `text.delta` events and nothing else.
"""

import copy
import logging
import re
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias

import anyio

from agentkit.background import Work, spawn
from agentkit.content import Block, JsonValue, Message
from agentkit.emitter import Emitter, LogEmitter, TeeEmitter
from agentkit.engine import Engine, Lease, Signal
from agentkit.engines.memory import MemoryEngine
from agentkit.envelope import MAX_CUSTOM, draft_all, encode
from agentkit.errors import AgentKitError, ConfigurationError, EngineError, ThreadBusy, quote
from agentkit.events import (
    CustomEvent,
    Event,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    StepFinished,
)
from agentkit.generate import OnReasoning, drive, observe
from agentkit.history import RunRecord
from agentkit.log import Topic
from agentkit.model import Model
from agentkit.providers import connect
from agentkit.reasoning import ReasoningSetting, parse_reasoning
from agentkit.run import Run, RunResult, RunSpec, new_id
from agentkit.stream import EventBuffer, RunStream, TextIterator

logger = logging.getLogger("agentkit")

OnBusy: TypeAlias = Literal["queue", "reject"]
Input: TypeAlias = str | Iterable[Block]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~-]{0,127}", re.ASCII)
_CUSTOM = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)
_RESERVED = re.compile(
    r"(run|step|text|refusal|stream|state|reasoning|reasoning_block)\..*|tool([._].*)?|reasoning|image|error|open|message|custom"
)


class AgentRun(RunStream):
    """A run on a thread: watch it like a `RunStream`, and stop it by `cancel`."""

    def __init__(
        self,
        run: str,
        thread: str,
        start: Callable[[EventBuffer], Work],
        cancel: Callable[[str], None],
        *,
        detached: bool,
    ) -> None:
        super().__init__(start, detached=detached)
        self.id = run
        self.thread = thread
        self._cancel = cancel

    def cancel(self, reason: str = "") -> None:
        """Stop the run now. It ends with `run.cancelled`; the thread keeps the partial answer."""
        self._cancel(reason)

    async def aclose(self) -> None:
        """Stop the run if it goes on, and wait for its end. A detached run goes on."""
        if not self._detached:
            self._cancel("the caller left")
        await super().aclose()


class Agent:
    """A model with a name, threads, an emitter and a log."""

    def __init__(
        self,
        name: str,
        *,
        model: Model | str,
        system: str = "",
        reasoning: Mapping[str, Any] | ReasoningSetting | None = None,
        provider_options: Mapping[str, Mapping[str, Any]] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        on_reasoning_event: OnReasoning | None = None,
        emitter: Emitter | None = None,
        engine: Engine | None = None,
        description: str = "",
    ) -> None:
        """Configure an agent; nothing is started.

        Args:
            name: letters, digits, `_.~-`; it is part of paths on the wire.
            model: a `Model`, or a name for `connect`.
            system: the system prompt.
            reasoning: `{"effort": …}` or `{"budget": tokens}`.
            provider_options: `{provider: {member: value}}`, merged into that provider's requests.
            max_tokens: tokens of one answer at most.
            temperature: as the provider understands it.
            on_reasoning_event: called with each `ReasoningEvent`, in order; what it raises is logged.
            emitter: gets every event of every run, beside the engine's log; what it raises is logged.
            engine: where threads and logs live; by default a memory engine of this agent's own.
            description: for people who choose among agents.

        Raises:
            ConfigurationError: a bad name, an unknown model, an impossible setting.
        """
        self.name = _check_name("agent name", name)
        self.model = connect(model) if isinstance(model, str) else model
        self.system = system
        self.reasoning = parse_reasoning(reasoning)
        self.provider_options = provider_options or {}
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.on_reasoning_event = on_reasoning_event
        self.emitter = emitter
        self.engine: Engine = engine or MemoryEngine()
        self.description = description
        self._works: set[Work] = set()

    def bind(self, engine: Engine) -> "Agent":
        """Return a copy of this agent that lives in `engine`."""
        bound = copy.copy(self)
        bound.engine = engine
        bound._works = set()
        return bound

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self.join(cancel=kind is not None)

    async def join(self, *, cancel: bool = False) -> None:
        """Wait for the end of every run that this agent has going; with `cancel`, stop them first."""
        for work in list(self._works):
            if cancel:
                work.cancel()
        for work in list(self._works):
            await work.join()

    async def chat(
        self, message: Input, *, thread: str = "main", on_busy: OnBusy = "queue", owner: str = ""
    ) -> str:
        """Say something and return the visible text of the answer, "" where the model refused.

        A caller that is cancelled cancels the run.

        Raises:
            AgentKitError: the run failed; `ModelStreamError.partial` keeps what came.
        """
        return (await self.run(message, thread=thread, on_busy=on_busy, owner=owner)).text

    def stream(
        self, message: Input, *, thread: str = "main", on_busy: OnBusy = "queue", owner: str = ""
    ) -> TextIterator:
        """Say something and return an iterator over the visible text. Closing or dropping it stops the run.

        The iterator raises what the run ended with, after all text that came.
        """
        return TextIterator(self._handle(message, thread, on_busy, owner, detached=False), owns=True)

    async def run(
        self, message: Input, *, thread: str = "main", on_busy: OnBusy = "queue", owner: str = ""
    ) -> RunResult:
        """Say something, wait for the end, and return all that came. As `chat`, with everything beside the text."""
        handle = self._handle(message, thread, on_busy, owner, detached=False)
        async with handle:
            return await handle.result()

    async def start(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        owner: str = "",
        reasoning: Mapping[str, Any] | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> AgentRun:
        """Start a run that goes on whoever watches, and return its handle once it is known to the engine.

        Raises:
            ThreadBusy: the thread has a run, and `on_busy` is `reject`.
            EngineError: the engine cannot be reached.
        """
        topic = self._topic(thread, owner)
        run = new_id("run")
        lease: Lease | None = None
        if on_busy == "reject":
            lease = await self.engine.leases.acquire(topic, run, wait=False)
            if lease is None:
                raise ThreadBusy(f"thread {thread!r} of agent {self.name!r} has a run already")
        await self.engine.threads.put_run(
            topic, RunRecord(run, "queued", clock.time(), metadata=metadata or {})
        )
        handle = self._handle(
            message,
            thread,
            "queue",
            owner,
            detached=True,
            run=run,
            lease=lease,
            reasoning=reasoning,
            metadata=metadata,
        )
        handle.begin()
        return handle

    async def cancel(self, run: str, *, thread: str = "main", owner: str = "", reason: str = "") -> None:
        """Stop a run of this agent, in whichever process it goes on; nothing happens if it has ended."""
        signal = Signal("cancel", {"reason": reason})
        await self.engine.control.send(self._topic(thread, owner), run, signal)

    async def messages(self, *, thread: str = "main", owner: str = "") -> list[Message]:
        """Return the thread's messages."""
        return await self.engine.threads.messages(self._topic(thread, owner))

    async def emit(self, type: str, data: JsonValue, *, thread: str = "main", owner: str = "") -> str:  # noqa: A002 - the wire's word
        """Publish an application's event on a thread and return its id once it is committed.

        Args:
            type: `[a-z][a-z0-9_.-]{0,63}`, and none of the runtime's own (`run.`, `reasoning`, …).
            data: JSON, 64 KiB at most.
            thread: the thread whose watchers get it.
            owner: the tenant.

        Raises:
            ConfigurationError: a reserved or malformed type, or data that is not JSON or too large.
            EngineError: it could not be committed.
        """
        if not _CUSTOM.fullmatch(type):
            raise ConfigurationError(f"event type {quote(type)} does not match {_CUSTOM.pattern}")
        if _RESERVED.fullmatch(type):
            raise ConfigurationError(f"event type {type!r} is the runtime's own; choose another name")
        size = len(encode(data))
        if size > MAX_CUSTOM:
            raise ConfigurationError(f"event data has {size} bytes, limit is {MAX_CUSTOM}")
        topic = self._topic(thread, owner)
        event = CustomEvent("", 0, clock.time(), type, data)
        records = await self.engine.log.append(topic, draft_all(topic, [event]))
        if self.emitter is not None:
            await TeeEmitter(self.emitter).emit(topic, [event])
        return records[-1].id

    def _topic(self, thread: str, owner: str) -> Topic:
        return Topic(owner, self.name, _check_name("thread", thread))

    def _handle(
        self,
        message: Input,
        thread: str,
        on_busy: OnBusy,
        owner: str,
        *,
        detached: bool,
        run: str = "",
        lease: Lease | None = None,
        reasoning: Mapping[str, Any] | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> AgentRun:
        topic = self._topic(thread, owner)
        spec = RunSpec(
            self.model,
            [Message.user(message)],
            self.system,
            parse_reasoning(reasoning) or self.reasoning,
            self.provider_options,
            self.max_tokens,
            self.temperature,
            self.name,
            thread,
            metadata or {},
        )
        task = _ThreadRun(self, topic, spec, run or new_id("run"), on_busy, lease)

        def start(buffer: EventBuffer) -> Work:
            work = spawn(lambda: task.work(buffer), name=f"run {task.run.id}")
            self._works.add(work)
            task.on_end = lambda: self._works.discard(work)
            return work

        return AgentRun(task.run.id, thread, start, task.run.cancel, detached=detached)


class _ThreadRun:
    """A run on a thread: it takes the lease, loads and saves messages, and says what happens to everyone who listens."""

    def __init__(
        self, agent: Agent, topic: Topic, spec: RunSpec, run: str, on_busy: OnBusy, lease: Lease | None
    ) -> None:
        self.run = Run(spec, self._publish, self._save, id=run, prepare=self._prepare)
        self.on_end: Callable[[], object] = lambda: None
        self._agent = agent
        self._engine = agent.engine
        self._topic = topic
        self._on_busy = on_busy
        self._lease = lease
        self._emitter: Emitter | None = None
        self._buffer = EventBuffer()
        self._record = RunRecord(run, "queued", clock.time(), metadata=spec.metadata)

    async def work(self, buffer: EventBuffer) -> None:
        """Run to the end."""
        self._buffer = buffer
        stop_listening: Callable[[], None] | None = None
        try:
            stop_listening = await self._engine.control.listen(self._topic, self.run.id, self._signal)
            await drive(self.run, buffer)
        finally:
            with anyio.CancelScope(shield=True):
                if stop_listening is not None:
                    stop_listening()
                await self._let_go()
            if not buffer.closed:
                buffer.close(None, self.run.error)
            self.on_end()

    async def _prepare(self) -> Sequence[Message]:
        if self._lease is None:
            self._lease = await self._engine.leases.acquire(
                self._topic, self.run.id, wait=self._on_busy == "queue"
            )
            if self._lease is None:
                raise ThreadBusy(
                    f"thread {self._topic.thread!r} of agent {self._agent.name!r} has a run already"
                )
        self._record = replace(self._record, status="running")
        await self._engine.threads.put_run(self._topic, self._record)
        history = await self._engine.threads.messages(self._topic)
        await self._save(self.run.spec.messages)
        return history

    async def _save(self, messages: Sequence[Message]) -> None:
        fence = self._lease.fence if self._lease else None
        await self._engine.threads.extend(self._topic, messages, fence=fence)

    async def _publish(self, events: Sequence[Event]) -> None:
        """Say it in order: to the record of the run, to iterators in process, to the observer, to the emitters."""
        last = events[-1]
        terminal = isinstance(last, RunFinished | RunFailed | RunCancelledEvent)
        if terminal:
            await self._put_end(last)
        self._buffer.extend(events)
        await observe(self._agent.on_reasoning_event, events)
        if self._emitter is None:
            log = LogEmitter(self._engine.log, fence=self._lease.fence if self._lease else None)
            own = self._agent.emitter
            self._emitter = log if own is None else TeeEmitter(log, own)
        await self._emitter.emit(self._topic, events)
        if terminal or isinstance(last, StepFinished):
            await self._emitter.flush(self._topic)

    async def _put_end(self, event: Event) -> None:
        """Keep how the run ended before anybody is told, so that who is told finds it."""
        result = self.run.result
        record = replace(
            self._record,
            ended=event.time,
            text=result.text,
            refusal=result.refusal,
            finish=result.finish,
            usage=result.usage,
        )
        match event:
            case RunFailed():
                record = replace(
                    record, status="failed", code=event.code, message=event.message, retryable=event.retryable
                )
            case RunCancelledEvent():
                record = replace(record, status="cancelled", message=event.reason)
            case _:
                record = replace(record, status="finished")
        try:
            await self._engine.threads.put_run(self._topic, record)
        except EngineError:
            logger.exception("the end of run %s was not kept", self.run.id)

    async def _let_go(self) -> None:
        if self._lease is not None:
            try:
                await self._engine.leases.release(self._lease)
            except AgentKitError:
                logger.exception("the lease of run %s was not given back", self.run.id)

    def _signal(self, signal: Signal) -> None:
        if signal.kind == "cancel":
            self.run.cancel(str(signal.data.get("reason", "")))


def _check_name(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{what} {quote(name)} does not match {_NAME.pattern}")
    return name
