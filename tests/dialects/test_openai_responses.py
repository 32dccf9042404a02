import json
import random
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.accumulators import Response
from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ImageChunk,
    ProviderChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import (
    Block,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)
from agentkit.dialects.base import StatusFault, Target, state_text
from agentkit.dialects.openai_responses import _HANDLERS, DIALECT, MAX_UNKNOWN, ResponsesDecoder
from agentkit.dialects.openai_responses_items import NAME
from agentkit.errors import WireError

pytestmark = pytest.mark.pure

Payload = dict[str, Any]


def event(kind: str, **members: object) -> Payload:
    return {"type": f"response.{kind}", **members}


def added(index: int | None, kind: str, **members: object) -> Payload:
    return at(index, event("output_item.added", item={"type": kind, **members}))


def done(index: int | None, kind: str, **members: object) -> Payload:
    return at(index, event("output_item.done", item={"type": kind, **members}))


def text_delta(index: int | None, delta: str, **members: object) -> Payload:
    return at(index, event("output_text.delta", delta=delta, **members))


def at(index: int | None, payload: Payload) -> Payload:
    return payload if index is None else {**payload, "output_index": index}


def message(text: str, **members: object) -> Payload:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"role": "assistant", "status": "completed", "content": content, **members}


def completed(*output: Payload, **members: object) -> Payload:
    return event("completed", response={"status": "completed", "output": list(output), **members})


def decode(*payloads: Payload) -> list[Chunk]:
    decoder = ResponsesDecoder()
    out = [chunk for payload in payloads for chunk in decoder.feed("", json.dumps(payload))]
    return out + decoder.close()


def respond(*payloads: Payload) -> Response:
    response = Response()
    for chunk in decode(*payloads):
        response.add(chunk)
    return response


def blocks(*payloads: Payload) -> list[Block]:
    return respond(*payloads).blocks()


def thinking(text: str, item: Payload, *, summary: bool = False) -> ThinkingBlock:
    return ThinkingBlock(text, "", state_text(item), NAME, summary=summary)


def said(text: str, **state: object) -> TextBlock:
    return TextBlock(text, provider_state=state_text(state), provider_state_format=NAME)


def call(call_id: str, name: str, arguments: str, *, complete: bool = True, **state: object) -> ToolUseBlock:
    kept, label = (state_text(state), NAME) if state else (None, "")
    return ToolUseBlock(call_id, name, arguments, complete, "", "", kept, label)


def test_a_whole_answer_in_chunks() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "RU5D"}
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
    }

    chunks = decode(
        event("created", response={"status": "in_progress"}),
        {"type": "keepalive"},
        added(0, "reasoning", id="rs_1", summary=[], encrypted_content="other bytes"),
        {**event("output_item.done", item=item), "output_index": 0},
        added(1, "message", id="msg_1", content=[]),
        text_delta(1, "Hel", content_index=0),
        text_delta(1, "lo", content_index=0),
        done(1, "message", id="msg_1", phase="final_answer", **message("Hello")),
        completed(usage=usage),
    )

    assert chunks == [
        ThinkingChunk("", "", "", state_text(item), NAME, 0),
        BlockEndChunk(0),
        TextChunk("Hel", 1),
        TextChunk("lo", 1),
        TextChunk("", 1, "", "", state_text({"id": "msg_1", "phase": "final_answer"}), NAME),
        BlockEndChunk(1),
        UsageChunk(Usage(9, 7, 5, 4, 2)),
        FinishChunk("stop", "completed"),
    ]


def summary_delta(part: int | None, delta: str) -> Payload:
    numbered = {} if part is None else {"summary_index": part}
    return {**event("reasoning_summary_text.delta", delta=delta, output_index=0), **numbered}


