"""Chat streams are read as their endpoints mean them: order of blocks, ends, errors, odd members."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.accumulators import Response
from agentkit.chunks import (
    BlockEndChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    ImageChunk,
    RefusalChunk,
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import ToolUseBlock, Usage
from agentkit.dialects.openai_chat_decoder import ChatDecoder
from agentkit.errors import WireError

pytestmark = pytest.mark.pure


def chunk(delta: Any = None, finish: Any = None, **members: Any) -> str:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return json.dumps({"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **members})


def read(*payloads: str | tuple[str, str], think_tags: bool = False, close: bool = True) -> list[Chunk]:
    """Feed payloads, each with its event name where it has one, and close."""
    decoder = ChatDecoder(think_tags=think_tags)
    out: list[Chunk] = []
    for payload in payloads:
        event, data = payload if isinstance(payload, tuple) else ("", payload)
        out += decoder.feed(event, data)
    return out + decoder.close() if close else out


def thinking(text: str, index: int = 0) -> ThinkingChunk:
    return ThinkingChunk(text, index=index)


STOP = chunk(finish="stop")


# one delta


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text", "thinking", "thought"])
def test_reasoning_has_many_names(name: str) -> None:
    assert read(chunk({name: "hm"}), STOP, "[DONE]") == [
        thinking("hm"),
        FinishChunk("stop", "stop"),
        BlockEndChunk(0),
    ]


def test_one_delta_says_reasoning_then_text_then_refusal_then_calls() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}
    delta = {"tool_calls": [call], "refusal": "no", "content": "t", "reasoning": "r"}

    assert read(chunk(delta), close=False) == [
        thinking("r", 0),
        BlockEndChunk(0),
        TextChunk("t", 1),
        BlockEndChunk(1),
        RefusalChunk("no", 2),
        BlockEndChunk(2),
        ToolUseChunk("c", "f", "{", 3),
    ]


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param({"reasoning": "hm", "reasoning_content": "hm"}, id="two plain fields"),
        pytest.param({"thought": "hm", "thinking": "hm", "reasoning": "hm"}, id="three plain fields"),
        pytest.param({"reasoning_content": [], "reasoning": "hm"}, id="an empty one first"),
        pytest.param({"reasoning_content": [{}], "reasoning": "hm"}, id="one without text first"),
    ],
)
def test_reasoning_said_twice_counts_once(delta: dict[str, Any]) -> None:
    assert read(chunk(delta), close=False) == [thinking("hm")]


def test_details_with_text_make_the_other_fields_a_repetition() -> None:
    detail = {"type": "reasoning.text", "text": "hm", "index": 0}
    delta = {"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [detail]}

    assert read(chunk(delta), close=False) == [thinking("hm")]


def test_details_without_text_leave_the_plain_reasoning() -> None:
    detail = {"type": "reasoning.encrypted", "data": "x", "index": 0}

    chunks = read(chunk({"reasoning_details": [detail], "reasoning": "hm"}), close=False)

    assert chunks == [
        thinking("hm", 0),
        BlockEndChunk(0),
        ThinkingChunk(
            provider_state='[{"type":"reasoning.encrypted","data":"x","index":0}]',
            provider_state_format="openrouter",
            index=1,
        ),
    ]


def test_a_summary_is_a_block_of_its_own() -> None:
    assert read(chunk({"reasoning": "raw"}), chunk({"reasoning_summary": "about it"}), close=False) == [
        thinking("raw", 0),
        BlockEndChunk(0),
        ThinkingChunk("about it", index=1, summary=True),
    ]


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"content": "", "refusal": "", "reasoning": "", "tool_calls": []}, id="empty"),
        pytest.param({"content": None, "refusal": None, "reasoning": None, "tool_calls": None}, id="null"),
        pytest.param({"content": []}, id="no parts"),
        pytest.param({"content": [{"type": "reference", "reference_ids": [1]}]}, id="a citation"),
        pytest.param({"annotations": [{"type": "url_citation"}], "audio": {"data": "x"}}, id="beside text"),
        pytest.param({"content": 5, "reasoning": True, "refusal": {}, "images": [1, {}]}, id="odd types"),
        pytest.param({"tool_calls": [{"index": 0, "id": "", "function": {"arguments": ""}}]}, id="empty call"),
        pytest.param({"reasoning_details": [{"type": "reasoning.text", "text": "", "index": 0}]}, id="empty detail"),
    ],
)  # fmt: skip
def test_what_is_empty_or_unknown_says_nothing(delta: dict[str, Any]) -> None:
    assert read(chunk({"content": "a"}), chunk(delta), chunk({"content": "b"}), close=False) == [
        TextChunk("a", 0),
        TextChunk("b", 0),
    ]


def test_content_may_be_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "he"}, {"type": "text", "text": "avy"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": ", he"}]},
        {"type": "reasoning", "text": "avy"},
        {"type": "text", "text": "Light"},
        "ly",
        {"type": "refusal", "refusal": "no"},
        {"type": "image_url", "image_url": "http://x/y.png"},
    ]

    assert read(chunk({"content": parts}), close=False) == [
        thinking("heavy", 0),
        thinking(", he", 0),
        thinking("avy", 0),
        BlockEndChunk(0),
        TextChunk("Light", 1),
        TextChunk("ly", 1),
        BlockEndChunk(1),
        RefusalChunk("no", 2),
        BlockEndChunk(2),
        ImageChunk("", "", "http://x/y.png", 3),
        BlockEndChunk(3),
    ]


def test_images_are_blocks() -> None:
    images = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]

    assert read(chunk({"content": "see", "images": images}), close=False) == [
        TextChunk("see", 0),
        BlockEndChunk(0),
        ImageChunk("image/png", "QUJD", "", 1),
        BlockEndChunk(1),
        ImageChunk("", "", "https://x/y.png", 2),
        BlockEndChunk(2),
    ]


# choices


def test_only_the_first_choice_is_read() -> None:
    payload = {
        "choices": [
            {"index": 1, "delta": {"content": "b"}, "finish_reason": "length"},
            {"index": 0, "delta": {"content": "a"}, "finish_reason": None},
        ]
    }

    assert read(json.dumps(payload), close=False) == [TextChunk("a", 0)]


@pytest.mark.parametrize("index", [{}, {"index": None}, {"index": "0"}], ids=str)
def test_a_choice_without_a_number_is_the_first(index: dict[str, Any]) -> None:
    payload = {"choices": [{**index, "delta": {"content": "a"}}]}

    assert read(json.dumps(payload), close=False) == [TextChunk("a", 0)]


def test_a_message_beside_deltas_is_not_read_again() -> None:
    choice = {"index": 0, "delta": {"content": "a"}, "message": {"content": "a"}}
    last = {"index": 0, "delta": None, "message": {"content": "a"}, "finish_reason": "stop"}

    chunks = read(json.dumps({"choices": [choice]}), json.dumps({"choices": [last]}), close=False)

    assert chunks == [TextChunk("a", 0), FinishChunk("stop", "stop")]


def test_a_whole_answer_in_one_payload_is_read() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "r"}
    payload = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    assert read(json.dumps(payload)) == [
        thinking("r", 0),
        BlockEndChunk(0),
        TextChunk("a", 1),
        FinishChunk("stop", "stop"),
        BlockEndChunk(1),
    ]


# the end


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("STOP", "stop"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("refusal", "refusal"),
        ("COMPLETE", "stop"),
        ("model_context_window_exceeded", "length"),
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("something new", "other"),
        ("something: new", "other"),
    ],
)
def test_finish_reasons_are_our_words(word: str, reason: str) -> None:
    assert read(chunk({"content": "a"}, word)) == [
        TextChunk("a", 0),
        FinishChunk(reason, word),  # type: ignore[arg-type]
        BlockEndChunk(0),
    ]


def test_text_and_another_finish_may_follow_a_finish() -> None:
    assert read(chunk({"content": "a"}, "tool_calls"), chunk({"content": "b"}, "stop"), "[DONE]") == [
        TextChunk("a", 0),
        FinishChunk("tool_calls", "tool_calls"),
        TextChunk("b", 0),
        FinishChunk("stop", "stop"),
        BlockEndChunk(0),
    ]


@pytest.mark.parametrize("nothing", [None, "", "null", "NOT_FINISHED"], ids=str)
def test_done_alone_is_an_end(nothing: str | None) -> None:
    assert read(chunk({"content": "a"}, nothing), " [DONE]\n") == [
        TextChunk("a", 0),
        BlockEndChunk(0),
        FinishChunk("stop", ""),
    ]


def test_no_end_at_all_is_truncation_and_ends_no_block() -> None:
    chunks = read(chunk({"content": "a"}))

    assert chunks[:-1] == [TextChunk("a", 0)]
    assert isinstance(chunks[-1], ErrorChunk)
    assert (chunks[-1].kind, chunks[-1].retryable) == ("truncated", True)


@pytest.mark.parametrize(("finish", "ends"), [("length", False), ("stop", True), ("tool_calls", True)])
def test_a_length_cut_does_not_end_a_call_that_it_cut(finish: str, ends: bool) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}

    chunks = read(chunk({"tool_calls": [call]}), chunk({}, finish), "[DONE]")

    assert (BlockEndChunk(0) in chunks) == ends


def test_an_empty_body_is_truncated() -> None:
    assert [type(c) for c in read()] == [ErrorChunk]


def test_after_done_nothing_counts() -> None:
    decoder = ChatDecoder()
    decoder.feed("", "[DONE]")

    assert decoder.feed("", chunk({"content": "late"})) == []
    assert decoder.close() == []


@pytest.mark.parametrize("word", ["error", "abort", "function_call_filter: MALFORMED_FUNCTION_CALL"])
def test_a_finish_that_says_error_is_one(word: str) -> None:
    chunks = read(chunk({"content": "a"}, word), "[DONE]")

    assert chunks[:2] == [TextChunk("a", 0), FinishChunk("error", word)]
    assert isinstance(chunks[-1], ErrorChunk)
    assert (chunks[-1].kind, chunks[-1].code) == ("provider", word)


def test_a_word_for_no_reason_yet_ends_nothing() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}

    chunks = read(chunk({"tool_calls": [call]}, "null"))

    assert [type(c) for c in chunks] == [ToolUseChunk, ToolUseChunk, ErrorChunk]


# errors


@pytest.mark.parametrize(
    ("payload", "code", "message", "retryable"),
    [
        pytest.param(("error", '{"error":{"message":"Tool call validation failed","code":"tool_use_failed","status_code":400}}'),
                     "tool_use_failed", "Tool call validation failed", False, id="an event named error"),
        pytest.param(("error", '{"detail":"no slot","error":{"message":"no slot"}}'), "", "no slot", True, id="an error field"),
        pytest.param(("error", "upstream gone"), "", "upstream gone", True, id="plain words in an error event"),
        pytest.param('{"error":{"code":502,"message":"Bad gateway"},"choices":[{"index":0,"delta":{"content":""}}]}',
                     "502", "Bad gateway", True, id="a member of a chunk"),
        pytest.param('{"error":"UPSTREAM_BURST"}', "", "UPSTREAM_BURST", True, id="a bare string in error"),
        pytest.param('"rate limit reached"', "", "rate limit reached", True, id="a bare string"),
        pytest.param('[{"error":{"code":400,"message":"bad"}}]', "400", "bad", False, id="a list"),
        pytest.param('{"object":"error","message":"too long","type":"BadRequestError","code":400}',
                     "400", "too long", False, id="vLLM"),
        pytest.param('{"detail":"gone"}', "", "gone", True, id="FastAPI"),
        pytest.param('{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"},"choices":null}',
                     "1008", "insufficient balance", False, id="MiniMax"),
        pytest.param('{"base_resp":{"status_code":1027,"status_msg":"sensitive"},"choices":[{"index":0,"delta":{}}],"usage":{}}',
                     "1027", "sensitive", False, id="MiniMax beside a choice"),
        pytest.param('{"error_code":17,"error_msg":"daily limit"}', "17", "daily limit", True, id="Qianfan"),
        pytest.param('{"object":"chat.completion.chunk","choices":null,"error_type":"BadRequestError","error_message":"too long"}',
                     "BadRequestError", "too long", False, id="DeepInfra"),
        pytest.param('{"choices":[],"x_groq":{"error":"over capacity"}}', "", "over capacity", True, id="Groq"),
        pytest.param('{"choices":[{"index":0,"delta":{},"error":{"code":429,"message":"slow down"}}]}',
                     "429", "slow down", True, id="a member of a choice"),
        pytest.param('{"error":{"code":500,"message":"x"}}', "500", "x", True, id="500"),
        pytest.param('{"error":{"code":"context_length_exceeded","message":"x"}}',
                     "context_length_exceeded", "x", False, id="context"),
        pytest.param('{"error":{"code":"invalid_api_key","message":"x"}}', "invalid_api_key", "x", False, id="key"),
        pytest.param('{"error":{"type":"overloaded_error","message":"x"}}', "overloaded_error", "x", True, id="overload"),
        pytest.param('{"error":{"message":"Request timed out"}}', "", "Request timed out", True, id="timeout"),
    ],
)  # fmt: skip
def test_an_error_is_read_in_every_form(
    payload: str | tuple[str, str], code: str, message: str, retryable: bool
) -> None:
    error = ErrorChunk("provider", message, code, retryable)

    assert read(payload, "[DONE]") == [error]
    assert read(chunk({"content": "a"}), payload) == [TextChunk("a", 0), error, BlockEndChunk(0)]


@pytest.mark.parametrize("nothing", [None, {}, "", False, {"code": 0, "message": ""}], ids=str)
def test_an_empty_error_is_none(nothing: object) -> None:
    for code in (None, 0, "0", ""):
        assert read(chunk({}, "stop", base_resp={"status_code": code, "status_msg": "ok"})) == [
            FinishChunk("stop", "stop")
        ]
    assert read(chunk({"content": "a"}, "stop", error=nothing)) == [
        TextChunk("a", 0),
        FinishChunk("stop", "stop"),
        BlockEndChunk(0),
    ]


def test_what_was_held_back_goes_before_the_error() -> None:
    half = json.dumps({"choices": [{"delta": {"content": "go \ud83d"}}]})

    chunks = read(half, '{"error":"gone"}', close=False)

    assert chunks == [TextChunk("go ", 0), TextChunk("\ufffd", 0), ErrorChunk("provider", "gone", "", True)]


def test_a_call_that_an_error_cuts_is_never_whole() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}

    for end in ('{"error":"gone"}', chunk({}, "stop", error={"message": "gone"}), chunk({}, "error")):
        chunks = read(chunk({"tool_calls": [call]}), end, "[DONE]")

        assert BlockEndChunk(0) not in chunks


@pytest.mark.parametrize(
    "payload",
    [
        "nonsense",
        "{",
        "5",
        "[1]",
        '{"choices":5}',
        '{"choices":[5]}',
        '{"choices":[{"delta":5}]}',
        "[" * 5000,
    ],
)
def test_a_broken_payload_raises(payload: str) -> None:
    with pytest.raises(WireError, match="openai-chat"):
        read(payload)


@pytest.mark.parametrize(
    "payload", ["", "  ", "null", '""', "[]", "{}", '{"choices":null}', '{"choices":[]}']
)
def test_a_payload_that_says_nothing_is_nothing(payload: str) -> None:
    assert read(payload, STOP) == [FinishChunk("stop", "stop")]


# usage


def test_usage_is_told_when_it_changes() -> None:
    one = {"prompt_tokens": 3, "completion_tokens": 1}
    two = {"prompt_tokens": 3, "completion_tokens": 2}

    chunks = read(
        chunk({"content": "a"}, usage=one),
        chunk({"content": "b"}, usage=one),
        chunk({}, "stop", usage=None),
        json.dumps({"choices": [], "usage": two}),
        close=False,
    )

    assert chunks == [
        TextChunk("a", 0),
        UsageChunk(Usage(3, 1)),
        TextChunk("b", 0),
        FinishChunk("stop", "stop"),
        UsageChunk(Usage(3, 2)),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": [], "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}},
        {"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}]},
    ],
    ids=["Groq", "Moonshot"],
)
def test_usage_is_found_where_it_hides(payload: dict[str, Any]) -> None:
    assert read(json.dumps(payload), close=False) == [UsageChunk(Usage(3, 2))]


# surrogates and tags


@pytest.mark.parametrize("name", ["content", "reasoning", "reasoning_summary", "refusal"])
def test_halves_of_a_pair_are_joined_over_deltas(name: str) -> None:
    payloads = [
        json.dumps({"choices": [{"delta": {name: text}}]}) for text in ("a\ud83d", "\ude80b", "c\ud83d", "d")
    ]

    texts = [
        getattr(c, field)
        for c in read(*payloads, "[DONE]")
        for field in ("text", "thinking", "refusal")
        if hasattr(c, field)
    ]

    assert "".join(texts) == "a🚀bc\ufffdd"


def test_a_half_that_stays_alone_ends_with_its_block() -> None:
    half = json.dumps({"choices": [{"delta": {"reasoning": "\ud83d"}}]})

    assert read(half, chunk({"content": "b"}), close=False) == [
        thinking("\ufffd", 0),
        BlockEndChunk(0),
        TextChunk("b", 1),
    ]


def test_tags_are_looked_for_only_where_the_profile_says_so() -> None:
    payloads = [chunk({"content": "<thi"}), chunk({"content": "nk>a</think>b <"}), STOP]

    assert read(*payloads, think_tags=True) == [
        thinking("a", 0),
        BlockEndChunk(0),
        TextChunk("b ", 1),
        FinishChunk("stop", "stop"),
        TextChunk("<", 1),
        BlockEndChunk(1),
    ]
    assert read(*payloads)[:2] == [TextChunk("<thi", 0), TextChunk("nk>a</think>b <", 0)]


def test_half_a_tag_is_text_once_a_call_comes() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}

    chunks = read(chunk({"content": "a <th"}), chunk({"tool_calls": [call]}), think_tags=True, close=False)

    assert chunks == [
        TextChunk("a ", 0),
        TextChunk("<th", 0),
        BlockEndChunk(0),
        ToolUseChunk("c", "f", "{", 1),
    ]


# anything at all

_TEXT = st.text(max_size=8) | st.sampled_from(
    ["<think>", "</think>", "<th", "\ud83d", "\ude80", "{", "}", '{"a":1}', ""]
)
_ODD = st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | _TEXT
_JSON = st.recursive(
    _ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3), max_leaves=6
)
_CALL = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2) | _ODD,
        "id": st.sampled_from(["a", "b", ""]) | _JSON,
        "function": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["f", "g", ""]) | _JSON, "arguments": _TEXT | _JSON}
        )
        | _JSON,
        "extra_content": _JSON,
    },
)
_DETAIL = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted"]) | _JSON,
        "index": st.integers(0, 2) | _JSON,
        "id": st.sampled_from(["x", ""]) | _JSON,
        "text": _TEXT | _JSON,
        "summary": _TEXT,
        "data": _TEXT | _JSON,
        "signature": _TEXT | _JSON,
    },
)
_DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": _TEXT
        | st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "thinking", "x"])},
                optional={"text": _TEXT, "thinking": _JSON},
            )
        )
        | _JSON,
        "reasoning": _TEXT | _JSON,
        "reasoning_content": _TEXT,
        "reasoning_summary": _TEXT | _JSON,
        "refusal": _TEXT | _JSON,
        "reasoning_details": st.lists(_DETAIL, max_size=3) | _JSON,
        "tool_calls": st.lists(_CALL, max_size=3) | _JSON,
        "function_call": _JSON,
        "images": _JSON,
    },
)
_CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 1) | _ODD,
        "delta": _DELTA | _JSON,
        "finish_reason": st.sampled_from(["stop", "length", "tool_calls", "error", None]) | _JSON,
        "usage": _JSON,
        "error": _JSON,
        "message": _DELTA,
    },
)
_PAYLOAD = (
    st.fixed_dictionaries(
        {},
        optional={
            "choices": st.lists(_CHOICE, max_size=2) | _JSON,
            "usage": _JSON,
            "error": _JSON,
            "x_groq": _JSON,
            "message": _JSON,
            "base_resp": _JSON,
        },
    )
    | _JSON
)
_STREAM = st.lists(
    st.tuples(st.sampled_from(["", "", "", "error"]), _PAYLOAD.map(json.dumps) | st.sampled_from(["[DONE]", "", "x"])), max_size=10
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(_STREAM, st.booleans())
def test_no_stream_does_worse_than_a_wire_error(stream: list[tuple[str, str]], think_tags: bool) -> None:
    decoder = ChatDecoder(think_tags=think_tags)
    chunks: list[Chunk] = []
    for event, data in stream:
        try:
            chunks += decoder.feed(event, data)
        except WireError:
            break
    chunks += decoder.close()

    response = Response()
    for part in chunks:
        response.add(part)
    blocks = response.blocks()
    assert sorted({c.index for c in chunks if hasattr(c, "index")}) == list(range(len(blocks)))
    json.dumps([repr(block) for block in blocks], ensure_ascii=False).encode()
    for block in blocks:
        assert not isinstance(block, ToolUseBlock) or block.id
        if state := getattr(block, "provider_state", None):
            json.loads(state)
    ids = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
    assert len(ids) == len(set(ids))
    assert response.finish or response.error


@settings(max_examples=30, deadline=None)
@given(_STREAM)
def test_the_same_payloads_read_the_same(stream: list[tuple[str, str]]) -> None:
    def outcome() -> list[Chunk] | str:
        try:
            return read(*stream)
        except WireError as error:
            return str(error)

    assert repr(outcome()) == repr(outcome())


def test_states_are_written_a_few_times_however_long_the_stream() -> None:
    decoder = ChatDecoder()
    states = 0
    for number in range(2000):
        detail = {"type": "reasoning.text", "text": "a", "index": 0}
        delta = {"reasoning_details": [detail], "content": "b"}
        chunks = decoder.feed("", chunk(delta, "stop" if number % 2 else None, error={"code": number}))
        states += sum(isinstance(c, ThinkingChunk) and c.provider_state is not None for c in chunks)

    states += sum(isinstance(c, ThinkingChunk) and c.provider_state is not None for c in decoder.close())

    assert states <= 3
