"""Read the body of a provider's answer: bytes to chunks, and chunks to one JSON object that says what they hold.

Pure: no I/O. The JSON object is for people and tests (`python -m agentkit decode`); a run reads chunks and keeps blocks.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from agentkit.accumulators import Response
from agentkit.chunks import Chunk, ErrorChunk, UsageChunk
from agentkit.content import (
    JsonValue,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agentkit.dialects.base import Dialect, QuickDecoder, Target, feed_all
from agentkit.errors import WireError
from agentkit.ndjson import NDJSONDecoder
from agentkit.repair import parse_arguments
from agentkit.sse import MAX_EVENT_SIZE, SSEDecoder

STATE_MEMBERS: Final = {
    "anthropic-messages": "block",
    "openai-responses": "item",
    "openrouter": "reasoning_details",
}
"""What a provider state is called in a reading, by its format; other formats say `state`."""


_SIGNS_OF_LIFE: Final = frozenset({"ping", "heartbeat", "keepalive", "keep-alive"})
"""Names of events that gateways send while a model thinks."""


class BodyDecoder:
    """Fold the bytes of one answer into chunks: its dialect's framing, then its dialect's decoder."""

    __slots__ = ("_decoder", "_fault", "_ndjson", "_quick", "_sse")

    def __init__(self, dialect: Dialect, target: Target, max_event_size: int = MAX_EVENT_SIZE) -> None:
        self._decoder = dialect.decoder(target)
        self._quick = self._decoder if isinstance(self._decoder, QuickDecoder) else None
        self._sse = SSEDecoder(max_event_size) if dialect.framing == "sse" else None
        self._ndjson = NDJSONDecoder(max_event_size)
        self._fault: WireError | None = None

    def feed(self, data: bytes) -> list[Chunk]:
        """Return the chunks that `data` completes, in order. Data may be cut anywhere.

        Raises:
            WireError: framing or payload are broken. Chunks of the same read that came before, and what was held back for the next, are
                returned first; then the next call raises.
        """
        return self._take(data, ended=False)

    def close(self) -> list[Chunk]:
        """The body has ended: return what was held back, and an `ErrorChunk` where the end was never told.

        Raises:
            WireError: as `feed`; then call it no more.
        """
        return self._take(b"", ended=True)

    def _take(self, data: bytes, *, ended: bool) -> list[Chunk]:
        if self._fault is not None:
            raise self._fault
        out: list[Chunk] = []
        feed = self._decoder.feed
        try:
            if self._sse is not None:
                if not ended:
                    for name, payloads in self._sse.feed_groups(data):
                        self._feed(name, payloads, out)
                else:
                    for event in self._sse.close():
                        out += feed(event.event, event.data)
            else:
                for line in self._ndjson.close() if ended else self._ndjson.feed(data):
                    out += feed("", line)
            if ended:
                out += self._decoder.close()
        except WireError as fault:
            self._fault = fault
            out += self._held_back()
            if not out:
                raise
        return out

    def _feed(self, name: str, payloads: list[str], out: list[Chunk]) -> None:
        """Take the payloads of events of one name. An error is one in any case of its name, and signs of life need be no JSON."""
        plain = name.lower()
        if plain in _SIGNS_OF_LIFE:
            payloads = [payload for payload in payloads if payload.lstrip()[:1] == "{"]
        if plain == "error":
            name = "error"
        elif self._quick is not None:
            feed_all(self._quick, name, payloads, out)
            return
        for payload in payloads:
            out += self._decoder.feed(name, payload)

    def _held_back(self) -> list[Chunk]:
        """Return what the dialect's decoder had taken and not given out: what came before a fault stays good."""
        try:
            chunks = self._decoder.close()
        except WireError:
            return []  # the first fault is the one that is told
        return [
            chunk for chunk in chunks if not (isinstance(chunk, ErrorChunk) and chunk.kind == "truncated")
        ]

    @property
    def fault(self) -> WireError | None:
        """What broke the reading, or None: after `close` has returned chunks, nobody else tells it."""
        return self._fault


def decode_body(
    dialect: Dialect, target: Target, reads: Iterable[bytes]
) -> tuple[list[Chunk], WireError | None]:
    """Return all chunks of a body that came in `reads`, and what broke the reading, if anything did."""
    decoder = BodyDecoder(dialect, target)
    chunks: list[Chunk] = []
    try:
        for data in reads:
            chunks += decoder.feed(data)
        chunks += decoder.close()
    except WireError as fault:
        return chunks, fault
    return chunks, decoder.fault