@pytest.mark.parametrize("numbered", [True, False], ids=["with part numbers", "without"])
def test_summary_parts_are_paragraphs_of_one_block_and_carry_their_number(numbered: bool) -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    item = {"type": "reasoning", "id": "rs_1", "summary": parts}
    number = {"summary_index": 0} if numbered else {}
    second = {"summary_index": 1} if numbered else {}

    chunks = decode(
        added(0, "reasoning", id="rs_1", summary=[]),
        at(0, event("reasoning_summary_part.added", part=parts[0], **number)),
        summary_delta(0 if numbered else None, "One"),
        summary_delta(0 if numbered else None, "."),
        at(0, event("reasoning_summary_part.added", part=parts[1], **second)),
        summary_delta(1 if numbered else None, "Two."),
        {**event("output_item.done", item=item), "output_index": 0},
        completed(),
    )

    assert chunks[:6] == [
        ThinkingChunk("One", index=0, summary=True, part=0),
        ThinkingChunk(".", index=0, summary=True, part=0),
        ThinkingChunk("\n\nTwo.", index=0, summary=True, part=1),
        ThinkingChunk("", "", "", state_text(item), NAME, 0),
        BlockEndChunk(0),
        FinishChunk("stop", "completed"),
    ]


def test_raw_reasoning_is_no_summary() -> None:
    item = {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "chain"}]}

    answer = blocks(
        added(0, "reasoning", id="rs"),
        at(0, event("reasoning_text.delta", delta="cha", content_index=0)),
        at(0, event("reasoning_text.delta", delta="in", content_index=0)),
        {**event("output_item.done", item=item), "output_index": 0},
    )

    assert answer == [thinking("chain", item)]


def test_reasoning_told_raw_and_as_a_summary_counts_once() -> None:
    item = {
        "type": "reasoning",
        "id": "rs",
        "content": [{"type": "reasoning_text", "text": "chain"}],
        "summary": [{"type": "summary_text", "text": "in short"}],
    }

    streamed = blocks(
        at(0, event("reasoning_text.delta", delta="chain")),
        summary_delta(0, "in short"),
        {**event("output_item.done", item=item), "output_index": 0},
    )
    whole = blocks({**event("output_item.done", item=item), "output_index": 0})

    assert streamed == whole == [thinking("chain", item)]


def test_items_are_told_apart_by_output_index_while_ids_change() -> None:
    answer = respond(
        added(0, "function_call", id="a", call_id="c1", name="f", arguments=""),
        added(1, "function_call", id="b", call_id="c2", name="g", arguments=""),
        at(0, event("function_call_arguments.delta", delta='{"n"', item_id="c")),
        at(1, event("function_call_arguments.delta", delta="{}", item_id="d")),
        at(0, event("function_call_arguments.delta", delta=":1}", item_id="e")),
        at(0, event("function_call_arguments.done", arguments='{"n":1}', item_id="h")),
        done(1, "function_call", id="f", call_id="c2", name="g", arguments="{}"),
        done(0, "function_call", id="g", call_id="c1", name="f", arguments='{"n":1}'),
        completed(),
    )

    assert answer.blocks() == [call("c1", "f", '{"n":1}', id="g"), call("c2", "g", "{}", id="f")]
    assert answer.finish == FinishChunk("tool_calls", "completed")


def test_a_server_without_indexes_ends_all_items_at_the_end() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "hm"}]}

    answer = blocks(
        added(None, "reasoning", id="rs_1"),
        event("reasoning_text.delta", delta="hm", item_id="rs_1"),
        added(None, "message", id="msg_1"),
        event("content_part.added", item_id="msg_1", part={"type": "output_text", "text": ""}),
        text_delta(None, "Hi", item_id="msg_1"),
        added(None, "function_call", id="fc_1", call_id="c1", name="f"),
        event("function_call_arguments.delta", delta="{}", item_id="fc_1"),
        added(None, "function_call", id="fc_2", call_id="c2", name="g"),
        event("function_call_arguments.delta", delta="[]", item_id="fc_2"),
        {"type": "response.output_item.done", "item": reasoning},
        done(None, "message", id="msg_1", **message("Hi")),
        done(None, "function_call", id="fc_1", call_id="c1", name="f", arguments="{}"),
        done(None, "function_call", id="fc_2", call_id="c2", name="g", arguments="[]"),
        completed(),
    )

    assert answer == [
        thinking("hm", reasoning),
        said("Hi", id="msg_1"),
        call("c1", "f", "{}", id="fc_1"),
        call("c2", "g", "[]", id="fc_2"),
    ]


