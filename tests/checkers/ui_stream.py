"""A strict reader of the AI SDK's UI message stream, written from its documentation and its chunk schemas, not from our encoder.

It refuses more than the SDK does: unknown keys, nulls, parts that are left open, ids that come twice, anything after the last word.
"""

import json
from dataclasses import dataclass, field
from typing import Any

TEXT, FLAG, ANY = str, bool, object
PM = {"providerMetadata?": dict}
CALL = {"dynamic?": FLAG, "providerExecuted?": FLAG}

V5: dict[str, dict[str, type]] = {
    "start": {"messageId": TEXT, "messageMetadata?": ANY},
    "start-step": {},
    "finish-step": {},
    **{f"{kind}-start": {"id": TEXT, **PM} for kind in ("text", "reasoning")},
    **{f"{kind}-delta": {"id": TEXT, "delta": TEXT, **PM} for kind in ("text", "reasoning")},
    **{f"{kind}-end": {"id": TEXT, **PM} for kind in ("text", "reasoning")},
    "file": {"url": TEXT, "mediaType": TEXT, **PM},
    "tool-input-start": {"toolCallId": TEXT, "toolName": TEXT, **CALL, **PM},
    "tool-input-delta": {"toolCallId": TEXT, "inputTextDelta": TEXT},
    "tool-input-available": {"toolCallId": TEXT, "toolName": TEXT, "input": ANY, **CALL, **PM},
    "tool-input-error": {"toolCallId": TEXT, "toolName": TEXT, "input": ANY, "errorText": TEXT, **CALL, **PM},
    "tool-output-available": {"toolCallId": TEXT, "output": ANY, "preliminary?": FLAG, **CALL},
    "tool-output-error": {"toolCallId": TEXT, "errorText": TEXT, **CALL},
    "message-metadata": {"messageMetadata": ANY},
    "error": {"errorText": TEXT},
    "abort": {},
    "finish": {"messageMetadata?": ANY},
}
V6: dict[str, dict[str, type]] = {
    **V5,
    "tool-approval-request": {"approvalId": TEXT, "toolCallId": TEXT},
    "tool-output-denied": {"toolCallId": TEXT},
    "abort": {"reason?": TEXT},
    "finish": {"finishReason?": TEXT, "messageMetadata?": ANY},
}
V7: dict[str, dict[str, type]] = {
    **V6,
    "tool-approval-response": {"approvalId": TEXT, "approved": FLAG, "reason?": TEXT},
}
SETS = {5: V5, 6: V6, 7: V7}
DATA: dict[str, type] = {"id?": TEXT, "data": ANY, "transient?": FLAG}
REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other"}
LAST = {"finish", "error", "abort"}


class StreamError(AssertionError):
    """The stream breaks a rule."""


def read_chunks(data: bytes, *, complete: bool = True) -> list[dict[str, Any]]:
    """Return the chunks of a body; `complete` demands `[DONE]` as its last frame.

    Raises:
        StreamError: it is not framed as the protocol wants.
    """
    if b"\r" in data:
        raise StreamError("a carriage return")
    frames = data.decode().split("\n\n")
    if frames.pop():
        raise StreamError("the last frame is not closed")
    chunks: list[dict[str, Any]] = []
    done = False
    for frame in frames:
        if frame.startswith(":") and "\n" not in frame:
            continue
        if done or "\n" in frame or not frame.startswith("data: "):
            raise StreamError(f"no frame of this protocol, or one after [DONE]: {frame[:80]!r}")
        if frame == "data: [DONE]":
            done = True
        else:
            chunks.append(json.loads(frame[6:], parse_constant=_refuse))
    if complete and not done:
        raise StreamError("no [DONE]")
    return chunks


def _refuse(word: str) -> None:
    raise StreamError(f"{word} is no JSON")


