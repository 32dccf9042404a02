"""How a run's bad end is said: why it ended, and the one event that tells it.

Pure. Who tells it, and what is closed and kept before, is `run`'s matter.
"""

from typing import TypeAlias

from agentkit.content import Usage
from agentkit.errors import AgentKitError, LimitError, ModelError, RunCancelled
from agentkit.events import RunCancelledEvent, RunFailed

BadEnd: TypeAlias = RunFailed | RunCancelledEvent


def bad_end(run: str, time: float, error: BaseException, usage: Usage, text: str) -> tuple[str, BadEnd]:
    """Return the termination and the terminal event of a run that `error` ended.

    A stranger's exception is told by its type alone: its words may hold anything.
    """
    if isinstance(error, RunCancelled):
        return "cancelled", RunCancelledEvent(run, 0, time, error.reason, usage, text, error)
    if not isinstance(error, AgentKitError):
        return "failed", RunFailed(run, 0, time, "internal", type(error).__name__, False, usage, text, error)
    retryable = isinstance(error, ModelError) and error.retryable
    termination = "limit" if isinstance(error, LimitError) else "failed"
    return termination, RunFailed(run, 0, time, error.code, str(error), retryable, usage, text, error)
