"""What every provider asks of a history, in no dialect: the rules that a request is checked against.

Not here: a dialect's own rules (signatures, ids, empty content); they stand with the dialects' tests.
"""

from collections.abc import Sequence

from agentkit import Message, ToolResultBlock
from agentkit.history import check_messages
from agentkit.repair import is_whole


def faults(messages: Sequence[Message]) -> list[str]:
    """Return what is wrong with the messages of a request, [] where nothing is."""
    check_messages(messages)
    out: list[str] = []
    owed: list[str] = []
    for place, message in enumerate(messages):
        if not message.content:
            out.append(f"{place}: empty")
        results = [block.tool_use_id for block in message.content if isinstance(block, ToolResultBlock)]
        if results != owed:
            out.append(f"{place}: results {results}, owed {owed}")
        calls = message.tool_uses
        owed = [call.id for call in calls]
        if len(set(owed)) != len(owed):
            out.append(f"{place}: two calls of one id: {owed}")
        out += [f"{place}: broken call {call.id!r}" for call in calls if not is_whole(call)]
        empty = [b.tool_use_id for b in message.content if isinstance(b, ToolResultBlock) and not b.content]
        out += [f"{place}: empty result of {call!r}" for call in empty]
    if owed:
        out.append(f"end: no results for {owed}")
    if not messages or messages[-1].role not in ("user", "tool"):
        out.append("end: nothing that the model could answer")
    return out
