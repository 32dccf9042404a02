import json
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from checkers import gemini
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
from agentkit.dialects.gemini import DIALECT
from agentkit.dialects.gemini_request import NAME, UNSIGNED
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice, ToolSpec
from agentkit.reasoning import ReasoningSetting
from agentkit.repair import repair

pytestmark = pytest.mark.pure

Json = dict[str, Any]
TARGET = Target("google", "gemini-3-flash")
OWN = origin(NAME, TARGET)
FOREIGN = Origin("anthropic-messages", "anthropic", "claude")
GO = Message.user("go")
SENT_GO: Json = {"role": "user", "parts": [{"text": "go"}]}


def encode(*messages: Message, target: Target = TARGET, **members: Any) -> Json:
    body: Json = DIALECT.encode(ModelRequest(messages, **members), target).body
    return body


def contents(*messages: Message, target: Target = TARGET) -> list[Json]:
    sent: list[Json] = encode(*messages, target=target)["contents"]
    return sent


def model(*content: Json) -> Json:
    return {"role": "model", "parts": list(content)}


def call(call_id: str, signature: str = "", made_by: Origin | None = OWN) -> ToolUseBlock:
    return ToolUseBlock(call_id, "f", '{"n": 1}', True, signature, NAME if signature else "", origin=made_by)


def result(*call_ids: str) -> Message:
    return Message("tool", tuple(ToolResultBlock(call_id, "", (TextBlock("1"),)) for call_id in call_ids))


def sent_call(call_id: str, **beside: str) -> Json:
    return {"functionCall": {"id": call_id, "name": "f", "args": {"n": 1}}, **beside}


def sent_result(call_id: str) -> Json:
    return {"functionResponse": {"id": call_id, "name": "f", "response": {"output": "1"}}}


def test_a_first_request() -> None:
    parts = DIALECT.encode(ModelRequest([Message.system("Now."), GO], system="Be kind."), TARGET)

    assert parts.path == "/models/gemini-3-flash:streamGenerateContent?alt=sse"
    assert (parts.headers, parts.notices) == ({}, ())
    assert parts.body == {
        "contents": [SENT_GO],
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Now."}]},
    }


@pytest.mark.parametrize(
    ("name", "path"),
    [("models/gemini-2.5-pro", "/models/gemini-2.5-pro"), ("tunedModels/mine-1", "/tunedModels/mine-1")],
)
def test_a_model_name_may_say_where_it_stands(name: str, path: str) -> None:
    assert DIALECT.encode(ModelRequest([GO]), Target("google", name)).path.startswith(f"{path}:stream")


@pytest.mark.parametrize("name", ["", "a?b", "a/b/c", "a b", "../x"])
def test_a_model_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="not a model name"):
        encode(GO, target=Target("google", name))


def test_signatures_go_back_on_the_very_parts_that_carried_them() -> None:
    code = {"executableCode": {"code": "1"}, "thoughtSignature": "s5"}
    history = Message.assistant(
        [
            ThinkingBlock("unsigned", origin=OWN),
            ThinkingBlock("signed", "s1", signature_format=NAME, origin=OWN),
            TextBlock("a", "s2", NAME, origin=OWN),
            TextBlock("b", origin=OWN),
            TextBlock("", "s3", NAME, origin=OWN),
            TextBlock("", origin=OWN),
            ProviderBlock("executableCode", state_text(code), NAME, OWN),
            ImageBlock("image/png", "aW1n", origin=OWN),
            ProviderBlock("thoughtSignature", state_text({"thoughtSignature": "s6"}), NAME, OWN),
            RefusalBlock("no"),
            call("c1", "s4"),
            call("c2"),
        ]
    )

    assert contents(GO, history, result("c1", "c2")) == [
        SENT_GO,
        model(
            {"text": "signed", "thought": True, "thoughtSignature": "s1"},
            {"text": "a", "thoughtSignature": "s2"},
            {"text": "b"},
            {"text": "", "thoughtSignature": "s3"},
            code,
            {"inlineData": {"mimeType": "image/png", "data": "aW1n"}, "thoughtSignature": "s6"},
            {"text": "no"},
            sent_call("c1", thoughtSignature="s4"),
            sent_call("c2"),
        ),
        {"role": "user", "parts": [sent_result("c1"), sent_result("c2")]},
    ]


