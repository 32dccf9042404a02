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
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import Block, ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agentkit.dialects.base import StatusFault, Target, feed_all, state_text
from agentkit.dialects.gemini import DIALECT, GeminiDecoder
from agentkit.dialects.gemini_arguments import MAX_DEPTH, PartialArguments
from agentkit.dialects.gemini_request import NAME, SIGNATURE
from agentkit.dialects.gemini_words import FAILED
from agentkit.errors import WireError

pytestmark = pytest.mark.pure

Payload = dict[str, Any]


def parts(*content: Payload, **members: object) -> Payload:
    return {"candidates": [{"content": {"role": "model", "parts": list(content)}, "index": 0, **members}]}


def finish(reason: str, **members: object) -> Payload:
    return {"candidates": [{"finishReason": reason, **members}]}


def thought(text: str) -> Payload:
    return {"text": text, "thought": True}


def decode(*payloads: Payload) -> list[Chunk]:
    decoder = GeminiDecoder()
    out = [chunk for payload in payloads for chunk in decoder.feed("", json.dumps(payload))]
    return out + decoder.close()


def respond(*payloads: Payload) -> Response:
    response = Response()
    for chunk in decode(*payloads):
        response.add(chunk)
    return response


def blocks(*payloads: Payload) -> list[Block]:
    return respond(*payloads).blocks()


def calls(*payloads: Payload) -> list[ToolUseBlock]:
    return [block for block in blocks(*payloads) if isinstance(block, ToolUseBlock)]


def test_a_whole_answer_in_chunks() -> None:
    usage = {
        "promptTokenCount": 9,
        "toolUsePromptTokenCount": 3,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 5,
    }

    chunks = decode(
        parts(thought("hm")) | {"usageMetadata": {"promptTokenCount": 9}},
        parts(thought(", hm"), {"text": "Hel"}),
        parts({"text": "lo"}),
        parts({"text": "", "thoughtSignature": "c2ln"}, finishReason="STOP") | {"usageMetadata": usage},
    )

    assert chunks == [
        ThinkingChunk("hm", index=0),
        UsageChunk(Usage(9)),
        ThinkingChunk(", hm", index=0),
        BlockEndChunk(0),
        TextChunk("Hel", 1),
        TextChunk("lo", 1),
        BlockEndChunk(1),
        TextChunk("", 2, "c2ln", NAME),
        BlockEndChunk(2),
        UsageChunk(Usage(12, 7, 5, 4)),
        FinishChunk("stop", "STOP"),
    ]


def test_usage_is_told_when_it_changes() -> None:
    counts = [
        {"promptTokenCount": 1},
        {"promptTokenCount": 1},
        {"promptTokenCount": 1, "thoughtsTokenCount": 2},
    ]

    assert decode(*({"usageMetadata": usage} for usage in counts))[:-1] == [
        UsageChunk(Usage(1)),
        UsageChunk(Usage(1, 2, 2)),
    ]


def test_a_signed_part_is_a_block_of_its_own_whatever_stands_beside_it() -> None:
    answer = blocks(
        parts({"text": "a"}),
        parts({"text": "b", "thoughtSignature": "s1"}),
        parts({"text": "c"}, {"text": "", "thoughtSignature": "s2"}),
        parts({**thought("d"), "thoughtSignature": "s3"}, thought("e")),
        parts({"thoughtSignature": "s4"}),
        parts({"text": "f", "thoughtSignature": ""}),
        finish("STOP"),
    )

    assert answer == [
        TextBlock("a"),
        TextBlock("b", "s1", NAME),
        TextBlock("c"),
        TextBlock("", "s2", NAME),
        ThinkingBlock("d", "s3", signature_format=NAME),
        ThinkingBlock("e"),
        TextBlock("", "s4", NAME),
        TextBlock("f"),
    ]


def test_empty_parts_open_nothing_and_end_nothing() -> None:
    answer = blocks(
        parts({"text": "a"}), parts({"text": ""}, thought(""), {}), parts({"text": "b"}), {"candidates": [{}]}
    )

    assert answer == [TextBlock("ab")]


