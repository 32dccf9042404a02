"""A thread becomes a chat request that its endpoint takes: in order, reasoning only where it belongs, nothing foreign."""

import copy
import json
from typing import Any

import pytest
from checkers import openai_chat
from hypothesis import given, settings
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
from agentkit.dialects.base import Profile, Target
from agentkit.dialects.openai_chat import DIALECT
from agentkit.errors import ConfigurationError
from agentkit.model import ModelRequest, Notice

pytestmark = pytest.mark.pure

OWN = Origin("openai-chat", "p", "m")
FOREIGN = Origin("openai-chat", "p", "other")


def encode(messages: list[Message], profile: Profile | None = None, **members: Any) -> dict[str, Any]:
    """Return the body."""
    return encode_parts(messages, profile, **members)[0]


def encode_parts(
    messages: list[Message], profile: Profile | None = None, **members: Any
) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    parts = DIALECT.encode(ModelRequest(messages, **members), Target("p", "m", profile or Profile()))
    assert (parts.path, parts.headers) == ("/chat/completions", {})
    return dict(parts.body), parts.notices


def sent(messages: list[Message], profile: Profile | None = None) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = encode(messages, profile)["messages"]
    return out


def assistant(*blocks: Block, status: str = "complete") -> Message:
    return Message("assistant", tuple(blocks), status)  # type: ignore[arg-type]


def call(id_: str = "c", name: str = "f", args: str = "{}", origin: Origin | None = OWN) -> ToolUseBlock:
    return ToolUseBlock(id_, name, args, origin=origin)


def result(id_: str = "c", *content: TextBlock | ImageBlock | DocumentBlock) -> ToolResultBlock:
    return ToolResultBlock(id_, "f", content or (TextBlock("done"),))


def thinking(text: str, origin: Origin | None = OWN, *entries: dict[str, Any]) -> ThinkingBlock:
    state = json.dumps(list(entries)) if entries else None
    return ThinkingBlock(
        text, provider_state=state, provider_state_format="openrouter" if entries else "", origin=origin
    )


USER = Message.user("hi")


# the frame


def test_a_plain_request_is_plain() -> None:
    body, notices = encode_parts([Message.system("Be kind."), USER], system="Be short.")

    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert notices == ()


def test_usage_is_not_asked_for_where_that_is_refused() -> None:
    assert "stream_options" not in encode([USER], Profile(stream_usage=False))


def test_options_are_merged_deeply_and_stay_as_they_are() -> None:
    profile = Profile(options={"a": {"x": 1, "y": 1}, "temperature": 0.1})
    options = {"p": {"a": {"y": 2, "z": [1]}, "stream_options": {"extra": 1}}, "other": {"b": 1}}
    before = copy.deepcopy(options)

    first = encode([USER], profile, provider_options=options, temperature=0.5)
    first["a"]["z"].append(2)
    second = encode([USER], profile, provider_options=options, temperature=0.5)

    assert options == before
    assert second["a"] == {"x": 1, "y": 2, "z": [1]}
    assert second["stream_options"] == {"include_usage": True, "extra": 1}
    assert second["temperature"] == 0.5
    assert "b" not in second


@pytest.mark.parametrize("name", ["messages", "stream"])
def test_options_cannot_replace_the_request_itself(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        encode([USER], provider_options={"p": {name: False}})


@pytest.mark.parametrize(
    "messages", [[], [Message.system("x")], [Message.user("")]], ids=["none", "system", "empty"]
)
def test_a_request_without_a_message_is_refused(messages: list[Message]) -> None:
    with pytest.raises(ConfigurationError, match="no message"):
        encode(messages)


# users


def test_a_user_says_text_images_and_documents_in_order() -> None:
    blocks: list[Block] = [
        TextBlock("see"),
        ImageBlock("image/png", "QUJD"),
        ImageBlock(url="https://x/y.png"),
        DocumentBlock("application/pdf", "QUJD", name="a.pdf"),
        DocumentBlock("text/plain", "SGVsbG8=", name="b.txt"),
        TextBlock(""),
    ]

    assert sent([Message.user(blocks)]) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
                },
                {"type": "text", "text": "b.txt\n\nHello"},
            ],
        }
    ]


