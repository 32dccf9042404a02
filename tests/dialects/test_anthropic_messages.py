import json
from collections.abc import Callable
from typing import Any

import pytest

from agentkit.accumulators import Response
from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ProviderChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from agentkit.content import Origin, ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agentkit.dialects.anthropic_blocks import NAME
from agentkit.dialects.anthropic_messages import DIALECT, MAX_UNKNOWN, AnthropicMessagesDecoder
from agentkit.dialects.base import StatusFault
from agentkit.errors import WireError

pytestmark = pytest.mark.pure

Payload = dict[str, Any]
ORIGIN = Origin(NAME, "anthropic", "demo")


def start(index: int, kind: str, **members: object) -> Payload:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **members}}


def delta(index: int, kind: str, **members: object) -> Payload:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def stop(index: int) -> Payload:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str) -> Payload:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}


STOP: Payload = {"type": "message_stop"}
PING: Payload = {"type": "ping"}


def decode(*payloads: Payload) -> list[Chunk]:
    decoder = AnthropicMessagesDecoder()
    out = [chunk for payload in payloads for chunk in decoder.feed("", json.dumps(payload))]
    return out + decoder.close()


def respond(*payloads: Payload) -> Response:
    response = Response(ORIGIN)
    for chunk in decode(*payloads):
        response.add(chunk)
    return response


