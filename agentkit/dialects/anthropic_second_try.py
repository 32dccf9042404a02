"""Anthropic Messages, the second try: the same request without thinking that the provider no longer takes.

Pure. Thinking is bound to all that stood before it; where something there has changed (a system prompt, a tool), the provider refuses the
block, and nobody but the provider can know. The refused block and all thinking after it are left out, once; the history stays as it is.
"""

import copy
import re
from typing import Any, Final

from agentkit.dialects.base import HTTPParts
from agentkit.model import Notice

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_ABOUT_THINKING: Final = re.compile(r"thinking", re.IGNORECASE)
_ABOUT_BINDING: Final = re.compile(
    r"signature|bound|binding|prefix|cannot be modified|mismatch", re.IGNORECASE
)
_WHOLE_TURN: Final = re.compile("cannot be modified", re.IGNORECASE)
"""A turn's thinking goes back as a whole, or not at all."""
_PLACE: Final = re.compile(r"messages\.(\d+)\.content\.(\d+)")


def without_refused_thinking(parts: HTTPParts, status: int, message: str) -> HTTPParts | None:
    """Return the request without the refused thinking and all thinking after it.

    Args:
        parts: the request that was refused; it is not changed.
        status: the HTTP status of the answer.
        message: what the answer says: its text as it came will do, gateways wrap it in all ways.

    Returns:
        None where the answer says nothing of the kind, or there is no thinking to leave out: trying again would not help.
    """
    if status != 400 or not (_ABOUT_THINKING.search(message) and _ABOUT_BINDING.search(message)):
        return None
    found = _PLACE.search(message)
    refused = (int(found[1]), int(found[2])) if found else (0, 0)
    if _WHOLE_TURN.search(message):
        refused = (refused[0], 0)
    body = copy.deepcopy(parts.body)
    turns: Any = body.get("messages")
    count = 0
    kept: list[dict[str, Any]] = []
    for position, turn in enumerate(turns):
        content = [
            block
            for place, block in enumerate(turn["content"])
            if not ((position, place) >= refused and block["type"] in _THINKING)
        ]
        count += len(turn["content"]) - len(content)
        if not content:
            continue
        if kept and kept[-1]["role"] == turn["role"]:
            kept[-1]["content"] += content
        else:
            kept.append({**turn, "content": content})
    if not count:
        return None
    turns[:] = kept
    said = f"the provider refused thinking as not fitting what stands before it: {count} blocks were left out, and it was asked again"
    notice = Notice("refused_thinking", said, {"count": count})
    return HTTPParts(parts.path, body, parts.headers, (*parts.notices, notice))
