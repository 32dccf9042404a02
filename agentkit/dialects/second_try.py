"""The second try of dialects whose provider refuses replay state of its own: the same request without any.

Pure. A provider that cannot check a signature or decipher a state any more says so, but not always which; so all of it is left out, once, and
text, calls and results stay. The history is not changed.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from agentkit.content import Block, TextBlock, ThinkingBlock, ToolUseBlock
from agentkit.dialects.base import HTTPParts, Target
from agentkit.model import ModelRequest, Notice


def without_replay_state(
    encode: Callable[[ModelRequest, Target], HTTPParts],
    request: ModelRequest,
    target: Target,
    refusal: re.Pattern[str],
    status: int,
    body: str,
) -> HTTPParts | None:
    """Return the request without signatures and states, or None where the answer is about something else or there is none to leave out.

    Args:
        encode: the dialect's encoder.
        request: what was asked.
        target: who was asked.
        refusal: the words by which the provider refuses replay state.
        status: the HTTP status of the answer.
        body: the answer's text.
    """
    if status != 400 or not refusal.search(body):
        return None
    first = encode(request, target)
    messages = [replace(m, content=tuple(map(_disowned, m.content))) for m in request.messages]
    second = encode(replace(request, messages=messages, foreign="drop"), target)
    if second.body == first.body:
        return None
    said = "the provider refused what it had sent with its thinking: all of that was left out, and it was asked again"
    return replace(second, notices=(*first.notices, Notice("refused_thinking", said)))


def _disowned(block: Block) -> Block:
    """Return the block as it may go to anybody."""
    match block:
        case ThinkingBlock():
            return replace(block, origin=None)
        case TextBlock() | ToolUseBlock() if block.signature:
            return replace(block, signature="", signature_format="")
        case _:
            return block
