"""A run: one answer of an agent, from its start to exactly one terminal event.

The loop: a model request, its tool calls, again, until the model stops calling or something stops it. It knows no store, no log and no
thread: it is given messages and says what happens through `publish` and `save`. It owns its provider stream: no consumer pulls it.
Blocks that are open when the run ends, however it ends, are closed by the run.
"""

import inspect
import logging
import time as clock
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import anyio

from agentkit.approvals import Approvals, Decision
from agentkit.content import JsonValue, Message, RefusalBlock, TextBlock, ToolUseBlock, Usage, valid_text
from agentkit.ending import bad_end
from agentkit.errors import (
    AgentKitError,
    ConfigurationError,
    HookError,
    LimitError,
    ModelStreamError,
    OutputError,
    RunCancelled,
    quote,
)
from agentkit.events import (
    Event,
    RunFinished,
    RunNotice,
    RunResumed,
    RunStarted,
    RunSteered,
    RunSuspended,
    StepFinished,
    ToolResult,
)
from agentkit.history import without
from agentkit.hooks import StepContext, StepControl, ask
from agentkit.limits import StepResult, first_met
from agentkit.model_step import ModelStep
from agentkit.observe import RunSight, Watch
from agentkit.repair import open_calls, repair, runnable, unreadable
from agentkit.run_spec import Prepare, Publish, RunResult, RunSpec, Save, new_id
from agentkit.steering import Steering, SteeringQueue
from agentkit.tool_calls import CallScope, StepCalls

logger = logging.getLogger("agentkit")

CancelMode: TypeAlias = Literal["now", "after_tools", "after_step"]