def test_a_server_with_neither_indexes_nor_ids_is_read_by_kind() -> None:
    answer = blocks(
        event("reasoning_text.delta", delta="hm"),
        text_delta(None, "Hi"),
        event("reasoning_text.delta", delta=", hm"),
        text_delta(None, " you"),
        done(None, "message", **message("Hi you")),
        completed(),
    )

    assert answer == [ThinkingBlock("hm, hm"), said("Hi you")]


def test_a_server_with_one_index_for_everything_is_read_by_kind() -> None:
    answer = blocks(
        at(0, event("reasoning_text.delta", delta="hm", item_id="r")),
        text_delta(0, "Hi", item_id="m"),
        at(0, event("reasoning_text.delta", delta=", hm", item_id="r")),
        done(0, "message", id="m", **message("Hi")),
        done(0, "reasoning", id="r"),
        completed(),
    )

    assert answer == [thinking("hm, hm", {"type": "reasoning", "id": "r"}), said("Hi", id="m")]


ARGUMENTS = [
    pytest.param(
        [at(0, event("function_call_arguments.done", arguments="{}")), done(0, "function_call", call_id="c")],
        id="only in arguments.done",
    ),
    pytest.param([done(0, "function_call", call_id="c", arguments="{}")], id="only in the item"),
    pytest.param(
        [at(0, event("function_call_arguments.done", arguments={})), done(0, "function_call", call_id="c")],
        id="as an object",
    ),
    pytest.param([done(0, "function_call", call_id="c", arguments={})], id="as an object in the item"),
    pytest.param(
        [
            event("function_call_arguments.delta", call_id="c", delta="{}"),
            done(0, "function_call", call_id="c"),
        ],
        id="by the call's id",
    ),
    pytest.param(
        [completed({"type": "function_call", "call_id": "c", "arguments": "{}"})], id="only at the end"
    ),
]


@pytest.mark.parametrize("ending", ARGUMENTS)
def test_arguments_that_were_not_streamed_are_found_where_they_stand(ending: list[Payload]) -> None:
    answer = blocks(added(0, "function_call", call_id="c", name="f", arguments=""), *ending, completed())

    assert answer == [call("c", "f", "{}")]


def test_deltas_before_their_item_belong_to_it() -> None:
    answer = blocks(
        event("function_call_arguments.delta", item_id="fc", delta="{"),
        added(3, "function_call", id="fc", call_id="c", name="f", arguments=""),
        at(3, event("function_call_arguments.delta", delta="}")),
        done(3, "function_call", call_id="c", name="f", arguments="{}"),
        completed(),
    )

    assert answer == [call("c", "f", "{}")]


def test_calls_are_told_apart_by_their_own_ids_alone() -> None:
    names = ("a", "b")
    deltas = [
        event("function_call_arguments.delta", call_id=name, delta=f'{{"n":"{name}"}}') for name in names
    ]

    answer = blocks(
        *(added(None, "function_call", call_id=name, name="f") for name in names), *deltas, completed()
    )

    assert answer == [call(name, "f", f'{{"n":"{name}"}}', complete=False) for name in names]


