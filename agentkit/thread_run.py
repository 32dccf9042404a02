"""A run on a thread: it takes the lease, loads and saves messages, and says what happens to everyone who listens.

The one room where a `Run` meets an engine. `agent` decides what runs; `run` does it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import anyio

from agentkit.approvals import Approvals
from agentkit.background import Work, spawn
from agentkit.content import JsonValue, Message
from agentkit.emitter import Emitter, LogEmitter, TeeEmitter
from agentkit.engine import Engine, Lease, Signal
from agentkit.envelope import draft_all
from agentkit.errors import AgentKitError, AppendRejected, ConfigurationError, EngineError, ThreadBusy
from agentkit.events import (
    Event,
    RefusalDelta,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    RunSuspended,
    StepFinished,
    ToolExecutionStarted,
)
from agentkit.generate import OnReasoning, ReasoningObserver, drive
from agentkit.history import RunRecord
from agentkit.log import Topic
from agentkit.redaction import redacted, redacted_text
from agentkit.run import CancelMode, Run
from agentkit.run_spec import RunSpec
from agentkit.stream import EventBuffer, RunStream
from agentkit.threads import take_thread

logger = logging.getLogger("agentkit")

END_TIMEOUT = 5.0
"""Seconds for a last try to write a run's end into a log that has failed."""

OnBusy: TypeAlias = Literal["queue", "reject", "interrupt"]
"""What a run does on a thread that has one: wait its turn, raise `ThreadBusy`, or stop the other and take its place."""


class AgentRun(RunStream):
    """A run on a thread: watch it like a `RunStream`; steer, approve and cancel it.

    Attributes:
        id: the run's id.
        thread: the thread's name.
    """

    def __init__(
        self,
        run: Run,
        thread: str,
        start: Callable[[EventBuffer], Work],
        asked: anyio.Event,
        *,
        detached: bool,
    ) -> None:
        super().__init__(start, detached=detached)
        self._asked = asked
        self.id = run.id
        self.thread = thread
        self._run = run

    async def asked(self) -> None:
        """Start the run if it has not started, and return once it stands in its thread's queue."""
        self.begin()
        await self._asked.wait()

    def cancel(self, reason: str = "", *, mode: CancelMode = "now") -> None:
        """Stop the run; it ends with `run.cancelled`, and the thread keeps the partial answer. See `Run.cancel`."""
        self._run.cancel(reason, mode=mode)

    def steer(self, text: str) -> str:
        """Put a user's message in at the next step boundary, and return its id.

        Raises:
            ConfigurationError: the run has ended.
        """
        if self._run.is_over:
            raise ConfigurationError(f"run {self.id} has ended: it takes no message")
        return self._run.steer(Message.user(text))

    def unsteer(self, steering: str) -> bool:
        """Take a steering message back; False where it has gone in already."""
        return self._run.unsteer(steering)

    def approve(self, approval: str) -> bool:
        """Allow a call that waits; False where it had been decided."""
        return self._run.approve(approval, approved=True)

    def deny(self, approval: str, reason: str = "") -> bool:
        """Refuse a call that waits; the model is told the reason. False where it had been decided."""
        return self._run.approve(approval, approved=False, reason=reason)

    async def aclose(self) -> None:
        """Stop the run if it goes on, and wait for its end. A detached run goes on."""
        if not self._detached and self._work is not None:
            self._run.cancel("the caller left")
        await super().aclose()


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told, beside the engine's log."""

    on_reasoning: OnReasoning | None = None
    emitter: Emitter | None = None
    expose_state: bool = False