def test_calls_have_their_own_signatures_and_ids() -> None:
    answer = respond(
        parts({"functionCall": {"name": "f", "args": {"n": 1}, "id": "c1"}, "thoughtSignature": "s"}),
        parts({"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "g"}}),
        finish("STOP") | {"responseId": "r"},
    )
    (first, *others) = answer.blocks()

    assert first == ToolUseBlock("c1", "f", '{"n":1}', True, "s", NAME)
    assert [(b.name, b.input, b.signature, b.complete) for b in others if isinstance(b, ToolUseBlock)] == [
        ("f", "{}", "", True),
        ("g", "{}", "", True),
    ]
    assert answer.finish == FinishChunk("tool_calls", "STOP")


def test_made_up_ids_are_distinct_and_the_same_however_often_it_is_read() -> None:
    payload = parts({"functionCall": {"name": "f"}}, {"functionCall": {"name": "f"}}, finishReason="STOP")

    first = [call.id for call in calls({**payload, "responseId": "r1"})]

    assert first == [call.id for call in calls({**payload, "responseId": "r1"})]
    assert len({*first, *(call.id for call in calls({**payload, "responseId": "r2"}))}) == 4
    assert [call.id for call in calls(payload)] == [call.id for call in calls(payload)]


@pytest.mark.parametrize("text", ["", "Hi"])
def test_a_call_is_not_lost_beside_a_text(text: str) -> None:
    part = {"text": text, "functionCall": {"id": "c", "name": "f"}, "thoughtSignature": "s"}
    payloads = [json.dumps(parts(content)) for content in ({"text": "So: "}, part)]
    quick: list[Chunk] = []
    feed_all(GeminiDecoder(), "", payloads, quick)

    answer = blocks(parts({"text": "So: "}), parts(part))

    assert answer == [TextBlock(f"So: {text}"), ToolUseBlock("c", "f", "{}", True, "s", NAME)]
    assert quick == decode(parts({"text": "So: "}), parts(part))[:-1]


def test_an_id_is_one_calls_only() -> None:
    first, second = ({"functionCall": {"id": "c", "name": "f", "args": {"n": n}}} for n in (1, 2))

    ids = [call.id for call in calls(parts(first, second, first))]

    assert ids[0] == ids[2] == "c"
    assert ids[1] not in ("c", "")


def test_a_part_of_the_providers_own_is_not_lost_beside_an_empty_text() -> None:
    part = {"text": "", "executableCode": {"code": "1"}, "thoughtSignature": "s"}

    assert blocks(parts(part)) == [ProviderBlock("executableCode", state_text(part), NAME)]


def test_a_call_after_the_finish_reason_changes_the_finish() -> None:
    chunks = decode(finish("STOP"), parts({"functionCall": {"name": "f", "id": "c"}}))

    assert [chunk for chunk in chunks if isinstance(chunk, FinishChunk)] == [
        FinishChunk("stop", "STOP"),
        FinishChunk("tool_calls", "STOP"),
    ]


def piece(path: str, **value: object) -> Payload:
    return {"jsonPath": path, **value}


def streamed(*pieces: Payload, more: bool = True) -> Payload:
    return parts({"functionCall": {"partialArgs": list(pieces), **({"willContinue": True} if more else {})}})


def test_streamed_arguments_are_put_together() -> None:
    answer = calls(
        parts({"functionCall": {"name": "f", "id": "c", "willContinue": True}, "thoughtSignature": "s"}),
        streamed(piece("$.city", stringValue="San ", willContinue=True), piece("$.n", numberValue=2)),
        streamed(piece("$.city", stringValue="Francisco", willContinue=True)),
        streamed(piece("$.city", stringValue=""), piece("$.list[1].x", boolValue=False)),
        streamed(piece("$.list[0]", nullValue="NULL_VALUE"), piece('$[\'a b\']["c\\"d"]', stringValue="é")),
        parts({"functionCall": {}}, {"functionCall": {}}),
        parts({"functionCall": {"name": "g", "id": "d", "partialArgs": [piece("$.x", stringValue="y")]}}),
        finish("STOP"),
    )

    assert answer == [
        ToolUseBlock(
            "c",
            "f",
            '{"city":"San Francisco","n":2,"list":[null,{"x":false}],"a b":{"c\\"d":"é"}}',
            True,
            "s",
            NAME,
        ),
        ToolUseBlock("d", "g", '{"x":"y"}', True),
    ]


def test_a_streamed_call_without_its_end_is_not_whole() -> None:
    begun = parts({"functionCall": {"name": "f", "id": "c", "willContinue": True}})
    some = streamed(piece("$.a", stringValue="b", willContinue=True))
    other = parts({"functionCall": {"name": "g", "id": "d"}})

    assert calls(begun, some, finish("MAX_TOKENS")) == [ToolUseBlock("c", "f", '{"a":"b"}', False)]
    for second in (other, parts({"functionCall": {"name": "g", "id": "d", "willContinue": True}})):
        assert calls(begun, some, second, parts({"functionCall": {}}), finish("STOP")) == [
            ToolUseBlock("c", "f", '{"a":"b"}', False),
            ToolUseBlock("d", "g", "{}", True),
        ]


def test_absurd_indexes_allocate_nothing() -> None:
    arguments = PartialArguments()
    arguments.add(piece("$.a[999999999]", numberValue=1))
    arguments.add(piece("$.a[3]", numberValue=0))

    assert arguments.text() == '{"a":[0,1]}'


PATHS = [None, 1, "", "$", "a", "$.", "$..a", "$.a[", "$.a[x]", "$.a.", "$" + ".a" * (MAX_DEPTH + 1)]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_to_nothing_is_broken(path: object) -> None:
    with pytest.raises(WireError):
        PartialArguments().add({"jsonPath": path, "numberValue": 1})


OPAQUE: list[Payload] = [
    {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    {"toolCall": {"toolType": "X"}},
    {"toolResponse": {"toolType": "X"}},
    {"inlineData": {"mimeType": "audio/wav", "data": "YQ=="}},
    {"unheardOf": 1},
]


@pytest.mark.parametrize("part", OPAQUE, ids=[next(iter(part)) for part in OPAQUE])
def test_a_part_of_the_providers_own_is_kept_whole_in_its_place(part: Payload) -> None:
    kind = next(iter(part))

    chunks = decode(parts({"text": "a"}, part, {"text": "b"}), finish("STOP"))

    assert chunks == [
        TextChunk("a", 0),
        BlockEndChunk(0),
        ProviderChunk(kind, state_text(part), NAME, 1),
        BlockEndChunk(1),
        TextChunk("b", 2),
        FinishChunk("stop", "STOP"),
        BlockEndChunk(2),
    ]


def test_images_are_shown_and_their_signatures_kept_beside_them() -> None:
    data = {"mimeType": "image/png", "data": "aW1n"}
    hidden = {"inlineData": data, "thought": True}

    chunks = decode(parts({"inlineData": data, "thoughtSignature": "s"}, hidden), finish("STOP"))

    assert chunks == [
        ImageChunk("image/png", "aW1n", "", 0),
        BlockEndChunk(0),
        ProviderChunk(SIGNATURE, state_text({"thoughtSignature": "s"}), NAME, 1),
        BlockEndChunk(1),
        ProviderChunk("inlineData", state_text(hidden), NAME, 2),
        BlockEndChunk(2),
        FinishChunk("stop", "STOP"),
    ]


@pytest.mark.parametrize(
    ("reason", "word"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("OTHER", "other"), ("UNHEARD_OF", "other")],
)
def test_finish_reasons(reason: str, word: Any) -> None:
    assert decode(finish(reason)) == [FinishChunk(word, reason)]


@pytest.mark.parametrize(("reason", "retryable"), FAILED.items())
def test_an_answer_that_was_broken_off_is_an_error_and_keeps_what_came(reason: str, retryable: bool) -> None:
    chunks = decode(parts({"text": "a"}), finish(reason, finishMessage="because"))

    assert chunks == [
        TextChunk("a", 0),
        ErrorChunk("provider", "because", reason, retryable),
        FinishChunk("error", reason),
    ]


def test_a_blocked_prompt_is_an_error_with_its_reason() -> None:
    feedback = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 4},
    }

    assert decode(feedback) == [
        UsageChunk(Usage(4)),
        ErrorChunk("provider", "the prompt was blocked: PROHIBITED_CONTENT", "PROHIBITED_CONTENT", False),
        FinishChunk("error", "PROHIBITED_CONTENT"),
    ]


FAULT = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
ERRORS = [
    pytest.param("", {"error": FAULT}, "503", True, id="a member"),
    pytest.param("", [{"error": FAULT}], "503", True, id="in a list"),
    pytest.param("error", {"error": FAULT}, "503", True, id="an event"),
    pytest.param("error", "The model is overloaded.", "", True, id="a bare word"),
    pytest.param("", FAULT, "503", True, id="a payload of its own"),
    pytest.param("", {"detail": "The model is overloaded."}, "", True, id="a proxy's"),
    pytest.param(
        "",
        {"error": {**FAULT, "code": 400, "status": "INVALID_ARGUMENT", "message": "No."}},
        "400",
        False,
        id="ours",
    ),
]


@pytest.mark.parametrize(("name", "payload", "code", "retryable"), ERRORS)
def test_an_error_is_found_wherever_it_stands(name: str, payload: object, code: str, retryable: bool) -> None:
    decoder = GeminiDecoder()

    chunks = decoder.feed(name, json.dumps(payload)) + decoder.close()

    assert chunks == [
        ErrorChunk("provider", "No." if code == "400" else "The model is overloaded.", code, retryable),
        FinishChunk("error", code),
    ]


def test_an_error_stands_whatever_comes_after_it() -> None:
    chunks = decode(
        {"error": FAULT}, {"error": {"code": 1}}, parts({"functionCall": {"name": "f"}}), finish("STOP")
    )

    assert [type(chunk) for chunk in chunks] == [ErrorChunk, FinishChunk, ToolUseChunk, BlockEndChunk]


def test_a_body_that_ends_early_is_truncated() -> None:
    assert decode(parts({"text": "a"})) == [
        TextChunk("a", 0),
        ErrorChunk("truncated", "gemini stream ended after 1 payloads, before a finishReason", "", True),
    ]
    assert [type(chunk) for chunk in decode()] == [ErrorChunk]


def test_only_the_first_candidate_is_read() -> None:
    candidates = [
        {"index": 1, "content": {"parts": [{"text": "no"}]}},
        {"content": {"parts": [{"text": "yes"}]}},
    ]

    assert blocks({"candidates": candidates}) == [TextBlock("yes")]


BROKEN = [
    "{",
    "1",
    '"text"',
    '{"candidates":[{"content":{"parts":[1]}}]}',
    '{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":1}]}}]}',
    '{"candidates":[{"content":{"parts":[{"functionCall":{"name":1}}]}}]}',
]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_payload_raises(data: str) -> None:
    with pytest.raises(WireError):
        GeminiDecoder().feed("", data)


def test_halves_of_a_character_are_joined_and_a_lost_one_is_replaced() -> None:
    chunks = decode(
        parts({"text": "a\ud83d"}),
        parts({"text": "\udc67b"}),
        parts(thought("\ud83d")),
        parts({"functionCall": {"name": "f", "id": "c", "args": {"t": "\ud83d"}}}),
        finish("STOP"),
    )

    assert chunks == [
        TextChunk("a", 0),
        TextChunk("👧b", 0),
        BlockEndChunk(0),
        ThinkingChunk("\ufffd", index=1),
        BlockEndChunk(1),
        ToolUseChunk("c", "f", '{"t":"\ufffd"}', 2),
        BlockEndChunk(2),
        FinishChunk("tool_calls", "STOP"),
    ]


MEMBERS = [
    "candidates",
    "content",
    "parts",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "name",
    "args",
    "id",
    "partialArgs",
    "jsonPath",
    "stringValue",
    "numberValue",
    "willContinue",
    "inlineData",
    "mimeType",
    "data",
    "finishReason",
    "finishMessage",
    "usageMetadata",
    "promptTokenCount",
    "promptFeedback",
    "blockReason",
    "error",
    "code",
    "message",
    "executableCode",
    "index",
    "responseId",
]
SCALARS = [
    None,
    True,
    0,
    1,
    -1,
    0.5,
    2**70,
    "",
    "a",
    "\ud83d",
    "\udc67",
    "$.a",
    "$.a[0].b",
    "STOP",
    "SAFETY",
    "image/png",
]


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
    decoder = GeminiDecoder()
    chunks: list[Chunk] = []
    for _ in range(8):
        payload = made(chance) if chance.random() < 0.2 else parts(*(made(chance) for _ in range(3)))
        try:
            chunks += decoder.feed("", json.dumps(payload))
        except WireError:
            continue
    chunks += decoder.close()

    json.dumps([asdict(chunk) for chunk in chunks], ensure_ascii=False).encode()


def test_the_key_goes_into_its_own_header() -> None:
    assert DIALECT.auth_headers("k") == {"x-goog-api-key": "k"}
    assert (DIALECT.name, DIALECT.framing) == ("gemini", "sse")
    assert DIALECT.decoder(Target("google", "gemini-3-flash")) is not DIALECT.decoder(Target("google", "x"))


DAY = {"details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}
STATUSES = [
    (400, {"message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}, "authentication", False),
    (404, {"message": "models/x is not found for API version v1beta", "status": "NOT_FOUND"}, "unknown_model", False),
    (400, {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8).", "status": "INVALID_ARGUMENT"}, "context_overflow", False),
    (429, {"message": "You exceeded your current quota. Please retry in 22s.", "status": "RESOURCE_EXHAUSTED"}, "rate_limit", True),
    (429, {"message": "You exceeded your current quota. Please retry in 22s.", **DAY}, "quota", False),
    (503, {"message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}, "overloaded", True),
]  # fmt: skip


@pytest.mark.parametrize(("status", "error", "code", "retryable"), STATUSES, ids=[s[2] for s in STATUSES])
def test_an_error_body_says_what_is_wrong(status: int, error: Payload, code: str, retryable: bool) -> None:
    for body in ({"error": {"code": status, **error}}, [{"error": {"code": status, **error}}]):
        assert DIALECT.status_fault(status, json.dumps(body)) == StatusFault(
            error["message"], code, retryable
        )