def test_a_whole_answer_in_chunks() -> None:
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 2,
        "cache_creation_input_tokens": 1,
        "output_tokens": 1,
    }
    chunks = decode(
        {"type": "message_start", "message": {"usage": usage}},
        PING,
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        PING,
        delta(0, "thinking_delta", thinking=""),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        start(1, "text", text=""),
        delta(1, "text_delta", text="Hi"),
        stop(1),
        {
            **finish("end_turn"),
            "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        },
        STOP,
    )

    assert chunks == [
        UsageChunk(Usage(8, 1, 0, 2, 1)),
        ThinkingChunk(index=0),
        ThinkingChunk("hm", index=0),
        ThinkingChunk("", "c2ln", NAME, index=0),
        BlockEndChunk(0),
        TextChunk("Hi", 1),
        BlockEndChunk(1),
        UsageChunk(Usage(8, 9, 4, 2, 1)),
        FinishChunk("stop", "end_turn"),
    ]


def test_overlapping_blocks_are_kept_apart_and_in_order_by_their_index() -> None:
    response = respond(
        start(7, "thinking"), start(3, "tool_use", id="t", name="f"), start(5, "text", text="a"),
        delta(5, "text_delta", text="b"), delta(7, "thinking_delta", thinking="x"), delta(3, "input_json_delta", partial_json="{"),
        delta(5, "text_delta", text="c"), delta(3, "input_json_delta", partial_json="}"), delta(7, "thinking_delta", thinking="y"),
        stop(3), stop(7), stop(5), finish("tool_use"), STOP,
    )  # fmt: skip

    assert response.blocks() == [
        ToolUseBlock("t", "f", "{}", origin=ORIGIN),
        TextBlock("abc", origin=ORIGIN),
        ThinkingBlock("xy", origin=ORIGIN),
    ]


def test_an_absurd_index_leaves_no_places() -> None:
    response = respond(
        start(10**9, "text", text="a"), start(0, "text", text="b"), start(-1, "text", text="c")
    )

    assert [
        chunk.index for chunk in decode(start(10**9, "text", text="a")) if isinstance(chunk, TextChunk)
    ] == [0]
    assert [block.text for block in response.blocks() if isinstance(block, TextBlock)] == ["a", "b", "c"]


def test_a_server_that_uses_one_index_for_all_blocks_makes_new_blocks() -> None:
    response = respond(
        start(0, "thinking", thinking="a"), stop(0), start(0, "text", text="b"), stop(0), start(0, "text", text="c"),
        start(0, "text", text="d"), stop(0), finish("end_turn"),
    )  # fmt: skip

    assert response.blocks() == [
        ThinkingBlock("a", origin=ORIGIN),
        TextBlock("b", origin=ORIGIN),
        TextBlock("c", origin=ORIGIN),
        TextBlock("d", origin=ORIGIN),
    ]


def test_a_block_whose_index_is_taken_without_its_end_keeps_what_was_held_back() -> None:
    chunks = decode(
        start(0, "dream"), delta(0, "dream_delta", a="b"), start(0, "text", text="a\ud83c"), start(0, "text", text="b"),
        finish("end_turn"),
    )  # fmt: skip

    assert chunks == [
        ProviderChunk("dream", '{"type":"dream","a":"b"}', NAME, 0),
        TextChunk("a", 1),
        TextChunk("\ufffd", 1),
        TextChunk("b", 2),
        FinishChunk("stop", "end_turn"),
    ]


def test_a_delta_without_a_start_opens_its_block() -> None:
    response = respond(delta(0, "thinking_delta", thinking="a"), delta(0, "signature_delta", signature="s"),
                       delta(1, "text_delta", text="b"), finish("end_turn"))  # fmt: skip

    assert response.blocks() == [
        ThinkingBlock("a", "s", signature_format=NAME, origin=ORIGIN),
        TextBlock("b", origin=ORIGIN),
    ]


def test_a_thinking_block_without_text_keeps_its_signature() -> None:
    response = respond(
        start(0, "thinking", thinking="", signature=""), delta(0, "signature_delta", signature="s"), stop(0)
    )

    assert response.blocks() == [ThinkingBlock("", "s", signature_format=NAME, origin=ORIGIN)]


def test_the_last_signature_stands_also_when_it_comes_late() -> None:
    response = respond(
        start(0, "thinking", thinking="a", signature="s1"),
        stop(0),
        delta(0, "signature_delta", signature="s2"),
    )

    assert response.blocks() == [ThinkingBlock("a", "s2", signature_format=NAME, origin=ORIGIN)]


def test_a_redacted_block_is_thinking_with_the_whole_block_as_its_state() -> None:
    block = {"type": "redacted_thinking", "data": "RU5D", "more": [1]}
    response = respond({"type": "content_block_start", "index": 0, "content_block": block}, PING, stop(0))

    [thinking] = response.blocks()

    assert isinstance(thinking, ThinkingBlock)
    assert (thinking.thinking, thinking.replayable_as(NAME)) == ("", True)
    assert json.loads(thinking.provider_state or "") == block


def call_of(*payloads: Payload) -> ToolUseBlock:
    [block] = respond(*payloads).blocks()
    assert isinstance(block, ToolUseBlock)
    return block


CALLS: dict[str, tuple[list[Payload], str, bool]] = {
    "pieces": ([start(0, "tool_use", id="t", name="f", input={}), delta(0, "input_json_delta", partial_json=""),
                delta(0, "input_json_delta", partial_json='{"a":'), delta(0, "input_json_delta", partial_json="1}"), stop(0)],
               '{"a":1}', True),
    "no arguments": ([start(0, "tool_use", id="t", name="f", input={}), delta(0, "input_json_delta", partial_json=""), stop(0)],
                     "", True),
    "whole in its start": ([start(0, "tool_use", id="t", name="f", input={"a": 1}), stop(0)], '{"a":1}', True),
    "whole in its start and in pieces": ([start(0, "tool_use", id="t", name="f", input={"a": 1}),
                                          delta(0, "input_json_delta", partial_json='{"a": 1}'), stop(0)], '{"a": 1}', True),
    "cut": ([start(0, "tool_use", id="t", name="f", input={}), delta(0, "input_json_delta", partial_json='{"a":'),
             finish("max_tokens"), STOP], '{"a":', False),
    "cut with whole arguments": ([start(0, "tool_use", id="t", name="f", input={}),
                                  delta(0, "input_json_delta", partial_json="{}"), finish("max_tokens"), STOP], "{}", False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("payloads", "text", "complete"), [pytest.param(*case, id=name) for name, case in CALLS.items()]
)
def test_a_call_has_its_arguments_raw_and_is_complete_only_with_its_end(
    payloads: list[Payload], text: str, complete: bool
) -> None:
    assert call_of(*payloads) == ToolUseBlock("t", "f", text, complete, origin=ORIGIN)


def test_calls_without_an_id_get_one_that_stays() -> None:
    payloads = [
        {"type": "message_start", "message": {"id": "m"}},
        start(0, "tool_use", name="f"), stop(0), start(1, "tool_use", id=None, name="f"), stop(1), finish("tool_use"),
    ]  # fmt: skip

    ids = [
        [block.id for block in respond(*payloads).blocks() if isinstance(block, ToolUseBlock)] for _ in "ab"
    ]

    assert ids[0] == ids[1]
    assert all(ids[0])
    assert len(set(ids[0])) == 2


def test_what_else_stands_in_a_call_is_kept_for_its_replay() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srv_1"}
    call = call_of(start(0, "tool_use", id="t", name="f", input={}, caller=caller), stop(0))

    assert (call.provider_state_format, json.loads(call.provider_state or "")) == (NAME, {"caller": caller})


def test_citations_are_kept_with_their_text() -> None:
    response = respond(
        start(0, "text", text="", citations=[{"n": 0}]), delta(0, "citations_delta", citation={"n": 1}),
        delta(0, "text_delta", text="a"), delta(0, "citations_delta", citation={"n": 2}), stop(0),
    )  # fmt: skip

    [text] = response.blocks()

    assert isinstance(text, TextBlock)
    assert (text.text, text.provider_state_format) == ("a", NAME)
    assert json.loads(text.provider_state or "") == {"citations": [{"n": 0}, {"n": 1}, {"n": 2}]}


OWN: dict[str, tuple[list[Payload], Payload]] = {
    "server tool": (
        [start(0, "server_tool_use", id="s", name="web_search", input={}), delta(0, "input_json_delta", partial_json='{"q'),
         delta(0, "input_json_delta", partial_json='":"x"}'), stop(0)],
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
    ),
    "no input": (
        [start(0, "server_tool_use", id="s", input={}), delta(0, "input_json_delta", partial_json=""), stop(0)],
        {"type": "server_tool_use", "id": "s", "input": {}},
    ),
    "cut": (
        [start(0, "mcp_tool_use", id="s", input={}), delta(0, "input_json_delta", partial_json='{"q')],
        {"type": "mcp_tool_use", "id": "s", "input": '{"q'},
    ),
    "whole": (
        [start(0, "web_search_tool_result", tool_use_id="s", content=[{"encrypted_content": "E"}]), stop(0)],
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"encrypted_content": "E"}]},
    ),
    "compaction in pieces": (
        [start(0, "compaction", content=None), delta(0, "compaction_delta", content="a"),
         delta(0, "compaction_delta", content="b", encrypted_content="E"),
         delta(0, "compaction_delta", content=None, encrypted_content=None), stop(0)],
        {"type": "compaction", "content": "ab", "encrypted_content": "E"},
    ),
    "compaction that failed": (
        [start(0, "compaction", content=""), delta(0, "compaction_delta", content=None), stop(0)],
        {"type": "compaction", "content": None},
    ),
    "unknown deltas": (
        [start(0, "dream", content="a", list=[1], n=1), delta(0, "dream_delta", content="b", list=[2], n=2),
         delta(0, "dream_delta", content="c", fresh="x"), delta(0, "text_delta", text="never shown"),
         delta(0, "citations_delta", citation={"n": 1}), stop(0)],
        {"type": "dream", "content": "abc", "list": [1, 2], "n": 2, "fresh": "x", "text": "never shown", "citations": [{"n": 1}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("payloads", "whole"), [pytest.param(*case, id=name) for name, case in OWN.items()])
def test_the_providers_own_blocks_are_kept_whole_and_in_place(
    payloads: list[Payload], whole: Payload
) -> None:
    response = respond(*payloads, start(1, "text", text="after"), stop(1), finish("end_turn"))

    own, text = response.blocks()

    assert isinstance(own, ProviderBlock)
    assert (own.kind, own.provider_state_format, own.origin) == (whole["type"], NAME, ORIGIN)
    assert json.loads(own.provider_state) == whole
    assert text == TextBlock("after", origin=ORIGIN)


def test_the_providers_own_block_gives_one_chunk_when_it_ends() -> None:
    chunks = decode(start(0, "x"), delta(0, "y", a="b"), stop(0), finish("end_turn"))

    assert chunks == [
        ProviderChunk("x", '{"type":"x","a":"b"}', NAME, 0),
        BlockEndChunk(0),
        FinishChunk("stop", "end_turn"),
    ]


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("tool_use", "tool_calls"), ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"), ("refusal", "refusal"), ("pause_turn", "pause"), ("new", "other"),
    ],
)  # fmt: skip
def test_stop_reasons(reason: str, ours: str) -> None:
    assert decode(finish(reason), STOP) == [FinishChunk(ours, reason)]  # type: ignore[arg-type]  # a table of words


