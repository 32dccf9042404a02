"""What a string-like value of a chat delta holds: some servers send strings, some lists of typed parts.

Pure. Anything else is no text.
"""

from agentkit.chunks import ImageChunk
from agentkit.content import valid_text


def joined_text(value: object) -> str:
    """Return reasoning text: a string, or parts that have some."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(joined_text(part) for part in value)
    if isinstance(value, dict):
        return joined_text(value.get("text") or value.get("content") or value.get("summary"))
    return ""


def image_chunk(url: str, index: int) -> ImageChunk:
    """Return the image at `url`, unpacked where that is a data URL."""
    url = valid_text(url)
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return ImageChunk(head[5:-7], data, "", index)
    return ImageChunk("", "", url, index)
