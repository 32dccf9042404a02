"""The AI SDK's UI message stream, protocol v1: a run's records → chunks as SSE frames.

Pure: a fold from the run's first record. One run is one assistant message, and its id is the message's, so that a replay has it too. It
stays inside what SDK 5 knows unless the options name a later one. Server-run tools are `dynamic` and `providerExecuted`: the client then
needs no declaration of them and does not try to run them. Which chunk a record becomes is the fold's matter (`ai_sdk_fold`).
Grounds: ai-sdk.dev/docs/ai-sdk-ui/stream-protocol (read 2026-11-30); the chunk schemas and `processUIMessageStream` of `ai` 5 to 7.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic_core import to_json

from agentkit.content import JsonValue, valid_text
from agentkit.log import Cursor, Gap, Record
from agentkit.sse import encode_comment
from agentkit_transports.protocols.ai_sdk_fold import Fold
from agentkit_transports.protocols.ai_sdk_words import Options, State

BEAT: Final = encode_comment("keep-alive")
HELLO: Final = encode_comment("stream-open")
DONE: Final = b"data: [DONE]\n\n"

HEADERS: Final[Mapping[str, str]] = {
    "x-vercel-ai-ui-message-stream": "v1",
    "cache-control": "no-cache, no-store",
}
"""What the protocol wants of a response, beside its media type."""


class UIMessageStream:
    """Records of one run as UI message chunks, one `data:` line each; `[DONE]` stands last."""

    __slots__ = ("_options",)

    folds: Final = True

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()

    @staticmethod
    def of(options: Sequence[tuple[str, str]]) -> "UIMessageStream":
        """Return the encoder that a view's options ask for.

        Args:
            options: `sdk`: 5, 6 or 7; `pauses`: how often the run has waited for a person and gone on; `again`: 1 for a stream that
                begins behind the last of these; `message`: the message's id where it is not the run's.
        """
        said = dict(options)
        return UIMessageStream(
            Options(
                int(said.get("sdk", "5")),
                int(said.get("pauses", "0")),
                said.get("again") == "1",
                said.get("message", ""),
            )
        )

    def start(self) -> object:
        """Return the state before the run's first record."""
        return State()

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        """Return the next state and the frames of one record."""
        assert isinstance(state, State)
        if state.is_over:
            return state, b""
        fold = Fold(self._options, state)
        fold.take(record)
        frames = [_frame(chunk) for chunk in fold.chunks]
        if fold.state.is_over:
            frames.append(DONE)
        return fold.state, b"".join(frames)

    def is_over(self, state: object) -> bool:
        """Tell whether the stream has said its last word, also where the run only waits for a person."""
        return isinstance(state, State) and state.is_over

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the frames as one piece to send."""
        return b"".join(frames)

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return a comment: proxies then pass on the head at once."""
        return HELLO

    def gap(self, gap: Gap, after: Cursor) -> bytes:  # noqa: ARG002
        """Return a passing word on a loss: parts whose beginning is lost are opened when the next of them comes."""
        return _frame(
            {
                "type": "data-gap",
                "data": {"from": gap.first, "to": gap.last, "reason": gap.reason},
                "transient": True,
            }
        )

    def position(self, cursor: Cursor) -> bytes:  # noqa: ARG002
        """Return nothing: this protocol has no cursors, a resumed stream is replayed."""
        return b""

    def end(self, cursor: Cursor) -> bytes:  # noqa: ARG002
        """Return nothing: the terminal record's frames end with `[DONE]`."""
        return b""

    def closing(self, retry_ms: int) -> bytes:  # noqa: ARG002
        """Return nothing: a clean end without a last word is success for these clients, so the connection has to break."""
        return b""

    def beat(self) -> bytes:
        """Return a sign of life."""
        return BEAT


def nothing_yet(message: str) -> bytes:
    """Return a body that adds nothing to a message: what the run waits for is not complete."""
    return _frame({"type": "start", "messageId": message}) + _frame({"type": "finish"}) + DONE


def _frame(chunk: Mapping[str, JsonValue]) -> bytes:
    return b"data: %b\n\n" % _json(chunk)


def _json(chunk: Mapping[str, JsonValue]) -> bytes:
    """Return compact JSON. What pydantic refuses (half a surrogate pair from a model's arguments, great depth) the standard writer takes."""
    try:
        return to_json(chunk)
    except ValueError:
        text = json.dumps(chunk, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return valid_text(text).encode()