def read_stream(dialect: Dialect, target: Target, reads: Iterable[bytes]) -> dict[str, JsonValue]:
    """Return what the body holds, as `read_chunks` says it. A broken body does not raise: `error` tells it."""
    return read_chunks(*decode_body(dialect, target, reads))


def read_chunks(chunks: Sequence[Chunk], fault: WireError | None = None) -> dict[str, JsonValue]:
    """Return what the chunks of one answer hold, as JSON data.

    Members:
        text: everything meant for the user, joined with nothing between.
        thinking: `{text, signature, state}` a block; `state` is the parsed provider state beside its `format`, or null.
        tools: `{id, name, args}` a call; one that must not be run has `complete: false`, `args: null` and `raw_args`.
            `signature` and `item_id` only where they came.
        provider: `{kind, state}` for each block of the provider's own.
        text_signatures: `{text, signature}` for each signed text block.
        refusal: text, or null. finish: our word for the stop reason, `error`, or null. finish_raw: the provider's word.
        usage: token counts, or null.
        error: `{kind, code, message, retryable, partial}`, or null; kind is `provider`, `truncated` or `wire` (broken bytes).
        order: `thinking`, `text` and `tool` in the order of the blocks, neighbours of one kind taken as one.
    """
    response = Response()
    response.extend(chunks)
    blocks = [block for block in response.blocks() if not _says_nothing(block)]
    error = _error(response, fault)
    finish = response.finish.reason if response.finish else None
    return {
        "text": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
        "thinking": [_thinking(block) for block in blocks if isinstance(block, ThinkingBlock)],
        "tools": [_tool(block) for block in blocks if isinstance(block, ToolUseBlock)],
        "provider": [
            {"kind": block.kind, "state": _state(block)}
            for block in blocks
            if isinstance(block, ProviderBlock)
        ],
        "text_signatures": [
            {"text": block.text, "signature": block.signature}
            for block in blocks
            if isinstance(block, TextBlock) and block.signature
        ],
        "refusal": response.message().refusal,
        "finish": "error" if error and error["kind"] == "provider" else finish,
        "finish_raw": response.finish.raw if response.finish else None,
        "usage": _usage(response) if any(isinstance(chunk, UsageChunk) for chunk in chunks) else None,
        "error": error,
        "order": [
            kind for kind, _ in groupby(_KINDS[type(block)] for block in blocks if type(block) in _KINDS)
        ],
    }


_KINDS: Final[dict[type, str]] = {ToolUseBlock: "tool", ThinkingBlock: "thinking", TextBlock: "text"}


def _says_nothing(block: object) -> bool:
    """Tell whether a block is only a beginning: no text, no signature, no state."""
    match block:
        case TextBlock(text="", signature=""):
            return not block.provider_state
        case ThinkingBlock(thinking="", signature=""):
            return not block.provider_state
        case _:
            return False


def _thinking(block: ThinkingBlock) -> dict[str, JsonValue]:
    return {
        "text": block.thinking,
        "signature": block.signature or None,
        "state": _state(block) if block.provider_state else None,
    }


def _state(block: ThinkingBlock | ProviderBlock) -> dict[str, JsonValue]:
    label = block.provider_state_format
    return {"format": label, STATE_MEMBERS.get(label, "state"): json.loads(block.provider_state or "null")}


def _tool(block: ToolUseBlock) -> dict[str, JsonValue]:
    out: dict[str, JsonValue] = {"id": block.id, "name": block.name}
    try:
        out["args"] = (
            parse_arguments(block.input if block.input.strip() else "{}") if block.complete else None
        )
    except (ValueError, RecursionError):
        out["args"] = None
    if out["args"] is None:
        out |= {"raw_args": block.input, "complete": False}
    if block.signature:
        out["signature"] = block.signature
    if block.provider_state:
        state: Any = json.loads(block.provider_state)
        if isinstance(state, dict) and isinstance(state.get("id"), str):
            out["item_id"] = state["id"]
    return out


def _error(response: Response, fault: WireError | None) -> dict[str, JsonValue] | None:
    error = response.error
    partial = not response.empty
    if error is not None:
        return {
            "kind": error.kind,
            "code": error.code,
            "message": error.message,
            "retryable": error.retryable,
            "partial": partial,
        }
    if fault is not None:
        return {
            "kind": "wire",
            "code": "",
            "message": str(fault),
            "retryable": False,
            "partial": partial,
        }
    return None


def _usage(response: Response) -> dict[str, JsonValue]:
    usage = response.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }
