"""The items of one Responses answer: which are known, what of them was given out, and what each holds once it is whole.

Pure. Items are told apart by `output_index`, because some servers change an item's id in every event; where there is no index, by the
id; where there is neither, by kind. What an item holds is settled by its `output_item.done`: its state is kept from there and from
nowhere else, because `encrypted_content` stands in three events with three different texts; only where it is missing there, the final
response is asked for it.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ImageChunk,
    ProviderChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
)
from agentkit.content import valid_text
from agentkit.dialects.base import SurrogateJoiner, json_text, made_id, state_text
from agentkit.dialects.places import Places
from agentkit.errors import WireError, quote

NAME: Final = "openai-responses"

CUT: Final = frozenset({"incomplete", "in_progress"})
"""Statuses of a call that a limit cut short: it has an end, and must not be run."""


@dataclass(slots=True)
class Part:
    """One content part of a message: a block of ours."""

    index: int
    refusal: bool
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)

    def chunk(self, text: str) -> Chunk:
        """Return a piece of this part."""
        return RefusalChunk(text, self.index) if self.refusal else TextChunk(text, self.index)


@dataclass(slots=True)
class Item:
    """An item that was seen."""

    kind: str
    index: int
    """Of its first block, set aside when the item was first seen, so that blocks keep the order of items."""
    id: str
    added: bool = False
    done: bool = False
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)
    streamed: bool = False
    """A call whose arguments were given out already."""
    call_id: str = ""
    runnable: bool = False
    """A call that came whole."""
    sealed: bool = False
    """Reasoning whose state can be sent to who keeps nothing."""
    says: Literal["", "summary", "text"] = ""
    """Which of the two forms of its reasoning is given out."""
    part: int = -1
    """The summary part that is being written."""
    shown: int = -1
    """The summary part whose text was given out last."""
    parts: dict[tuple[int, bool], Part] = field(default_factory=dict)
    """Of a message, by (content index, is a refusal)."""
    content: int = -1
    """Of a message: the content part that is being written, where the wire has no content index. Of reasoning: the part that came last
    as a whole."""

    def summary(self, text: str) -> ThinkingChunk:
        """Return a piece of the summary part that is being written.

        Parts are paragraphs of one text; apart they stay in the item's state, and by `part`.
        """
        if self.shown not in (-1, self.part):
            text = f"{self.joiner.flush()}\n\n{self.joiner.feed(text)}"
        else:
            text = self.joiner.feed(text)
        self.shown = self.part
        return ThinkingChunk(text, "", "", None, "", self.index, True, self.part)


class Items:
    """The items of one answer, in the order in which they were first seen."""

    __slots__ = ("_by_id", "_open", "_places", "all", "by_index")

    def __init__(self) -> None:
        self.all: list[Item] = []
        self.by_index: dict[int, Item] = {}
        """By `output_index`; the latest that had it."""
        self._by_id: dict[str, Item] = {}
        self._open: dict[str, Item] = {}  # the item of each kind that began last and is not done
        self._places = Places()

    def begin(self, kind: str, output_index: object, item_id: object) -> Item:
        """Take a new item."""
        index = self._places.at(output_index) if type(output_index) is int else self._places.new()
        item = Item(kind, index, valid_text(item_id) if type(item_id) is str else "")
        self.all.append(item)
        self._open[kind] = item
        if type(output_index) is int:
            self.by_index[output_index] = item
        if item.id:
            self._by_id[item.id] = item
        return item

    def added(self, kind: str, output_index: object, item_id: object) -> Item:
        """Return the item that the wire says begins now; deltas may have come before."""
        item = self.by_index.get(output_index) if type(output_index) is int else None
        if item is None and type(item_id) is str:
            item = self._by_id.get(item_id)
        if item is None or item.added or item.done or item.kind != kind:
            item = self.begin(kind, output_index, item_id)
        elif type(output_index) is int:
            self.by_index[output_index] = item
        item.added = True
        return item

    def find(self, event: dict[str, Any], kind: str) -> Item:
        """Return the item that an event is about; a server that never said that it begins is believed now."""
        output_index = event.get("output_index")
        if type(output_index) is int:
            item = self.by_index.get(output_index)
            if item is not None and item.kind == kind:
                return item
        item_id = event.get("item_id")
        if type(item_id) is str:
            item = self._by_id.get(item_id)
            if item is not None and item.kind == kind:
                return item
        call_id = event.get("call_id")
        if type(call_id) is str and call_id:
            for item in self.all:
                if item.call_id == call_id:
                    return item
        item = self._open.get(kind)
        if item is not None and type(output_index) is not int:
            return item
        return self.begin(kind, output_index, item_id)

    def silent(self, event: dict[str, Any], kind: str) -> Item | None:
        """Return the item of which an event tells something whole, or None where the item was told already."""
        known = len(self.all)
        item = self.find(event, kind)
        again = len(self.all) > known and any(before.kind == kind for before in self.all[:known])
        if item.done or (again and type(event.get("output_index")) is not int):
            return None
        return item

    def whole(self, kind: str, output_index: object, item_id: object) -> Item:
        """Return the item that the wire says is whole."""
        item = self.by_index.get(output_index) if type(output_index) is int else None
        if item is None or item.kind != kind or item.done:
            item = self._by_id.get(item_id) if type(item_id) is str else None
            if item is None or item.kind != kind:
                item = self._open.get(kind)
        return item or self.begin(kind, output_index, item_id)

    def part(self, item: Item, content: int, *, refusal: bool) -> Part:
        """Return a content part of a message; a new one takes the next block."""
        part = item.parts.get((content, refusal))
        if part is None:
            index = self._places.new() if item.parts else item.index
            part = item.parts[content, refusal] = Part(index, refusal)
        return part

    def finish(self, item: Item, whole: dict[str, Any]) -> list[Chunk]:
        """Take an item as it is now whole, and return what was not streamed of it, its state, and its end."""
        out: list[Chunk] = []
        release(item, out)
        item.done = True
        if self._open.get(item.kind) is item:
            del self._open[item.kind]
        match item.kind:
            case "reasoning":
                _finish_reasoning(item, whole, out)
            case "message":
                self._finish_message(item, whole, out)
            case "function_call":
                _finish_call(item, whole, out)
            case _:
                out.append(ProviderChunk(valid_text(item.kind), state_text(whole), NAME, item.index))
                out.append(BlockEndChunk(item.index))
                if item.kind == "image_generation_call" and (data := text_of(whole, "result")):
                    # shown; the item itself, which goes back, is kept beside it
                    media_type = f"image/{text_of(whole, 'output_format') or 'png'}"
                    index = self._places.new()
                    out += [ImageChunk(media_type, data, "", index), BlockEndChunk(index)]
        return out

    def rest(self, output: object) -> list[Chunk]:
        """Read of the final response what never came as an event: whole items, or the end of some. Nothing is read twice.

        The items of the stream and of the final list are the same in the same order, but for their ids; calls have ids that hold.
        """
        out: list[Chunk] = []
        queues: dict[str, list[Item]] = {}
        for item in reversed(self.all):
            queues.setdefault(item.kind, []).append(item)
        calls = {item.call_id: item for item in self.all if item.call_id}
        for whole in objects_of(output):
            kind = kind_of(whole)
            queue = queues.get(kind, [])
            known = calls.get(text_of(whole, "call_id")) if kind == "function_call" else None
            if known is None and queue and not (kind == "function_call" and queue[-1].call_id):
                known = queue.pop()
            known = known or self.begin(kind, None, whole.get("id"))
            if not known.done:
                out += self.finish(known, whole)
            elif kind == "reasoning" and whole.get("encrypted_content") and not known.sealed:
                known.sealed = True
                out.append(ThinkingChunk("", "", "", state_text(whole), NAME, known.index))
        return out

    def _finish_message(self, item: Item, whole: dict[str, Any], out: list[Chunk]) -> None:
        """Compare by order within a kind: a server's content indexes in events need not be those of the item."""
        shown = {kind: [p for p in item.parts.values() if p.refusal is kind] for kind in (False, True)}
        state = {name: whole[name] for name in ("id", "phase") if type(whole.get(name)) is str}
        for content in objects_of(whole.get("content")):
            refusal = content.get("type") == "refusal"
            if shown[refusal]:
                part = shown[refusal].pop(0)
            else:
                text = text_of(content, "refusal" if refusal else "text")
                if not text:
                    continue
                part = self.part(item, -2 - len(item.parts), refusal=refusal)  # no index of the wire
                out.append(part.chunk(text))
            if not refusal:
                cited = {"annotations": content["annotations"]} if content.get("annotations") else {}
                out.append(TextChunk("", part.index, "", "", state_text(state | cited), NAME))
        out += [BlockEndChunk(part.index) for part in item.parts.values()]


