import json
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from checkers import openai_responses
from hypothesis import given
from hypothesis import strategies as st

from agentkit.accumulators import Response
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
    dump_messages,
    load_messages,
)
from agentkit.dialects.base import Profile, Target, origin, state_text
from agentkit.dialects.openai_responses import DIALECT
from agentkit.dialects.openai_responses_items import NAME
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice, ToolSpec
from agentkit.reasoning import ReasoningSetting
from agentkit.repair import repair

pytestmark = pytest.mark.pure

Json = dict[str, Any]
TARGET = Target("openai", "gpt-5.4")
OWN = origin(NAME, TARGET)
FOREIGN = Origin("anthropic-messages", "anthropic", "claude")
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "RU5D"}
GO = Message.user("go")


def encode(*messages: Message, target: Target = TARGET, **members: Any) -> Json:
    body: Json = DIALECT.encode(ModelRequest(messages, **members), target).body
    return body


def items(*messages: Message, **options: Any) -> list[Json]:
    sent: list[Json] = encode(*messages, provider_options={"openai": options} if options else {})["input"]
    return sent


def thinking(item: Json, made_by: Origin | None = OWN) -> ThinkingBlock:
    return ThinkingBlock("hm", provider_state=state_text(item), provider_state_format=NAME, origin=made_by)


def said(text: str, made_by: Origin | None = OWN, **state: object) -> TextBlock:
    return TextBlock(text, provider_state=state_text(state), provider_state_format=NAME, origin=made_by)


def call(call_id: str, made_by: Origin | None = OWN, **state: object) -> ToolUseBlock:
    kept, label = (state_text(state), NAME) if state else (None, "")
    return ToolUseBlock(call_id, "f", '{"n": 1}', True, "", "", kept, label, made_by)


def result(call_id: str, *content: Any) -> Message:
    return Message("tool", (ToolResultBlock(call_id, "f", content or (TextBlock("1"),)),))


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


SENT_CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"n": 1}'}
SENT_RESULT = {"type": "function_call_output", "call_id": "c", "output": "1"}


def test_a_first_request_stores_nothing_and_asks_for_encrypted_reasoning() -> None:
    parts = DIALECT.encode(ModelRequest([GO], system="Be kind."), TARGET)

    assert (parts.path, parts.headers, parts.notices) == ("/responses", {}, ())
    assert parts.body == {
        "model": "gpt-5.4",
        "input": [user("go")],
        "stream": True,
        "store": False,
        "instructions": "Be kind.",
        "include": ["reasoning.encrypted_content"],
    }


def test_own_items_go_back_as_they_came_in_their_order() -> None:
    history = Message.assistant(
        [
            thinking(REASONING),
            said("Hi", id="msg_1", phase="commentary"),
            call("c", id="fc_1", namespace="n"),
        ]
    )

    assert items(GO, history, result("c")) == [
        user("go"),
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        },
        {**SENT_CALL, "id": "fc_1", "namespace": "n"},
        SENT_RESULT,
    ]


def test_parts_of_one_message_are_put_together_again() -> None:
    history = Message.assistant(
        [said("a", id="m1"), said("b", id="m1"), said("c", id="m2"), RefusalBlock("no"), TextBlock("d")]
    )

    sent = items(GO, history)[1:]

    assert [[part.get("text") for part in item["content"]] for item in sent[:2]] == [["a", "b"], ["c"]]
    assert sent[2]["content"] == [
        {"type": "refusal", "refusal": "no"},
        {"type": "output_text", "text": "d", "annotations": []},
    ]


def test_text_without_an_item_goes_as_plain_text() -> None:
    assert items(GO, Message.assistant([TextBlock("a"), TextBlock(""), TextBlock("b")]), GO)[1] == {
        "type": "message",
        "role": "assistant",
        "content": "ab",
    }