@pytest.mark.parametrize("end", ["completed", "incomplete"])
def test_the_end_of_the_response_is_no_end_of_a_call_that_it_does_not_list(end: str) -> None:
    begun = added(0, "function_call", call_id="c", name="f", arguments="")
    told = at(0, event("function_call_arguments.done", arguments="{}"))

    assert blocks(begun, told, event(end, response={"status": end, "output": []})) == [
        call("c", "f", "{}", complete=False)
    ]


def test_items_keep_the_order_of_their_indexes() -> None:
    answer = blocks(
        added(1, "function_call", call_id="c", name="f", arguments="{}"),
        done(1, "function_call", call_id="c", name="f", arguments="{}"),
        added(0, "message", id="m"),
        text_delta(0, "Hi"),
        done(0, "message", id="m", **message("Hi")),
        completed(),
    )

    assert answer == [said("Hi", id="m"), call("c", "f", "{}")]


WHOLE: dict[str, tuple[list[Payload], list[Block]]] = {
    "text": ([at(0, event("output_text.done", text="Hi"))], [TextBlock("Hi")]),
    "text without an index": ([event("output_text.done", text="Hi"), event("output_text.done", text="Hi")], [TextBlock("Hi")]),
    "a refusal": ([at(0, event("refusal.done", refusal="No"))], [RefusalBlock("No")]),
    "text that was streamed": ([text_delta(0, "Hi"), at(0, event("output_text.done", text="Hi"))], [TextBlock("Hi")]),
    "text whose item is done": (
        [text_delta(None, "Hi"), done(None, "message", id="m", **message("Hi")), event("output_text.done", text="Hi")],
        [said("Hi", id="m")]),
    "text, then its item": (
        [at(0, event("output_text.done", text="Hi")), done(0, "message", id="m", **message("Hi"))], [said("Hi", id="m")]),
    "summaries": (
        [at(0, event("reasoning_summary_text.done", text="a", summary_index=0)),
         at(0, event("reasoning_summary_text.done", text="b", summary_index=1))], [ThinkingBlock("a\n\nb", summary=True)]),
    "summaries that were streamed": (
        [at(0, event("reasoning_summary_text.delta", delta="a", summary_index=0)),
         at(0, event("reasoning_summary_text.done", text="a", summary_index=0)),
         at(0, event("reasoning_summary_text.done", text="a"))], [ThinkingBlock("a", summary=True)]),
    "reasoning": (
        [at(0, event("reasoning_text.done", text="a", content_index=0)), at(0, event("reasoning_text.done", text="b", content_index=1))],
        [ThinkingBlock("ab")]),
    "reasoning under its other name": (
        [at(0, event("reasoning.delta", delta="a")), at(0, event("reasoning.delta", delta={"text": "b"})), at(0, event("reasoning.done", text="ab"))],
        [ThinkingBlock("ab")]),
    "summaries under their other name": (
        [at(0, event("reasoning_summary.delta", delta="a", summary_index=0)),
         at(0, event("reasoning_summary.done", text="b", summary_index=1))], [ThinkingBlock("a\n\nb", summary=True)]),
    "reasoning that was streamed": (
        [at(0, event("reasoning_text.delta", delta="a", content_index=0)), at(0, event("reasoning_text.done", text="a", content_index=1))],
        [ThinkingBlock("a")]),
}  # fmt: skip


@pytest.mark.parametrize(("payloads", "told"), [pytest.param(*case, id=name) for name, case in WHOLE.items()])
def test_what_comes_whole_is_told_if_it_was_not_streamed(payloads: list[Payload], told: list[Block]) -> None:
    assert blocks(*payloads, completed()) == told


def test_a_call_keeps_what_its_item_has_besides() -> None:
    answer = blocks(
        done(
            0,
            "function_call",
            id="fc",
            call_id="c",
            name="f",
            arguments="",
            namespace="n",
            status="completed",
        )
    )

    assert answer == [call("c", "f", "", id="fc", namespace="n")]


