"""How one more chunk of the AI SDK's stream is told.

Pure: values. It knows how a chunk is added and a state replaced, not when either is due: that is `ai_sdk_fold` and `ai_sdk_calls`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentkit.content import JsonValue
from agentkit_transports.protocols.ai_sdk_words import Chunk, Options, State


class Teller:
    """One record's turn: what is told of it.

    Attributes:
        options: what the stream knows of its reader.
        state: what the client has been told.
        chunks: what is new.
        body: the record's JSON object.
        data: its `data`.
    """

    __slots__ = ("body", "chunks", "data", "options", "state")

    def __init__(self, options: Options, state: State) -> None:
        self.options = options
        self.state = state
        self.chunks: list[Chunk] = []
        self.body: Mapping[str, Any] = {}
        self.data: Mapping[str, Any] = {}

    def say(self, type: str, /, **fields: JsonValue) -> None:  # noqa: A002 - the protocol's word
        """Tell a chunk."""
        self.chunks.append({"type": type, **fields})

    def change(self, **changes: Any) -> None:
        """Replace the state: it is never changed, as readers share it."""
        self.state = replace(self.state, **changes)

    def pass_on(self, name: str, data: JsonValue) -> None:
        """Tell what is worth a word now and no part of the message."""
        self.say(f"data-{name}", data=data, transient=True)

    @property
    def block(self) -> str:
        """The record's block."""
        return str(self.body.get("block", ""))

    def fresh(self, block: str) -> str:
        """Return an id that no part of the message had: the block's, where it is the first of it."""
        count = self.state.used.get(block, 0) + 1
        self.change(used={**self.state.used, block: count})
        return block if count == 1 else f"{block}~{count}"
