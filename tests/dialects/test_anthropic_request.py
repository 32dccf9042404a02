import base64
import copy
import json
from dataclasses import replace
from typing import Any

import pytest

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
)
from agentkit.dialects.anthropic_blocks import NAME
from agentkit.dialects.anthropic_request import encode_request
from agentkit.dialects.base import HTTPParts, Profile, Target
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice, ToolSpec
from agentkit.reasoning import ReasoningSetting
from agentkit.repair import INTERRUPTED

pytestmark = pytest.mark.pure

TARGET = Target("anthropic", "demo")
OWN = Origin(NAME, "anthropic", "demo")
OTHERS = {
    "another dialect": replace(OWN, dialect="openai-chat"),
    "another provider": replace(OWN, provider="bedrock"),
    "another model": replace(OWN, model="demo-2"),
    "another endpoint": replace(OWN, endpoint="https://relay"),
    "nobody": None,
}
TOOL = ToolSpec("f", "does it", {"type": "object"})
SIGNED = ThinkingBlock("  hm \r\n", "c2ln", signature_format=NAME, origin=OWN)
SENT = {"type": "thinking", "thinking": "  hm \r\n", "signature": "c2ln"}


def encode(*messages: Message, target: Target = TARGET, **members: Any) -> HTTPParts:
    return encode_request(ModelRequest(messages, **members), target)


def messages_of(parts: HTTPParts) -> list[Any]:
    messages: Any = parts.body["messages"]
    return list(messages)


def text(words: str) -> Any:
    return {"type": "text", "text": words}


def turn(*blocks: Block) -> tuple[list[Any], tuple[Notice, ...]]:
    """Return what is sent of an assistant turn between two of the user's, and what is told of it."""
    parts = encode(Message.user("go"), Message.assistant(blocks), Message.user("on"))
    sent = [message for message in messages_of(parts) if message["role"] == "assistant"]
    return [part for message in sent for part in message["content"]], parts.notices


def test_a_plain_request_is_this_and_nothing_more() -> None:
    assert encode(Message.user("Hi"), system="Be brief.") == HTTPParts(
        "/v1/messages",
        {
            "model": "demo",
            "max_tokens": 8192,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": [text("Hi")]}],
            "stream": True,
        },
        {"anthropic-version": "2023-06-01"},
    )


