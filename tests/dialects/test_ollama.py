import json
import random
from copy import deepcopy
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
    TextChunk,
    ThinkingChunk,
    ToolUseChunk,
    UsageChunk,
)
from agentkit.content import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    Origin,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    dump_messages,
    load_messages,
)
from agentkit.dialects.base import Profile, StatusFault, Target, origin
from agentkit.dialects.ollama import DIALECT
from agentkit.dialects.ollama_request import NAME
from agentkit.errors import ConfigurationError, WireError
from agentkit.model import ModelRequest, ToolSpec
from agentkit.reasoning import ReasoningSetting
from agentkit.repair import repair

pytestmark = pytest.mark.pure

Json = dict[str, Any]
TARGET = Target("ollama", "qwen3")
OWN = origin(NAME, TARGET)
FOREIGN = Origin("anthropic-messages", "anthropic", "claude")
GO = Message.user("go")


# reading


def line(**message: object) -> Json:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


def done(**members: object) -> Json:
    return {"message": {"role": "assistant", "content": ""}, "done": True, **members}


def call(name: str, arguments: object, **members: object) -> Json:
    return {"function": {"name": name, "arguments": arguments}, **members}


def decode(*lines: Json, think_tags: bool = False) -> list[Chunk]:
    decoder = DIALECT.decoder(Target("ollama", "m", Profile(think_tags=think_tags)))
    return [chunk for one in lines for chunk in decoder.feed("", json.dumps(one))] + decoder.close()


def test_a_whole_answer_in_chunks() -> None:
    chunks = decode(
        line(thinking="hm"),
        line(thinking=", hm"),
        line(content="Hel"),
        line(content="lo"),
        line(tool_calls=[call("f", {"n": "é"}, id="c1"), call("g", {}, id="c2")]),
        done(done_reason="stop", prompt_eval_count=9, eval_count=7),
    )

    assert chunks == [
        ThinkingChunk("hm", index=0),
        ThinkingChunk(", hm", index=0),
        BlockEndChunk(0),
        TextChunk("Hel", 1),
        TextChunk("lo", 1),
        BlockEndChunk(1),
        ToolUseChunk("c1", "f", '{"n":"é"}', 2),
        BlockEndChunk(2),
        ToolUseChunk("c2", "g", "{}", 3),
        BlockEndChunk(3),
        UsageChunk(Usage(9, 7)),
        FinishChunk("tool_calls", "stop"),
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"a": [1]}, '{"a":[1]}'), ("{}", "{}"), (None, "{}"), ({"t": "\ud83d"}, '{"t":"\ufffd"}')],
)
def test_arguments_become_json_text(arguments: object, text: str) -> None:
    assert [
        c.input for c in decode(line(tool_calls=[call("f", arguments)])) if isinstance(c, ToolUseChunk)
    ] == [text]


def test_calls_without_ids_get_distinct_ones_that_stay() -> None:
    lines = [line(tool_calls=[call("f", {}), call("f", {})]), line(tool_calls=[call("f", {})]), done()]

    ids = [chunk.id for chunk in decode(*lines) if isinstance(chunk, ToolUseChunk)]

    assert len(set(ids)) == 3
    assert all(ids)
    assert ids == [chunk.id for chunk in decode(*lines) if isinstance(chunk, ToolUseChunk)]


def test_an_id_is_one_calls_only() -> None:
    first, second = ({"id": "c", "function": {"name": "f", "arguments": {"n": n}}} for n in (1, 2))

    ids = [c.id for c in decode(line(tool_calls=[first, second, first])) if isinstance(c, ToolUseChunk)]

    assert ids[0] == ids[2] == "c"
    assert ids[1] not in ("c", "")


def test_thinking_between_texts_is_a_block_of_its_own() -> None:
    chunks = decode(line(content="a"), line(thinking="b", content="c"), done())

    assert [chunk for chunk in chunks if isinstance(chunk, (TextChunk, ThinkingChunk))] == [
        TextChunk("a", 0),
        ThinkingChunk("b", index=1),
        TextChunk("c", 2),
    ]


@pytest.mark.parametrize("name", ["thinking", "reasoning_content", "reasoning"])
def test_reasoning_is_found_under_the_names_of_servers_that_resemble_ollama(name: str) -> None:
    assert decode(line(**{name: "hm"}))[0] == ThinkingChunk("hm", index=0)


