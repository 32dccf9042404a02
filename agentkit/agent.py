"""`Agent`: a model with a name, threads, an emitter and a log.

An agent is configuration: it holds no thread. Threads, logs and runs live in its engine. Its `chat()` and `stream()` give visible text
and nothing else, because they read `text.delta` events and nothing else.
"""

import copy
import re
import time as clock
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self, Unpack, get_args

from agentkit.approvals import Approvals, Decision
from agentkit.background import Work, spawn
from agentkit.content import JsonValue, Message
from agentkit.emitter import Emitter, TeeEmitter
from agentkit.engine import Engine, Lease, Signal
from agentkit.engines.memory import MemoryEngine
from agentkit.envelope import MAX_CUSTOM, draft_all, encode
from agentkit.errors import AlreadyStarted, ConfigurationError, RunCancelled, ThreadBusy, quote
from agentkit.events import CustomEvent, RunStarted
from agentkit.generate import OnReasoning
from agentkit.history import RunRecord, ThreadRecord
from agentkit.input import Input, read_input
from agentkit.log import Topic
from agentkit.observe import Observer
from agentkit.options import Models, RunOptions, make_spec, resolve_models
from agentkit.redaction import Redact, chained, redacted
from agentkit.run import CancelMode, Run
from agentkit.run_spec import RunResult, RunSpec, new_id
from agentkit.stream import EventBuffer, TextIterator
from agentkit.sub_agent import agent_tool
from agentkit.thread_run import AgentRun, Listeners, OnBusy, ThreadRun
from agentkit.threads import claimed_run, decide, erase_thread, fork_thread, take_thread
from agentkit.tool import Tool

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~-]{0,127}", re.ASCII)
_THREAD = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,127}", re.ASCII)
"""Front ends make names that begin with `_` or `-` (nanoid, assistant-ui); with a dot they could be a path's `..`."""
_CUSTOM = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)
_RESERVED = re.compile(
    r"(run|step|text|refusal|stream|state|reasoning|reasoning_block)\..*"
    r"|tool([._].*)?|reasoning|image|error|open|message|custom"
)


