"""Make a long history shorter before it is sent: ready-made values for `compact=`.

Pure. The stored thread is never changed; only what the next request carries is.
"""

from collections.abc import Sequence

from agentkit.content import Message
from agentkit.errors import ConfigurationError
from agentkit.run_spec import Compact


def turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Return the messages cut into turns: what a user said, and all that a run did about it.

    A message that was steered into a run belongs to that run's turn. Calls and their results are never parted. What stands before the
    first user's message is a turn of its own.
    """
    out: list[list[Message]] = []
    for place, message in enumerate(messages):
        if not out or _begins(messages, place):
            out.append([])
        out[-1].append(message)
    return out


def _begins(messages: Sequence[Message], place: int) -> bool:
    if messages[place].role != "user" or messages[place].run:
        return False  # a user's message of a run is the run's own word to its model
    before = messages[place - 1]
    if before.role != "tool" and not (before.role == "user" and before.run):
        return True
    after = next((message for message in messages[place:] if message.run), None)
    return (
        after is None or after.run != before.run
    )  # a run that was cut short after its tools; else it was steered


def keep_turns(count: int) -> Compact:
    """Return a `compact` that keeps the last `count` turns, and the system messages at the beginning.

    Raises:
        ConfigurationError: the count is not positive.
    """
    if count < 1:
        raise ConfigurationError(f"keep_turns takes a positive number, got {count}")

    def compact(messages: Sequence[Message]) -> list[Message]:
        head = 0
        while head < len(messages) and messages[head].role == "system":
            head += 1
        last = turns(messages[head:])[-count:]
        return [*messages[:head], *(message for turn in last for message in turn)]

    return compact