def test_tags_are_thinking_only_where_the_profile_says_so() -> None:
    lines = [
        line(content="<th"),
        line(content="ink>hm</think>Hi<"),
        line(tool_calls=[call("f", {}, id="c")]),
        done(),
    ]

    assert decode(*lines, think_tags=True) == [
        ThinkingChunk("hm", index=0),
        BlockEndChunk(0),
        TextChunk("Hi", 1),
        TextChunk("<", 1),
        BlockEndChunk(1),
        ToolUseChunk("c", "f", "{}", 2),
        BlockEndChunk(2),
        UsageChunk(Usage()),
        FinishChunk("tool_calls", ""),
    ]
    assert decode(*lines)[:2] == [TextChunk("<th", 0), TextChunk("ink>hm</think>Hi<", 0)]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (None, "stop"),
        ("stop", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("tool_calls", "tool_calls"),
        ("load", "other"),
    ],
)
def test_finish_reasons(reason: str | None, word: Any) -> None:
    assert decode(done(done_reason=reason)) == [UsageChunk(Usage()), FinishChunk(word, reason or "")]


ERRORS: list[tuple[object, str, bool]] = [
    ("model runner has unexpectedly stopped", "", True),
    ("server busy, please try again. maximum pending requests exceeded", "", True),
    ("this model is not for you", "", False),
    ({"message": "upstream broke"}, "upstream broke", True),
]


@pytest.mark.parametrize(("error", "words", "retryable"), ERRORS)
def test_an_error_line_keeps_what_came_and_is_told_once(error: Any, words: str, retryable: bool) -> None:
    chunks = decode(line(content="a"), {"error": error}, {"error": "again"}, done())

    assert chunks[:3] == [
        TextChunk("a", 0),
        ErrorChunk("provider", words or error, "", retryable),
        FinishChunk("error", ""),
    ]
    assert not [chunk for chunk in chunks[3:] if isinstance(chunk, (ErrorChunk, FinishChunk))]


def test_a_body_that_ends_early_is_truncated_and_releases_what_was_held_back() -> None:
    assert decode(line(content="a<thi"), think_tags=True) == [
        TextChunk("a", 0),
        TextChunk("<thi", 0),
        ErrorChunk("truncated", "ollama stream ended after 1 lines, before `done`", "", True),
    ]
    assert [type(chunk) for chunk in decode()] == [ErrorChunk]


def test_halves_of_a_character_are_joined_and_a_lost_one_is_replaced() -> None:
    assert decode(line(content="\ud83d"), line(content="\udc67\ud83d"), done())[:2] == [
        TextChunk("👧", 0),
        UsageChunk(Usage()),
    ]


BROKEN = [
    "{",
    "[]",
    '{"message":{"tool_calls":1}}',
    '{"message":{"tool_calls":[1]}}',
    '{"message":{"tool_calls":[{"function":{"name":1}}]}}',
]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_line_raises(data: str) -> None:
    with pytest.raises(WireError):
        DIALECT.decoder(TARGET).feed("", data)


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (404, "model 'x' not found", "unknown_model"),
        (401, "unauthorized", "authentication"),
        (400, '"m" does not support thinking', "invalid_request"),
    ],
)
def test_an_error_body_says_what_is_wrong(status: int, error: str, code: str) -> None:
    assert DIALECT.status_fault(status, json.dumps({"error": error})) == StatusFault(error, code, False)


def test_a_key_is_sent_only_where_there_is_one() -> None:
    assert DIALECT.auth_headers("k") == {"Authorization": "Bearer k"}
    assert DIALECT.auth_headers("") == {}
    assert (DIALECT.name, DIALECT.framing) == ("ollama", "ndjson")


# sending


def encode(*messages: Message, target: Target = TARGET, **members: Any) -> Json:
    body: Json = DIALECT.encode(ModelRequest(messages, **members), target).body
    return body


def used(call_id: str) -> ToolUseBlock:
    return ToolUseBlock(call_id, "f", '{"n": 1}', origin=OWN)


def result(call_id: str, *content: Any) -> Message:
    return Message("tool", (ToolResultBlock(call_id, "", content or (TextBlock("1"),)),))


def test_a_first_request() -> None:
    parts = DIALECT.encode(ModelRequest([GO], system="Be kind."), TARGET)

    assert (parts.path, parts.headers, parts.notices) == ("/api/chat", {}, ())
    assert parts.body == {
        "model": "qwen3",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "go"}],
        "stream": True,
    }


