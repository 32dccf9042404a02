"""The tool calls of one step: checked, decided, run in parallel, answered in order.

It knows tools, hooks and approvals, but no model and no store. Whatever happens, each call that the model finished gets exactly one
result, also when the run is cancelled in the middle: then the missing ones are `interrupted`.
"""

import time as clock
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from agentkit.approvals import Approvals, Decision, approval_id
from agentkit.background import Work, spawn
from agentkit.content import JsonValue, TextBlock, ToolResultBlock, ToolUseBlock
from agentkit.errors import HookError, ToolError, quote
from agentkit.events import (
    Event,
    ToolApprovalRequested,
    ToolApprovalResolved,
    ToolExecutionFinished,
    ToolExecutionProgress,
    ToolExecutionStarted,
)
from agentkit.hooks import CallContext, Hooks, ask
from agentkit.observe import UNWATCHED, CallSight, Watch
from agentkit.repair import INTERRUPTED
from agentkit.tool import Tool, ToolContext, result

CANCEL_GRACE = 1.0
"""Seconds that a cancelled tool gets to end; one that ignores it is left behind, so that the run's end is told on time."""


@dataclass(frozen=True, slots=True)
class CallScope:
    """What the calls of a step need to know of their run."""

    run: str
    agent: str
    thread: str
    step: int
    metadata: Mapping[str, JsonValue]
    tools: Mapping[str, Tool]
    hooks: Hooks
    approvals: Approvals
    publish: Callable[[Sequence[Event]], Awaitable[None]]
    host: object
    depth: int = 0
    suspend: bool = False
    """True: do not wait for a person; leave such calls without a result and tell by `pending`."""
    watch: Watch = UNWATCHED


@dataclass(frozen=True, slots=True)
class _Checked:
    tool: Tool
    arguments: Mapping[str, Any]