def test_a_call_without_an_id_gets_one_that_stays() -> None:
    payloads = (done(0, "function_call", name="f", arguments="{}"), completed())

    (first,), (second,) = blocks(*payloads), blocks(*payloads)

    assert isinstance(first, ToolUseBlock)
    assert first.id
    assert first == second


def test_a_call_that_a_limit_cut_is_not_whole() -> None:
    answer = respond(
        added(0, "function_call", id="fc", call_id="c", name="f", arguments=""),
        at(0, event("function_call_arguments.delta", delta='{"n":')),
        done(0, "function_call", id="fc", call_id="c", name="f", arguments='{"n":', status="incomplete"),
        event("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
    )

    assert answer.blocks() == [call("c", "f", '{"n":', complete=False, id="fc")]
    assert answer.finish == FinishChunk("length", "max_output_tokens")


@pytest.mark.parametrize("status", [None, {}, [], 1, "completed"], ids=str)
def test_any_other_status_of_a_call_cuts_nothing(status: object) -> None:
    whole = done(0, "function_call", id="fc", call_id="c", name="f", arguments="{}", status=status)

    assert blocks(whole, completed()) == [call("c", "f", "{}", id="fc")]


def test_a_final_object_is_read_where_nothing_was_streamed_and_never_twice() -> None:
    reasoning = {"type": "reasoning", "id": "r2", "summary": [{"type": "summary_text", "text": "so"}]}
    output = [
        reasoning,
        {"type": "message", "id": "m2", **message("Hi")},
        {"type": "function_call", "id": "f2", "call_id": "c", "name": "f", "arguments": "{}"},
    ]
    streamed = [
        {**event("output_item.done", item={**reasoning, "id": "r1"}), "output_index": 0},
        text_delta(1, "Hi"),
        done(1, "message", id="m1", **message("Hi")),
        done(2, "function_call", id="f1", call_id="c", name="f", arguments="{}"),
    ]

    alone = blocks(completed(*output))
    both = blocks(*streamed, completed(*output))
    partly = blocks(*streamed[:3], completed(*output))

    assert alone == [
        thinking("so", reasoning, summary=True),
        said("Hi", id="m2"),
        call("c", "f", "{}", id="f2"),
    ]
    assert both == [
        thinking("so", {**reasoning, "id": "r1"}, summary=True),
        said("Hi", id="m1"),
        call("c", "f", "{}", id="f1"),
    ]
    assert partly == [*both[:2], call("c", "f", "{}", id="f2")]


@pytest.mark.parametrize("in_done", [True, False])
def test_encrypted_reasoning_is_taken_from_the_end_only_where_it_was_missing(in_done: bool) -> None:
    item = {"type": "reasoning", "id": "r", "summary": [], **({"encrypted_content": "E1"} if in_done else {})}
    final = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "E2"}

    answer = blocks(
        {**event("output_item.done", item=item), "output_index": 0},
        done(1, "message", id="m", **message("Hi")),
        completed(final, {"type": "message", "id": "m", **message("Hi")}),
    )

    assert answer == [thinking("", item if in_done else final), said("Hi", id="m")]


def test_content_indexes_of_events_need_not_be_those_of_the_item() -> None:
    content = [{"type": "output_text", "text": text} for text in ("Hi", "more")]

    answer = blocks(text_delta(0, "Hi", content_index=1), done(0, "message", id="m", content=content))

    assert answer == [said("Hi", id="m"), said("more", id="m")]