class ThreadRun:
    """One run on one thread of one engine."""

    def __init__(
        self,
        engine: Engine,
        topic: Topic,
        spec: RunSpec,
        record: RunRecord,
        *,
        on_busy: OnBusy = "queue",
        lease: Lease | None = None,
        listeners: Listeners | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        self.run = Run(
            spec, self._publish, self._save, id=record.run, prepare=self._prepare, approvals=approvals
        )
        self._engine = engine
        self._topic = topic
        self._record = record
        self._on_busy = on_busy
        self._lease = lease
        self._listeners = listeners or Listeners()
        self._observer = ReasoningObserver(self._listeners.on_reasoning)
        self._log: LogEmitter | None = None
        self._emitter: Emitter | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._heart: Work | None = None
        self._is_foreign = False
        """True where the run never got its thread, or goes on elsewhere: its end is told here and nowhere else."""
        self._buffer = EventBuffer()
        self.asked = anyio.Event()
        """Set once the run stands in the thread's queue (or has ended before): whoever starts the next one comes after it."""

    async def work(self, buffer: EventBuffer) -> None:
        """Run to the end, and close the buffer with it."""
        self._buffer = buffer
        try:
            await drive(self.run, buffer)
        finally:
            self.asked.set()
            if self._stop_listening is not None:
                self._stop_listening()
            if self._heart is not None:
                self._heart.cancel()
            with anyio.CancelScope(shield=True):
                await self._let_go()

    async def _prepare(self) -> Sequence[Message]:
        """Take the thread, and return its history."""
        leases = self._engine.leases
        self._stop_listening = await self._engine.control.listen(self._topic, self.run.id, self._signal)
        if self._lease is None and self._on_busy == "interrupt":
            await self._interrupt_holder()
        self.asked.set()
        if self._lease is None and self._on_busy == "reject":
            self._lease = await take_thread(self._engine, self._topic, self.run.id)
        elif self._lease is None:
            self._lease = await leases.acquire(self._topic, self.run.id, wait=True)
        if self._lease is None:
            self._is_foreign = True
            raise ThreadBusy(f"{self._topic.path} has a run already")
        lease = self._lease
        if leases.heartbeat:
            self._heart = spawn(lambda: self._beat(lease), name=f"heart of {self.run.id}")
        if self.run.spec.resume:
            await self._check_suspended()
        self._record = replace(self._record, status="running", pending=())
        await self._engine.threads.put_run(self._topic, self._record, fence=lease.fence)
        history = await self._engine.threads.messages(self._topic)
        if self.run.spec.messages:
            await self._save(self.run.spec.messages)
        return history

    async def _beat(self, lease: Lease) -> None:
        """Keep the lease until cancelled. One that was lost ends the run here: elsewhere it has been told to have failed."""
        leases = self._engine.leases
        while True:
            await anyio.sleep(leases.heartbeat)
            try:
                await leases.renew(lease)
            except AppendRejected:
                self._is_foreign = True
                self.run.cancel("its lease was lost: another process took this one for dead")
                return
            except (
                EngineError
            ) as error:  # the next beat may reach it; if none does, the lease ends and writing is refused
                logger.warning("the lease of run %s was not renewed: %s", self.run.id, error)

    async def _check_suspended(self) -> None:
        """Look again, now that the thread is ours: two may have decided the last call at once."""
        record = await self._engine.threads.get_run(self._topic, self.run.id)
        if record is None or record.status != "suspended":
            self._is_foreign = True
            raise ConfigurationError(f"run {self.run.id} is not suspended any more")

    async def _interrupt_holder(self) -> None:
        holder = await self._engine.leases.holder(self._topic)
        if holder is not None:
            reason = f"run {self.run.id} took its place"
            await self._engine.control.send(self._topic, holder, Signal("cancel", {"reason": reason}))

    async def _save(self, messages: Sequence[Message]) -> None:
        fence = self._lease.fence if self._lease else None
        await self._engine.threads.extend(self._topic, messages, fence=fence)

    async def _publish(self, events: Sequence[Event]) -> None:
        """Say it in order: to the run's record, to iterators in process, to the observer, to the emitters.

        What leaves the process goes through the redact hook first; iterators and the observer are the application's own.
        """
        last = events[-1]
        if last.parent is None and isinstance(
            last, RunFinished | RunFailed | RunCancelledEvent | RunSuspended
        ):
            if not self._is_foreign:
                told = redacted(self.run.spec.redact, events)
                await self._put_end(told[-1])
                await self._log_end(told)
            self._buffer.extend(events)
            return
        self._buffer.extend(events)
        await self._observer.tell(events)
        _, emitter = self._emitters()
        told = redacted(self.run.spec.redact, events)
        if told:
            await emitter.emit(self._topic, told)
        if isinstance(last, StepFinished | ToolExecutionStarted):
            await emitter.flush(self._topic)

    def _emitters(self) -> tuple[LogEmitter, Emitter]:
        """Return the log's emitter, and that of all who listen; made once the lease is known."""
        if self._log is None or self._emitter is None:
            fence = self._lease.fence if self._lease else None
            self._log = LogEmitter(self._engine.log, fence=fence, expose_state=self._listeners.expose_state)
            own = self._listeners.emitter
            self._emitter = self._log if own is None else TeeEmitter(self._log, own)
        return self._log, self._emitter

    async def _log_end(self, events: Sequence[Event]) -> None:
        """Bring the end into the log before it is told in process: a run that cannot do so has failed, and is told to have ended once.

        The agent's own emitter is asked first: where it refuses a good end, the log has none yet, and takes the bad one.

        Raises:
            EngineError: the log, or the agent's own emitter, failed under a good end.
        """
        log, _ = self._emitters()
        event, own = events[-1], self._listeners.emitter
        is_bad = isinstance(event, RunFailed | RunCancelledEvent)
        if own is not None:
            guarded = TeeEmitter(own)
            try:
                await guarded.emit(self._topic, events)
                await guarded.flush(self._topic)
            except EngineError:
                if not is_bad:
                    raise
                logger.exception("the agent's own emitter did not take the end of run %s", self.run.id)
        try:
            await log.emit(self._topic, events)
            await log.flush(self._topic)
        except EngineError:
            if not is_bad:
                raise
            await self._log_bad_end(event)

    async def _log_bad_end(self, event: Event) -> None:
        """Try once more, past a writer that has given up: whoever reads the log later shall find an end."""
        fence = self._lease.fence if self._lease else None
        try:
            with anyio.fail_after(END_TIMEOUT):
                await self._engine.log.append(self._topic, draft_all(self._topic, [event]), fence=fence)
        except (EngineError, TimeoutError):
            logger.exception("the end of run %s is not in its log", self.run.id)

    async def _put_end(self, event: Event) -> None:
        """Keep how the run ended before anybody is told, so that who is told finds it."""
        result, redact = self.run.result, self.run.spec.redact
        refusal = result.refusal
        record = replace(
            self._record,
            ended=event.time,
            text=redacted_text(redact, result.text),
            refusal=None if refusal is None else redacted_text(redact, refusal, RefusalDelta),
            finish=result.finish,
            usage=result.usage,
            termination=result.termination,
            pending=(),
        )
        match event:
            case RunFailed():
                record = replace(
                    record, status="failed", code=event.code, message=event.message, retryable=event.retryable
                )
            case RunCancelledEvent():
                record = replace(record, status="cancelled", message=event.reason)
            case RunSuspended():
                record = replace(
                    record,
                    status="suspended",
                    ended=None,
                    step=self.run.number,
                    pending=tuple(self.run.pending),
                )
            case _:
                record = replace(record, status="finished")
        try:
            fence = self._lease.fence if self._lease else None
            await self._engine.threads.put_run(self._topic, record, fence=fence)
        except EngineError:
            logger.exception("the end of run %s was not kept", self.run.id)

    async def _let_go(self) -> None:
        if self._lease is not None:
            try:
                await self._engine.leases.release(self._lease)
            except AgentKitError:
                logger.exception("the lease of run %s was not given back", self.run.id)

    def _signal(self, signal: Signal) -> None:
        data = signal.data
        match signal.kind:
            case "cancel":
                soft: dict[JsonValue, CancelMode] = {"after_tools": "after_tools", "after_step": "after_step"}
                self.run.cancel(str(data.get("reason", "")), mode=soft.get(data.get("mode"), "now"))
            case "steer":
                self.run.steer(Message.user(str(data.get("text", ""))), id=str(data.get("id", "")))
            case "unsteer":
                self.run.unsteer(str(data.get("id", "")))
            case "approve":
                approved = data.get("approved") is True
                self.run.approve(
                    str(data.get("approval", "")), approved=approved, reason=str(data.get("reason", ""))
                )
