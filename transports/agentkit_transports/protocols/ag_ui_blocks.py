"""AG-UI: blocks → text messages, reasoning, tool calls and their results.

Pure. It does not know when a run or a step begins and ends: `ag_ui` does, and closes what is left open.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace

from agentkit.content import JsonValue
from agentkit_transports.protocols.ag_ui_telling import NOT_RUN, Call, Kind, Part, Teller, encode


class Blocks(Teller):
    """Tells records of blocks."""

    def text(self) -> None:
        """Begin, go on with, or end a text or a refusal. A message begins with its first words: without them it would be an empty bubble."""
        noun, _, verb = self.record.type.rpartition(".")
        kind: Kind = "refusal" if noun == "refusal" else "text"
        part = self.state.parts.get((kind, self.block))
        match verb:
            case "delta":
                part = part or self.keep(Part(kind, self.lane, self.number, self.block))
                if not part.id:
                    part = self._open_message(part)
                self.say("TEXT_MESSAGE_CONTENT", {"messageId": part.id, "delta": self.data["text"]})
            case "finished" if part is not None:
                self.finish_part(part, is_whole=True)
            case "started" if part is None:
                self.keep(Part(kind, self.lane, self.number, self.block))

    def _open_message(self, part: Part) -> Part:
        part = self.keep(replace(part, id=self.fresh(f"{part.block}.{part.kind}")))
        self.own().anchors[part.lane, part.step] = part.id
        said: dict[str, JsonValue] = {"refusal": True} if part.kind == "refusal" else {}
        self.say("TEXT_MESSAGE_START", {"messageId": part.id, "role": "assistant"}, **said)
        return part

    # reasoning

    def reasoning_started(self) -> None:
        """Open a span; its message begins with its first words, or is empty."""
        if ("reasoning", self.block) not in self.state.parts:
            self._open_span()

    def _open_span(self) -> Part:
        span = self.fresh(f"{self.block}.span")
        self.say("REASONING_START", {"messageId": span})
        return self.keep(Part("reasoning", self.lane, self.number, self.block, span=span))

    def _open_thought(self, part: Part, number: int = 0) -> Part:
        """Begin a reasoning message; each part of a summary is one."""
        message = self.fresh(f"{part.block}.reasoning" + (f".{number}" if number else ""))
        self.say("REASONING_MESSAGE_START", {"messageId": message, "role": "reasoning"})
        self.own().thoughts[part.block] = message
        return self.keep(replace(part, id=message, number=number))

    def reasoning(self) -> None:
        """Say a piece of reasoning or of a summary of it; hold what is opaque."""
        part = self.state.parts.get(("reasoning", self.block))
        if self.record.kind in ("signature", "state"):
            self._opaque(part)
            return
        part = part or self._open_span()
        number: int = self.data.get("data", {}).get("part", 0)
        text: str = self.data.get("text", "")
        if part.id and part.number != number:
            self.say("REASONING_MESSAGE_END", {"messageId": part.id})
            part = replace(part, id="")
        if not part.id:
            part = self._open_thought(part, number)
            if number:
                text = text.removeprefix("\n\n")  # what parts the parts of a summary in one text
        self.say("REASONING_MESSAGE_CONTENT", {"messageId": part.id, "delta": text})

    def _opaque(self, part: Part | None) -> None:
        """Hold what the provider wants back until its block is whole. Where the log has only its size, there is nothing to say."""
        kind, data = self.record.kind, self.data.get("data", {})
        if kind not in data:
            return
        said = {"provider": self.data["provider"], kind: data[kind], f"{kind}_format": data.get("format", "")}
        if part is not None:
            self.keep(replace(part, opaque={**part.opaque, **said}))
        elif self.block in self.state.thoughts:
            self._say_opaque(self.state.thoughts[self.block], said)

    def _say_opaque(self, message: str, said: Mapping[str, str]) -> None:
        """Say signature and state as one value: a client keeps one for each message, the last."""
        value = base64.urlsafe_b64encode(encode({"v": 1, **said})).decode()
        entity: dict[str, JsonValue] = {"subtype": "message", "entityId": message}
        self.say("REASONING_ENCRYPTED_VALUE", {**entity, "encryptedValue": value})

    def reasoning_finished(self) -> None:
        """Close a span."""
        part = self.state.parts.get(("reasoning", self.block))
        if part is not None:
            self.finish_part(part, is_whole=True)

    # calls

    def call_started(self) -> None:
        """Begin a call, once its name and id are known."""
        call, name = self.data["call"], self.data["name"]
        part = self.keep(Part("call", self.lane, self.number, self.block, call=call, name=name))
        if call and name:
            self._open_call(part)

    def _open_call(self, part: Part) -> Part:
        """Say that a call begins, in the message that its step has said last, or in one for the step's calls."""
        anchors, key = self.own().anchors, (part.lane, part.step)
        if key not in anchors:
            anchors[key] = self.fresh(f"{self.run}.{part.step}.calls")
        call = self.fresh(f"{self.run}.{part.step}.{part.call}" if part.call else f"{part.block}.call")
        start: dict[str, JsonValue] = {"toolCallId": call, "toolCallName": part.name}
        self.say("TOOL_CALL_START", {**start, "parentMessageId": anchors[key]})
        if part.raw:
            self.say("TOOL_CALL_ARGS", {"toolCallId": call, "delta": part.raw})
        return self.keep(replace(part, id=call, has_input=bool(part.raw), raw=""))

    def call_delta(self) -> None:
        """Say a piece of the arguments."""
        part, text = self.state.parts.get(("call", self.block)), self.data["text"]
        if part is None:
            part = Part("call", self.lane, self.number, self.block, call=self.data["call"])
        if not part.id:
            self.keep(replace(part, raw=part.raw + text))
            return
        if not part.has_input:
            self.keep(replace(part, has_input=True))
        self.say("TOOL_CALL_ARGS", {"toolCallId": part.id, "delta": text})

    def call_ready(self) -> None:
        """End a call; without arguments it has empty ones."""
        raw = self.data.get("input")  # missing where it was too large for a record; its pieces were told
        part = self.state.parts.get(("call", self.block))
        if part is None:
            part = Part("call", self.lane, self.number, self.block, raw=raw or "")
        call, name = self.data.get("call", part.call), self.data.get("name", part.name)
        if not part.id:
            part = self._open_call(replace(part, call=call, name=name or "unknown"))
        if not part.has_input:
            self.say("TOOL_CALL_ARGS", {"toolCallId": part.id, "delta": "{}"})
        self.finish_part(part, is_whole=True)
        is_runnable = bool(call and name) and _is_object(raw)
        self.own().calls[part.id] = Call(part.lane, part.step, call, name, is_runnable)

    def tool_result(self) -> None:
        """Say what a call gave."""
        call = self.data.get("call")
        known = self.call_of(self.lane, self.number, call)
        if call is not None:
            status = self.data.get("status", "ok")
            extra: dict[str, JsonValue] = {} if status == "ok" else {"status": status}
            self.answer(known or f"{self.run}.{self.number}.{call}", self._content(), **extra)
        elif known:  # a record that was too large does not say whose result it is; results come in the order of the calls
            self.answer(known, f"The result has {self.data['bytes']} bytes: too large for this stream.")
        else:
            self.custom()

    def _content(self) -> JsonValue:
        """Return a result's content: text; parts where there is more, and the client knows them."""
        blocks: list[dict[str, str]] = self.data.get("content", [])
        texts = [block.get("text", "") for block in blocks if block["type"] == "text"]
        if len(texts) == len(blocks):
            return "".join(texts)
        if self.options.version:
            return [_content_part(block) for block in blocks]
        others = [block for block in blocks if block["type"] != "text"]
        return "\n".join(
            [*texts, *(f"[{b['type']} {b.get('media_type') or b.get('url', '')}]" for b in others)]
        )

    # the end of a part

    def finish_part(self, part: Part, *, is_whole: bool) -> None:
        """Close a part; a call that broke off is said not to have been run."""
        if part.kind == "reasoning" and not part.id:
            part = self._open_thought(part)  # redacted, or without words: a message all the same
        self.own().parts.pop((part.kind, part.block), None)
        match part.kind:
            case "reasoning":
                self.say("REASONING_MESSAGE_END", {"messageId": part.id})
                if part.opaque:
                    self._say_opaque(part.id, part.opaque)
                self.say("REASONING_END", {"messageId": part.span})
            case "call" if part.id:
                self.say("TOOL_CALL_END", {"toolCallId": part.id})
                if not is_whole:
                    self.answer(part.id, NOT_RUN, status="interrupted")
            case "text" | "refusal" if part.id:
                self.say("TEXT_MESSAGE_END", {"messageId": part.id})
            case _:
                pass  # nothing of it was told


def _content_part(block: Mapping[str, str]) -> JsonValue:
    if block["type"] == "text":
        return {"type": "text", "text": block.get("text", "")}
    kind, media = ("image" if block["type"] == "image" else "document"), block.get("media_type", "")
    if block.get("data"):
        return {"type": kind, "source": {"type": "data", "value": block["data"], "mimeType": media}}
    source: dict[str, JsonValue] = {"type": "url", "value": block.get("url", "")}
    return {"type": kind, "source": {**source, "mimeType": media} if media else source}


def _is_object(raw: str | None) -> bool:
    """Tell whether arguments can be run: a JSON object, or nothing. Ones that are too large to be told are taken for it."""
    try:
        return raw is None or not raw.strip() or isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        return False