def test_a_document_url_goes_only_where_it_is_taken() -> None:
    message = Message.user([DocumentBlock(url="https://x/y.pdf")])

    assert sent([message], Profile(document_urls=True))[0]["content"] == [
        {"type": "file", "file": {"filename": "document", "file_data": "https://x/y.pdf"}}
    ]
    with pytest.raises(ConfigurationError, match="by URL"):
        sent([message])


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(ImageBlock(), id="an image of nothing"),
        pytest.param(ImageBlock(data="QUJD"), id="an image without type"),
        pytest.param(DocumentBlock("application/pdf"), id="a document of nothing"),
        pytest.param(DocumentBlock("text/plain", "§"), id="a text that is no base64"),
        pytest.param(DocumentBlock("text/plain", "/w=="), id="a text that is no UTF-8"),
        pytest.param(ThinkingBlock("hm"), id="thinking"),
    ],
)
def test_what_a_user_cannot_say_is_refused(block: Block) -> None:
    with pytest.raises(ConfigurationError):
        sent([Message.user([block])])


# turns


def test_calls_and_their_results_stand_together() -> None:
    messages = [
        USER,
        assistant(TextBlock("I "), call("a", args='{"x":1}'), TextBlock("look."), call("b", "g", " ")),
        Message("tool", (result("b", TextBlock("two"), TextBlock("lines")),)),
        Message("tool", (result("a"), result("nobody"))),
        Message.user("and?"),
    ]

    assert sent(messages)[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        {"role": "tool", "tool_call_id": "b", "content": "two\nlines"},
        {"role": "user", "content": "and?"},
    ]


def test_a_broken_call_goes_and_a_missing_result_is_made_up() -> None:
    cut = ToolUseBlock("b", "g", '{"x', complete=False)
    messages = [
        USER,
        assistant(call("a"), cut, call("c", args="[1]"), status="partial"),
        Message.user("and?"),
    ]

    turn, made_up, user = sent(messages)[1:]

    assert [c["id"] for c in turn["tool_calls"]] == ["a"]
    assert made_up["tool_call_id"] == "a"
    assert "interrupted" in made_up["content"]
    assert user == {"role": "user", "content": "and?"}


def test_images_of_results_follow_in_a_user_message() -> None:
    messages = [
        USER,
        assistant(call("a"), call("b")),
        Message("tool", (result("a", ImageBlock("image/png", "QUJD")), result("b"))),
    ]

    assert sent(messages)[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "See the images in the next message."},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Images from the result of call a:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            ],
        },
    ]


def test_a_document_in_a_result_is_refused() -> None:
    document = DocumentBlock("application/pdf", "QUJD")

    with pytest.raises(ConfigurationError, match="document"):
        sent([USER, assistant(call()), Message("tool", (result("c", document),))])


def test_short_ids_are_made_where_they_are_demanded() -> None:
    messages = [
        USER,
        assistant(call("call_long"), call("abcDEF123")),
        Message("tool", (result("call_long"), result("abcDEF123"))),
    ]

    turn, first, second = sent(messages, Profile(short_call_ids=True))[1:]

    ids = [c["id"] for c in turn["tool_calls"]]
    assert ids == [first["tool_call_id"], second["tool_call_id"]]
    assert ids[1] == "abcDEF123"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()


def test_a_refusal_is_what_the_assistant_said() -> None:
    assert sent([USER, assistant(RefusalBlock("No."))])[1] == {"role": "assistant", "content": "No."}


def test_what_a_chat_endpoint_cannot_take_is_left_out_and_told() -> None:
    blocks: list[Block] = [
        TextBlock("a"),
        ImageBlock("image/png", "QUJD"),
        ProviderBlock("x", "{}", "anthropic-messages"),
        ThinkingBlock("hm", "sig", signature_format="anthropic-messages", origin=FOREIGN),
    ]

    body, notices = encode_parts([USER, assistant(*blocks), USER])

    assert body["messages"][1] == {"role": "assistant", "content": "a"}
    assert {notice.code: notice.data for notice in notices} == {
        "foreign_thinking": {"count": 1},
        "foreign_block": {"count": 1},
        "assistant_media": {"count": 1},
    }


def test_a_turn_of_which_nothing_is_left_is_not_sent() -> None:
    assert sent([USER, assistant(thinking("hm")), USER]) == [{"role": "user", "content": "hi"}] * 2