def test_all_settings_have_their_member() -> None:
    schema = {"type": "object"}
    parts = encode(
        Message.user("Hi"), tools=[TOOL], tool_choice="f", max_tokens=5, temperature=0.5, stop=["x"], output_schema=schema
    )  # fmt: skip

    assert {name: parts.body[name] for name in parts.body if name not in ("model", "messages", "stream")} == {
        "max_tokens": 5,
        "tools": [{"name": "f", "description": "does it", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "f"},
        "temperature": 0.5,
        "stop_sequences": ["x"],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }


@pytest.mark.parametrize(("choice", "sent"), [("auto", "auto"), ("none", "none"), ("required", "any")])
def test_tool_choice(choice: str, sent: str) -> None:
    parts = encode(Message.user("Hi"), tools=[TOOL], tool_choice=choice)

    assert parts.body["tool_choice"] == {"type": sent}


def test_system_messages_join_the_system_text_in_order() -> None:
    parts = encode(Message.system("B"), Message.user("x"), Message.system("C"), system="A")

    assert parts.body["system"] == "A\n\nB\n\nC"
    assert messages_of(parts) == [{"role": "user", "content": [text("x")]}]


def test_own_signed_thinking_goes_back_exactly_and_in_place() -> None:
    call = ToolUseBlock("t", "f", '{"a":1}', origin=OWN)
    redacted = ThinkingBlock("", provider_state='{"type":"redacted_thinking","data":"R"}',
                             provider_state_format=NAME, origin=OWN)  # fmt: skip
    empty = ThinkingBlock("", "bm8=", signature_format=NAME, origin=OWN)

    assert turn(SIGNED, TextBlock("a"), empty, redacted, call) == (
        [
            SENT,
            text("a"),
            {"type": "thinking", "thinking": "", "signature": "bm8="},
            {"type": "redacted_thinking", "data": "R"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        ],
        (),
    )


@pytest.mark.parametrize("made_by", [pytest.param(made_by, id=name) for name, made_by in OTHERS.items()])
def test_foreign_thinking_is_left_out_and_told(made_by: Origin | None) -> None:
    redacted = ThinkingBlock("", provider_state='{"data":"R"}', provider_state_format=NAME, origin=made_by)

    assert turn(replace(SIGNED, origin=made_by), redacted, TextBlock("a", origin=made_by)) == (
        [text("a")],
        (
            Notice(
                "foreign_thinking", "thinking of another model was left out of the request (2)", {"count": 2}
            ),
        ),
    )


def test_a_signature_or_state_of_another_format_is_not_sent() -> None:
    signed = replace(SIGNED, signature_format="gemini")
    state = ThinkingBlock("", provider_state='{"x":1}', provider_state_format="openai-responses", origin=OWN)

    sent, notices = turn(signed, state, TextBlock("a"))

    assert sent == [text("a")]
    assert [notice.code for notice in notices] == ["unsigned_thinking"]


def test_unsigned_thinking_is_left_out_but_where_the_profile_wants_it() -> None:
    messages = (
        Message.user("go"),
        Message.assistant([ThinkingBlock("hm", origin=OWN), TextBlock("a")]),
        Message.user("on"),
    )
    wanted = encode(*messages, target=replace(TARGET, profile=Profile(unsigned_thinking=True)))

    assert turn(ThinkingBlock("hm", origin=OWN), TextBlock("a"))[0] == [text("a")]
    assert messages_of(wanted)[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        text("a"),
    ]


def test_a_turn_never_ends_with_thinking_and_an_empty_one_is_not_sent() -> None:
    ended = encode(Message.user("go"), Message.assistant([TextBlock("a"), SIGNED]), Message.user("on"))
    empty = encode(Message.user("go"), Message.assistant([SIGNED]), Message.user("on"))

    assert messages_of(ended)[1] == {"role": "assistant", "content": [text("a")]}
    assert messages_of(empty) == [
        {"role": "user", "content": [text("go")]},
        {"role": "user", "content": [text("on")]},
    ]
    assert [notice.code for notice in empty.notices] == ["unfinished_thinking"]


def test_what_says_nothing_is_not_sent() -> None:
    assert turn(TextBlock(""), TextBlock(" \n"), RefusalBlock(""), ThinkingBlock(), TextBlock("a")) == (
        [text("a")],
        (),
    )


def test_a_refusal_is_what_the_assistant_said() -> None:
    assert turn(RefusalBlock("No.")) == ([text("No.")], ())


def test_results_stand_in_one_message_directly_after_their_turn() -> None:
    calls = [ToolUseBlock("t1", "f"), ToolUseBlock("t2", "f"), ToolUseBlock("t3", "f")]
    image = ImageBlock("image/png", "QQ==")
    parts = encode(
        Message.user("go"),
        Message.assistant(calls),
        Message("tool", (ToolResultBlock("t2", content=(TextBlock("no"),), status="error"),)),
        Message("tool", (ToolResultBlock("t1", content=(TextBlock("yes"), TextBlock(""), image)),)),
        Message.user("and?"),
    )

    assert messages_of(parts)[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [
                text("yes"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}]},
            {"type": "tool_result", "tool_use_id": "t2", "content": [text("no")], "is_error": True},
            {"type": "tool_result", "tool_use_id": "t3", "content": [text(INTERRUPTED)], "is_error": True},
            text("and?"),
        ],
    }  # fmt: skip


