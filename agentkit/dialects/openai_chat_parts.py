"""What a user says, as content parts of a chat message.

Pure. Text documents become text, which every endpoint reads; other documents become file parts.
"""

import base64
from collections.abc import Iterable
from typing import Any

from agentkit.content import Block, DocumentBlock, ImageBlock, TextBlock, valid_text
from agentkit.dialects.base import Profile
from agentkit.errors import ConfigurationError

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")


def user_parts(content: Iterable[Block], profile: Profile) -> list[dict[str, Any]]:
    """Return the parts of a user message; empty texts make none.

    Raises:
        ConfigurationError: a block cannot stand there, or lacks what the wire needs.
    """
    out: list[dict[str, Any]] = []
    for block in content:
        match block:
            case TextBlock():
                if block.text:
                    out.append({"type": "text", "text": valid_text(block.text)})
            case ImageBlock():
                out.append(image_part(block))
            case DocumentBlock():
                out.append(_document(block, profile))
            case _:
                raise ConfigurationError(f"a {block.type} block cannot stand in a user message")
    return out


def image_part(block: ImageBlock) -> dict[str, Any]:
    """Return an image part.

    Raises:
        ConfigurationError: the block has neither a URL nor data with its type.
    """
    return {"type": "image_url", "image_url": {"url": block.url or _data_url(block)}}


def _document(block: DocumentBlock, profile: Profile) -> dict[str, Any]:
    name = valid_text(block.name)
    if block.data and block.media_type.startswith(_TEXT_TYPES):
        text = _text(block)
        return {"type": "text", "text": f"{name}\n\n{text}" if name else text}
    if block.url and not block.data:
        if not profile.document_urls:
            raise ConfigurationError("the endpoint takes no documents by URL: give the document's data")
        return {"type": "file", "file": {"filename": name or "document", "file_data": block.url}}
    return {"type": "file", "file": {"filename": name or "document", "file_data": _data_url(block)}}


def _text(block: DocumentBlock) -> str:
    try:
        return base64.b64decode(block.data, validate=True).decode()
    except ValueError as error:
        raise ConfigurationError(
            f"document data of type {block.media_type!r} is not base64 of UTF-8 text: {error}"
        ) from None


def _data_url(block: ImageBlock | DocumentBlock) -> str:
    if not block.data:
        raise ConfigurationError(f"a {block.type} block needs data or a url")
    if not block.media_type:
        raise ConfigurationError(f"{block.type} data needs a media_type")
    return f"data:{block.media_type};base64,{block.data}"