def test_lone_surrogates_do_not_leave() -> None:
    state = '[{"type":"reasoning.encrypted","data":"\\ud83d","index":0}]'
    own = ThinkingBlock("a\ud83d", provider_state=state, provider_state_format="openrouter", origin=OWN)
    messages = [
        Message("user", (TextBlock("\ud83d"),)),
        assistant(own, TextBlock("\ude80"), call("i\ud83d", args='{"a":"\ud83d"}')),
    ]

    body = encode(messages, Profile(replay_reasoning="always"), system="s\ud83d")

    json.dumps(body, ensure_ascii=False).encode()


# reasoning


@pytest.mark.parametrize(
    ("profile", "fields"),
    [
        pytest.param(Profile(), [None, None, None], id="not told"),
        pytest.param(Profile(replay_reasoning="never"), [None, None, None], id="never"),
        pytest.param(Profile(replay_reasoning="always"), ["one", None, "two"], id="always"),
        pytest.param(Profile(replay_reasoning="always", missing_reasoning="empty"), ["one", "", "two"], id="always, empty"),
        pytest.param(Profile(replay_reasoning="always", missing_reasoning="space"), ["one", " ", "two"], id="always, space"),
        pytest.param(Profile(replay_reasoning="within_turn"), [None, None, "two"], id="within the turn"),
        pytest.param(Profile(replay_reasoning="within_turn", missing_reasoning="empty"), [None, None, "two"], id="within the turn, empty"),
    ],
)  # fmt: skip
def test_reasoning_goes_back_as_the_profile_says(profile: Profile, fields: list[str | None]) -> None:
    messages = [
        USER,
        assistant(thinking("one"), TextBlock("a")),
        USER,
        assistant(TextBlock("b")),
        Message.user("go"),
        assistant(thinking("t"), thinking("wo"), call()),
        Message("tool", (result(),)),
    ]

    turns = [m for m in sent(messages, profile) if m["role"] == "assistant"]

    assert [turn.get("reasoning_content") for turn in turns] == fields
    assert [turn["content"] for turn in turns] == ["a", "b", None]


def test_a_thought_alone_is_sent_where_reasoning_is() -> None:
    messages = [USER, assistant(thinking("hm"), status="partial"), USER]

    assert sent(messages, Profile(replay_reasoning="always"))[1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
    }


@pytest.mark.parametrize(
    "origin", [FOREIGN, None, Origin("openai-chat", "p", "m", "http://elsewhere")], ids=str
)
def test_reasoning_of_others_is_not_sent(origin: Origin | None) -> None:
    entry = {"type": "reasoning.text", "text": "secret thought", "index": 0}
    messages = [USER, assistant(thinking("secret thought", origin, entry), TextBlock("a")), USER]

    for profile in (Profile(), Profile(replay_reasoning="always", missing_reasoning="empty")):
        body, notices = encode_parts(messages, profile)

        assert "secret" not in json.dumps(body)
        assert [notice.code for notice in notices] == ["foreign_thinking"]


def test_a_summary_is_not_the_reasoning() -> None:
    summary = ThinkingBlock("about it", summary=True, origin=OWN)

    assert sent([USER, assistant(summary, TextBlock("a"))], Profile(replay_reasoning="always"))[1] == {
        "role": "assistant",
        "content": "a",
    }


WORDS = {
    "type": "reasoning.text",
    "text": "hm",
    "signature": "s",
    "format": "anthropic-claude-v1",
    "index": 0,
}
SEALED = {"type": "reasoning.encrypted", "data": "x", "index": 0}


@pytest.mark.parametrize(
    ("replay", "entries"),
    [(None, [WORDS, SEALED]), ("within_turn", [WORDS, SEALED]), ("never", [SEALED])],
)
def test_own_details_go_back_in_order(replay: Any, entries: list[dict[str, Any]]) -> None:
    turn = assistant(thinking("hm", OWN, WORDS), TextBlock("a"), thinking("", OWN, SEALED))

    assert sent([USER, turn, USER], Profile(replay_reasoning=replay))[1] == {
        "role": "assistant",
        "content": "a",
        "reasoning_details": entries,
    }


def test_words_that_broke_off_before_their_signature_stay() -> None:
    unsigned = {key: value for key, value in WORDS.items() if key != "signature"}
    blocks = (thinking("hm", OWN, unsigned), TextBlock("a"))

    body, notices = encode_parts([USER, assistant(*blocks, status="partial"), USER])

    assert body["messages"][1] == {"role": "assistant", "content": "a"}
    assert [notice.code for notice in notices] == ["unsigned_thinking"]
    assert sent([USER, assistant(*blocks), USER])[1]["reasoning_details"] == [unsigned]


