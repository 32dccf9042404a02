"""One model request of a run: its stream folded and told, with the next model where one fails unseen.

It knows no tools and no store. What came stays readable in `response`, also when `execute` raises.
"""

import time as clock
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from agentkit.accumulators import Response
from agentkit.chunks import Chunk, TextChunk, ThinkingChunk, ToolUseChunk
from agentkit.content import Message, Origin
from agentkit.errors import ModelError, ModelStreamError
from agentkit.events import Event, RunNotice, StepRetrying, StepStarted
from agentkit.model import Model, ModelRequest, Notice, Retry
from agentkit.observe import UNWATCHED, StepSight, Watch
from agentkit.run_spec import Publish
from agentkit.step_events import StepEvents

_PIECES: Final = frozenset({TextChunk, ThinkingChunk, ToolUseChunk})
"""What nearly all reads bring, and nothing else."""


class ModelStep:
    """One request and its answer.

    Attributes:
        origin: who answers.
        response: what has come.
        events: the blocks that watchers have seen begin.
    """

    def __init__(
        self, run: str, number: int, model: Model, publish: Publish, watch: Watch = UNWATCHED
    ) -> None:
        self.run = run
        self.number = number
        self._publish = publish
        self._watch = watch
        self._begin(model)

    def _begin(self, model: Model) -> None:
        self.origin: Origin = model.origin
        self.response = Response(self.origin)
        self.events = StepEvents(self.run, self.number, self.origin.provider)

    def message(self, *, partial: bool = False) -> Message:
        """Return what has come as a message."""
        return self.response.message(run=self.run, partial=partial)

    async def execute(self, models: Sequence[Model], request: ModelRequest) -> Sequence[Model]:
        """Ask the first model; where it fails before anything was visible, the next. Returns the models from the one that answered.

        Raises:
            ModelError: the last one failed, or one failed after something was visible.
        """
        sight = StepSight(self._watch.sight, self.number, self.origin, request, clock.time())
        with self._watch.step(sight):
            try:
                return await self._ask(models, replace(request, trace=self._watch.headers()))
            except BaseException as error:
                sight.error = error
                raise
            finally:
                self._fill(sight)

    def _fill(self, sight: StepSight) -> None:
        """Put in what came."""
        response, first = self.response, self.events.first
        sight.ended = clock.time()
        sight.origin = self.origin
        sight.first_reasoning = first.get(ThinkingChunk)
        sight.first_text = first.get(TextChunk)
        sight.finish = response.finish.reason if response.finish else ""
        sight.usage = response.usage
        sight.answer = self.message(partial=sight.error is not None)

    async def _ask(self, models: Sequence[Model], request: ModelRequest) -> Sequence[Model]:
        await self._publish(
            [StepStarted(self.run, self.number, clock.time(), self.origin.model, self.origin.provider)]
        )
        for position, model in enumerate(models):
            self._begin(model)
            try:
                async with model.stream(request) as stream:
                    while items := await stream.next():
                        await self._take(items)
                self._check()
            except ModelError as error:
                if self.events.blocks or position + 1 == len(models):
                    raise
                await self._tell_fallback(error, models[position + 1].origin)
            else:
                return models[position:]
        raise AssertionError("a run has at least one model")

    def close(self) -> list[Event]:
        """Return the events that close what is open."""
        return self.events.close(clock.time())

    async def _take(self, items: Sequence[Chunk | Notice | Retry]) -> None:
        """Fold and tell what one read brought: nearly always chunks and nothing else."""
        now = clock.time()
        out: list[Event] = []
        if _PIECES.issuperset(map(type, items)):
            chunks = cast("Sequence[Chunk]", items)
            self.response.extend(chunks)
        else:
            chunks = self._fold(items, out, now)
        told = self.events.map(chunks, now)
        if out:
            await self._publish([*out, *told])
        elif told.parts:
            await self._publish(told)

    def _fold(self, items: Sequence[Chunk | Notice | Retry], out: list[Event], now: float) -> list[Chunk]:
        """Fold the chunks and return them; what else there is goes to `out`, as events."""
        chunks: list[Chunk] = []
        for item in items:
            if isinstance(item, (Notice, Retry)):
                out.append(self._told(item, now))
            else:
                self.response.add(item)
                chunks.append(item)
        return chunks

    def _told(self, item: Notice | Retry, now: float) -> Event:
        if isinstance(item, Notice):
            return RunNotice(self.run, self.number, now, item.code, item.message, item.data)
        if self.events.blocks:  # its blocks would come twice under the same ids
            raise ModelStreamError(
                f"{self.origin.provider}: asked again after the answer had begun",
                provider=self.origin.provider,
                model=self.origin.model,
            )
        return StepRetrying(self.run, self.number, now, item.attempt, item.delay, item.code, item.message)

    def _check(self) -> None:
        """Raise what the stream itself said."""
        error = self.response.error
        if error is not None:
            from agentkit.dialects.fault_words import name_fault  # its patterns: most runs have no fault

            raise ModelStreamError(
                f"{self.origin.provider}: {error.message}",
                kind=error.kind,
                provider_code=error.code,
                fault=name_fault(error.code, error.message) if error.kind == "provider" else "",
                partial=self.message(partial=True),
                provider=self.origin.provider,
                model=self.origin.model,
                retryable=error.retryable,
            )

    async def _tell_fallback(self, error: ModelError, to: Origin) -> None:
        said = f"{self.origin.provider}:{self.origin.model} failed ({error.code}), going on with {to.provider}:{to.model}"
        data = {"from": f"{self.origin.provider}:{self.origin.model}", "to": f"{to.provider}:{to.model}"}
        await self._publish(
            [
                RunNotice(
                    self.run, self.number, clock.time(), "model_fallback", said, {**data, "error": str(error)}
                )
            ]
        )
