"""What routes and sockets share: find a thread, start a run, stop it, wait for it, and let all go at the end.

It speaks no HTTP; what it refuses is a `ProblemError`. Whose thread it is, and who may do what, was decided before: in `access`.
"""

import copy
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import anyio

from agentkit.agent import Agent
from agentkit.approvals import approval_id
from agentkit.background import Work, spawn
from agentkit.content import JsonValue, Message
from agentkit.engine import Engine, Signal
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import AlreadyStarted, ConfigurationError, ThreadBusy
from agentkit.history import RunRecord
from agentkit.input import Input
from agentkit.log import Topic
from agentkit.observe import Observer, observing
from agentkit.options import RunOptions
from agentkit.reasoning import parse_reasoning
from agentkit.redaction import Redact, redacted_message
from agentkit.thread_run import AgentRun
from agentkit_server.auth import Auth, NoAuth
from agentkit_server.directory import AgentDirectory, Entry
from agentkit_server.identity import Identity
from agentkit_server.limits import Rate, RunLimits, Stays
from agentkit_server.run_end import until_end
from agentkit_server.settings import Settings
from agentkit_server.tickets import Tickets
from agentkit_transports.asgi import Scope
from agentkit_transports.hub import Hub
from agentkit_transports.problem import Problem, ProblemError

logger = logging.getLogger("agentkit.server")