def test_a_state_of_another_format_is_no_details() -> None:
    own = ThinkingBlock("", provider_state="[1]", provider_state_format="openai-responses", origin=OWN)

    assert sent([USER, assistant(own, TextBlock("a"))])[1] == {"role": "assistant", "content": "a"}


def test_extra_content_goes_back_on_its_own_call() -> None:
    def signed(origin: Origin) -> ToolUseBlock:
        return ToolUseBlock(
            "c",
            "f",
            "{}",
            provider_state='{"google":{"x":1}}',
            provider_state_format="openai-chat",
            origin=origin,
        )

    own = sent([USER, assistant(signed(OWN))])[1]["tool_calls"][0]
    foreign = sent([USER, assistant(signed(FOREIGN))])[1]["tool_calls"][0]

    assert own["extra_content"] == {"google": {"x": 1}}
    assert "extra_content" not in foreign


# round trip


def test_what_was_read_goes_back_exactly() -> None:
    target = Target("p", "m", Profile(replay_reasoning="always"))
    decoder = DIALECT.decoder(target)
    detail = {"type": "reasoning.text", "text": "17 x", "format": "anthropic-claude-v1", "index": 0}
    deltas: list[dict[str, Any]] = [
        {"reasoning_details": [detail]},
        {"reasoning_details": [{**detail, "text": " 3"}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]},
        {"content": "Let me see."},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"e": "17*3"}'}}]},
    ]
    response = Response(OWN)
    for delta in deltas:
        for chunk in decoder.feed("", json.dumps({"choices": [{"index": 0, "delta": delta}]})):
            response.add(chunk)
    for chunk in decoder.feed("", "[DONE]"):
        response.add(chunk)

    kept = load_messages(dump_messages([USER, response.message()]))

    assert DIALECT.encode(ModelRequest(kept), target).body["messages"][1] == {  # type: ignore[index]
        "role": "assistant",
        "content": "Let me see.",
        "reasoning_content": "17 x 3",
        "reasoning_details": [{**detail, "text": "17 x 3", "signature": "s"}],
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"e": "17*3"}'}}
        ],
    }


_ORIGIN = st.sampled_from([OWN, FOREIGN, None])
_CHARACTERS = st.characters(exclude_characters="§")
_TEXT = st.text(_CHARACTERS, max_size=5)
_BLOCK = st.one_of(
    st.builds(TextBlock, _TEXT),
    st.builds(RefusalBlock, _TEXT),
    st.builds(lambda t, o: thinking(f"{t}§", o, {"type": "reasoning.text", "text": f"{t}§"}), _TEXT, _ORIGIN),
    st.builds(lambda t, o: thinking(f"{t}§", o), _TEXT, _ORIGIN),
    st.builds(
        call, st.sampled_from("abc"), st.just("f"), st.sampled_from(["{}", "", '{"x":1}', "{", "[]"]), _ORIGIN
    ),
    st.builds(lambda i: ToolUseBlock(i, "f", "{}", complete=False), st.sampled_from("abc")),
    st.just(ProviderBlock("x", "{}", "anthropic-messages")),
    st.just(ImageBlock("image/png", "QUJD")),
)
_MESSAGE = st.one_of(
    st.builds(Message.user, st.text(_CHARACTERS, min_size=1, max_size=3)),
    st.builds(lambda b, s: Message("assistant", tuple(b), s), st.lists(_BLOCK, max_size=5), st.sampled_from(["complete", "partial"])),
    st.builds(lambda ids: Message("tool", tuple(result(i) for i in ids)), st.lists(st.sampled_from("abc"), max_size=3)),
)  # fmt: skip
_PROFILE = st.builds(
    Profile,
    replay_reasoning=st.sampled_from([None, "always", "within_turn", "never"]),
    missing_reasoning=st.sampled_from(["", "empty", "space"]),
    short_call_ids=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_MESSAGE, max_size=7), _PROFILE)
def test_any_history_becomes_a_request_by_the_rules(history: list[Message], profile: Profile) -> None:
    before = dump_messages(history)

    body = encode([USER, *history], profile)

    assert dump_messages(history) == before
    assert openai_chat.check(body) == []
    if profile.replay_reasoning in (None, "never"):
        assert not any("reasoning_content" in message for message in body["messages"])
    text = json.dumps([message.get("content") for message in body["messages"]], ensure_ascii=False)
    assert "§" not in text