def test_a_turn_goes_back_as_one_message_and_results_name_their_tool() -> None:
    turn = Message.assistant(
        [
            ThinkingBlock("hm", origin=OWN),
            TextBlock("a"),
            RefusalBlock("b"),
            used("c"),
            ProviderBlock("x", "{}", "x"),
            ImageBlock("image/png", "aW1n"),
        ]
    )

    parts = DIALECT.encode(ModelRequest([GO, turn, result("c"), GO]), TARGET)

    assert parts.body["messages"] == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "ab",
            "thinking": "hm",
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"n": 1}}}],
        },
        {"role": "tool", "tool_name": "f", "tool_call_id": "c", "content": "1"},
        {"role": "user", "content": "go"},
    ]
    assert [notice.code for notice in parts.notices] == ["foreign_block", "assistant_media"]


def test_foreign_thinking_is_left_out_and_told_and_thinking_alone_is_no_turn() -> None:
    turn = Message.assistant([ThinkingBlock("hm", "s", signature_format="x", origin=FOREIGN), TextBlock("a")])
    alone = Message("assistant", (ThinkingBlock("hm", origin=OWN),), "partial")

    parts = DIALECT.encode(ModelRequest([GO, turn, alone, GO]), TARGET)

    assert parts.body["messages"] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "go"},
    ]
    assert [notice.code for notice in parts.notices] == ["foreign_thinking"]


@pytest.mark.parametrize(
    ("rule", "carried"),
    [
        (None, [True, True]),
        ("always", [True, True]),
        ("within_turn", [False, True]),
        ("never", [False, False]),
    ],
)
def test_the_profile_says_which_turns_carry_thinking(rule: Any, carried: list[bool]) -> None:
    turn = Message.assistant([ThinkingBlock("hm", origin=OWN), TextBlock("a")])
    target = Target("ollama", "qwen3", Profile(replay_reasoning=rule))

    sent = encode(GO, turn, GO, turn, target=target)["messages"]

    assert ["thinking" in message for message in sent if message["role"] == "assistant"] == carried


def test_images_go_as_data_beside_the_text() -> None:
    image = ImageBlock("image/png", "aW1n")

    sent = encode(
        Message("user", (TextBlock("see"), image)),
        Message.assistant([used("c")]),
        result("c", TextBlock("x"), image),
    )["messages"]

    assert sent[0] == {"role": "user", "content": "see", "images": ["aW1n"]}
    assert sent[2] == {
        "role": "tool",
        "tool_name": "f",
        "tool_call_id": "c",
        "content": "x",
        "images": ["aW1n"],
    }


UNSENDABLE: list[Block] = [
    ImageBlock(url="https://x/i.png"),
    DocumentBlock("application/pdf", "cGRm"),
    used("c"),
]


@pytest.mark.parametrize("block", UNSENDABLE, ids=["image by url", "document", "call"])
def test_what_ollama_cannot_be_told_is_a_clear_error(block: Block) -> None:
    with pytest.raises(ConfigurationError, match="Ollama"):
        encode(Message("user", (block,)))


TOOL = ToolSpec("f", "does f", {"type": "object", "properties": {}})


def test_tools_options_and_format() -> None:
    schema = {"type": "object"}

    body = encode(GO, tools=[TOOL], max_tokens=9, temperature=0.5, stop=["x"], output_schema=schema)

    assert {name: body[name] for name in ("tools", "options", "format")} == {
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "does f", "parameters": TOOL.parameters},
            }
        ],
        "options": {"num_predict": 9, "temperature": 0.5, "stop": ["x"]},
        "format": schema,
    }


def test_no_tools_are_told_where_none_may_be_called_and_none_can_be_forced() -> None:
    assert "tools" not in encode(GO, tools=[TOOL], tool_choice="none")
    with pytest.raises(ConfigurationError, match="tool_choice"):
        encode(GO, tools=[TOOL], tool_choice="required")


@pytest.mark.parametrize(
    ("name", "setting", "think"),
    [
        ("qwen3", {"effort": "high"}, True),
        ("qwen3", {"budget": 100}, True),
        ("qwen3", {"effort": "none"}, False),
        ("qwen3", {"budget": 0}, False),
        ("gpt-oss:20b", {"effort": "minimal"}, "low"),
        ("gpt-oss:20b", {"effort": "medium"}, "medium"),
        ("gpt-oss:20b", {"effort": "max"}, "high"),
        ("me/gpt-oss", {"budget": 2000}, "low"),
        ("gpt-oss:20b", {"effort": "none"}, False),
    ],
)
def test_a_reasoning_setting_is_said_as_the_model_takes_it(
    name: str, setting: dict[str, Any], think: bool | str
) -> None:
    body = encode(GO, target=Target("ollama", name), reasoning=ReasoningSetting(**setting))

    assert body["think"] == think
    assert type(body["think"]) is type(think)