def test_a_message_of_several_parts_is_several_blocks() -> None:
    content = [
        {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation", "url": "u"}]},
        {"type": "output_text", "text": "b"},
        {"type": "refusal", "refusal": "no"},
        {"type": "output_text", "text": "not streamed"},
    ]

    answer = blocks(
        text_delta(0, "a", content_index=0),
        text_delta(0, "b", content_index=1),
        at(0, event("refusal.delta", delta="no", content_index=2)),
        done(0, "message", id="m", content=content),
    )

    assert answer == [
        said("a", id="m", annotations=[{"type": "url_citation", "url": "u"}]),
        said("b", id="m"),
        RefusalBlock("no"),
        said("not streamed", id="m"),
    ]


def test_a_refusal_is_no_text() -> None:
    answer = respond(
        at(0, event("refusal.delta", delta="I can't", content_index=0)),
        at(0, event("refusal.delta", delta=".", content_index=0)),
        done(0, "message", id="m", content=[{"type": "refusal", "refusal": "I can't."}]),
        completed(),
    )

    assert answer.blocks() == [RefusalBlock("I can't.")]
    assert answer.finish == FinishChunk("stop", "completed")


def test_an_item_of_the_providers_own_is_kept_whole_in_its_place() -> None:
    item = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}}

    answer = blocks(
        added(0, "web_search_call", id="ws"),
        at(0, event("web_search_call.searching", item_id="ws")),
        added(1, "message", id="m"),
        text_delta(1, "Hi"),
        {**event("output_item.done", item=item), "output_index": 0},
        done(1, "message", id="m", **message("Hi")),
    )

    assert answer == [ProviderBlock("web_search_call", state_text(item), NAME), said("Hi", id="m")]


def test_a_generated_image_is_shown_and_its_item_kept() -> None:
    item = {"type": "image_generation_call", "id": "ig", "result": "aW1n", "output_format": "webp"}

    chunks = decode({**event("output_item.done", item=item), "output_index": 0}, completed())

    assert chunks == [
        ProviderChunk("image_generation_call", state_text(item), NAME, 0),
        BlockEndChunk(0),
        ImageChunk("image/webp", "aW1n", "", 1),
        BlockEndChunk(1),
        FinishChunk("stop", "completed"),
    ]


INCOMPLETE = [
    ({"reason": "max_output_tokens"}, FinishChunk("length", "max_output_tokens")),
    ({"reason": "content_filter"}, FinishChunk("content_filter", "content_filter")),
    ({"reason": "steered"}, FinishChunk("other", "steered")),
    (None, FinishChunk("length", "incomplete")),
]


@pytest.mark.parametrize(("details", "finish"), INCOMPLETE)
def test_an_incomplete_response_is_no_error(details: Payload | None, finish: FinishChunk) -> None:
    payload = event("incomplete", response={"status": "incomplete", "incomplete_details": details})

    assert decode(payload) == [finish]


def test_done_is_another_name_for_the_end() -> None:
    answer = respond(text_delta(0, "Hi"), event("done", response={"output": []}))

    assert (answer.blocks(), answer.error) == ([TextBlock("Hi")], None)


def test_the_status_counts_and_not_the_name_of_the_event() -> None:
    payload = event("completed", response={"status": "incomplete", "incomplete_details": None})

    assert decode(payload) == [FinishChunk("length", "incomplete")]


FAULT = {"code": "server_error", "message": "Broke."}
ERRORS = [
    pytest.param("", {"type": "error", **FAULT}, "server_error", "Broke.", True, id="members at the top"),
    pytest.param("", {"type": "error", "error": FAULT}, "server_error", "Broke.", True, id="nested"),
    pytest.param("", {"error": FAULT}, "server_error", "Broke.", True, id="without a type"),
    pytest.param("error", {"detail": "Broke."}, "", "Broke.", False, id="by the event's name"),
    pytest.param("error", "Broke.", "", "Broke.", False, id="a bare word"),
    pytest.param(
        "",
        event("failed", response={"status": "failed", "error": FAULT}),
        "server_error",
        "Broke.",
        True,
        id="failed",
    ),
    pytest.param(
        "",
        event("failed", response={"status": "failed"}),
        "failed",
        "the response was failed",
        False,
        id="no reason",
    ),
    pytest.param(
        "", event("cancelled", response={}), "cancelled", "the response was cancelled", False, id="cancelled"
    ),
    pytest.param(
        "",
        {"type": "error", "error": {"code": "insufficient_quota", "message": "No credit."}},
        "insufficient_quota",
        "No credit.",
        False,
        id="quota",
    ),
    pytest.param(
        "",
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slower."},
        "rate_limit_exceeded",
        "Slower.",
        True,
        id="rate",
    ),
]