def release(item: Item, out: list[Chunk]) -> None:
    """Give out what was held back of an item: a surrogate half that never got its other half becomes U+FFFD."""
    out += [part.chunk(half) for part in item.parts.values() if (half := part.joiner.flush())]
    if half := item.joiner.flush():
        if item.kind == "reasoning":
            out.append(ThinkingChunk(half, index=item.index, summary=item.says == "summary"))
        else:
            out.append(ToolUseChunk(input=half, index=item.index))


def _finish_reasoning(item: Item, whole: dict[str, Any], out: list[Chunk]) -> None:
    if not item.says:
        text = "".join(text_of(part, "text") for part in objects_of(whole.get("content")))
        if text:
            out.append(ThinkingChunk(text, index=item.index))
        else:
            for item.part, part in enumerate(objects_of(whole.get("summary"))):
                if text := text_of(part, "text"):
                    out.append(item.summary(text))
    item.sealed = bool(whole.get("encrypted_content"))
    out.append(ThinkingChunk("", "", "", state_text(whole), NAME, item.index))
    out.append(BlockEndChunk(item.index))


def _finish_call(item: Item, whole: dict[str, Any], out: list[Chunk]) -> None:
    made = ("type", "call_id", "name", "arguments", "status")
    rest = {name: value for name, value in whole.items() if name not in made}
    arguments = "" if item.streamed else arguments_of(whole)
    call_id = ""
    if not item.call_id:
        call_id = item.call_id = (
            text_of(whole, "call_id") or item.id or made_id("call_", state_text(whole), item.index)
        )
    state, label = (state_text(rest), NAME) if rest else (None, "")
    out.append(ToolUseChunk(call_id, text_of(whole, "name"), arguments, item.index, "", "", state, label))
    status = whole.get("status")
    if not (type(status) is str and status in CUT):
        item.runnable = True
        out.append(BlockEndChunk(item.index))


def arguments_of(value: dict[str, Any]) -> str:
    """Return the arguments of a call as JSON text; some servers send the object itself."""
    arguments = value.get("arguments")
    return json_text(arguments) if isinstance(arguments, dict) else text_of(value, "arguments")


def object_of(event: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a member that must be an object."""
    value = event.get(name)
    if type(value) is not dict:
        raise WireError(f"{NAME} {quote(event.get('type'))} has no {name}: {quote(value)}")
    return value


def objects_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; what is none counts as empty."""
    return [member for member in value if type(member) is dict] if isinstance(value, list) else []


def kind_of(item: dict[str, Any]) -> str:
    """Return an item's type."""
    kind = item.get("type")
    if type(kind) is not str:
        raise WireError(f"{NAME} item has no type: {quote(item)}")
    return kind


def text_of(value: dict[str, Any], name: str) -> str:
    """Return a member that is text, valid as Unicode, and "" where it is absent or null."""
    text = value.get(name)
    if text is None:
        return ""
    if type(text) is not str:
        raise WireError(f"{NAME} {name} is not text: {quote(text)}")
    return valid_text(text)