class StepCalls:
    """Run the calls of one step.

    Attributes:
        results: what each call gave so far, by id; complete after `execute`, but for what is `pending`.
    """

    def __init__(self, scope: CallScope, uses: Sequence[ToolUseBlock]) -> None:
        self._scope = scope
        self._uses = list(uses)
        self._works: list[Work] = []
        self.results: dict[str, ToolResultBlock] = {}
        self._waiting: set[str] = set()

    @property
    def pending(self) -> list[ToolUseBlock]:
        """The calls that wait for a person (only with `suspend`), in their order."""
        return [use for use in self._uses if use.id in self._waiting]

    @property
    def in_order(self) -> list[ToolResultBlock]:
        """The results that there are, in the order of the calls."""
        return [self.results[use.id] for use in self._uses if use.id in self.results]

    async def execute(self) -> None:
        """Run all calls in parallel. When it is cancelled, every call has a result all the same.

        Raises:
            HookError: a hook raised; calls that had begun are stopped.
        """
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                for use in self._uses:
                    group.start_soon(self._one, use)
        except BaseExceptionGroup as errors:
            failure = _first(errors)
            self._interrupt()
            raise failure from None
        except BaseException:
            self._interrupt()
            raise

    def _interrupt(self) -> None:
        for use in self._uses:
            if use.id not in self.results:
                self.results[use.id] = interrupted(use)
        self._waiting.clear()

    async def _one(self, use: ToolUseBlock) -> None:
        ready = await self._ready(use)
        if ready is None:
            return
        if isinstance(ready, ToolResultBlock):
            self.results[use.id] = ready
            return
        outcome = await self._watched(use, ready)
        hook = self._scope.hooks.after_tool
        if hook is not None:
            context = self._context(use, ready.arguments)
            changed = await ask("after_tool", lambda: hook(context, outcome))
            if changed is not None and not isinstance(changed, ToolResultBlock):
                raise HookError(
                    f"hook after_tool must return a ToolResultBlock or None, got {quote(changed)}"
                )
            outcome = outcome if changed is None else replace(changed, tool_use_id=use.id, name=use.name)
        self.results[use.id] = outcome

    async def _ready(self, use: ToolUseBlock) -> _Checked | ToolResultBlock | None:
        """Return what to run, or the result where nothing shall run, or None where a person must decide later."""
        scope = self._scope
        tool = scope.tools.get(use.name)
        if tool is None:
            known = ", ".join(sorted(scope.tools)) or "none"
            return result(use, f"there is no tool {use.name!r}; known: {known}", "error")
        try:
            arguments: Mapping[str, Any] = tool.check(use.input)
        except ToolError as error:
            return result(use, str(error), "error")
        hook = scope.hooks.before_tool
        if hook is not None:
            context = self._context(use, arguments)
            control = await ask("before_tool", lambda: hook(context))
            if control is not None and control.deny is not None:
                return denied(use, control.deny)
            if control is not None and control.result is not None:
                return result(use, control.result)
            if control is not None and control.arguments is not None:
                arguments = _checked_again(tool, control.arguments)
        if await _needs_approval(tool, arguments):
            decision = await self._approved(use)
            if decision is None:
                return None if scope.suspend else interrupted(use)
            if not decision.approved:
                return denied(use, decision.reason)
        return _Checked(tool, arguments)

    async def _approved(self, use: ToolUseBlock) -> Decision | None:
        """Return a person's decision on a call, or None where the run shall be suspended for it, or takes no decisions."""
        scope = self._scope
        approval = approval_id(scope.run, scope.step, use.id)
        decision = scope.approvals.decision(approval)
        if decision is None:
            await self._publish(
                ToolApprovalRequested(
                    scope.run, scope.step, clock.time(), approval, use.id, use.name, use.input
                )
            )
            if scope.suspend:
                self._waiting.add(use.id)
                return None
            decision = await scope.approvals.wait(approval)
            if decision is None:
                return None
        await self._publish(
            ToolApprovalResolved(
                scope.run, scope.step, clock.time(), approval, use.id, decision.approved, decision.reason
            )
        )
        return decision

    async def _watched(self, use: ToolUseBlock, checked: _Checked) -> ToolResultBlock:
        watch = self._scope.watch
        sight = CallSight(watch.sight, self._scope.step, use.id, use.name, use.input, clock.time())
        with watch.call(sight):
            try:
                return await self._run(use, checked)
            finally:
                sight.result = self.results.get(use.id)
                sight.ended = clock.time()

    async def _run(self, use: ToolUseBlock, checked: _Checked) -> ToolResultBlock:
        """Run the function as work of its own, so that one that ignores cancellation does not hold the run."""
        scope = self._scope
        context = ToolContext(
            run=scope.run,
            agent=scope.agent,
            thread=scope.thread,
            step=scope.step,
            call=use.id,
            tool=use.name,
            metadata=scope.metadata,
            depth=scope.depth,
            progress=lambda message, data: self._progress(use, message, data),
            host=scope.host,
        )
        outcome: list[ToolResultBlock] = []

        async def work() -> None:
            outcome.append(await checked.tool.call(use, checked.arguments, context))

        began = clock.time()
        await self._publish(ToolExecutionStarted(scope.run, scope.step, began, use.id, use.name, use.input))
        handle = spawn(work, name=f"tool {use.name} of run {scope.run}")
        try:
            await handle.join()
        finally:
            if not handle.done:
                context.cancelled = True
                handle.cancel()
                # A sub-agent's tools get less, so that the end of its run is told before its caller's.
                with anyio.move_on_after(CANCEL_GRACE / (1 + scope.depth), shield=True):
                    await handle.join()
            block = outcome[0] if outcome else interrupted(use)
            self.results[use.id] = block
            now = clock.time()
            with anyio.CancelScope(shield=True):
                await self._publish(
                    ToolExecutionFinished(
                        scope.run, scope.step, now, use.id, use.name, block.status, now - began
                    )
                )
        return block

    async def _progress(self, use: ToolUseBlock, message: str, data: JsonValue) -> None:
        scope = self._scope
        if use.id in self.results:
            return  # a straggler: its call has ended
        await self._publish(
            ToolExecutionProgress(scope.run, scope.step, clock.time(), use.id, use.name, message, data)
        )

    async def _publish(self, event: Event) -> None:
        await self._scope.publish([event])

    def _context(self, use: ToolUseBlock, arguments: Mapping[str, Any]) -> CallContext:
        scope = self._scope
        return CallContext(scope.run, scope.agent, scope.thread, scope.step, use, arguments, scope.metadata)


def _checked_again(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return tool.fit(arguments)
    except ToolError as error:
        raise HookError(f"hook before_tool gave other arguments: {error}") from error


async def _needs_approval(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    try:
        return await tool.needs_approval(arguments)
    except Exception as error:
        raise HookError(f"requires_approval of {tool.name} raised {type(error).__name__}") from error


def interrupted(use: ToolUseBlock) -> ToolResultBlock:
    """Return the result of a call that was cut short."""
    return ToolResultBlock(use.id, use.name, (TextBlock(INTERRUPTED),), "interrupted")


def denied(use: ToolUseBlock, reason: str) -> ToolResultBlock:
    """Return the result of a call that a person, or a hook, did not allow."""
    said = f"The call was denied: {reason}" if reason else "The call was denied."
    return ToolResultBlock(use.id, use.name, (TextBlock(said),), "denied")


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
