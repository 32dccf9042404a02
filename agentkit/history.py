"""A thread: the store that keeps its messages, and what a run's record says.

Pure: values and one protocol. What a model may be sent of a thread is `repair`'s matter.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from agentkit.content import (
    Block,
    DocumentBlock,
    ImageBlock,
    JsonValue,
    Message,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from agentkit.errors import ConfigurationError, quote
from agentkit.log import Topic

_SAID = (TextBlock, ImageBlock, DocumentBlock)
_MADE = (TextBlock, ImageBlock, DocumentBlock, ThinkingBlock, ToolUseBlock, RefusalBlock, ProviderBlock)
_BLOCKS: dict[str, tuple[type[Block], ...]] = {
    "system": (TextBlock,),
    "user": _SAID,
    "assistant": _MADE,
    "tool": (ToolResultBlock,),
}


def check_messages(messages: Sequence[Message]) -> None:
    """Let nothing of a wrong type into a thread: every store asks this before it keeps messages.

    Raises:
        ConfigurationError: something is no message, or a message holds what its role cannot say.
    """
    for message in messages:
        if not isinstance(message, Message):
            raise ConfigurationError(f"a thread keeps messages, got {quote(message)}")
        allowed = _BLOCKS.get(message.role)
        if allowed is None or not isinstance(message.content, tuple):
            raise ConfigurationError(f"no message of a thread: role {quote(message.role)} with its content")
        for block in message.content:
            if not isinstance(block, allowed):
                raise ConfigurationError(f"a message of role {message.role} cannot hold {quote(block)}")


def without(messages: Sequence[Message], runs: Collection[str]) -> list[Message]:
    """Return a thread's messages without those of some runs, nor what the user had said to begin them.

    A run that ended before it had an answer left only the user's words: they go where the same words follow.
    """
    out: list[Message] = []
    unanswered = len(set(runs) - {one.run for one in messages})
    place = 0
    while place < len(messages):
        run = messages[place].run
        if run not in runs:
            if unanswered and out and out[-1] == messages[place] and out[-1].role == "user":
                unanswered -= 1
            else:
                out.append(messages[place])
            place += 1
            continue
        while out and out[-1].role == "user" and not out[-1].run:
            out.pop()
        place = 1 + max(number for number, one in enumerate(messages) if one.run == run)
    return out


RunStatus: TypeAlias = Literal["queued", "running", "suspended", "finished", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a store knows of a run. The events tell the rest."""

    run: str
    status: RunStatus
    created: float
    """Seconds since the epoch."""
    ended: float | None = None
    text: str = ""
    refusal: str | None = None
    finish: str = ""
    usage: Usage = field(default_factory=Usage)
    code: str = ""
    """Of a failed run: the error's word."""
    message: str = ""
    """Of a failed or cancelled run: why."""
    retryable: bool = False
    termination: str = ""
    """Of a run that has ended or waits: `completed`, `client_tools`, `stop_condition`, `hook_stop`, `suspended`, `limit`, `failed`, `cancelled`."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    step: int = 0
    """Of a suspended run: the step that waits."""
    pending: tuple[ToolUseBlock, ...] = ()
    """Of a suspended run: the calls that wait for a person."""
    decisions: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    """Of a suspended run: what was decided so far, by the approval's id: approved, reason."""

    @property
    def ended_badly(self) -> bool:
        """True for failed and cancelled runs."""
        return self.status in ("failed", "cancelled")


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """What a store knows of a thread."""

    thread: str
    created: float
    updated: float
    title: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


class ThreadStore(Protocol):
    """Keep threads: messages in order, and the runs that made them. Every method raises `EngineError` if it cannot."""

    async def messages(self, topic: Topic) -> list[Message]:
        """Return the thread's messages, [] for a thread that was never used."""
        ...

    async def extend(self, topic: Topic, messages: Sequence[Message], *, fence: int | None = None) -> None:
        """Add messages at the end, all or none.

        Raises:
            ConfigurationError: something is of a wrong type (see `check_messages`).
            AppendRejected: the lease was lost.
        """
        ...

    async def put_run(self, topic: Topic, record: RunRecord, *, fence: int | None = None) -> None:
        """Keep or replace what is known of a run.

        One that is kept as `queued` must soon ask for its thread's lease. Where its process dies before, it is lost as any other.

        Raises:
            AppendRejected: the lease was lost.
        """
        ...

    async def swap_run(self, topic: Topic, old: RunRecord, new: RunRecord) -> bool:
        """Replace what is known of a run, if that is still `old`; False where it has changed meanwhile, and nothing was done."""
        ...

    async def claim(self, topic: Topic, key: str, record: RunRecord) -> str:
        """Keep a new run under a key of the caller's, unless the key has one; return the id of the run that has it.

        Whoever asks again with the same key gets the same run, for as long as the engine keeps the key (a day, or the thread's life).
        """
        ...

    async def claimed(self, topic: Topic, key: str) -> str | None:
        """Return the id of the run that has the key, or None."""
        ...

    async def get_run(self, topic: Topic, run: str) -> RunRecord | None:
        """Return what is known of a run, or None."""
        ...

    async def runs(self, topic: Topic, *, after: str = "", limit: int | None = None) -> list[RunRecord]:
        """Return the thread's runs, oldest first: all of them, or at most `limit` that were kept after the run `after` ([] if there is none)."""
        ...

    async def describe(
        self, topic: Topic, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
    ) -> None:
        """Set the thread's title, its metadata, or both; None leaves what there is."""
        ...

    async def delete(self, topic: Topic) -> None:
        """Erase the thread: messages, runs, title. The log is the log's to delete."""
        ...

    async def threads(
        self, owner: str, agent: str, *, after: str = "", limit: int = 50
    ) -> list[ThreadRecord]:
        """Return an agent's threads by name, those after `after`."""
        ...