def test_the_output_limit_has_room_for_the_budget() -> None:
    assert encode(GO, reasoning=ReasoningSetting(budget=100), max_tokens=50)["options"] == {
        "num_predict": 150
    }
    assert encode(GO, reasoning=ReasoningSetting(budget=100), max_tokens=200)["options"] == {
        "num_predict": 200
    }


def test_provider_options_are_merged_and_never_changed() -> None:
    options = {"ollama": {"options": {"num_ctx": 8192}, "keep_alive": "5m", "think": "high"}}
    before = deepcopy(options)
    request = ModelRequest([GO], temperature=0.5, provider_options=options)

    first, second = DIALECT.encode(request, TARGET).body, DIALECT.encode(request, TARGET).body

    assert first == second
    assert options == before
    assert {name: first[name] for name in ("options", "keep_alive", "think")} == {
        "options": {"temperature": 0.5, "num_ctx": 8192},
        "keep_alive": "5m",
        "think": "high",
    }


@pytest.mark.parametrize(
    "members",
    [
        {"provider_options": {"ollama": {"think": True}}, "reasoning": ReasoningSetting("low")},
        {"provider_options": {"ollama": {"messages": []}}},
        {"provider_options": {"ollama": {"stream": False}}},
    ],
    ids=["think beside reasoning", "messages", "stream"],
)
def test_options_that_contradict_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"think|messages|stream"):
        encode(GO, **members)


@pytest.mark.parametrize("messages", [[], [Message.user("")], [Message.system("x")]])
def test_a_request_without_a_message_is_refused(messages: list[Message]) -> None:
    with pytest.raises(ConfigurationError, match="no message"):
        encode(*messages)


def test_what_was_decoded_goes_back_after_saving_and_loading() -> None:
    response = Response(OWN)
    for chunk in decode(line(thinking="hm"), line(tool_calls=[call("f", {"n": 1})]), done()):
        response.add(chunk)
    (asked,) = response.message().tool_uses

    loaded = load_messages(dump_messages([GO, response.message(), result(asked.id)]))
    (_, turn, answer) = encode(*loaded)["messages"]

    assert turn["thinking"] == "hm"
    assert turn["tool_calls"] == [{"id": asked.id, "function": {"name": "f", "arguments": {"n": 1}}}]
    assert (answer["tool_name"], answer["tool_call_id"]) == ("f", asked.id)


_MARK = "§"


def made_block(chance: random.Random) -> Block:
    made_by = chance.choice([OWN, FOREIGN, None])
    mark = "" if made_by == OWN else _MARK
    blocks: list[Block] = [
        TextBlock(chance.choice(["", "a"])),
        RefusalBlock("no"),
        ThinkingBlock(f"hm{mark}", _MARK, signature_format="x", origin=made_by),
        ProviderBlock("x", f'"{_MARK}"', NAME, made_by),
        ImageBlock("image/png", _MARK),
        used(chance.choice("abc")),
        ToolUseBlock(chance.choice("abc"), "f", chance.choice(["", "{", "[]"]), origin=made_by),
        ToolUseBlock(chance.choice("abc"), "f", "{}", complete=False),
    ]
    return chance.choice(blocks)


def made_history(chance: random.Random) -> list[Message]:
    history = [GO]
    for _ in range(chance.randrange(8)):
        match chance.randrange(3):
            case 0:
                history.append(GO)
            case 1:
                status: Any = chance.choice(["complete", "partial"])
                history.append(
                    Message(
                        "assistant", tuple(made_block(chance) for _ in range(chance.randrange(6))), status
                    )
                )
            case _:
                history += [result(chance.choice("abc")) for _ in range(chance.randrange(3))]
    return history


@given(st.integers(0, 2**32))
def test_any_history_becomes_a_request_by_the_rules(seed: int) -> None:
    history = made_history(random.Random(seed))
    before = dump_messages(history)

    sent = encode(*history)["messages"]

    assert dump_messages(history) == before
    assert encode(*load_messages(before))["messages"] == sent
    assert encode(*repair(history))["messages"] == sent
    assert _MARK not in json.dumps(sent, ensure_ascii=False)
    waiting: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert message["tool_name"] == "f"
            continue
        assert waiting == []
        assert message["content"] or message.get("tool_calls")
        waiting = [asked["id"] for asked in message.get("tool_calls", [])]
        assert all(type(asked["function"]["arguments"]) is dict for asked in message.get("tool_calls", []))
    assert waiting == []