UNLIKE_OWN = [
    pytest.param(FOREIGN, id="dialect"),
    pytest.param(Origin(NAME, "azure", "gpt-5.4"), id="provider"),
    pytest.param(Origin(NAME, "openai", "gpt-5.5"), id="model"),
    pytest.param(Origin(NAME, "openai", "gpt-5.4", "https://west"), id="endpoint"),
    pytest.param(None, id="changed after it came"),
]


@pytest.mark.parametrize("made_by", UNLIKE_OWN)
def test_what_is_not_its_own_goes_without_reasoning_ids_and_state(made_by: Origin | None) -> None:
    history = Message.assistant(
        [
            thinking(REASONING, made_by),
            said("Hi", made_by, id="msg_1", phase="commentary"),
            call("c", made_by, id="fc_1"),
            ProviderBlock("web_search_call", state_text({"id": "ws_1"}), NAME, made_by),
        ]
    )

    parts = DIALECT.encode(ModelRequest([GO, history, result("c")]), TARGET)

    assert parts.body["input"] == [
        user("go"),
        {"type": "message", "role": "assistant", "content": "Hi"},
        SENT_CALL,
        SENT_RESULT,
    ]
    assert parts.notices == (
        Notice("foreign_thinking", "thinking of another model was left out of the request (1)", {"count": 1}),
        Notice(
            "foreign_block", "another provider's own blocks were left out of the request (1)", {"count": 1}
        ),
    )


def test_an_item_whose_reasoning_is_gone_goes_without_its_id() -> None:
    search = ProviderBlock("web_search_call", state_text({"type": "web_search_call", "id": "ws"}), NAME, OWN)
    history = Message.assistant(
        [ThinkingBlock("gone", origin=OWN), search, said("Hi", id="m"), call("c", id="f")]
    )

    sent = items(GO, history, result("c"), store=True)

    assert sent[1:3] == [{"type": "message", "role": "assistant", "content": "Hi"}, SENT_CALL]


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    history = Message("assistant", (said("Hi", id="m"), thinking(REASONING)), "partial")

    parts = DIALECT.encode(ModelRequest([GO, history, GO]), TARGET)

    assert [item["type"] for item in items(GO, history, GO)] == ["message", "message", "message"]
    assert [notice.code for notice in parts.notices] == ["unfinished_thinking"]


def test_reasoning_is_followed_by_an_item_of_its_own_turn_however_many_there_are() -> None:
    second = {**REASONING, "id": "rs_2"}
    search = {"type": "web_search_call", "id": "ws"}
    history = Message.assistant(
        [
            thinking(REASONING),
            ProviderBlock("web_search_call", state_text(search), NAME, OWN),
            thinking(second),
            TextBlock(""),
            call("c"),
        ]
    )

    assert items(GO, history, result("c"))[1:5] == [REASONING, search, second, SENT_CALL]


def test_an_item_goes_once_however_many_blocks_hold_it() -> None:
    search = ProviderBlock("web_search_call", state_text({"type": "web_search_call", "id": "ws"}), NAME, OWN)
    turn = Message.assistant(
        [thinking(REASONING), thinking(REASONING), search, search, said("Hi", id="m"), call("c", id="f")]
    )

    sent = items(GO, turn, result("c"), turn, result("c"))

    assert [item.get("id") for item in sent] == [None, "rs_1", "ws", "m", "f", None, None, None, None]


BARE = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}]}
RAW = {**BARE, "content": [{"type": "reasoning_text", "text": "chain"}]}


@pytest.mark.parametrize(
    ("item", "store", "goes"),
    [(BARE, False, False), (BARE, True, True), (RAW, False, True), (REASONING, True, True)],
    ids=["an id alone", "an id that is stored", "raw text", "encrypted"],
)
def test_reasoning_goes_if_the_server_can_know_it(item: Json, store: bool, goes: bool) -> None:
    sent = items(GO, Message.assistant([thinking(item), said("Hi", id="m")]), GO, store=store)

    assert (item in sent) == goes
    assert ("id" in sent[-2]) == goes