@pytest.mark.parametrize(("name", "payload", "code", "text", "retryable"), ERRORS)
def test_an_error_is_found_wherever_it_stands(
    name: str, payload: Payload | str, code: str, text: str, retryable: bool
) -> None:
    decoder = ResponsesDecoder()

    chunks = decoder.feed(name, json.dumps(payload)) + decoder.close()

    assert chunks == [ErrorChunk("provider", text, code, retryable), FinishChunk("error", code)]


def test_an_error_line_that_is_no_json_is_an_error() -> None:
    decoder = ResponsesDecoder()

    assert decoder.feed("error", "out of memory") == [
        ErrorChunk("provider", "out of memory", "", False),
        FinishChunk("error", ""),
    ]


def test_an_error_is_told_once_and_keeps_what_came() -> None:
    answer = respond(
        text_delta(0, "Hel"),
        {"type": "error", "error": FAULT},
        event("failed", response={"status": "failed", "error": {"code": "other", "message": "Again."}}),
        completed(usage={"input_tokens": 3}),
    )

    assert answer.blocks() == [TextBlock("Hel")]
    assert answer.usage == Usage(3)
    assert answer.error == ErrorChunk("provider", "Broke.", "server_error", True)
    assert answer.finish == FinishChunk("error", "server_error")


def test_a_body_that_ends_early_is_truncated_and_its_call_never_whole() -> None:
    chunks = decode(
        added(0, "function_call", id="fc", call_id="c", name="f", arguments=""),
        at(0, event("function_call_arguments.delta", delta="{}")),
    )

    assert chunks == [
        ToolUseChunk("c", "f", "", 0),
        ToolUseChunk("", "", "{}", 0),
        ErrorChunk(
            "truncated",
            f"{NAME} stream ended after 'response.function_call_arguments.delta', before a terminal event",
            "",
            True,
        ),
    ]


@pytest.mark.parametrize(
    "data", [[], ["[DONE]"], [" "], ['{"type":"response.created","response":{}}', "[DONE]"]]
)
def test_done_alone_ends_nothing(data: list[str]) -> None:
    decoder = ResponsesDecoder()

    chunks = [chunk for payload in data for chunk in decoder.feed("", payload)] + decoder.close()

    assert [type(chunk) for chunk in chunks] == [ErrorChunk]


def test_unknown_events_are_counted_and_bounded() -> None:
    decoder = ResponsesDecoder()
    for number in range(2 * MAX_UNKNOWN):
        decoder.feed("", json.dumps(event(f"unheard_of_{number}")))
    decoder.feed("", json.dumps(event("content_part.done", part={})))

    assert len(decoder.unknown) == MAX_UNKNOWN + 1
    assert decoder.unknown["response.unheard_of_0"] == 1
    assert decoder.unknown["…"] == MAX_UNKNOWN


BROKEN = [
    "{",
    "[]",
    '"text"',
    '{"type":1}',
    '{"type":"response.output_item.added","item":null}',
    '{"type":"response.output_item.done","item":{}}',
    '{"type":"response.output_text.delta","delta":1}',
    '{"type":"response.output_item.done","item":{"type":"function_call","arguments":5}}',
]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_payload_raises(data: str) -> None:
    with pytest.raises(WireError):
        ResponsesDecoder().feed("", data)