def test_a_result_without_content_is_sent_without_it() -> None:
    parts = encode(
        Message.user("go"),
        Message.assistant([ToolUseBlock("t", "f")]),
        Message("tool", (ToolResultBlock("t"),)),
    )

    assert messages_of(parts)[2]["content"] == [{"type": "tool_result", "tool_use_id": "t"}]


def test_broken_calls_and_their_results_are_not_sent() -> None:
    parts = encode(
        Message.user("go"),
        Message.assistant([TextBlock("a"), ToolUseBlock("t1", "f", "{", complete=True), ToolUseBlock("t2", "f", complete=False)]),
        Message("tool", (ToolResultBlock("t1"), ToolResultBlock("t2"), ToolResultBlock("t9"))),
        Message.user("on"),
    )  # fmt: skip

    assert [message["content"] for message in messages_of(parts)] == [
        [text("go")],
        [text("a")],
        [text("on")],
    ]


def test_call_ids_that_the_wire_does_not_take_are_changed_alike_in_call_and_result() -> None:
    parts = encode(
        Message.user("go"),
        Message.assistant([ToolUseBlock("functions.f:0", "f"), ToolUseBlock("functions_f_0", "f")]),
        Message("tool", (ToolResultBlock("functions.f:0"), ToolResultBlock("functions_f_0"))),
        Message.assistant([ToolUseBlock("functions.f:0", "f")]),
        Message("tool", (ToolResultBlock("functions.f:0"),)),
    )

    ids = [
        [part.get("id") or part.get("tool_use_id") for part in message["content"]]
        for message in messages_of(parts)[1:]
    ]
    first, second, third = "functions_f_0", "functions_f_0_2", "functions_f_0_3"
    assert ids == [[first, second], [first, second], [third], [third]]


def test_what_came_with_a_call_or_a_text_goes_back_to_its_owner_only() -> None:
    state = {"provider_state": '{"caller":{"type":"direct"}}', "provider_state_format": NAME}
    cited = {"provider_state": '{"citations":[{"n":1}]}', "provider_state_format": NAME}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}

    own, _ = turn(TextBlock("a", origin=OWN, **cited), ToolUseBlock("t", "f", origin=OWN, **state))  # type: ignore[arg-type]
    foreign, _ = turn(TextBlock("a", **cited), ToolUseBlock("t", "f", **state))  # type: ignore[arg-type]

    assert own == [{**text("a"), "citations": [{"n": 1}]}, {**call, "caller": {"type": "direct"}}]
    assert foreign == [text("a"), call]


def own_block(**members: object) -> ProviderBlock:
    return ProviderBlock(str(members["type"]), json.dumps(members), NAME, OWN)


CALLED = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}


def test_the_providers_own_blocks_go_back_to_it_whole() -> None:
    assert turn(own_block(**CALLED), own_block(**FOUND), TextBlock("a")) == ([CALLED, FOUND, text("a")], ())


def test_another_providers_own_blocks_are_left_out_and_told() -> None:
    sent, notices = turn(replace(own_block(**FOUND), origin=None), TextBlock("a"))

    assert sent == [text("a")]
    assert [notice.code for notice in notices] == ["foreign_block"]


def test_a_call_of_the_providers_own_tool_without_a_result_goes_back_only_at_the_end_of_the_thread() -> None:
    paused = encode(Message.user("go"), Message.assistant([TextBlock("a"), own_block(**CALLED)]))
    sent, notices = turn(own_block(**CALLED), TextBlock("a"))
    cut, _ = turn(own_block(**{**CALLED, "input": '{"q'}), own_block(**FOUND), TextBlock("a"))

    assert messages_of(paused)[1]["content"] == [text("a"), CALLED]
    assert sent == [text("a")]
    assert [notice.code for notice in notices] == ["unanswered_block"]
    assert cut == [FOUND, text("a")]


def test_state_that_is_no_object_is_taken_as_absent() -> None:
    broken = [
        ThinkingBlock("", provider_state=state, provider_state_format=NAME, origin=OWN)
        for state in ("{", "[1]", "7")
    ]

    assert turn(*broken, TextBlock("a"))[0] == [text("a")]