def test_a_continued_response_gets_only_what_is_new() -> None:
    history = Message.assistant([thinking(REASONING), call("c", id="fc_1")])

    body = encode(
        GO, history, result("c"), GO, provider_options={"openai": {"previous_response_id": "resp_1"}}
    )

    assert body["input"] == [SENT_RESULT, user("go")]
    assert (body["previous_response_id"], body["store"]) == ("resp_1", True)


def test_a_continued_response_is_not_stored_where_the_caller_says_so() -> None:
    options = {"openai": {"previous_response_id": "resp_1", "store": False}}

    assert encode(Message.assistant("Hi"), GO, provider_options=options)["store"] is False


def test_nothing_new_after_the_continued_response_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no message"):
        encode(GO, Message.assistant("Hi"), provider_options={"openai": {"previous_response_id": "resp_1"}})


def test_calls_without_results_get_one_and_broken_calls_go() -> None:
    broken = ToolUseBlock("b", "f", '{"n":', origin=OWN)
    cut = ToolUseBlock("d", "f", "{}", complete=False, origin=OWN)

    sent = items(GO, Message.assistant([call("c"), broken, cut]), GO)

    assert [item.get("call_id") for item in sent] == [None, "c", "c", None]
    assert "interrupted" in sent[2]["output"]


def test_blank_arguments_are_an_empty_object() -> None:
    history = Message.assistant([ToolUseBlock("c", "f", " ", origin=FOREIGN)])

    assert items(GO, history, result("c"))[1]["arguments"] == "{}"


def test_images_and_documents_go_in_messages_and_results() -> None:
    media = (
        TextBlock("see"),
        ImageBlock("image/png", "aW1n"),
        ImageBlock(url="https://x/i.png"),
        DocumentBlock("application/pdf", "cGRm", name="a.pdf"),
        DocumentBlock("application/pdf", "cGRm"),
        DocumentBlock(url="https://x/a.pdf"),
    )
    sent = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aW1n"},
        {"type": "input_image", "detail": "auto", "image_url": "https://x/i.png"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,cGRm"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
    ]

    body = items(Message("user", media), Message.assistant([call("c")]), result("c", *media))

    assert body[0]["content"] == sent
    assert body[2]["output"] == sent


UNSENDABLE: list[Block] = [
    ImageBlock(),
    ImageBlock(data="aW1n"),
    DocumentBlock(data="cGRm"),
    ThinkingBlock("hm"),
]


@pytest.mark.parametrize("block", UNSENDABLE, ids=["no data", "no type", "no type of a document", "thinking"])
def test_what_a_user_cannot_say_is_a_clear_error(block: Block) -> None:
    with pytest.raises(ConfigurationError, match=block.type):
        encode(Message("user", (block,)))


def test_system_messages_keep_their_place() -> None:
    assert items(GO, Message.system("Now be brief."), GO)[1] == {
        "type": "message",
        "role": "system",
        "content": [{"type": "input_text", "text": "Now be brief."}],
    }


TOOL = ToolSpec("f", "does f", {"type": "object", "properties": {"n": {"type": "integer"}}})
SENT_TOOL = {
    "type": "function",
    "name": "f",
    "description": "does f",
    "parameters": TOOL.parameters,
    "strict": False,
}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {}),
        ("none", {"tool_choice": "none"}),
        ("required", {"tool_choice": "required"}),
        ("f", {"tool_choice": {"type": "function", "name": "f"}}),
    ],
)
def test_tools_and_the_choice_among_them(choice: str, sent: Json) -> None:
    body = encode(GO, tools=[TOOL], tool_choice=choice)

    assert {name: body.get(name) for name in ("tools", *sent)} == {"tools": [SENT_TOOL], **sent}
    assert ("tool_choice" in body) == bool(sent)


@pytest.mark.parametrize(("choice", "tools"), [("g", [TOOL]), ("required", []), ("f", [])])
def test_an_impossible_choice_of_tools_is_refused(choice: str, tools: Sequence[ToolSpec]) -> None:
    with pytest.raises(ConfigurationError, match="tool_choice"):
        encode(GO, tools=tools, tool_choice=choice)