UNLIKE_OWN = [
    pytest.param(FOREIGN, id="dialect"),
    pytest.param(Origin(NAME, "vertex", "gemini-3-flash"), id="provider"),
    pytest.param(Origin(NAME, "google", "gemini-3-pro"), id="model"),
    pytest.param(Origin(NAME, "google", "gemini-3-flash", "https://west"), id="endpoint"),
    pytest.param(None, id="changed after it came"),
]


@pytest.mark.parametrize("made_by", UNLIKE_OWN)
def test_what_is_not_its_own_goes_without_thoughts_and_signatures(made_by: Origin | None) -> None:
    history = Message.assistant(
        [
            ThinkingBlock("hm", "s1", signature_format=NAME, origin=made_by),
            TextBlock("a", "s2", NAME, origin=made_by),
            ProviderBlock("toolCall", "{}", NAME, made_by),
            call("c", "s3", made_by),
        ]
    )

    parts = DIALECT.encode(ModelRequest([GO, history, result("c")]), TARGET)

    assert parts.body["contents"] == [
        SENT_GO,
        model({"text": "a"}, sent_call("c", thoughtSignature=UNSIGNED)),
        {"role": "user", "parts": [sent_result("c")]},
    ]
    assert parts.notices == (
        Notice("foreign_thinking", "thinking of another model was left out of the request (1)", {"count": 1}),
        Notice(
            "foreign_signature", "signatures of another model were left out of the request (2)", {"count": 2}
        ),
        Notice(
            "foreign_block", "another provider's own blocks were left out of the request (1)", {"count": 1}
        ),
    )


def test_the_first_unsigned_call_of_each_step_of_the_running_turn_gets_the_placeholder() -> None:
    sent = contents(
        GO,
        Message.assistant([call("old")]),
        result("old"),
        GO,
        Message.assistant([call("a"), call("b")]),
        result("a", "b"),
        Message.assistant([call("c"), call("d", "s")]),
        result("c", "d"),
        Message.assistant([call("e", "t"), call("f")]),
        result("e", "f"),
    )

    assert [
        [part.get("thoughtSignature") for part in content["parts"]]
        for content in sent
        if content["role"] == "model"
    ] == [[None], [UNSIGNED, None], [UNSIGNED, "s"], ["t", None]]


def test_models_that_do_not_check_signatures_get_no_placeholder() -> None:
    target = Target("google", "gemini-2.5-flash")

    assert contents(GO, Message.assistant([call("c")]), result("c"), target=target)[1] == model(
        sent_call("c")
    )


def test_ids_that_were_made_up_here_stay_here() -> None:
    decoder = DIALECT.decoder(TARGET)
    response = Response(OWN)
    parts = [
        {"functionCall": {"name": "f", "args": {}}},
        {"functionCall": {"name": "f", "args": {}, "id": "x"}},
    ]
    payload = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    for chunk in decoder.feed("", json.dumps(payload)):
        response.add(chunk)
    made, told = response.message().tool_uses

    sent = contents(*load_messages(dump_messages([GO, response.message(), result(told.id, made.id)])))

    assert [part["functionCall"].get("id") for part in sent[1]["parts"]] == [None, "x"]
    assert [part["functionResponse"].get("id") for part in sent[2]["parts"]] == [None, "x"]


