"""What a run is given to begin with: a user's words, results of calls that were left open, or messages as they are.

Pure. What cannot be kept or sent is refused here, before anything is stored. Who may say what is the server's matter.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from agentkit.content import Block, Message, TextBlock, ToolResultBlock, dump_messages, load_messages
from agentkit.errors import AgentKitError, ConfigurationError, quote
from agentkit.history import check_messages

Input: TypeAlias = str | Iterable[Block | Message]
"""Text; blocks of a user (text, images, documents), before them the results of calls that the last run left open; or whole messages,
which go to the thread as they are (a history that was kept elsewhere and ends with what the user, or a tool, said)."""


def read_input(value: Input) -> list[Message]:
    """Return what a run begins with as messages, in their order.

    Raises:
        ConfigurationError: it is none of what it may be, or holds nothing.
    """
    try:
        given = [Message.user(value)] if isinstance(value, str) else list(value)
        messages = load_messages(dump_messages(_messages(given)))
        check_messages(messages)
    except (AgentKitError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"a run begins with text, blocks of a user, results or messages: {quote(str(error))}"
        ) from None
    if not messages or not _says(messages[-1]):
        raise ConfigurationError("the message is empty")
    if messages[-1].role not in ("user", "tool"):
        raise ConfigurationError(f"the last message must be the user's or a tool's, got {messages[-1].role}")
    return messages


def _messages(given: Sequence[Block | Message]) -> list[Message]:
    messages = [one for one in given if isinstance(one, Message)]
    if messages:
        if len(messages) < len(given):
            raise ConfigurationError("messages and blocks do not mix")
        return messages
    results = [one for one in given if isinstance(one, ToolResultBlock)]
    said = [one for one in given if not isinstance(one, ToolResultBlock | Message)]
    out = [Message("tool", tuple(results))] if results else []
    return [*out, Message.user(said)] if said else out


def _says(message: Message) -> bool:
    return any(not isinstance(block, TextBlock) or block.text.strip() for block in message.content)