def test_an_output_schema_is_strict_where_it_can_be() -> None:
    schema = {"title": "My answer", "type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    open_schema = {"type": "object", "additionalProperties": {"type": "integer"}}

    assert encode(GO, output_schema=schema)["text"] == {
        "format": {
            "type": "json_schema",
            "name": "My_answer",
            "schema": {
                "title": "My answer",
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
                "additionalProperties": False,
            },
            "strict": True,
        }
    }
    assert encode(GO, output_schema=open_schema)["text"]["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": open_schema,
        "strict": False,
    }


REASONING_SETTINGS = [
    ("gpt-5.4", {"effort": "high"}, {"effort": "high", "summary": "auto"}),
    ("gpt-5.4", {"budget": 1024}, {"effort": "low", "summary": "auto"}),
    ("gpt-5.4", {"budget": 0}, {"effort": "none"}),
    ("gpt-5.4", {"effort": "max"}, {"effort": "xhigh", "summary": "auto"}),
    ("gpt-9", {"effort": "max"}, {"effort": "max", "summary": "auto"}),
    ("gpt-5-mini", {"effort": "minimal"}, {"effort": "minimal", "summary": "auto"}),
    ("gpt-5-mini", {"effort": "xhigh"}, {"effort": "high", "summary": "auto"}),
    ("gpt-5.1", {"effort": "minimal"}, {"effort": "low", "summary": "auto"}),
    ("o4-mini", {"budget": 500}, {"effort": "low", "summary": "auto"}),
    ("openai/o4-mini", {"effort": "max"}, {"effort": "high", "summary": "auto"}),
]


@pytest.mark.parametrize(("model", "setting", "sent"), REASONING_SETTINGS)
def test_a_reasoning_setting_becomes_an_effort_that_the_model_takes(
    model: str, setting: dict[str, Any], sent: Json
) -> None:
    body = encode(GO, target=Target("openai", model), reasoning=ReasoningSetting(**setting))

    assert body["reasoning"] == sent


def test_the_providers_row_says_which_efforts_there_are() -> None:
    target = Target("x", "m", Profile(efforts=("low", "high")))

    assert encode(GO, target=target, reasoning=ReasoningSetting("medium"))["reasoning"]["effort"] == "high"


def test_a_model_that_cannot_reason_says_so_and_is_not_asked_for_encrypted_reasoning() -> None:
    target = Target("openai", "gpt-4o-mini")

    body = encode(GO, target=target, reasoning=ReasoningSetting("none"))
    with pytest.raises(ConfigurationError, match="'gpt-4o-mini' cannot reason"):
        encode(GO, target=target, reasoning=ReasoningSetting("low"))

    assert not {"reasoning", "include"} & set(body)


def test_reasoning_that_cannot_be_switched_off_says_so() -> None:
    with pytest.raises(ConfigurationError, match="'o4-mini' cannot switch reasoning off"):
        encode(GO, target=Target("openai", "o4-mini"), reasoning=ReasoningSetting(budget=0))


@pytest.mark.parametrize(("limit", "sent"), [(500, 1524), (2000, 2000)])
def test_the_output_limit_has_room_for_the_budget(limit: int, sent: int) -> None:
    body = encode(GO, reasoning=ReasoningSetting(budget=1024), max_tokens=limit, temperature=0.5)

    assert (body["max_output_tokens"], body["temperature"]) == (sent, 0.5)


def test_an_option_of_the_same_meaning_beside_reasoning_is_refused() -> None:
    options = {"openai": {"reasoning": {"effort": "low"}}}

    with pytest.raises(ConfigurationError, match=r"reasoning\.effort"):
        encode(GO, reasoning=ReasoningSetting("high"), provider_options=options)


def test_provider_options_are_merged_and_never_changed() -> None:
    search = {"type": "web_search"}
    options: dict[str, Json] = {
        "openai": {
            "reasoning": {"summary": "detailed"},
            "tools": [search],
            "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
            "service_tier": "flex",
        },
        "google": {"ignored": True},
    }
    before = deepcopy(options)
    request = ModelRequest([GO], tools=[TOOL], reasoning=ReasoningSetting("high"), provider_options=options)

    first, second = DIALECT.encode(request, TARGET).body, DIALECT.encode(request, TARGET).body

    assert first == second
    assert options == before
    assert first["reasoning"] == {"effort": "high", "summary": "detailed"}
    assert first["tools"] == [SENT_TOOL, search]
    assert first["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert first["service_tier"] == "flex"
    assert "ignored" not in first


@pytest.mark.parametrize(
    "members",
    [
        {"stop": ["x"]},
        {"provider_options": {"openai": {"input": []}}},
        {"provider_options": {"openai": {"stream": False}}},
    ],
    ids=["stop", "input", "stream"],
)
def test_what_the_dialect_cannot_say_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"stop|input|stream"):
        encode(GO, **members)


def test_a_request_without_a_message_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no message"):
        encode(Message.user(""))


def test_half_a_character_leaves_as_a_replacement() -> None:
    body = encode(Message("user", (TextBlock("a\ud83d"),)), system="\udc67")

    json.dumps(body, ensure_ascii=False).encode()
    assert body["instructions"] == "\ufffd"


def test_what_was_decoded_goes_back_after_saving_and_loading() -> None:
    item = {**REASONING, "summary": [{"type": "summary_text", "text": "so \ud83d\udc67 \ud83d"}]}
    answered = {
        "type": "message",
        "id": "m",
        "content": [{"type": "output_text", "text": "Hi"}],
        "phase": "x",
    }
    called = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": '{"n": 1}'}
    decoder = DIALECT.decoder(TARGET)
    response = Response(OWN)
    for index, whole in enumerate((item, answered, called)):
        payload = {"type": "response.output_item.done", "output_index": index, "item": whole}
        for chunk in decoder.feed("", json.dumps(payload)):
            response.add(chunk)

    loaded = load_messages(dump_messages([GO, response.message(), result("c")]))
    sent = items(*loaded)

    assert sent[1] == {**item, "summary": [{"type": "summary_text", "text": "so 👧 \ufffd"}]}
    assert (sent[2]["id"], sent[2]["phase"], sent[3]) == ("m", "x", {**SENT_CALL, "id": "f"})


_ORIGINS = [OWN, FOREIGN, None]
_MARK = "§"


def made_block(chance: random.Random) -> Block:
    made_by = chance.choice(_ORIGINS)
    mark = "" if made_by == OWN else _MARK
    number = chance.randrange(4)
    own = state_text({"id": f"x{number}{mark}", "type": "web_search_call"})
    blocks: list[Block] = [
        TextBlock(chance.choice(["", "a"])),
        said("b", made_by, id=f"m{number}{mark}", phase="p"),
        RefusalBlock("no"),
        thinking({**REASONING, "id": f"r{number}{mark}", "encrypted_content": f"E{mark}"}, made_by),
        thinking({**REASONING, "id": f"s{number}{mark}", "encrypted_content": None}, made_by),
        ThinkingBlock(f"words{_MARK}", f"S{_MARK}", origin=made_by),
        ProviderBlock("web_search_call", own, NAME, made_by),
        call(chance.choice("abc"), made_by, id=f"f{number}{mark}"),
        ToolUseBlock(chance.choice("abc"), "f", chance.choice(["", "{", "[]"]), origin=made_by),
        ToolUseBlock(chance.choice("abc"), "f", "{}", complete=False),
        ImageBlock("image/png", _MARK),
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

    sent = items(*history)

    assert dump_messages(history) == before
    assert items(*load_messages(before)) == sent
    assert items(*repair(history)) == sent
    assert _MARK not in json.dumps(sent, ensure_ascii=False)
    assert openai_responses.check({"model": "demo", "input": sent, "store": False}) == []