TRUNCATED = "anthropic-messages stream ended after 'content_block_delta', before message_stop"
ENDS: dict[str, tuple[list[Payload], list[Chunk]]] = {
    "message_stop alone": ([start(0, "text", text="a"), stop(0), STOP], [FinishChunk("stop")]),
    "message_stop alone after a call": ([start(0, "tool_use", id="t", name="f"), stop(0), STOP], [FinishChunk("tool_calls")]),
    "stop reason alone": ([finish("end_turn")], [FinishChunk("stop", "end_turn")]),
    "neither": ([start(0, "text"), delta(0, "text_delta", text="a")], [ErrorChunk("truncated", TRUNCATED, retryable=True)]),
    "nothing": ([], [ErrorChunk("truncated", "anthropic-messages stream ended without any event", retryable=True)]),
    "error": ([{"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}],
              [ErrorChunk("provider", "Busy", "overloaded_error", True), FinishChunk("error", "overloaded_error")]),
}  # fmt: skip


@pytest.mark.parametrize(("payloads", "last"), [pytest.param(*case, id=name) for name, case in ENDS.items()])
def test_the_end_of_an_answer(payloads: list[Payload], last: list[Chunk]) -> None:
    ours = (FinishChunk, ErrorChunk)

    assert [chunk for chunk in decode(*payloads) if isinstance(chunk, ours)] == last


def test_usage_after_the_end_is_still_read() -> None:
    chunks = decode(finish("end_turn"), STOP, {"type": "message_delta", "usage": {"output_tokens": 3}})

    assert chunks == [FinishChunk("stop", "end_turn"), UsageChunk(Usage(0, 3))]


def test_usage_that_is_null_or_no_number_says_nothing() -> None:
    usage = {"input_tokens": 4, "output_tokens": True, "cache_read_input_tokens": -1}
    later = {"input_tokens": None, "output_tokens": "7", "output_tokens_details": None}
    chunks = decode(
        {"type": "message_start", "message": {"usage": usage}}, {**finish("end_turn"), "usage": later}
    )

    assert chunks == [UsageChunk(Usage(4)), UsageChunk(Usage(4)), FinishChunk("stop", "end_turn")]


ERRORS: dict[str, tuple[str, str, ErrorChunk]] = {
    "anthropic": ("error", '{"type":"error","error":{"type":"invalid_request_error","message":"No"}}',
                  ErrorChunk("provider", "No", "invalid_request_error")),
    "openai": ("", '{"error":{"message":"No","type":"server_error","code":503}}', ErrorChunk("provider", "No", "503", True)),
    "quota": ("", '{"error":{"message":"No","type":"server_error","code":402}}', ErrorChunk("provider", "No", "402")),
    "bare word in a member": ("", '{"error":"No"}', ErrorChunk("provider", "No")),
    "bare string": ("", '"No"', ErrorChunk("provider", "No")),
    "field": ("error", '{"detail":"No"}', ErrorChunk("provider", "No")),
    "field that is no json": ("error", "No: {", ErrorChunk("provider", "No: {")),
    "no words": ("error", '{"type":"error","error":{"type":"api_error"}}',
                 ErrorChunk("provider", "{'type': 'api_error'}", "api_error", True)),
    "no error at all": ("error", '{"type":"error"}', ErrorChunk("provider", "{'type': 'error'}")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("event", "data", "expected"), [pytest.param(*case, id=name) for name, case in ERRORS.items()]
)
def test_errors_of_any_shape_end_the_answer(event: str, data: str, expected: ErrorChunk) -> None:
    decoder = AnthropicMessagesDecoder()

    assert [*decoder.feed(event, data), *decoder.close()] == [expected, FinishChunk("error", expected.code)]


def test_an_error_keeps_what_came_before() -> None:
    response = respond(
        start(0, "text", text="The"), {"type": "error", "error": {"type": "api_error", "message": "Broken"}}
    )

    assert response.blocks() == [TextBlock("The", origin=ORIGIN)]
    assert response.error == ErrorChunk("provider", "Broken", "api_error", True)


HALVES: dict[str, tuple[Callable[[str], Payload], Payload]] = {
    "text": (lambda text: delta(0, "text_delta", text=text), start(0, "text")),
    "thinking": (lambda text: delta(0, "thinking_delta", thinking=text), start(0, "thinking")),
    "input": (lambda text: delta(0, "input_json_delta", partial_json=text), start(0, "tool_use", id="t", name="f")),
}  # fmt: skip


@pytest.mark.parametrize(("piece", "begin"), [pytest.param(*case, id=name) for name, case in HALVES.items()])
def test_halves_of_a_surrogate_pair_are_joined_over_deltas(
    piece: Callable[[str], Payload], begin: Payload
) -> None:
    def text(*pieces: str) -> str:
        [block] = respond(begin, *map(piece, pieces), stop(0), finish("end_turn")).blocks()
        match block:
            case TextBlock():
                return block.text
            case ThinkingBlock():
                return block.thinking
            case ToolUseBlock():
                return block.input
            case _:
                raise AssertionError(block)

    assert text("a\ud83c", "\udf0db") == "a🌍b"
    assert text("a\ud83c", "", "b") == "a\ufffdb"
    assert text("a\ud83c") == "a\ufffd"
    assert text("\udf0d") == "\ufffd"


BROKEN = {
    "no json": "{",
    "a list": "[]",
    "a number": "1",
    "no index": '{"type":"content_block_start","content_block":{"type":"text"}}',
    "an index that is text": '{"type":"content_block_stop","index":"0"}',
    "an index that is a list": '{"type":"content_block_delta","index":[0],"delta":{"type":"text_delta","text":"a"}}',
    "no block": '{"type":"content_block_start","index":0}',
    "no kind": '{"type":"content_block_start","index":0,"content_block":{}}',
    "no delta": '{"type":"content_block_delta","index":0}',
    "text that is an object": '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":{}}}',
    "input without a call": '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}',
    "a delta of no kind without a block": '{"type":"content_block_delta","index":0,"delta":{"type":[]}}',
}


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in BROKEN.items()])
def test_a_broken_payload_raises(data: str) -> None:
    with pytest.raises(WireError, match="anthropic-messages"):
        AnthropicMessagesDecoder().feed("", data)


def test_what_is_unknown_is_counted_and_says_nothing() -> None:
    decoder = AnthropicMessagesDecoder()
    payloads: list[Payload] = [
        {"type": "vibe"}, {"type": "vibe"}, {}, start(0, "dream"), start(1, "text"), delta(1, "vibe_delta"), stop(9), stop(0), stop(0),
    ]  # fmt: skip

    chunks = [chunk for payload in payloads for chunk in decoder.feed("", json.dumps(payload))]

    assert chunks == [ProviderChunk("dream", '{"type":"dream"}', NAME, 0), BlockEndChunk(0)]
    assert dict(decoder.unknown) == {
        "vibe": 2,
        "": 1,
        "content_block_start:dream": 1,
        "content_block_delta:vibe_delta": 1,
        "content_block_stop": 2,
    }


def test_a_server_cannot_fill_our_memory_with_unknown_kinds() -> None:
    decoder = AnthropicMessagesDecoder()

    for number in range(1000):
        decoder.feed("", json.dumps({"type": f"{number}" + "x" * 1000}))

    assert len(decoder.unknown) == MAX_UNKNOWN + 1
    assert sum(decoder.unknown.values()) == 1000
    assert max(map(len, decoder.unknown)) == 200


def test_the_kind_is_taken_from_the_event_name_where_the_payload_has_none() -> None:
    decoder = AnthropicMessagesDecoder()

    assert decoder.feed("message_delta", '{"delta":{"stop_reason":"end_turn"}}') == [
        FinishChunk("stop", "end_turn")
    ]


@pytest.mark.parametrize("data", ["", " ", "[DONE]", " [DONE] "])
def test_what_the_chat_dialect_closes_with_says_nothing(data: str) -> None:
    assert AnthropicMessagesDecoder().feed("", data) == []


FAULTS = [
    pytest.param(529, '{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}',
                 StatusFault("Busy", "overloaded", True), id="overloaded"),
    pytest.param(400, '{"type":"error","error":{"type":"invalid_request_error","message":"Bad"},"request_id":"r"}',
                 StatusFault("Bad", "invalid_request", False), id="invalid"),
    pytest.param(400, '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}',
                 StatusFault("prompt is too long: 9 tokens > 8 maximum", "context_overflow", False), id="too long"),
    pytest.param(404, '{"type":"error","error":{"type":"not_found_error","message":"model: demo"}}',
                 StatusFault("model: demo", "unknown_model", False), id="no model"),
    pytest.param(404, '{"type":"error","error":{"type":"not_found_error","message":"Not found"}}',
                 StatusFault("Not found", "not_found", False), id="no such path"),
    pytest.param(502, "<html>Bad gateway</html>", StatusFault("an HTML page", "server_error", True), id="html"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "expected"), FAULTS)
def test_error_bodies(status: int, body: str, expected: StatusFault) -> None:
    assert DIALECT.status_fault(status, body) == expected


def test_the_key_goes_into_its_own_header() -> None:
    assert DIALECT.auth_headers("k") == {"x-api-key": "k"}