MEDIA = [
    pytest.param(ImageBlock("image/png", "QQ=="), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
                 id="image"),
    pytest.param(ImageBlock(url="https://x/y.png"), {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, id="image url"),
    pytest.param(DocumentBlock("application/pdf", "QQ==", name="a.pdf"),
                 {"type": "document", "title": "a.pdf",
                  "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}}, id="pdf"),
    pytest.param(DocumentBlock("text/plain", base64.b64encode("ä".encode()).decode()),
                 {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "ä"}}, id="plain text"),
]  # fmt: skip


@pytest.mark.parametrize(("block", "sent"), MEDIA)
def test_images_and_documents_of_the_user(block: Block, sent: dict[str, Any]) -> None:
    parts = encode(Message.user([TextBlock("see"), block]))

    assert messages_of(parts) == [{"role": "user", "content": [text("see"), sent]}]


def test_images_that_a_model_made_are_left_out_and_told() -> None:
    sent, notices = turn(ImageBlock("image/png", "QQ=="), TextBlock("a"))

    assert sent == [text("a")]
    assert [notice.code for notice in notices] == ["assistant_media"]


REASONING = [
    pytest.param({"budget": 1024}, {}, {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 8192}, id="budget"),
    pytest.param({"budget": 9000}, {}, {"thinking": {"type": "enabled", "budget_tokens": 9000}, "max_tokens": 17192},
                 id="max_tokens is raised above the budget"),
    pytest.param({"budget": 1024}, {"max_tokens": 100}, {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1124},
                 id="the room for the answer is kept"),
    pytest.param({"budget": 2048}, {"provider_options": {"anthropic": {"max_tokens": 5000}}},
                 {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 5000}, id="max_tokens as an option"),
    pytest.param({"effort": "low"}, {}, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 8192}, id="low"),
    pytest.param({"effort": "max"}, {}, {"thinking": {"type": "enabled", "budget_tokens": 55808}, "max_tokens": 64000}, id="max"),
    pytest.param({"effort": "none"}, {}, {"thinking": {"type": "disabled"}, "max_tokens": 8192}, id="no effort"),
    pytest.param({"budget": 0}, {}, {"thinking": {"type": "disabled"}, "max_tokens": 8192}, id="no budget"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "members", "sent"), REASONING)
def test_reasoning(setting: dict[str, Any], members: dict[str, Any], sent: dict[str, Any]) -> None:
    parts = encode(Message.user("Hi"), reasoning=ReasoningSetting(**setting), **members)

    assert {name: parts.body[name] for name in ("thinking", "max_tokens")} == sent


ADAPTIVE = [({"effort": "minimal"}, "low"), ({"effort": "xhigh"}, "max"), ({"budget": 3000}, "medium")]


@pytest.mark.parametrize(("setting", "effort"), ADAPTIVE, ids=str)
def test_a_model_that_decides_itself_gets_an_effort(setting: dict[str, Any], effort: str) -> None:
    target = replace(TARGET, profile=Profile(adaptive_thinking=True))
    parts = encode(Message.user("Hi"), target=target, reasoning=ReasoningSetting(**setting), output_schema={})

    assert (parts.body["thinking"], parts.body["max_tokens"]) == ({"type": "adaptive"}, 8192)
    assert parts.body["output_config"] == {"effort": effort, "format": {"type": "json_schema", "schema": {}}}


def test_efforts_of_a_profile_are_the_only_ones_sent() -> None:
    target = replace(TARGET, profile=Profile(adaptive_thinking=True, efforts=("medium", "xhigh")))
    sent = [encode(Message.user("Hi"), target=target, reasoning=ReasoningSetting(effort=effort)).body["output_config"]
            for effort in ("low", "high", "max")]  # fmt: skip

    assert sent == [{"effort": "medium"}, {"effort": "xhigh"}, {"effort": "xhigh"}]


def test_options_are_merged_into_the_body_and_never_changed() -> None:
    options = {
        "anthropic": {"metadata": {"user_id": "u"}, "output_config": {"x": [1]}, "betas": ["a", "b"]},
        "other": {"top_k": 1},
    }
    profile = Profile(options={"metadata": {"team": "t"}, "max_tokens": 7})
    before = copy.deepcopy(options)

    parts = encode(
        Message.user("Hi"),
        target=replace(TARGET, profile=profile),
        provider_options=options,
        output_schema={},
    )
    config: Any = parts.body["output_config"]
    config["x"].append(2)

    assert options == before
    assert parts.body["metadata"] == {"user_id": "u", "team": "t"}
    assert parts.body["output_config"] == {"format": {"type": "json_schema", "schema": {}}, "x": [1, 2]}
    assert "betas" not in parts.body
    assert "top_k" not in parts.body
    assert parts.headers == {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}


HI = Message.user("Hi")
REFUSED = [
    pytest.param([HI], {"reasoning": {"budget": 1023}}, "at least 1024 tokens", id="too small a budget"),
    pytest.param([HI], {"reasoning": {"effort": "low"}, "provider_options": {"anthropic": {"thinking": {}}}},
                 "say the same", id="thinking as option"),
    pytest.param([HI], {"reasoning": {"effort": "none"}, "provider_options": {"anthropic": {"output_config": {"effort": "low"}}}},
                 "say the same", id="effort as option"),
    pytest.param([HI], {"reasoning": {"budget": 5000}, "provider_options": {"anthropic": {"max_tokens": 5000}}},
                 "max_tokens 5000 must be above", id="max_tokens as option, not above"),
    pytest.param([HI], {"reasoning": {"effort": "low"}, "temperature": 0.5}, "no temperature", id="temperature"),
    pytest.param([HI], {"reasoning": {"effort": "low"}, "tools": [TOOL], "tool_choice": "required"}, "tool_choice", id="tool choice"),
    pytest.param([HI], {"tools": [TOOL], "tool_choice": "g"}, "tool_choice 'g'", id="unknown tool"),
    pytest.param([HI], {"provider_options": {"anthropic": {"stream": False}}}, "'stream'", id="stream"),
    pytest.param([], {}, "no message", id="nothing"),
    pytest.param([Message.user(" ")], {}, "no message", id="blank"),
    pytest.param([Message.user([ThinkingBlock("x")])], {}, "thinking block", id="thinking of the user"),
    pytest.param([Message.user([ImageBlock(data="QQ==")])], {}, "media_type", id="no media type"),
    pytest.param([Message.user([ImageBlock()])], {}, "data or a url", id="no image"),
    pytest.param([Message.user([DocumentBlock("text/plain", "/w==")])], {}, "UTF-8", id="no text"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "members", "words"), REFUSED)
def test_what_cannot_be_said_is_refused(messages: list[Message], members: dict[str, Any], words: str) -> None:
    if "reasoning" in members:
        members = {**members, "reasoning": ReasoningSetting(**members["reasoning"])}

    with pytest.raises(ConfigurationError, match=words):
        encode(*messages, **members)


def test_what_leaves_is_valid_utf_8() -> None:
    half = "a\ud83c"
    state = json.dumps({"type": "dream", "text": half})
    parts = encode(
        Message.user([TextBlock(half), DocumentBlock("application/pdf", "QQ==", name=half)]),
        Message.assistant([
            TextBlock(half), RefusalBlock(half), ProviderBlock("dream", state, NAME, OWN),
            ToolUseBlock("t", "f", json.dumps({"x": [half]})),
        ]),
        Message("tool", (ToolResultBlock("t", content=(TextBlock(half),)),)),
        Message.system(half),
        system=half,
    )  # fmt: skip

    assert json.dumps(parts.body, ensure_ascii=False).encode().count("\ufffd".encode()) == 9