def test_a_failed_call_says_error_and_media_stand_beside_the_words() -> None:
    image = ImageBlock("image/png", "aW1n")
    failed = ToolResultBlock("c", "f", (TextBlock("broke"), image), "error")

    sent = contents(GO, Message.assistant([call("c", "s")]), Message("tool", (failed,)))

    assert sent[2]["parts"] == [
        {
            "functionResponse": {
                "id": "c",
                "name": "f",
                "response": {"error": "broke"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "aW1n"}}],
            }
        }
    ]


def test_a_cancelled_turn_stays_readable_and_turns_of_the_model_are_one_content() -> None:
    cut = Message(
        "assistant", (TextBlock("Hel", origin=OWN), ToolUseBlock("c", "f", "{", origin=OWN)), "partial"
    )

    assert contents(GO, cut, Message.assistant("lo"), GO) == [
        SENT_GO,
        model({"text": "Hel"}, {"text": "lo"}),
        SENT_GO,
    ]


def test_a_call_without_a_result_gets_one() -> None:
    (_, _, answers, _) = contents(GO, Message.assistant([call("c", "s")]), GO)

    assert "interrupted" in answers["parts"][0]["functionResponse"]["response"]["error"]


def test_images_and_documents() -> None:
    media = (
        TextBlock("see"),
        TextBlock(""),
        ImageBlock("image/png", "aW1n"),
        ImageBlock(url="https://x/i.png"),
        DocumentBlock("application/pdf", url="gs://x/a.pdf"),
    )

    assert contents(Message("user", media))[0]["parts"] == [
        {"text": "see"},
        {"inlineData": {"mimeType": "image/png", "data": "aW1n"}},
        {"fileData": {"fileUri": "https://x/i.png"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://x/a.pdf"}},
    ]


UNSENDABLE: list[Block] = [ImageBlock(), DocumentBlock(data="cGRm"), ThinkingBlock("hm")]


@pytest.mark.parametrize("block", UNSENDABLE, ids=["no data", "no type", "thinking"])
def test_what_a_user_cannot_say_is_a_clear_error(block: Block) -> None:
    with pytest.raises(ConfigurationError, match=block.type):
        encode(Message("user", (block,)))


TOOL = ToolSpec(
    "f",
    "does f",
    {
        "$schema": "x",
        "type": "object",
        "properties": {
            "default": {"const": "a", "default": "a"},
            "n": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
        },
        "$defs": {"N": {"type": "integer", "examples": [1], "enum": [1, 2]}},
    },
)
SENT_TOOLS = [
    {
        "functionDeclarations": [
            {
                "name": "f",
                "description": "does f",
                "parametersJsonSchema": {
                    "type": "object",
                    "properties": {
                        "default": {"enum": ["a"]},
                        "n": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
                    },
                    "$defs": {"N": {"type": "integer", "enum": [1, 2]}},
                },
            }
        ]
    }
]


@pytest.mark.parametrize(
    ("choice", "mode"),
    [
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("f", {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_tools_and_the_choice_among_them(choice: str, mode: Json) -> None:
    auto = encode(GO, tools=[TOOL])
    chosen = encode(GO, tools=[TOOL], tool_choice=choice)

    assert (auto["tools"], auto.get("toolConfig")) == (SENT_TOOLS, None)
    assert (chosen["tools"], chosen["toolConfig"]) == (SENT_TOOLS, {"functionCallingConfig": mode})


@pytest.mark.parametrize(("choice", "tools"), [("g", [TOOL]), ("required", []), ("f", [])])
def test_an_impossible_choice_of_tools_is_refused(choice: str, tools: Sequence[ToolSpec]) -> None:
    with pytest.raises(ConfigurationError, match="tool_choice"):
        encode(GO, tools=tools, tool_choice=choice)


def test_limits_and_the_form_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    body = encode(GO, max_tokens=9, temperature=0.5, stop=["x"], output_schema=schema)

    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "stopSequences": ["x"],
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }


THINKING = [
    ("gemini-2.5-pro", {"budget": 1024}, {"thinkingBudget": 1024, "includeThoughts": True}),
    ("gemini-2.5-pro", {"budget": 1}, {"thinkingBudget": 128, "includeThoughts": True}),
    ("gemini-2.5-pro", {"effort": "max"}, {"thinkingBudget": 32768, "includeThoughts": True}),
    ("gemini-2.5-flash", {"effort": "medium"}, {"thinkingBudget": 8192, "includeThoughts": True}),
    ("gemini-2.5-flash", {"effort": "none"}, {"thinkingBudget": 0, "includeThoughts": False}),
    ("gemini-2.5-flash-lite", {"budget": 1}, {"thinkingBudget": 512, "includeThoughts": True}),
    ("gemini-3-flash-preview", {"effort": "minimal"}, {"thinkingLevel": "minimal", "includeThoughts": True}),
    ("gemini-3-flash-preview", {"budget": 1024}, {"thinkingLevel": "minimal", "includeThoughts": True}),
    ("gemini-3-flash-preview", {"budget": 0}, {"thinkingLevel": "minimal", "includeThoughts": False}),
    ("gemini-3-pro-preview", {"effort": "medium"}, {"thinkingLevel": "high", "includeThoughts": True}),
    ("gemini-3.1-pro-preview", {"effort": "medium"}, {"thinkingLevel": "medium", "includeThoughts": True}),
    ("gemini-3.1-pro-preview", {"effort": "minimal"}, {"thinkingLevel": "low", "includeThoughts": True}),
    ("gemini-4-flash", {"effort": "xhigh"}, {"thinkingLevel": "high", "includeThoughts": True}),
    ("my-model", {"budget": 5}, {"thinkingBudget": 5, "includeThoughts": True}),
    ("my-model", {"effort": "low"}, {"thinkingLevel": "low", "includeThoughts": True}),
    ("my-model", {"effort": "none"}, {"thinkingBudget": 0, "includeThoughts": False}),
]


@pytest.mark.parametrize(("name", "setting", "sent"), THINKING)
def test_a_reasoning_setting_is_said_as_the_models_generation_takes_it(
    name: str, setting: dict[str, Any], sent: Json
) -> None:
    body = encode(GO, target=Target("google", name), reasoning=ReasoningSetting(**setting))

    assert body["generationConfig"]["thinkingConfig"] == sent


@pytest.mark.parametrize("name", ["gemini-2.5-pro", "gemini-3-pro-preview", "gemini-3.1-pro"])
def test_reasoning_that_cannot_be_switched_off_says_so(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot switch reasoning off"):
        encode(GO, target=Target("google", name), reasoning=ReasoningSetting("none"))


def test_a_model_that_cannot_reason_says_so() -> None:
    target = Target("google", "gemini-2.0-flash")

    assert "generationConfig" not in encode(GO, target=target, reasoning=ReasoningSetting(budget=0))
    with pytest.raises(ConfigurationError, match=r"'gemini-2\.0-flash' cannot reason"):
        encode(GO, target=target, reasoning=ReasoningSetting("low"))


@pytest.mark.parametrize(
    ("setting", "limit", "sent"),
    [({"budget": 1024}, 500, 1524), ({"budget": 1024}, 2000, 2000), ({"effort": "low"}, 2048, 4096)],
)
def test_the_output_limit_has_room_for_the_budget(setting: dict[str, Any], limit: int, sent: int) -> None:
    target = Target("google", "gemini-2.5-flash")

    body = encode(GO, target=target, reasoning=ReasoningSetting(**setting), max_tokens=limit)

    assert body["generationConfig"]["maxOutputTokens"] == sent


SAME_MEANING: list[Json] = [
    {"thinking_config": {"thinking_budget": 1}},
    {"thinkingConfig": {"thinkingLevel": "low"}},
    {"generation_config": {"thinking_config": {"thinking_level": "low"}}},
    {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1}}},
]


@pytest.mark.parametrize("options", SAME_MEANING)
def test_an_option_of_the_same_meaning_beside_reasoning_is_refused(options: Json) -> None:
    with pytest.raises(ConfigurationError, match="say the same"):
        encode(GO, reasoning=ReasoningSetting("high"), provider_options={"google": options})


def test_the_options_of_the_seed_work_for_any_number_of_requests_and_are_never_changed() -> None:
    options = {"google": {"thinking_config": {"thinking_budget": 1024, "include_thoughts": True}}}
    before = deepcopy(options)
    request = ModelRequest([GO], max_tokens=9, provider_options=options)

    bodies = [DIALECT.encode(request, TARGET).body for _ in range(3)]

    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["generationConfig"] == {
        "maxOutputTokens": 9,
        "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
    }
    assert options == before


def test_options_go_where_the_wire_has_them_and_a_users_own_names_stay() -> None:
    schema = {"properties": {"snake_case": {"type": "string"}}}
    options: Json = {
        "top_k": 5,
        "generation_config": {"top_p": 0.5, "response_json_schema": schema},
        "safety_settings": [{"category": "X", "block_threshold": "NONE"}],
        "labels": {"my_label": "x"},
        "tools": [{"google_search": {}}],
        "thinking_config": {"include_thoughts": False},
    }

    body = encode(GO, tools=[TOOL], reasoning=ReasoningSetting("high"), provider_options={"google": options})

    assert {name: value for name, value in body.items() if name != "contents"} == {
        "tools": [*SENT_TOOLS, {"googleSearch": {}}],
        "generationConfig": {
            "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": False},
            "topK": 5,
            "topP": 0.5,
            "responseJsonSchema": schema,
        },
        "safetySettings": [{"category": "X", "blockThreshold": "NONE"}],
        "labels": {"my_label": "x"},
    }


def test_the_providers_own_members_go_along() -> None:
    target = Target("google", "gemini-3-flash", Profile(options={"serviceTier": "flex"}))

    assert encode(GO, target=target)["serviceTier"] == "flex"


@pytest.mark.parametrize("messages", [[], [Message.user("")], [Message.system("x")]])
def test_a_request_without_a_message_is_refused(messages: list[Message]) -> None:
    with pytest.raises(ConfigurationError, match="no message"):
        encode(*messages)


def test_options_must_not_replace_the_contents() -> None:
    with pytest.raises(ConfigurationError, match="contents"):
        encode(GO, provider_options={"google": {"contents": []}})


_ORIGINS = [OWN, FOREIGN, None]
_MARK = "§"


def made_block(chance: random.Random) -> Block:
    made_by = chance.choice(_ORIGINS)
    signature = "own" if made_by == OWN else _MARK
    blocks: list[Block] = [
        TextBlock(chance.choice(["", "a"])),
        TextBlock(chance.choice(["", "b"]), chance.choice(["", signature]), NAME, origin=made_by),
        RefusalBlock("no"),
        ThinkingBlock(f"hm{_MARK}", origin=made_by),
        ThinkingBlock("hm" if made_by == OWN else _MARK, signature, signature_format=NAME, origin=made_by),
        ThinkingBlock(_MARK, _MARK, signature_format="anthropic-messages", origin=made_by),
        ProviderBlock("toolCall", state_text({"toolCall": {}, "thoughtSignature": signature}), NAME, made_by),
        ProviderBlock("thoughtSignature", state_text({"thoughtSignature": signature}), NAME, made_by),
        ImageBlock("image/png", "aW1n", origin=made_by),
        call(chance.choice("abc"), chance.choice(["", signature]), made_by),
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

    sent = contents(*history)

    assert dump_messages(history) == before
    assert contents(*load_messages(before)) == sent
    assert contents(*repair(history)) == sent
    assert _MARK not in json.dumps(sent, ensure_ascii=False)
    assert gemini.check({"contents": sent}, signs_calls=True) == []
