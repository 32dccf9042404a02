"""Any history becomes a request that its provider takes, in every dialect; the judges are written from the providers' rules.

Histories are made by hypothesis: turns that broke off, calls without results, results without calls, blocks of other models, blank
text. Each piece has a token of its own, so that the body itself tells what was kept, in what order, and what had to stay here.
"""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from checkers import gemini
from checkers.table import CHECKERS, answered, send, through_the_store
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.accumulators import Response
from agentkit.content import (
    Block,
    ImageBlock,
    Message,
    Origin,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    dump_messages,
)
from agentkit.dialects.base import Profile, Target, origin
from agentkit.dialects.table import DIALECTS
from agentkit.model import ToolSpec
from agentkit.reading import decode_body
from agentkit.repair import repair

pytestmark = pytest.mark.pure

Json = dict[str, Any]
TARGET = Target("here", "demo")
TOOLS = [ToolSpec("f", "A tool.", {"type": "object", "properties": {}})]
SIGNATURE = "c2lnbmVk"
PNG = "QUJD"

IN_ORDER = ("anthropic-messages", "openai-responses", "gemini")
"""Dialects whose turns are lists of blocks; the others have one text and one list of calls."""


class Maker:
    """Makes blocks of one dialect's target, and of others, each with a token of its own."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], dialect: str) -> None:
        self.draw = draw
        self.dialect = dialect
        self.count = 0

    def token(self, kind: str) -> str:
        self.count += 1
        return f"§{kind}{self.count}§"

    def blank(self, text: str) -> str:
        return str(self.draw(st.sampled_from([text, f"{text} \n", f" {text}", "", "  \n"])))

    def origin(self) -> Origin | None:
        others = [Origin("elsewhere", "there", "demo"), Origin(self.dialect, "here", "demo-2"), None]
        return self.draw(st.sampled_from([origin(self.dialect, TARGET), *others]))  # type: ignore[no-any-return]

    def block(self) -> Block:
        made_by = self.origin()
        own = made_by == origin(self.dialect, TARGET)
        hidden = "" if own else self.token("x")  # what must not leave
        signature = self.draw(st.sampled_from(["", hidden or SIGNATURE]))
        label = self.dialect if signature else ""
        match self.draw(st.integers(0, 7)):
            case 0 | 1:
                return TextBlock(self.blank(self.token("t")), origin=made_by)
            case 2:
                return RefusalBlock(self.blank(self.token("t")), made_by)
            case 3:
                words = hidden or self.token("h")
                return ThinkingBlock(words, signature, signature_format=label, origin=made_by)
            case 4:
                state = json.dumps(self.state(hidden or self.token("h")), ensure_ascii=False)
                return ThinkingBlock("", "", state, self.dialect, origin=made_by)
            case 5:
                return ProviderBlock(
                    "search", json.dumps({"type": "search", "x": self.token("x")}), "elsewhere", made_by
                )
            case 6:
                return TextBlock(self.token("t"), signature, label, origin=made_by)
            case _:
                name, call_id = "f", self.draw(st.sampled_from(["a", "b", "weird id/1"]))
                given_input = json.dumps({"x": self.token("c")}, ensure_ascii=False)
                text = self.draw(
                    st.sampled_from([given_input, given_input, given_input, "", "{", "[]", '{"x":NaN}'])
                )
                whole = self.draw(st.sampled_from([True, True, True, False]))
                return ToolUseBlock(call_id, name, text, whole, signature, label, origin=made_by)

    def state(self, words: str) -> Json:
        """A thinking block's own opaque state, as the dialect has it."""
        match self.dialect:
            case "anthropic-messages":
                return {"type": "redacted_thinking", "data": words}
            case "openai-responses":
                return {
                    "type": "reasoning",
                    "id": f"rs_{self.count}",
                    "summary": [],
                    "encrypted_content": words,
                }
            case _:
                return {"text": words}

    def message(self) -> Message:
        match self.draw(st.integers(0, 5)):
            case 0:
                return Message.user(self.token("t"))
            case 1:
                return Message.user([TextBlock(self.blank(self.token("t"))), ImageBlock("image/png", PNG)])
            case 2:
                ids = self.draw(st.lists(st.sampled_from(["a", "b", "weird id/1"]), max_size=3))
                return Message("tool", tuple(ToolResultBlock(i, "f", self.said()) for i in ids))
            case _:
                count = self.draw(st.integers(0, 6))
                status = self.draw(st.sampled_from(["complete", "complete", "partial"]))
                return Message("assistant", tuple(self.block() for _ in range(count)), status)

    def said(self) -> tuple[TextBlock | ImageBlock, ...]:
        text = TextBlock(self.token("r"))
        return self.draw(st.sampled_from([(text,), (), (text, ImageBlock("image/png", PNG))]))  # type: ignore[no-any-return]