@dataclass
class Message:
    """What a client has built."""

    sdk: int
    is_resumed: bool = False
    """It goes on with a message that has begun elsewhere: calls may be known."""
    id: str = ""
    step: bool = False
    open: set[tuple[str, str]] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)
    names: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    approvals: set[str] = field(default_factory=set)
    last: str = ""

    def take(self, chunk: dict[str, Any]) -> None:
        """Check one chunk and go on.

        Raises:
            StreamError: it breaks a rule.
        """
        kind = chunk.get("type")
        if self.last:
            raise StreamError(f"{kind} after {self.last}")
        if not self.id and kind != "start":
            raise StreamError(f"{kind} before start")
        self._check_shape(chunk, kind)
        self._check_order(chunk, str(kind))
        if kind in LAST:
            self.last = str(kind)

    def _check_shape(self, chunk: dict[str, Any], kind: Any) -> None:
        shape = DATA if isinstance(kind, str) and kind.startswith("data-") else SETS[self.sdk].get(kind)
        if shape is None:
            raise StreamError(f"SDK {self.sdk} knows no {kind!r}")
        given = dict(chunk)
        del given["type"]
        for name, type_ in shape.items():
            key = name.rstrip("?")
            if key not in given:
                if not name.endswith("?"):
                    raise StreamError(f"{kind} without {key}")
                continue
            value = given.pop(key)
            if type_ is not ANY and (value is None or not isinstance(value, type_)):
                raise StreamError(f"{kind}.{key} is {value!r}")
        if given:
            raise StreamError(f"{kind} has {sorted(given)}")
        metadata = chunk.get("providerMetadata", {})
        if not all(isinstance(one, dict) for one in metadata.values()):
            raise StreamError(f"providerMetadata is {metadata!r}")

    def _new(self, id_: str) -> None:
        if id_ in self.ids:
            raise StreamError(f"id {id_!r} comes twice")
        self.ids.add(id_)

    def _check_order(self, chunk: dict[str, Any], kind: str) -> None:
        name, _, verb = kind.partition("-")
        match kind:
            case "start":
                if self.id:
                    raise StreamError("start comes twice")
                self.id = chunk["messageId"]
            case "start-step" | "finish-step":
                if self.step is (kind == "start-step") and not (self.is_resumed and kind == "finish-step"):
                    raise StreamError(f"{kind} out of order")
                self.step = kind == "start-step"
            case "text-start" | "reasoning-start":
                self._new(chunk["id"])
                self.open.add((name, chunk["id"]))
            case "text-delta" | "reasoning-delta" | "text-end" | "reasoning-end":
                if (name, chunk["id"]) not in self.open:
                    raise StreamError(f"{kind} of {chunk['id']!r}, which is not open")
                if verb == "end":
                    self.open.remove((name, chunk["id"]))
            case "finish":
                if chunk.get("finishReason", "stop") not in REASONS:
                    raise StreamError(f"finishReason {chunk['finishReason']!r}")
            case "data-approval":
                asked = chunk["data"]["state"] == "requested"
                (self.approvals.add if asked else self.approvals.discard)(chunk["id"])
            case _ if kind.startswith("tool-"):
                self._check_call(chunk, kind)
        if kind in LAST and (self.open or self.step):
            raise StreamError(f"{kind} while {sorted(self.open) or 'a step'} is open")
        if kind in LAST:
            left = {
                id_: state
                for id_, state in self.calls.items()
                if state == "streaming" or (state == "available" and self.names[id_][2])
            }
            if left and not self.approvals:
                raise StreamError(f"{kind} while calls are open: {left}")

    def _check_call(self, chunk: dict[str, Any], kind: str) -> None:
        if kind == "tool-approval-response":
            if chunk["approvalId"] not in self.approvals and not self.is_resumed:
                raise StreamError("an answer to an approval that nobody asked for")
            self.approvals.discard(chunk["approvalId"])
            return
        id_ = chunk["toolCallId"]
        known = self.is_resumed and not kind.startswith("tool-input-")
        state = self.calls.get(id_, "available" if known else "")
        flags = (chunk.get("dynamic"), chunk.get("providerExecuted"))
        if kind == "tool-input-start" or (kind in ("tool-input-available", "tool-input-error") and not state):
            self._new(id_)
            self.names[id_] = (chunk["toolName"], *flags)
        elif kind.startswith("tool-input-") and kind != "tool-input-delta":
            if self.names[id_] != (chunk["toolName"], *flags):
                raise StreamError(f"{kind} does not agree with the call's start")
        elif not state:
            raise StreamError(f"{kind} of an unknown call {id_!r}")
        elif (
            kind.startswith("tool-output-")
            and kind != "tool-output-denied"
            and self.names.get(id_, (None, *flags))[1:] != flags
        ):
            raise StreamError(f"{kind} does not agree with the call's start")
        allowed = {
            "tool-input-start": {""},
            "tool-input-delta": {"streaming"},
            "tool-input-available": {"", "streaming"},
            "tool-input-error": {"", "streaming"},
        }.get(kind, {"available", "preliminary"})
        if state not in allowed:
            raise StreamError(f"{kind} of a call that is {state or 'unknown'}")
        if kind == "tool-approval-request":
            self.approvals.add(chunk["approvalId"])
        elif kind.startswith("tool-output-"):
            self.approvals.discard(id_)
        self.calls[id_] = {
            "tool-input-start": "streaming",
            "tool-input-delta": "streaming",
            "tool-input-available": "available",
            "tool-approval-request": "available",
            "tool-output-available": "preliminary" if chunk.get("preliminary") else "done",
        }.get(kind, "done")


def check_stream(
    data: bytes, *, sdk: int = 5, complete: bool = True, is_resumed: bool = False
) -> list[dict[str, Any]]:
    """Return the chunks of a body, checked; `complete` demands the end too.

    Raises:
        StreamError: it breaks a rule.
    """
    chunks = read_chunks(data, complete=complete)
    message = Message(sdk, is_resumed)
    for chunk in chunks:
        message.take(chunk)
    if complete and not message.last:
        raise StreamError("no last word")
    return chunks
