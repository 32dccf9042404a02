"""Tell the tool calls of a chat answer from their fragments.

Pure. Fragments go by index, else by id, else to the last call. An id and a name are set once; empty ones are none. Nothing of a call is
given out before its id and its name are known, because watchers are told both with its first piece; a call that has no id by the end
gets one of our making. Whole arguments that are said again count once, and an empty object that arguments follow was no argument.
"""

import hashlib
import json
import re
from typing import Any, Final

from agentkit.chunks import BlockEndChunk, Chunk, ToolUseChunk
from agentkit.content import valid_text
from agentkit.dialects.base import SurrogateJoiner, state_text
from agentkit.dialects.blocks import Blocks

FORMAT: Final = "openai-chat"
"""The format label of a call's state: its `extra_content`, in which Gemini's chat endpoint puts the signature it wants back."""

_EMPTY: Final = "{}"
"""With it some servers begin the arguments that they stream then; so it is held back until it is known to be all."""

_LEGACY: Final = "function_call"

_MARK: Final = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class _Whole:
    """Tell whether JSON text in pieces has closed all that it opened. Each piece is looked at once, when it is asked for."""

    __slots__ = ("_depth", "_in_string", "_unread", "_whole")

    def __init__(self) -> None:
        self._unread: list[str] = []
        self._depth = 0
        self._in_string = False
        self._whole = False

    def add(self, piece: str) -> None:
        """Take a piece."""
        self._unread.append(piece)

    def __bool__(self) -> bool:
        if self._unread:
            self._read("".join(self._unread))
        return self._whole

    def _read(self, text: str) -> None:
        end = 0
        for match in _MARK.finditer(text):
            end = match.end()
            mark = match.group()
            if mark == '"':
                self._in_string = not self._in_string
            elif self._in_string or mark[0] == "\\":
                continue
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                self._whole = self._whole or self._depth == 0
        # a lone backslash at the end escapes what comes with the next piece
        self._unread = ["\\"] if text.endswith("\\") and end < len(text) else []