@st.composite
def histories(draw: Callable[[st.SearchStrategy[Any]], Any], dialect: str) -> list[Message]:
    maker = Maker(draw, dialect)
    return [Message.user("§t0§"), *(maker.message() for _ in range(draw(st.integers(0, 7))))]


PROFILES = [Profile(), Profile(replay_reasoning="always", missing_reasoning="empty", unsigned_thinking=False)]
PROFILE = st.sampled_from(PROFILES)


def tokens(value: object) -> list[str]:
    return re.findall(r"§\w+§", json.dumps(value, ensure_ascii=False))


def must_be_sent(message: Message) -> list[str]:
    """The tokens of what no repair may lose: visible text, whole calls, results."""
    kept = [b for b in message.content if not isinstance(b, ThinkingBlock | ProviderBlock)]
    return [token for block in kept for token in tokens(block_words(block)) if token[1] != "x"]


def block_words(block: Block) -> object:
    match block:
        case TextBlock():
            return block.text
        case RefusalBlock():
            return block.refusal
        case ToolUseBlock():
            return block.input
        case ToolResultBlock():
            return block.text
        case ThinkingBlock():
            return [block.thinking, block.provider_state]
    return ""


def conversation(body: Json) -> Any:
    return body.get("messages") or body.get("input") or body.get("contents")


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_history_becomes_a_request_that_its_provider_takes(dialect: str, data: st.DataObject) -> None:
    history = data.draw(histories(dialect))
    target = Target("here", "demo", data.draw(PROFILE))
    before = dump_messages(history)

    body = send(dialect, history, target, tools=TOOLS)

    assert CHECKERS[dialect](body) == []
    assert dump_messages(history) == before
    assert send(dialect, through_the_store(history), target, tools=TOOLS) == body
    assert repair(repair(history)) == repair(history)
    assert send(dialect, repair(history), target, tools=TOOLS) == body
    sent = tokens(conversation(body))
    assert [token for token in sent if token[1] == "x"] == []
    repaired = repair(history)
    wanted = [token for message in repaired for token in must_be_sent(message)]
    said = [token for token in sent if token[1] != "h"]
    assert sorted(said) == sorted(wanted)
    if dialect in IN_ORDER:
        assert said == wanted
        places = [t for m in repaired for b in m.content for t in tokens(block_words(b)) if t[1] != "x"]
        rest = iter(places)
        assert all(token in rest for token in sent)  # own thinking stands where it stood


@settings(max_examples=60)
@given(histories("gemini"))
def test_calls_of_the_running_turn_are_signed_where_the_model_looks_for_that(history: list[Message]) -> None:
    body = send("gemini", history, Target("here", "gemini-3-demo"), tools=TOOLS)

    assert gemini.check(body, signs_calls=True) == []


