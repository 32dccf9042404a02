"""What Gemini says in words of its own, and what we make of it: why an answer has ended, and what is wrong with a request.

Pure: tables.
"""

import re
from typing import Final

from agentkit.chunks import FinishReason

FINISH: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "FUNCTION_CALL": "tool_calls",
    "OTHER": "other",
    "FINISH_REASON_UNSPECIFIED": "other",
    "IMAGE_OTHER": "other",
    "NO_IMAGE": "other",
}
"""Reasons that end an answer. Those of `FAILED` are errors; other words are `other`."""

FAILED: Final[dict[str, bool]] = {
    "MALFORMED_FUNCTION_CALL": True,
    "MALFORMED_RESPONSE": True,
    "UNEXPECTED_TOOL_CALL": True,
    "TOO_MANY_TOOL_CALLS": False,
    "MISSING_THOUGHT_SIGNATURE": False,
    "PUP_LIMITED_DISABLED": False,
    "SAFETY": False,
    "RECITATION": False,
    "LANGUAGE": False,
    "BLOCKLIST": False,
    "PROHIBITED_CONTENT": False,
    "SPII": False,
    "IMAGE_SAFETY": False,
    "IMAGE_PROHIBITED_CONTENT": False,
    "IMAGE_RECITATION": False,
    "MODEL_ARMOR": False,
    "ESCALATION": False,
}
"""Reasons with which the answer was broken off, by the model's own fault or by a filter; True: asking again can help."""

FAULTS: Final = (
    ("quota", re.compile(r"RequestsPerDay|TokensPerDay")),  # though the message says "retry in 20s"
    ("unknown_model", re.compile(r"models?/\S+ (?:is|was) not found", re.IGNORECASE)),
    ("context_overflow", re.compile(r"token count .{0,40}exceeds the maximum")),
)
"""What Google says in words of its own, and our words for it; asking again helps with none."""

REFUSED_STATE: Final = re.compile(
    r"(?:corrupted|invalid) thought.?signature|thought.?signature is (?:not valid|invalid)", re.IGNORECASE
)
"""How Google says that a signature does not fit. That one is missing is another fault, which leaving out does not mend."""
