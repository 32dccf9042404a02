"""Observers: who counts, logs or traces runs. They are asked where a run, a step and a call begin, and again where they end.

Pure: no clock (times are given), no tracer. Never asked of a delta: what an observer costs, it costs once a run, step and call. What one
raises is logged and changes nothing for the run; what the run raises it never sees but in the sight.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from agentkit.content import Message, Origin, ToolResultBlock, Usage
from agentkit.model import ModelRequest
from agentkit.redaction import Redact

logger = logging.getLogger("agentkit")


@dataclass(slots=True)
class RunSight:
    """A run, as an observer sees it: what stands below `began` is filled before its context ends."""

    run: str
    agent: str = ""
    thread: str = ""
    owner: str = ""
    depth: int = 0
    """1 for the run of a sub-agent, inside a call of another run."""
    began: float = 0.0
    """Seconds since the epoch; waiting for its thread counts."""
    ended: float = 0.0
    end: str = ""
    """Its termination: `completed`, `failed`, `cancelled`, `suspended`, `limit`, …"""
    error: BaseException | None = None
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    redact: Redact | None = None
    """The run's hook: who keeps what was said asks it first (`agentkit.redaction.redacted_message`)."""


@dataclass(slots=True)
class StepSight:
    """One model request of a run: what stands below `began` is filled before its context ends."""

    run: RunSight
    step: int
    origin: Origin
    """Who was asked; of several models the one that answered, once it has."""
    request: ModelRequest
    began: float
    ended: float = 0.0
    first_reasoning: float | None = None
    """When the first block of thinking began, None where none did."""
    first_text: float | None = None
    """When the first visible text began, None where none did."""
    finish: str = ""
    usage: Usage = field(default_factory=Usage)
    answer: Message | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class CallSight:
    """A tool at work: what stands below `began` is filled before its context ends."""

    run: RunSight
    step: int
    call: str
    name: str
    input: str
    """The arguments as the model wrote them: JSON text."""
    began: float
    ended: float = 0.0
    result: ToolResultBlock | None = None


class Observer:
    """Watches runs. Subclass it and override what you need; each method returns a context that lasts as long as what it is told of."""

    def run(self, sight: RunSight) -> AbstractContextManager[object]:  # noqa: ARG002 - for who overrides it
        """Watch a run. The context is entered and left in the run's own task."""
        return nullcontext()

    def step(self, sight: StepSight) -> AbstractContextManager[object]:  # noqa: ARG002
        """Watch a model request, its retries included."""
        return nullcontext()

    def call(self, sight: CallSight) -> AbstractContextManager[object]:  # noqa: ARG002
        """Watch a tool at work. The tool's function runs in a copy of the context's variables."""
        return nullcontext()

    def headers(self) -> Mapping[str, str]:
        """Return what goes with the provider's request (`traceparent`); asked inside of `step`."""
        return {}

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:  # noqa: ARG002
        """Watch a request of a client to the server; its headers have names in lower case, and no value to be kept."""
        return nullcontext()


@contextmanager
def observing(
    observers: Sequence[Observer], enter: Callable[[Observer], AbstractContextManager[object]]
) -> Iterator[None]:
    """Enter a context of each observer, and leave them in reverse order. One that raises is logged and left out."""
    entered: list[AbstractContextManager[object]] = []
    for observer in observers:
        try:
            context = enter(observer)
            context.__enter__()
        except Exception:
            logger.exception("observer %s failed", type(observer).__name__)
        else:
            entered.append(context)
    try:
        yield
    finally:
        for context in reversed(entered):
            try:
                context.__exit__(None, None, None)
            except Exception:
                logger.exception("an observer failed at an end")


class Watch:
    """The observers of one run."""

    __slots__ = ("_observers", "sight")

    def __init__(self, sight: RunSight, observers: Sequence[Observer] = ()) -> None:
        self.sight = sight
        self._observers = tuple(observers)

    def run(self) -> AbstractContextManager[None]:
        """Watch the run."""
        return observing(self._observers, lambda observer: observer.run(self.sight))

    def step(self, sight: StepSight) -> AbstractContextManager[None]:
        """Watch one of its model requests."""
        return observing(self._observers, lambda observer: observer.step(sight))

    def call(self, sight: CallSight) -> AbstractContextManager[None]:
        """Watch one of its calls."""
        return observing(self._observers, lambda observer: observer.call(sight))

    def headers(self) -> dict[str, str]:
        """Return what goes with the provider's request."""
        out: dict[str, str] = {}
        for observer in self._observers:
            try:
                out.update(observer.headers())
            except Exception:
                logger.exception("observer %s failed", type(observer).__name__)
        return out


UNWATCHED: Final = Watch(RunSight(""))
"""Of a step or call that belongs to no watched run."""