NAME = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,127}", re.ASCII)
"""Of agents, threads and runs in paths: what `Agent` takes of a thread."""
THREAD = "/v1/agents/{agent}/threads/{thread}"
"""Path of a thread, as routes write it."""
ENDED = frozenset({"finished", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run that a client asks for, checked."""

    input: Input
    """What the user said, results of calls that the last run left open, or whole messages."""
    reasoning: Mapping[str, JsonValue] | None = None
    queue: bool = False
    """True: wait for the thread's run. False: refuse if it has one."""
    metadata: dict[str, JsonValue] | None = None
    key: str = ""
    """Idempotency key: the same one on the same thread gives the same run. "" for none."""
    options: RunOptions = field(default_factory=RunOptions)
    """What else the protocol lets a client say of a run (`client_tools`, `max_tokens`, …), checked by the route."""


@dataclass(frozen=True, slots=True)
class Started:
    """The run that a client asked for."""

    run: str
    fresh: bool
    """False: it was started before with the same key."""


class Service:
    """One server's agents, engine and hub."""

    def __init__(
        self,
        directory: AgentDirectory,
        engine: Engine,
        hub: Hub,
        settings: Settings,
        *,
        auth: Auth | None = None,
        clock: Callable[[], float] = time.time,
        observers: Sequence[Observer] = (),
        redact: Redact | None = None,
    ) -> None:
        self.directory = directory
        self.engine = engine
        self.hub = hub
        self.settings = settings
        self.auth = auth or NoAuth()
        self.clock = clock
        """Seconds since the epoch: what tokens count by."""
        self._observers = observers
        self._redact = redact
        self.draining = False
        self._runs: dict[str, tuple[AgentRun, Work]] = {}
        self._is_fleeting = False
        self.tickets = Tickets(engine, settings, clock)
        may_watch = None if self.auth.is_open else self._may_watch
        self.stays = Stays(settings, clock, may_watch, self.tickets.is_open)
        self.run_limits = RunLimits(settings)
        self._requests = Rate(
            settings.request_rate,
            settings.request_burst,
            f"you may make {settings.request_rate:g} requests a second",
        )

    def fleeting(self) -> "Service":
        """Return a service of the same agents for one request without a thread: what it keeps is gone with it, and no list shows it.

        A drain of this service waits for its runs too.
        """
        other = copy.copy(self)
        engine = MemoryEngine()
        other.engine, other.hub = engine, Hub(engine.log, settings=self.hub.settings)
        other._is_fleeting = True
        return other

    async def _may_watch(self, identity: Identity, topic: Topic) -> bool:
        return await self.auth.authorize(identity, "read", topic.agent, topic.thread)

    @property
    def going(self) -> int:
        """How many runs go on here."""
        return len(self._runs)

    def topic(self, agent: str, thread: str, owner: str = "") -> Topic:
        """Return a thread's topic. A thread that was never used is an empty one. Routes ask `access.topic_of`, which knows the owner.

        Raises:
            ProblemError: 404 for an unknown agent, 400 for what cannot be a thread's name.
        """
        self.entry(agent)
        if not NAME.fullmatch(thread):
            raise ProblemError(
                Problem(400, "malformed", f"a thread's name matches {NAME.pattern}", field="thread")
            )
        return Topic(owner, agent, thread)

    def entry(self, agent: str) -> Entry:
        """Return an agent's entry.

        Raises:
            ProblemError: 404.
        """
        entry = self.directory.find(agent)
        if entry is None:
            raise ProblemError(Problem(404, "not_found", "no such agent", field="agent"))
        return entry

    def shown(self, agent: str, message: Message) -> Message:
        """Return a message as clients may see it: as its events were told."""
        entry = self.directory.find(agent)
        bound = entry.agent if entry is not None else None
        return redacted_message(bound.redact if bound is not None else self._redact, message)

    def count_request(self, identity: Identity) -> None:
        """Count a request, or a socket's handshake, of somebody who is known.

        Raises:
            ProblemError: 429, it makes too many a second.
        """
        if not identity.is_anyone:
            self._requests.take(identity)

    def observing(self, scope: Scope) -> AbstractContextManager[None]:
        """Return the context in which a request is answered: whoever traces goes on with the client's trace there."""
        if not self._observers:
            return nullcontext()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        return observing(self._observers, lambda observer: observer.request(headers))

    async def start(self, topic: Topic, order: RunOrder) -> Started:
        """Start a run, which goes on whoever leaves, or find the one that has the order's key.

        Raises:
            ProblemError: 409 busy thread, 429 too many runs or threads, 422 impossible reasoning or message, 503 agent not available or
                server draining.
            EngineError: the engine cannot be reached.
        """
        agent = self._usable(topic.agent)
        options = RunOptions(**order.options)
        options["metadata"] = dict(order.metadata or {})
        if order.reasoning is not None:
            options["reasoning"] = order.reasoning
        try:
            parse_reasoning(order.reasoning)
        except ConfigurationError as error:
            raise ProblemError(Problem(422, "invalid", str(error), field="reasoning")) from None
        try:
            with self.run_limits.beginning(topic.owner):
                if not self._is_fleeting:  # there is no thread to count, and none are found on its engine
                    await self.run_limits.admit_thread(self.engine, topic)
                handle = await agent.start(
                    order.input,
                    thread=topic.thread,
                    owner=topic.owner,
                    on_busy="queue" if order.queue else "reject",
                    idempotency_key=order.key,
                    **options,
                )
                self._hold(handle, topic.owner)
        except ProblemError:  # too many; but who asks again gets what there is
            run = await self.engine.threads.claimed(topic, order.key) if order.key else None
            if run is None:
                raise
            return Started(run, fresh=False)
        except AlreadyStarted as error:
            return Started(error.run, fresh=False)
        except ThreadBusy as error:
            raise ProblemError(Problem(409, error.code, str(error))) from None
        except ConfigurationError as error:  # the agent's own options were checked when it was made
            field = "" if order.options else "input"
            raise ProblemError(Problem(422, "invalid", str(error), field=field)) from None
        await anyio.lowlevel.checkpoint()  # the run is listening for a cancel from its first step on
        return Started(handle.id, fresh=True)

    def _hold(self, handle: AgentRun, owner: str) -> None:
        """Know a run that goes on here, so that a drain can wait for it."""
        self.run_limits.begin(owner)
        work = handle.begin()
        self._runs[handle.id] = handle, work
        spawn(lambda: self._forget(handle.id, work, owner), name=f"end of {handle.id}")

    async def steer(self, topic: Topic, run: str, text: str) -> str:
        """Put a user's message into a run at its next step boundary, and return the message's id. The outcome is an event.

        Raises:
            ProblemError: 404, 409 the run has ended, or waits for a person in no process.
        """
        record = await self.record(topic, run)
        if record.status in ENDED or record.status == "suspended":
            raise ProblemError(
                Problem(409, "not_running", f"the run is {record.status}: it takes no message")
            )
        return await self._usable(topic.agent).steer(run, text, thread=topic.thread, owner=topic.owner)

    async def approve(
        self,
        topic: Topic,
        run: str,
        approval: str,
        *,
        approved: bool,
        reason: str = "",
        options: RunOptions | None = None,
        steering: str = "",
    ) -> RunRecord:
        """Decide a call that waits for a person; the first decision stands. The outcome is an event.

        Args:
            topic: the thread.
            run: the run that waits.
            approval: which of its calls.
            approved: the decision.
            reason: told to the model where the call is denied.
            options: for a suspended run that goes on with this decision: what was said of it when it began.
            steering: for such a run: what the user says beside it; it goes in before the model is asked again.

        Raises:
            ProblemError: 404, no such run, or no such approval of a suspended one.
        """
        record = await self.record(topic, run)
        if record.status == "suspended":
            asked = {approval_id(run, record.step, use.id) for use in record.pending}
            if approval not in asked:
                raise ProblemError(
                    Problem(404, "not_found", "no such approval of this run", field="approval")
                )
        if record.status not in ENDED:
            agent = self._usable(topic.agent)
            resumed = await agent.approve(
                run,
                approval,
                approved=approved,
                reason=reason,
                thread=topic.thread,
                owner=topic.owner,
                **(options or {}),
            )
            if resumed is not None:
                if steering:
                    resumed.steer(steering)
                self._hold(resumed, topic.owner)
        return record

    async def cancel(self, topic: Topic, run: str, reason: str = "") -> RunRecord:
        """Ask a run to stop, and return what is known of it now. One that has ended stays as it is.

        Raises:
            ProblemError: 404.
        """
        record = await self.record(topic, run)
        said = reason or "a client asked"
        if record.status == "suspended":
            await self._usable(topic.agent).cancel(run, thread=topic.thread, owner=topic.owner, reason=said)
        elif record.status not in ENDED:
            await self.engine.control.send(topic, run, Signal("cancel", {"reason": said}))
        return record

    async def record(self, topic: Topic, run: str) -> RunRecord:
        """Return what is known of a run.

        Raises:
            ProblemError: 404, no such run on this thread.
        """
        record = await self.find(topic, run)
        if record is None:
            raise ProblemError(Problem(404, "not_found", "no such run on this thread", field="run"))
        return record

    async def find(self, topic: Topic, run: str) -> RunRecord | None:
        """Return what is known of a run, None for what is no run of this thread."""
        return await self.engine.threads.get_run(topic, run) if NAME.fullmatch(run) else None

    async def has_ended(self, topic: Topic, run: str) -> bool:
        """Tell whether a run has ended.

        Raises:
            ProblemError: 404.
        """
        return (await self.record(topic, run)).status in ENDED

    def end_of(self, topic: Topic, run: str) -> Callable[[], Awaitable[bool]]:
        """Return the question whether a run has ended."""
        return lambda: self.has_ended(topic, run)

    async def wait(self, topic: Topic, run: str, seconds: float) -> RunRecord:
        """Return what is known of a run once it has ended, or after `seconds`.

        Raises:
            ProblemError: 404.
        """
        with anyio.move_on_after(seconds):
            await until_end(await self.engine.log.tail(topic), run, self.end_of(topic, run))
        return await self.record(topic, run)

    async def drain(self) -> None:
        """Let runs finish, or cancel them; then say farewell to every watcher. It ends within the settings' two timeouts and a little."""
        self.draining = True
        with anyio.move_on_after(self.settings.drain_timeout):
            for _, work in list(self._runs.values()):
                await work.join()
        for handle, _ in list(self._runs.values()):
            handle.cancel("the server stops")
        with anyio.move_on_after(self.settings.farewell_timeout):
            for _, work in list(self._runs.values()):
                await work.join()
        for handle, work in [one for one in self._runs.values() if not one[1].done]:
            logger.error("run %s did not stop and was abandoned", handle.id)
            work.cancel()
        aborted = await self.hub.drain(grace=self.settings.farewell_timeout)
        if aborted:
            logger.warning("%d connections did not take their farewell and were dropped", aborted)

    async def _forget(self, run: str, work: Work, owner: str) -> None:
        """Let go of a run once it has ended: its handle holds all that it said."""
        await work.join()
        del self._runs[run]
        self.run_limits.end(owner)

    def _usable(self, name: str) -> Agent:
        if self.draining:
            raise ProblemError(Problem(503, "draining", "the server stops; ask again", retry_after_ms=2000))
        entry = self.entry(name)
        if entry.agent is None:
            raise ProblemError(
                Problem(503, "agent_unavailable", entry.note or "not available", field="agent")
            )
        return entry.agent.bind(self.engine) if self._is_fleeting else entry.agent


def failure(record: RunRecord) -> Problem | None:
    """Return the problem that a run's bad end is to somebody who waits for its answer, or None for a good end."""
    match record.status:
        case "failed":
            status = 502 if record.code.startswith("model") else 500
            return Problem(status, record.code or "failed", record.message)
        case "cancelled":
            return Problem(409, "cancelled", record.message)
        case _:
            return None