def test_halves_of_a_character_are_joined_and_a_lost_one_is_replaced() -> None:
    family, rest = "\ud83d", "\udc67"

    chunks = decode(
        text_delta(0, f"a{family}"),
        text_delta(0, f"{rest}b"),
        text_delta(0, family),
        at(1, event("reasoning_text.delta", delta=family)),
        at(2, event("function_call_arguments.delta", delta=family)),
        at(3, event("refusal.delta", delta=family)),
        summary_delta(0, family),
    )

    assert chunks[:-1] == [
        TextChunk("a", 0),
        TextChunk("👧b", 0),
        TextChunk("\ufffd", 0),
        ThinkingChunk("\ufffd", index=1),
        ToolUseChunk("", "", "\ufffd", 2),
        RefusalChunk("\ufffd", 3),
        ThinkingChunk("\ufffd", index=4, summary=True),
    ]


MEMBERS = [
    "type",
    "item",
    "id",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "delta",
    "part",
    "text",
    "content",
    "summary",
    "arguments",
    "call_id",
    "name",
    "response",
    "output",
    "status",
    "usage",
    "error",
    "incomplete_details",
    "reason",
    "code",
    "message",
    "result",
    "input_tokens",
    "output_tokens_details",
    "annotations",
    "refusal",
]
SCALARS = [
    None, True, 0, 1, -1, 0.5, 2**70, "", "a", "\ud83d", "\udc67", "reasoning", "message", "function_call", "refusal", "output_text",
    "image_generation_call", "failed", "incomplete",
]  # fmt: skip


def made(chance: random.Random, depth: int = 4) -> Any:
    """Return JSON of the words that the decoder looks for, in the wrong places."""
    if depth == 0 or chance.random() < 0.4:
        return chance.choice(SCALARS)
    if chance.random() < 0.2:
        return [made(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {chance.choice(MEMBERS): made(chance, depth - 1) for _ in range(chance.randrange(6))}


@given(st.integers(0, 2**32))
def test_whatever_comes_only_wire_errors_are_raised_and_all_text_is_valid(seed: int) -> None:
    chance = random.Random(seed)
    decoder = ResponsesDecoder()
    chunks: list[Chunk] = []
    for _ in range(12):
        payload = {chance.choice(MEMBERS): made(chance) for _ in range(6)}
        payload["type"] = chance.choice([*_HANDLERS, "response.unheard_of"])
        try:
            chunks += decoder.feed("", json.dumps(payload))
        except WireError:
            continue
    chunks += decoder.close()

    json.dumps([asdict(chunk) for chunk in chunks], ensure_ascii=False).encode()


def test_the_key_goes_into_the_authorization_header() -> None:
    assert DIALECT.auth_headers("k") == {"Authorization": "Bearer k"}


STATUSES = [
    (
        401,
        {"message": "Incorrect API key provided: sk-abcdefgh.", "code": "invalid_api_key"},
        "authentication",
        False,
    ),
    (404, {"message": "The model `x` does not exist", "code": "model_not_found"}, "unknown_model", False),
    (
        400,
        {"message": "maximum context length", "code": "context_length_exceeded"},
        "context_overflow",
        False,
    ),
    (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, "quota", False),
    (429, {"message": "Rate limit reached", "code": "rate_limit_exceeded"}, "rate_limit", True),
    (503, {"message": "The server is overloaded", "code": "server_error"}, "overloaded", True),
]


@pytest.mark.parametrize(("status", "error", "code", "retryable"), STATUSES, ids=[s[2] for s in STATUSES])
def test_an_error_body_says_what_is_wrong(status: int, error: Payload, code: str, retryable: bool) -> None:
    fault = DIALECT.status_fault(status, json.dumps({"error": error}))

    assert fault == StatusFault(fault.message, code, retryable)
    assert "sk-abcdefgh" not in fault.message


def test_the_dialect_gives_fresh_decoders() -> None:
    target = Target("openai", "gpt-5.4")

    assert DIALECT.decoder(target) is not DIALECT.decoder(target)
    assert (DIALECT.name, DIALECT.framing) == ("openai-responses", "sse")