class Agent:
    """A model with a name, threads, an emitter and a log.

    Every method that takes `thread` means the conversation of that name; `owner` is the tenant, "" without authentication.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Models,
        on_reasoning_event: OnReasoning | None = None,
        emitter: Emitter | None = None,
        engine: Engine | None = None,
        description: str = "",
        expose_provider_state: bool = False,
        redact: Redact | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """Configure an agent; nothing is started.

        Args:
            name: letters, digits, `_.~-`; it is part of paths on the wire.
            model: a `Model`, a name for `connect`, or several: the later ones are asked where those before fail unseen.
            on_reasoning_event: called with each `ReasoningEvent`, in order; what it raises is logged.
            emitter: gets every event of every run, beside the engine's log; what it raises is logged.
            engine: where threads and logs live; by default a memory engine of this agent's own.
            description: for people, and for models that call this agent as a tool.
            expose_provider_state: write signatures and provider state into the log, not only their size.
            redact: asked of each event before the log, the emitters and the run's record get it; see `agentkit.redaction`.
            **options: see `RunOptions`: `system`, `tools`, `reasoning`, `limits`, …; each call may give others.

        Raises:
            ConfigurationError: a bad name, an unknown model, an impossible option.
        """
        self.name = _check_name("agent name", name, _NAME)
        self.models = resolve_models(model)
        self.on_reasoning_event = on_reasoning_event
        self.emitter = emitter
        self.engine: Engine = engine or MemoryEngine()
        self.description = description
        self.expose_provider_state = expose_provider_state
        self.redact = redact
        self._options = options
        self._works: dict[Work, Run] = {}
        self._spec([], {})

    def bind(
        self, engine: Engine, *, observers: Sequence[Observer] = (), redact: Redact | None = None
    ) -> "Agent":
        """Return a copy of this agent that lives in `engine`, with more observers, and with a hook that is asked after its own."""
        bound = copy.copy(self)
        bound.engine = engine
        bound.redact = chained(self.redact, redact)
        bound._options = {**self._options, "observers": (*self._options.get("observers", ()), *observers)}
        bound._works = {}
        return bound

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self.join(cancel=kind is not None)

    async def join(self, *, cancel: bool = False) -> None:
        """Wait for the end of every run that this agent has going here; with `cancel`, stop them first."""
        if cancel:
            for run in self._works.values():
                run.cancel("the agent was closed")
        for work in list(self._works):
            await work.join()

    # saying something

    async def chat(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        owner: str = "",
        **options: Unpack[RunOptions],
    ) -> str:
        """Say something and return the visible text of the answer, "" where the model refused.

        A caller that is cancelled cancels the run.

        Raises:
            AgentKitError: the run failed; `ModelStreamError.partial` keeps what came.
            ThreadBusy: the thread has a run, and `on_busy` is `reject`.
        """
        return (await self.run(message, thread=thread, on_busy=on_busy, owner=owner, **options)).text

    def stream(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        owner: str = "",
        **options: Unpack[RunOptions],
    ) -> TextIterator:
        """Say something and return an iterator over the visible text. Closing or dropping it stops the run.

        The iterator raises what the run ended with, after all text that came.
        """
        handle = self._handle(self._topic(thread, owner), self._spec(read_input(message), options), on_busy)
        return TextIterator(handle, owns=True)

    async def run(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        owner: str = "",
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Say something, wait for the end, and return all that came. As `chat`, with everything beside the text."""
        handle = self._handle(self._topic(thread, owner), self._spec(read_input(message), options), on_busy)
        async with handle:
            return await handle.result()

    async def start(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        owner: str = "",
        idempotency_key: str = "",
        **options: Unpack[RunOptions],
    ) -> AgentRun:
        """Start a run that goes on whoever watches, and return its handle once the engine knows it.

        With an `idempotency_key`, whoever asks again on this thread learns which run there is, wherever it goes on or has ended.

        Raises:
            AlreadyStarted: the key has a run; its id is in `.run`.
            ThreadBusy: the thread has a run, and `on_busy` is `reject`.
            EngineError: the engine cannot be reached.
        """
        topic = self._topic(thread, owner)
        spec = self._spec(read_input(message), options)
        record = self._record(spec)
        lease: Lease | None = None
        if on_busy == "reject":
            lease = await take_thread(self.engine, topic, record.run)
            if lease is None:
                await self._refuse_again(topic, idempotency_key)
                raise ThreadBusy(f"{topic.path} has a run already")
        try:
            if idempotency_key:
                claimed = await self.engine.threads.claim(topic, idempotency_key, record)
                if claimed != record.run:
                    raise AlreadyStarted(f"run {claimed} was started with this key", run=claimed)
            else:
                await self.engine.threads.put_run(topic, record)
        except BaseException:
            if lease is not None:
                await self.engine.leases.release(lease)
            raise
        handle = self._handle(topic, spec, on_busy, record=record, lease=lease, detached=True)
        await handle.asked()
        return handle

    async def _refuse_again(self, topic: Topic, key: str) -> None:
        claimed = await claimed_run(self.engine, topic, key) if key else None
        if claimed is not None:
            raise AlreadyStarted(f"run {claimed} was started with this key", run=claimed)

    # having a say in a run

    async def cancel(
        self, run: str, *, thread: str = "main", owner: str = "", reason: str = "", mode: CancelMode = "now"
    ) -> None:
        """Stop a run of this agent, in whichever process it goes on or waits; nothing happens if it has ended."""
        record = await self.get_run(run, thread=thread, owner=owner)
        here = self._here(run)
        if here is not None:
            here.cancel(reason, mode=mode)
        elif record is not None and record.status == "suspended":
            handle = await self.resume(run, thread=thread, owner=owner)
            handle.cancel(reason)  # before it has done anything
            with suppress(RunCancelled):
                await handle.result()
        else:
            await self._signal(thread, owner, run, Signal("cancel", {"reason": reason, "mode": mode}))

    async def steer(self, run: str, text: str, *, thread: str = "main", owner: str = "") -> str:
        """Put a user's message into a run at its next step boundary, and return the message's id."""
        steering = new_id("steer")
        await self._signal(thread, owner, run, Signal("steer", {"id": steering, "text": text}))
        return steering

    async def unsteer(self, run: str, steering: str, *, thread: str = "main", owner: str = "") -> None:
        """Take a steering message back, if it has not gone in."""
        await self._signal(thread, owner, run, Signal("unsteer", {"id": steering}))

    async def approve(
        self,
        run: str,
        approval: str,
        *,
        approved: bool = True,
        reason: str = "",
        thread: str = "main",
        owner: str = "",
        **options: Unpack[RunOptions],
    ) -> AgentRun | None:
        """Decide a call that waits for a person; the first decision stands.

        A suspended run goes on once all its calls are decided: then its handle is returned. `options` are those of `resume`.
        """
        topic = self._topic(thread, owner)
        if self._here(run) is None:
            is_whole = await decide(self.engine, topic, run, approval, approved=approved, reason=reason)
        else:
            is_whole = None
        if is_whole is None:
            data: dict[str, JsonValue] = {"approval": approval, "approved": approved, "reason": reason}
            await self.engine.control.send(topic, run, Signal("approve", data))
            if self._here(run) is None:  # it may have gone to sleep meanwhile, and listens no more
                is_whole = await decide(self.engine, topic, run, approval, approved=approved, reason=reason)
        if not is_whole or self._here(run) is not None:
            return None
        return await self.resume(run, thread=thread, owner=owner, **options)

    async def deny(
        self, run: str, approval: str, reason: str = "", *, thread: str = "main", owner: str = ""
    ) -> AgentRun | None:
        """Refuse a call that waits for a person; the model is told the reason."""
        return await self.approve(run, approval, approved=False, reason=reason, thread=thread, owner=owner)

    async def resume(
        self, run: str, *, thread: str = "main", owner: str = "", **options: Unpack[RunOptions]
    ) -> AgentRun:
        """Go on with a suspended run, in this process; calls without a decision ask again.

        Raises:
            ConfigurationError: the run is not suspended.
        """
        topic = self._topic(thread, owner)
        record = await self.engine.threads.get_run(topic, run)
        if record is None or record.status != "suspended" or self._here(run) is not None:
            raise ConfigurationError(f"run {quote(run)} is not suspended")
        spec = replace(
            self._spec([], options),
            resume=True,
            first_step=record.step,
            metadata=record.metadata,
            usage=record.usage,
            text=record.text,
        )
        decided = {approval: Decision(*answer) for approval, answer in record.decisions.items()}
        handle = self._handle(
            topic, spec, "queue", record=record, approvals=Approvals(decided), detached=True
        )
        handle.begin()
        return handle

    # threads

    async def messages(self, *, thread: str = "main", owner: str = "") -> list[Message]:
        """Return the thread's messages, [] for one that was never used."""
        return await self.engine.threads.messages(self._topic(thread, owner))

    async def runs(self, *, thread: str = "main", owner: str = "") -> list[RunRecord]:
        """Return the thread's runs, oldest first."""
        return await self.engine.threads.runs(self._topic(thread, owner))

    async def get_run(self, run: str, *, thread: str = "main", owner: str = "") -> RunRecord | None:
        """Return what is known of a run, or None."""
        return await self.engine.threads.get_run(self._topic(thread, owner), run)

    async def threads(self, *, owner: str = "", after: str = "", limit: int = 50) -> list[ThreadRecord]:
        """Return this agent's threads by name, those after `after`."""
        return await self.engine.threads.threads(owner, self.name, after=after, limit=limit)

    async def describe_thread(
        self,
        *,
        thread: str = "main",
        owner: str = "",
        title: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Set a thread's title, its metadata, or both; None leaves what there is.

        Raises:
            ConfigurationError: the title is no text, or the metadata no JSON.
        """
        if title is not None and not isinstance(title, str):
            raise ConfigurationError(f"a thread's title is text, got {quote(title)}")
        encode(dict(metadata or {}))  # raises where it is not JSON
        await self.engine.threads.describe(self._topic(thread, owner), title=title, metadata=metadata)

    async def fork(self, to: str, *, thread: str = "main", owner: str = "", count: int | None = None) -> None:
        """Begin thread `to` with the first `count` messages of this one (None: all).

        Raises:
            ConfigurationError: the count is no number of messages.
            ThreadBusy: the new thread has a run.
            ThreadExists: the new thread has messages already.
        """
        await fork_thread(self.engine, self._topic(thread, owner), self._topic(to, owner), count)

    async def delete_thread(self, *, thread: str = "main", owner: str = "") -> None:
        """Erase a thread: its runs are stopped, its messages, runs and log go; watchers are told so by the end of their feeds."""
        await erase_thread(self.engine, self._topic(thread, owner))

    # beside runs

    async def emit(self, type: str, data: JsonValue, *, thread: str = "main", owner: str = "") -> str:  # noqa: A002 - the wire's word
        """Publish an application's event on a thread and return its id once it is committed.

        Args:
            type: `[a-z][a-z0-9_.-]{0,63}`, and none of the runtime's own (`run.`, `reasoning`, …).
            data: JSON, 63 KiB at most.
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
        events = redacted(self.redact, [CustomEvent("", 0, clock.time(), type, data)])
        if not events:
            raise ConfigurationError(f"event {type!r} was left out by the redact hook")
        records = await self.engine.log.append(topic, draft_all(topic, events))
        if self.emitter is not None:
            await TeeEmitter(self.emitter).emit(topic, events)
        return records[-1].id

    def as_tool(self, *, name: str = "", description: str = "") -> Tool:
        """Return this agent as a tool of another: its events appear in the other's topic, with `parent`.

        Raises:
            ConfigurationError: the agent has no description, and none is given: a model would not know when to call it.
        """
        words = description or self.description
        if not words:
            raise ConfigurationError(f"agent {self.name!r} needs a description to be a tool")
        return agent_tool(
            name or re.sub(r"[^A-Za-z0-9_-]", "_", self.name)[:64], words, self.name, self._spec
        )

    def _spec(self, messages: list[Message], options: RunOptions, *, thread: str = "") -> RunSpec:
        merged: RunOptions = {**self._options, **options}
        spec = make_spec(self.models, messages, merged, agent=self.name, thread=thread)
        return spec if self.redact is None else replace(spec, redact=self.redact)

    def _record(self, spec: RunSpec) -> RunRecord:
        """Return the record of a run that is about to begin."""
        now = clock.time()
        metadata = spec.metadata
        if spec.redact is not None:
            told = redacted(spec.redact, [RunStarted("", 0, now, self.name, spec.thread, dict(metadata))])
            metadata = next((event.metadata for event in told if isinstance(event, RunStarted)), {})
        return RunRecord(new_id("run"), "queued", now, metadata=metadata)

    def _topic(self, thread: str, owner: str) -> Topic:
        return Topic(owner, self.name, _check_name("thread", thread, _THREAD))

    def _here(self, run: str) -> Run | None:
        """Return the run of that id that goes on in this agent; its record may still say that it is suspended."""
        return next((one for one in self._works.values() if one.id == run and not one.ended), None)

    async def _signal(self, thread: str, owner: str, run: str, signal: Signal) -> None:
        await self.engine.control.send(self._topic(thread, owner), run, signal)

    def _handle(
        self,
        topic: Topic,
        spec: RunSpec,
        on_busy: OnBusy,
        *,
        record: RunRecord | None = None,
        lease: Lease | None = None,
        approvals: Approvals | None = None,
        detached: bool = False,
    ) -> AgentRun:
        if on_busy not in get_args(OnBusy):
            raise ConfigurationError(
                f"unknown on_busy {quote(on_busy)}; known: {', '.join(get_args(OnBusy))}"
            )
        record = record or self._record(spec)
        task = ThreadRun(
            self.engine,
            topic,
            replace(spec, thread=topic.thread, owner=topic.owner),
            record,
            on_busy=on_busy,
            lease=lease,
            listeners=Listeners(self.on_reasoning_event, self.emitter, self.expose_provider_state),
            approvals=approvals,
        )
        works = self._works

        def start(buffer: EventBuffer) -> Work:
            async def work() -> None:
                try:
                    await task.work(buffer)
                finally:
                    works.pop(own[0], None)

            own = [spawn(work, name=f"run {task.run.id}")]
            works[own[0]] = task.run
            return own[0]

        return AgentRun(task.run, topic.thread, start, task.asked, detached=detached)


def _check_name(what: str, name: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(name):
        raise ConfigurationError(f"{what} {quote(name)} does not match {pattern.pattern}")
    return name