STREAMS: dict[str, list[Json]] = {
    "anthropic-messages": [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": SIGNATURE}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "b3BhcXVl"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "Ja"}},
        {"type": "content_block_stop", "index": 2},
        {"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'}},
        {"type": "content_block_stop", "index": 3},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ],
    "openai-responses": [
        {"type": "response.output_item.done", "output_index": 0,
         "item": {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "b3BhcXVl"}},
        {"type": "response.output_item.done", "output_index": 1,
         "item": {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                  "content": [{"type": "output_text", "text": "Ja", "annotations": []}]}},
        {"type": "response.output_item.done", "output_index": 2,
         "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"x":1}', "status": "completed"}},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ],
    "openai-chat": [
        {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"index": 0, "delta": {"content": "Ja"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "Ja"}, {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": SIGNATURE}]},
                         "finishReason": "STOP"}]},
    ],
    "ollama": [
        {"message": {"role": "assistant", "content": "", "thinking": "hm"}},
        {"message": {"role": "assistant", "content": "Ja", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}},
        {"done": True, "done_reason": "stop"},
    ],
}  # fmt: skip
"""One answer, as each wire has it: thinking, text, one call."""


def own_turn(dialect: str, target: Target) -> Message:
    lines = [json.dumps(payload) for payload in STREAMS[dialect]]
    framed = (line + "\n" if dialect == "ollama" else f"data: {line}\n\n" for line in lines)
    chunks, fault = decode_body(DIALECTS[dialect], target, ["".join(framed).encode()])
    assert fault is None
    response = Response(origin(dialect, target))
    for chunk in chunks:
        response.add(chunk)
    return response.message()


SENT: dict[str, list[Json]] = {
    "anthropic-messages": [{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": SIGNATURE}, {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "Ja"}, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}}]}],
    "openai-responses": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "b3BhcXVl"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Ja", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"x":1}'}],
    "openai-chat": [{"role": "assistant", "content": "Ja", "reasoning_content": "hm",
                     "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}]}],
    "gemini": [{"role": "model", "parts": [
        {"text": "Ja"}, {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": SIGNATURE}]}],
    "ollama": [{"role": "assistant", "content": "Ja", "thinking": "hm", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}],
}  # fmt: skip
"""What goes back, but for ids that we made."""


def good_body(dialect: str) -> Json:
    target = Target("here", "demo", Profile(replay_reasoning="always"))
    return send(dialect, through_the_store(answered(own_turn(dialect, target))), target, tools=TOOLS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_goes_back_as_it_came(dialect: str) -> None:
    body = good_body(dialect)

    sent = conversation(body)
    turn = copy.deepcopy(sent[1 : 1 + len(SENT[dialect])])
    if dialect == "ollama":
        assert turn[0]["tool_calls"][0].pop("id")
    assert turn == SENT[dialect]
    assert CHECKERS[dialect](body) == []


# the judges are strict


def at(body: Json, path: str) -> Any:
    value: Any = body
    for step in path.split("/"):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


BAD: list[tuple[str, str, str, Any]] = [
    ("anthropic-messages", "", "n", 1),
    ("anthropic-messages", "", "max_tokens", 0),
    ("anthropic-messages", "messages/0", "role", "assistant"),
    ("anthropic-messages", "messages/1/content/0", "signature", ""),
    ("anthropic-messages", "messages/1/content/1", "data", ""),
    ("anthropic-messages", "messages/1/content/2", "text", " "),
    ("anthropic-messages", "messages/1/content/3", "id", "a b"),
    ("anthropic-messages", "messages/1/content/3", "input", "{}"),
    ("anthropic-messages", "messages/1/content/3", "id", "other"),
    ("anthropic-messages", "messages/2/content/0", "type", "tool_use"),
    ("anthropic-messages", "messages/1", "content", [{"type": "thinking", "thinking": "", "signature": "s"}]),
    ("openai-responses", "", "messages", []),
    ("openai-responses", "input/1", "summary", None),
    ("openai-responses", "input/1", "encrypted_content", ""),
    ("openai-responses", "input/2", "type", "function_call_output"),
    ("openai-responses", "input/2", "id", "rs_1"),
    ("openai-responses", "input/2", "role", "user"),
    ("openai-responses", "input/3", "arguments", "{"),
    ("openai-responses", "input/3", "call_id", "other"),
    ("openai-responses", "input/5", "content", []),
    ("openai-chat", "", "input", []),
    ("openai-chat", "messages/0", "content", None),
    ("openai-chat", "messages/1", "thinking", "hm"),
    ("openai-chat", "messages/1", "tool_calls", []),
    ("openai-chat", "messages/1/tool_calls/0", "id", "other"),
    ("openai-chat", "messages/1/tool_calls/0/function", "arguments", "[]"),
    ("openai-chat", "messages/2", "role", "user"),
    ("gemini", "", "messages", []),
    ("gemini", "contents/0", "role", "assistant"),
    ("gemini", "contents/1", "parts", []),
    ("gemini", "contents/1/parts/0", "text", ""),
    ("gemini", "contents/1/parts/0", "functionCall", {"name": "f"}),
    ("gemini", "contents/1/parts/1", "thoughtSignature", ""),
    ("gemini", "contents/1/parts/1", "thoughtSignature", "ü"),
    ("gemini", "contents/1/parts/1/functionCall", "name", "g"),
    ("gemini", "contents/2/parts/0/functionResponse", "response", "x"),
    ("ollama", "", "input", []),
    ("ollama", "messages/1", "content", None),
    ("ollama", "messages/1/tool_calls/0/function", "arguments", "{}"),
    ("ollama", "messages/2", "tool_name", "g"),
    ("ollama", "messages/2", "role", "user"),
    ("ollama", "messages/0", "images", ["%"]),
]


@pytest.mark.parametrize(
    ("dialect", "path", "member", "value"), BAD, ids=[f"{d} {p}/{m}={v!r}" for d, p, m, v in BAD]
)
def test_the_judges_refuse_what_a_provider_refuses(dialect: str, path: str, member: str, value: Any) -> None:
    body = good_body(dialect)
    (at(body, path) if path else body)[member] = value

    assert CHECKERS[dialect](body) != []
