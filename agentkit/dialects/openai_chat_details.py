"""Merge the `reasoning_details` of a chat answer.

Pure. OpenRouter and those who speak like it send reasoning in pieces of typed entries. Entries of one type, index and id are one block, and
pieces of a text that leave the id out go on with the text before them: pieces are joined, other members set. The merged entry is what must be sent back, so it becomes the block's provider state: a JSON
array of one. Text and signatures go out as they come; the state of an entry with text goes out when the answer is over, because a late
signature belongs to it and because writing it at each delta would cost the square of its length.
Source: openrouter.ai/docs "Reasoning tokens" (excerpts read 2026-11-30); recordings of OpenRouter, Vercel's gateway, Snowflake, Avian.
"""

from typing import Any, Final

from agentkit.chunks import Chunk, ThinkingChunk
from agentkit.dialects.base import SurrogateJoiner, state_text
from agentkit.dialects.blocks import Blocks

FORMAT: Final = "openrouter"
"""The format label of signatures and states that come this way."""

_PIECES: Final = ("text", "summary")
"""Members that come in pieces. An entry has one of them, or none (`reasoning.encrypted`)."""

_LABELS: Final = frozenset({"type", "index", "id", "format"})
"""Members that say what an entry is; an entry of these alone makes no block."""


class _Entry:
    """One entry: its members but for the text, and the pieces of the text."""

    __slots__ = ("index", "joiner", "members", "piece_name", "pieces", "stale")

    def __init__(self) -> None:
        self.index: int | None = None  # None until something came that makes a block
        self.members: dict[str, Any] = {}
        self.piece_name = ""
        self.pieces: list[str] = []
        self.joiner = SurrogateJoiner()
        self.stale = True  # the state that was given out last, if any, is not the whole entry

    def take(self, name: str, value: Any) -> None:
        """Set a member; an empty one sets nothing that is there."""
        if name not in self.members or (value is not None and value != "" and self.members[name] != value):
            self.members[name] = value
            self.stale = True

    def take_piece(self, name: str, piece: str) -> str:
        """Add a piece of text and return what of it is certain."""
        self.members.setdefault(name, "")  # holds its place in the order of members
        self.piece_name = self.piece_name or name
        self.stale = True
        text = self.joiner.feed(piece)
        self.pieces.append(text)
        return text

    def state(self) -> str:
        """Return the merged entry as a JSON array of one."""
        self.stale = False
        if not self.piece_name:
            return state_text([self.members])
        return state_text([{**self.members, self.piece_name: "".join(self.pieces)}])


class ReasoningDetails:
    """The entries of one answer, by type, index and id."""

    __slots__ = ("_blocks", "_entries", "_texts")

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._entries: dict[tuple[object, ...], _Entry] = {}
        self._texts: dict[tuple[object, ...], _Entry] = {}  # by type and index: the last that has text

    @staticmethod
    def speaks(details: list[Any]) -> bool:
        """Tell whether some entry of a delta has text: then the delta's other reasoning fields say it again."""
        for detail in details:
            if isinstance(detail, dict) and (_text(detail.get("text")) or _text(detail.get("summary"))):
                return True
        return False

    def add(self, details: list[Any], out: list[Chunk]) -> None:
        """Take the entries of one delta."""
        for detail in details:
            if isinstance(detail, dict) and detail:
                self._add(detail, out)

    def flush(self, out: list[Chunk]) -> None:
        """Give out what is not told yet: text held back, and the states that have changed."""
        for entry in dict.fromkeys(self._entries.values()):
            if entry.index is None:
                continue
            half = entry.joiner.flush()
            if half:
                entry.pieces.append(half)
            if half or entry.stale:
                summary = entry.piece_name == "summary"
                out.append(ThinkingChunk(half, "", "", entry.state(), FORMAT, entry.index, summary))

    def _add(self, detail: dict[str, Any], out: list[Chunk]) -> None:
        place = (_plain(detail.get("type")), _plain(detail.get("index")))
        entry = self._entry(place, _plain(detail.get("id")))
        text = signature = ""
        for name, value in detail.items():
            if name in _PIECES and isinstance(value, str) and entry.piece_name in ("", name):
                text += entry.take_piece(name, value)
            else:
                if name == "signature" and _text(value) and entry.members.get(name) != value:
                    signature = value
                entry.take(name, value)
        if entry.piece_name:
            self._texts[place] = entry
        fresh = entry.index is None
        if entry.index is None:
            if not any(value for name, value in detail.items() if name not in _LABELS):
                return
            entry.index = self._blocks.new()
        if fresh or text:
            self._blocks.enter(entry.index, out)
        opaque = fresh and not entry.piece_name and not signature
        state = entry.state() if opaque else None
        if text or signature or state:
            out.append(
                ThinkingChunk(
                    text,
                    signature,
                    FORMAT if signature else "",
                    state,
                    FORMAT if state else "",
                    entry.index,
                    entry.piece_name == "summary",
                )
            )

    def _entry(self, place: tuple[object, ...], id_: object) -> _Entry:
        key = (*place, id_)
        last = self._texts.get(place)
        entry = last if id_ is None and last is not None else self._entries.get(key)
        if entry is None:
            late = last is not None and not (last.members.get("id") or last.members.get("signature"))
            entry = self._entries[key] = last if late and last is not None else _Entry()
        return entry


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _plain(value: object) -> object:
    """Return `value` as part of a key; nothing, null and "" are one."""
    if value is None or value == "":
        return None
    return value if isinstance(value, (str, int, float)) else repr(value)
