"""Split text at `<think>` and `</think>`.

Pure. It holds back only what may still become a tag (seven characters at most), drops the tags and keeps every other character. Tags do
not nest: inside of thinking only the end tag means something, outside only the start tag.
"""

from typing import Final

_TAGS: Final = ("<think>", "</think>")


class ThinkTags:
    """Tell the thinking from the text of one answer."""

    __slots__ = ("_held", "_inside")

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Return what is certain, in order: pairs of (is thinking, piece), no piece empty."""
        text = self._held + text
        out: list[tuple[bool, str]] = []
        start = 0
        while True:
            tag = _TAGS[self._inside]
            at = text.find(tag, start)
            if at < 0:
                break
            if at > start:
                out.append((self._inside, text[start:at]))
            self._inside = not self._inside
            start = at + len(tag)
        end = _certain(text, start, tag)
        if end > start:
            out.append((self._inside, text[start:end]))
        self._held = text[end:]
        return out

    def release(self) -> list[tuple[bool, str]]:
        """Return what was held back: it did not become a tag."""
        held, self._held = self._held, ""
        return [(self._inside, held)] if held else []


def _certain(text: str, start: int, tag: str) -> int:
    """Return where the tail of `text` begins that may still become `tag`."""
    at = text.rfind("<", max(start, len(text) - len(tag) + 1))  # a tag has one `<`, its first character
    return at if at >= 0 and tag.startswith(text[at:]) else len(text)
