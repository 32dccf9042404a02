"""The blocks of an Anthropic answer while they are being made, and the members of its payloads.

Pure. `anthropic_messages` decides what a payload means; here stands what one block keeps until its end.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from agentkit.chunks import Chunk, ProviderChunk, TextChunk, ThinkingChunk, ToolUseChunk
from agentkit.content import valid_text
from agentkit.dialects.base import SurrogateJoiner, parse_payload, state_text
from agentkit.errors import WireError, quote

NAME: Final = "anthropic-messages"


@dataclass(slots=True)
class OpenBlock:
    """A block of the wire that has begun: one of those that we know."""

    index: int
    kind: str
    start: dict[str, Any]
    """`content_block` as it came."""
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)
    citations: list[Any] = field(default_factory=list)
    has_input: bool = False
    ended: bool = False

    def finish(self) -> list[Chunk]:
        """Return what was held back, whether the block has ended or broke off."""
        out: list[Chunk] = []
        half = self.joiner.flush()
        match self.kind:
            case "text":
                state = state_text({"citations": self.citations}) if self.citations else None
                if half or state:
                    out.append(
                        TextChunk(
                            half,
                            self.index,
                            provider_state=state,
                            provider_state_format=NAME if state else "",
                        )
                    )
            case "tool_use":
                if not self.has_input and (whole := self.start.get("input")):
                    half = whole if isinstance(whole, str) else state_text(whole)
                if half:
                    out.append(ToolUseChunk(input=half, index=self.index))
            case _ if half:
                out.append(ThinkingChunk(half, index=self.index))
        return out


@dataclass(slots=True)
class OwnBlock:
    """A block of the wire that is the provider's own: folded to what it would have been, had it come in one piece."""

    index: int
    kind: str
    start: dict[str, Any]
    pieces: dict[str, list[Any]] = field(default_factory=dict)
    """What deltas brought, by the member that they belong to."""
    ended: bool = False

    def fold(self, delta: dict[str, Any]) -> None:
        """Take a delta of any kind."""
        match delta.get("type"):
            case "input_json_delta":
                self.pieces.setdefault("input", []).append(text_member(delta, "partial_json"))
            case "citations_delta":
                self.pieces.setdefault("citations", []).append([delta.get("citation")])
            case _:
                for name, value in delta.items():
                    if name != "type":
                        self.pieces.setdefault(name, []).append(value)

    def finish(self) -> list[Chunk]:
        """Return the whole block: text joined, lists extended, the rest set; null sets only what nothing else says."""
        whole = dict(self.start)
        for name, values in self.pieces.items():
            begun = whole.get(name)
            pieces = [value for value in values if value is not None] or [None]
            if name == "input" and all(isinstance(piece, str) for piece in pieces):
                whole[name] = _input("".join(pieces), begun)
            elif all(isinstance(piece, str) for piece in pieces):
                whole[name] = (begun if isinstance(begun, str) else "") + "".join(pieces)
            elif all(isinstance(piece, list) for piece in pieces):
                whole[name] = [
                    *(begun if isinstance(begun, list) else ()),
                    *(x for piece in pieces for x in piece),
                ]
            else:
                whole[name] = pieces[-1]
        return [ProviderChunk(self.kind, state_text(whole), NAME, self.index)]


def _input(text: str, begun: object) -> object:
    """Return the input of a server's call: parsed; as text where it broke off; as it began where no delta said anything."""
    if not text.strip():
        return begun if begun is not None else {}
    try:
        return parse_payload(NAME, text)
    except WireError:
        return text


def wire_index(payload: dict[str, Any]) -> int:
    """Return the place of the payload's block on the wire, or raise `WireError`."""
    index = payload.get("index")
    if type(index) is not int:
        raise WireError(f"{NAME} {quote(payload.get('type'))} has no index: {quote(index)}")
    return index


def object_member(payload: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object, or raise `WireError`."""
    value = payload.get(name)
    if type(value) is not dict:
        raise WireError(f"{NAME} {name} is not an object: {quote(value)}")
    return value


def list_member(payload: dict[str, Any], name: str) -> list[Any]:
    """Return a member that is a list; anything else is []."""
    value = payload.get(name)
    return value if type(value) is list else []


def text_member(payload: dict[str, Any], name: str) -> str:
    """Return a member that is a piece of text, "" where it is missing or null; or raise `WireError`."""
    value = payload.get(name)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise WireError(f"{NAME} {name} is not text: {quote(value)}")


def word_member(payload: dict[str, Any], name: str) -> str:
    """Return a member that is a whole text, as `text_member`; half a surrogate pair in it will never get its other half."""
    return valid_text(text_member(payload, name))