class _Call:
    __slots__ = (
        "begun",
        "empty",
        "ended",
        "held",
        "id",
        "index",
        "joiner",
        "name",
        "pieces",
        "size",
        "state",
        "whole",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.begun = False  # something was given out
        self.ended = False
        self.state: str | None = None  # what is to be given out of it
        self.held: list[str] = []
        self.joiner = SurrogateJoiner()
        self.whole = _Whole()
        self.pieces: list[str] = []  # the arguments so far, as they came
        self.size = 0  # characters of them
        self.empty = False  # they are an empty object, which is held back

    def more(self, piece: str) -> str:
        """Take a piece of the arguments and return what of them is to be given out now."""
        if self.empty:
            if not piece.strip():
                return ""
            self.empty = False
            if piece.lstrip().startswith("{"):
                self.pieces.clear()
                self.size, self.whole = 0, _Whole()
            else:
                return self.joiner.feed(_EMPTY + self._taken(piece))
        elif len(piece) == self.size and self.whole and piece == "".join(self.pieces):
            return ""
        self._taken(piece)
        self.empty = len(self.pieces) == 1 and piece == _EMPTY
        return "" if self.empty else self.joiner.feed(piece)

    def rest(self) -> str:
        """Return what was held back of the arguments: no more of them come."""
        if self.empty:
            self.empty = False
            return _EMPTY
        return self.joiner.flush()

    def _taken(self, piece: str) -> str:
        self.pieces.append(piece)
        self.size += len(piece)
        self.whole.add(piece)
        return piece


class ToolCalls:
    """The calls of one answer."""

    __slots__ = ("_at", "_blocks", "_calls", "_changed", "_ids", "_last", "seed")

    def __init__(self, blocks: Blocks) -> None:
        self.seed = ""
        """What tells this answer from others: ids of our making come from it, so that the same bytes read the same."""
        self._blocks = blocks
        self._calls: list[_Call] = []
        self._at: dict[object, _Call] = {}  # by wire index: the last call there
        self._ids: dict[str, _Call] = {}
        self._last: _Call | None = None
        self._changed = False  # since the last `end`

    @property
    def empty(self) -> bool:
        """True until a call has begun."""
        return not self._calls

    def add(self, fragments: list[Any], out: list[Chunk]) -> None:
        """Take the fragments of one delta."""
        for fragment in fragments:
            if isinstance(fragment, dict):
                function = fragment.get("function")
                if not isinstance(function, dict):
                    function = fragment if "name" in fragment or "arguments" in fragment else {}
                extra = fragment.get("extra_content")
                state = state_text(extra) if extra else None
                self._add(fragment.get("index"), _word(fragment.get("id")), function, state, out)

    def add_legacy(self, function: dict[str, Any], out: list[Chunk]) -> None:
        """Take a fragment of `function_call`: the one call that the wire had before there were several, and some still say it twice."""
        if self._calls and _LEGACY not in self._at:
            return
        self._add(_LEGACY, "", function, None, out)

    def end(self, out: list[Chunk], *, cut: bool = False) -> None:
        """The end of all calls was told.

        Args:
            out: where the chunks go.
            cut: the answer was cut by its length: a call whose arguments are not whole is not at its end, also one without any.
        """
        if not self._changed:
            return
        self._changed = False
        for call in self._calls:
            if not call.ended:
                self._release(call, out)
                if not cut or call.whole:
                    call.ended = True
                    out.append(BlockEndChunk(call.index))

    def release(self, out: list[Chunk]) -> None:
        """Give out what was held back, without an end."""
        for call in self._calls:
            self._release(call, out)

    def _add(
        self, place: object, id_: str, function: dict[str, Any], state: str | None, out: list[Chunk]
    ) -> None:
        name = _word(function.get("name"))
        piece = _arguments(function.get("arguments"))
        if not isinstance(place, (int, float, str)):
            place = None
        call = self._continued(place, id_, name, piece)
        begins = call is None
        if call is None:
            if not (id_ or name or piece):
                return
            self._blocks.end(out)
            call = _Call(self._blocks.new())
            self._calls.append(call)
            if id_ in self._ids:  # two calls cannot share an id: results would be told apart by nothing
                id_ = self._new_id(call)
        elif piece:
            self._blocks.end(out)
        self._last = call
        self._changed = True
        if place is not None and (begins or id_ or name):
            self._at[place] = call
        if id_ and not call.id:
            call.id = valid_text(id_)
            self._ids[id_] = call
        call.name = call.name or valid_text(name)
        call.state = state or call.state
        if piece:
            piece = call.more(piece)
        self._give(call, piece, out)

    def _continued(self, place: object, id_: str, name: str, piece: str) -> _Call | None:
        """Return the call that a fragment goes on with, or None where it begins one."""
        call = self._candidate(place, id_, name, piece)
        if call is None or not name or not call.whole:
            return call
        more = piece.strip() != ""  # two whole texts cannot be one call's
        if not id_:
            begins = more
        elif id_ != call.id:
            begins = more or call.id != ""
        else:
            begins = more and place is not None and self._at.get(place) is not call
        return None if begins else call

    def _candidate(self, place: object, id_: str, name: str, piece: str) -> _Call | None:
        last = self._last
        if place is not None:
            call = self._at.get(place) or self._ids.get(id_)
            if call is None and last is not None and not (id_ or name) and last.name and not last.whole:
                # a place of which nothing is known: some servers count the pieces of a call elsewhere than its head
                begins = last.size and piece.lstrip().startswith("{")
                return None if begins else last
            return call
        if id_:
            call = self._ids.get(id_)
            if call is None and last is not None and not name and not last.whole:
                return last  # an id that changes, or comes late: without a name nothing begins inside of arguments
            return call
        if last is not None and name and last.name and name != last.name:
            return None
        return last

    def _give(self, call: _Call, piece: str, out: list[Chunk]) -> None:
        if call.begun:
            if piece or call.state:
                call.ended = False
                out.append(_chunk(call, "", "", piece))
            return
        if piece:
            call.held.append(piece)
        if call.id and call.name:
            self._begin(call, out)

    def _begin(self, call: _Call, out: list[Chunk]) -> None:
        call.begun = True
        out.append(_chunk(call, call.id, call.name, "".join(call.held)))
        call.held.clear()

    def _release(self, call: _Call, out: list[Chunk]) -> None:
        rest = call.rest()
        if not call.begun:
            call.id = call.id or self._new_id(call)
            call.held.append(rest)
            self._begin(call, out)
        elif rest:
            out.append(_chunk(call, "", "", rest))

    def _new_id(self, call: _Call) -> str:
        digest = hashlib.sha256(f"{self.seed}\n{call.index}".encode(errors="replace"))
        return f"call_{digest.hexdigest()[:24]}"


def _chunk(call: _Call, id_: str, name: str, piece: str) -> ToolUseChunk:
    state, call.state = call.state, None
    return ToolUseChunk(id_, name, piece, call.index, "", "", state, FORMAT if state else "")


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """Return arguments as JSON text; some servers send the value itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