class Run:
    """One run. Make it, then await `execute` once; `cancel`, `steer` and `approve` are called from the same loop."""

    def __init__(
        self,
        spec: RunSpec,
        publish: Publish,
        save: Save,
        *,
        id: str = "",  # noqa: A002 - the field's word
        prepare: Prepare | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        """Make a run.

        Args:
            spec: what it works on.
            publish: takes its events.
            save: takes its messages.
            id: its id, or "" for a fresh one.
            prepare: awaited first, where it may be cancelled; returns the history that goes before `spec.messages`.
            approvals: what has been decided already, where a suspended run goes on.
        """
        self.id = id or new_id("run")
        self.spec = spec
        self.error: BaseException | None = None
        """What ended the run badly, or None. A caller's own cancellation stands here as `RunCancelled`."""
        self.pending: list[ToolUseBlock] = []
        """The calls that wait for a person, where the run was suspended."""
        self.approvals = approvals or Approvals()
        """What was decided. A sub-agent's run shares its caller's: who may decide knows only the caller."""
        self.is_over = False
        """True once its end is being told: nothing of it is told after that."""
        self._publish = publish
        self._save = save
        self._prepare = prepare
        self._scope = anyio.CancelScope()
        self._cancel_mode: CancelMode | None = None
        self._cancel_reason = ""
        self._models = list(spec.models)
        self._history: list[Message] = []
        self._messages: list[Message] = []
        self._steps: list[StepResult] = []
        self._number = spec.first_step - 1
        self._usage = spec.usage
        self._finish = ""
        self._left: list[ToolUseBlock] = []
        self._steering = SteeringQueue()
        self._termination = ""
        self._reason = ""
        self._output: Any = None
        self._misfits = 0
        self._model_step: ModelStep | None = None
        self._calls: StepCalls | None = None
        sight = RunSight(self.id, spec.agent, spec.thread, spec.owner, spec.depth, redact=spec.redact)
        self._watch = Watch(sight, spec.observers)

    def cancel(self, reason: str = "", *, mode: CancelMode = "now") -> None:
        """Stop the run; it ends with `run.cancelled`. Cancelling again changes nothing, but for a `now` after a softer mode.

        Args:
            reason: for the event and the error.
            mode: `now` reaches the provider's connection and the tools at once; `after_tools` lets tools that are at work end, but no
                model; `after_step` lets the step end.
        """
        if mode not in get_args(CancelMode):
            raise ConfigurationError(
                f"unknown cancel mode {quote(mode)}; known: {', '.join(get_args(CancelMode))}"
            )
        self._cancel_reason = self._cancel_reason or reason
        self._cancel_mode = self._cancel_mode or mode
        if mode == "now" or (mode == "after_tools" and self._calls is None):
            self._scope.cancel()
        else:
            self.approvals.abandon()  # nobody needs to be asked any more

    async def publish(self, events: Sequence[Event]) -> None:
        """Tell events, but for those of a straggler (a tool that ignored its cancellation) after the run's end."""
        if not self.is_over:
            await self._publish(events)

    @property
    def ended(self) -> bool:
        """True once the run has ended here, also where it was suspended."""
        return bool(self._termination) or self.error is not None

    @property
    def number(self) -> int:
        """The step that is at work, or was last; from 1."""
        return self._number

    def steer(self, message: Message, *, id: str = "") -> str:  # noqa: A002 - the field's word
        """Put a user's message in at the next step boundary, and return its id, by which it can be taken back until then."""
        steering = Steering(id or new_id("steer"), message)
        self._steering.put(steering)
        return steering.id

    def unsteer(self, steering: str) -> bool:
        """Take a steering message back; False where it has gone in already, or never was."""
        return self._steering.take_back(steering)

    def approve(self, approval: str, *, approved: bool, reason: str = "") -> bool:
        """Decide a call that waits for a person; the first decision stands. False where it had been decided."""
        return self.approvals.decide(approval, Decision(approved, reason))

    @property
    def result(self) -> RunResult:
        """What there is so far; whole after `execute`."""
        refusals = [b.refusal for m in self._messages for b in m.content if isinstance(b, RefusalBlock)]
        return RunResult(
            self.id,
            self.spec.text + "".join(m.text for m in self._messages if m.role == "assistant"),
            "".join(refusals) if refusals else None,
            tuple(self._messages),
            self._usage,
            self._finish,
            self._termination,
            tuple(self._steps),
            self._output,
            self._reason,
            tuple(self._left),
        )

    async def execute(self) -> RunResult:
        """Work until the end, which is told by exactly one terminal event before this returns or raises.

        The one exception: a run that waits for a person and shall not wait here is told by `run.suspended`, and its termination is
        `suspended`; it goes on in another `Run` of the same id.

        Raises:
            AgentKitError: the run failed; `.partial` of a `ModelStreamError` holds the cut message.
            RunCancelled: it was stopped by `cancel`.
        """
        sight = self._watch.sight
        sight.began = clock.time()
        with self._watch.run():
            try:
                return await self._execute()
            finally:
                sight.ended, sight.end, sight.error = clock.time(), self._termination, self.error
                sight.usage, sight.steps = self._usage, len(self._steps)

    async def _execute(self) -> RunResult:
        try:
            with self._scope:
                await self._work()
            if not self._termination:
                raise RunCancelled(reason=self._cancel_reason)
        except Exception as error:
            await self._end_badly(error)
            raise
        except BaseException:  # the caller's own cancellation stays itself
            if not self._termination:
                await self._end_badly(RunCancelled(reason=self._cancel_reason or "the caller left"))
            raise
        return self.result

    # the loop

    async def _work(self) -> None:
        spec = self.spec
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._prepare is not None:
            self._history = list(await self._prepare())
            await anyio.lowlevel.checkpoint_if_cancelled()
        self._history = without([*self._history, *spec.messages], spec.taken_back)
        now = clock.time()
        left = spec.client_tools or None
        started = RunStarted(self.id, 0, now, spec.agent, spec.thread, dict(spec.metadata), left)
        await self.publish([RunResumed(self.id, 0, now) if spec.resume else started])
        termination = ""
        with anyio.move_on_after(spec.limits.seconds):
            termination = await self._loop()
        if not termination:
            raise LimitError(f"the run took its {spec.limits.seconds} s")
        await self._end_well(termination)

    async def _loop(self) -> str:
        """Return why the run ended well."""
        step = self._waiting_step() if self.spec.resume else None
        while True:
            self._number += 1
            if step is None:
                if await self._may_not_begin():
                    return "hook_stop"
                self.spec.limits.check(self._steps, number=self._number, usage=self._usage)
                step = await self._ask_model()
            uses = step.message.tool_uses
            if not self.spec.tools:
                uses = ()  # whoever gave no tools answers the calls elsewhere: they stand in the result
            self._left = self._leave(uses)
            results = await self._run_calls(uses) if uses else None
            if self.pending:
                return "suspended"
            goes_on = not self._left and (any(use.complete for use in uses) or step.finish == "pause")
            ended = await self._end_step(step, results, goes_on=goes_on)
            if ended:
                return ended
            if self._left:
                self._finish = "tool_calls"  # some providers say `stop` here
                return "client_tools"
            if not goes_on and not self._steering and await self._is_answer(step):
                return "completed"
            step = None

    def _waiting_step(self) -> StepResult:
        """Return the step in which a suspended run stopped: its calls go on, and nobody asks the model again."""
        turn = next((m for m in reversed(self._history) if m.role != "tool"), None)
        if turn is None or turn.run != self.id or not turn.tool_uses:
            raise RunCancelled(reason="the thread went on without this run")
        origin = self._models[0].origin
        return StepResult(self._number + 1, turn, None, Usage(), "tool_calls", origin)

    async def _may_not_begin(self) -> bool:
        """Let steering and the hook in; True where the hook ends the run."""
        if self._cancel_mode is not None:  # a soft one that came after the last step had ended
            raise RunCancelled(reason=self._cancel_reason)
        await self._steer_in()
        hook = self.spec.hooks.before_step
        if hook is None:
            return False
        return await self._obey(await ask("before_step", lambda: hook(self._context())))

    async def _ask_model(self) -> StepResult:
        spec = self.spec
        step = self._model_step = ModelStep(self.id, self._number, self._models[0], self.publish, self._watch)
        messages = repair([*self._history, *self._messages])
        if spec.compact is not None:
            shorter = spec.compact(messages)
            messages = repair(await shorter if inspect.isawaitable(shorter) else shorter)
        request = spec.request(messages, number=self._number)
        self._models = list(await step.execute(self._models, request))
        message = step.message()
        finish = step.response.finish.reason if step.response.finish else ""
        self._model_step = None
        self._usage += step.response.usage
        self._finish = finish
        with anyio.CancelScope(shield=True):
            await self._keep(message)
            if closing := step.close():
                await self.publish(closing)
        return StepResult(self._number, message, None, step.response.usage, finish, step.origin)

    def _leave(self, uses: Sequence[ToolUseBlock]) -> list[ToolUseBlock]:
        """Return the calls of a turn that the caller answers, and has not yet."""
        theirs = self.spec.client_tools
        left = [use for use in runnable(uses) if use.name in theirs]
        return open_calls(left, self._history) if self.spec.resume else left

    async def _run_calls(self, uses: Sequence[ToolUseBlock]) -> Message | None:
        """Run the calls of a turn that are ours and have no result yet, and say of those that cannot be read why they were not run."""
        spec = self.spec
        readable = runnable(uses)
        whole = [use for use in readable if use not in self._left]
        scope = CallScope(
            self.id,
            spec.agent,
            spec.thread,
            self._number,
            spec.metadata,
            spec.tools,
            spec.hooks,
            self.approvals,
            self.publish,
            self,
            spec.depth,
            spec.on_approval == "suspend",
            self._watch,
        )
        self._calls = StepCalls(scope, open_calls(whole, self._history) if spec.resume else whole)
        await self._calls.execute()
        results = await self._close_calls()
        if broken := [use for use in uses if use.complete and use not in readable]:
            # No provider takes such a call back, so that a result would answer nothing: it is said as a message.
            await self._note("\n".join(map(unreadable, broken)))
        return results

    async def _close_calls(self) -> Message | None:
        """Keep and tell the results of the calls at work."""
        calls, self._calls = self._calls, None
        if calls is None:
            return None
        self.pending = calls.pending
        results = calls.in_order
        if not results:
            return None
        message = Message("tool", tuple(results), run=self.id)
        with anyio.CancelScope(shield=True):
            await self._keep(message)
            now = clock.time()
            await self.publish([ToolResult(self.id, self._number, now, result) for result in results])
        return message

    async def _end_step(self, step: StepResult, results: Message | None, *, goes_on: bool) -> str:
        """Tell the step's end, and return why the run ends with it, or ""."""
        spec = self.spec
        self._steps.append(
            StepResult(step.number, step.message, results, step.usage, step.finish, step.origin)
        )
        await self.publish([StepFinished(self.id, self._number, clock.time(), step.finish, step.usage)])
        if self._cancel_mode is not None:
            raise RunCancelled(reason=self._cancel_reason)
        hook = spec.hooks.after_step
        if hook is not None and await self._obey(await ask("after_step", lambda: hook(self._context()))):
            return "hook_stop"
        if goes_on:
            met = await first_met(spec.stop_when, self._steps)
            if met is not None:
                self._reason = met
                return "stop_condition"
        return ""

    async def _is_answer(self, step: StepResult) -> bool:
        """Read the typed answer; False where the model was told what does not fit and shall try again."""
        output = self.spec.output
        if output is None or step.message.refusal is not None:
            return True
        try:
            self._output = output.parse(step.message.text)
        except OutputError as error:
            if self._misfits >= output.retries:
                raise
            self._misfits += 1
            await self._note(str(error))
            return False
        return True

    async def _obey(self, control: StepControl | None) -> bool:
        """Do what a step hook wants; True where the run shall end."""
        if control is None:
            return False
        for message in control.inject:
            if not isinstance(message, Message):
                raise HookError(f"a step hook may inject messages, got {quote(message)}")
            await self._keep(replace(message, run=self.id) if message.role == "user" else message)
        if control.stop:
            self._reason = control.reason
        return control.stop

    async def _steer_in(self) -> None:
        for steering in self._steering.taken():
            now = clock.time()
            with anyio.CancelScope(shield=True):  # what is in the thread has been told
                await self._keep(steering.message)
                await self.publish(
                    [RunSteered(self.id, self._number, now, steering.id, steering.message.text)]
                )

    async def _note(self, text: str) -> None:
        """Tell the model something in the user's place. Such a message has the run: it is not the user's words, and no page shows it so."""
        await self._keep(Message("user", (TextBlock(valid_text(text)),), run=self.id))

    async def _keep(self, message: Message) -> None:
        """Keep a message here and in the store: both or, where the store fails, only here."""
        if message.content:
            self._messages.append(message)
            with anyio.CancelScope(shield=True):
                await self._save([message])

    def _context(self) -> StepContext:
        spec = self.spec
        return StepContext(
            self.id,
            spec.agent,
            spec.thread,
            self._number,
            (*self._history, *self._messages),
            tuple(self._steps),
            spec.metadata,
        )

    # the end

    async def _end_well(self, termination: str) -> None:
        with anyio.CancelScope(shield=True):  # from here on the run has ended well, whoever cancels
            await self._tell_unused_steering()
            self._termination = termination
            result, now = self.result, clock.time()
            end: Event = RunFinished(self.id, 0, now, result.text, result.finish, result.usage, termination)
            if termination == "suspended":
                end = RunSuspended(self.id, 0, now, "approval")
            self.is_over = True
            await self._publish([end])

    async def _tell_unused_steering(self) -> None:
        if self._steering:
            ids: list[JsonValue] = [steering.id for steering in self._steering.taken()]
            said = "the run ended before its next step: these messages did not go in"
            await self.publish(
                [RunNotice(self.id, self._number, clock.time(), "steering_unused", said, {"ids": ids})]
            )

    async def _end_badly(self, error: BaseException) -> None:
        """Close what is open, keep the partial answer, and tell the end, whatever else breaks."""
        self.error = error
        with anyio.CancelScope(shield=True):
            if not self.is_over:
                await self._close_model_step(error)
                await self._guard(error, self._close_calls())
                await self._guard(error, self._tell_unused_steering())
            self.is_over = True
            self._termination, end = bad_end(self.id, clock.time(), error, self._usage, self.result.text)
            await self._guard(error, self._publish([end]))

    async def _close_model_step(self, error: BaseException) -> None:
        step, self._model_step = self._model_step, None
        if step is None:
            return
        self._usage += step.response.usage
        message = step.message(partial=True)
        if isinstance(error, ModelStreamError | RunCancelled) and error.partial is None and message.content:
            error.partial = message
        await self._guard(error, self._keep(message))
        if closing := step.close():
            await self._guard(error, self.publish(closing))

    async def _guard(self, error: BaseException, part: Awaitable[object]) -> None:
        """Do one part of a bad end; what it raises is noted on the error, so that the other parts are done too."""
        try:
            await part
        except Exception as failure:
            error.add_note(f"the end was not told or kept whole: {type(failure).__name__}: {failure}")
            if not isinstance(failure, AgentKitError):
                logger.exception("the end of run %s was not told or kept whole", self.id)
