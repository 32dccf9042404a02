"""Entries of one type, index and id are one block, and go back as one."""

import json
from typing import Any

import pytest

from agentkit.accumulators import Response
from agentkit.chunks import BlockEndChunk, Chunk, TextChunk, ThinkingChunk
from agentkit.content import ThinkingBlock
from agentkit.dialects.blocks import Blocks
from agentkit.dialects.openai_chat_details import ReasoningDetails

pytestmark = pytest.mark.pure

FORMAT = "anthropic-claude-v1"


def text(piece: str, index: int | None = 0, **members: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": piece, "index": index, **members}


def read(*deltas: list[Any]) -> list[Chunk]:
    details = ReasoningDetails(Blocks())
    out: list[Chunk] = []
    for delta in deltas:
        details.add(delta, out)
    details.flush(out)
    return out


def blocks(*deltas: list[Any]) -> list[ThinkingBlock]:
    response = Response()
    for chunk in read(*deltas):
        response.add(chunk)
    return list(response.message().thinking)


def block(
    thinking: str, state: list[dict[str, Any]], signature: str = "", *, summary: bool = False
) -> ThinkingBlock:
    """Return the block that an entry becomes."""
    label = "openrouter" if signature else ""
    return ThinkingBlock(
        thinking, signature, json.dumps(state, separators=(",", ":")), "openrouter", label, summary
    )


def test_pieces_go_out_at_once_and_the_state_at_the_end() -> None:
    signed = {"type": "reasoning.text", "signature": "s", "format": FORMAT, "index": 0}

    chunks = read([text("17 x", format=FORMAT)], [text(" 3", format=FORMAT)], [signed])

    merged = [{"type": "reasoning.text", "text": "17 x 3", "index": 0, "format": FORMAT, "signature": "s"}]
    assert chunks == [
        ThinkingChunk("17 x", index=0),
        ThinkingChunk(" 3", index=0),
        ThinkingChunk(signature="s", signature_format="openrouter", index=0),
        ThinkingChunk(provider_state=json.dumps(merged, separators=(",", ":")), provider_state_format="openrouter", index=0),
    ]  # fmt: skip


def test_type_index_and_id_tell_entries_apart() -> None:
    summary = {"type": "reasoning.summary", "summary": "sum", "index": 0}
    sealed = {"type": "reasoning.encrypted", "data": "x", "index": 0, "id": "rs_1"}
    other = {"type": "reasoning.encrypted", "data": "y", "index": 0, "id": "rs_2"}

    assert blocks([text("a"), summary], [text("b", 1)], [sealed, other], [text("c")]) == [
        block("ac", [text("ac")]),
        block("sum", [summary], summary=True),
        block("b", [text("b", 1)]),
        block("", [sealed]),
        block("", [other]),
    ]


def test_an_entry_without_words_is_told_at_once() -> None:
    sealed = {"type": "reasoning.encrypted", "data": "x", "index": 0}

    chunks = read([sealed])

    state = '[{"type":"reasoning.encrypted","data":"x","index":0}]'
    assert chunks == [ThinkingChunk(provider_state=state, provider_state_format="openrouter", index=0)]


def test_empty_members_overwrite_nothing_and_null_ones_stay() -> None:
    first = text("a", format=FORMAT, signature=None, id="")
    last = text("b", format="", signature="s", id=None)
    late = {"type": "reasoning.text", "index": 0, "signature": "", "text": None}

    assert blocks([first], [last], [late]) == [
        block("ab", [text("ab", format=FORMAT, signature="s", id="")], "s")
    ]


def test_a_late_signature_finds_its_block() -> None:
    details = ReasoningDetails(inner := Blocks())
    out: list[Chunk] = []

    details.add([text("a")], out)
    inner.text("answer", out)
    details.add([{"type": "reasoning.text", "index": 0, "signature": "s"}], out)
    inner.text(" goes on", out)

    assert out == [
        ThinkingChunk("a", index=0),
        BlockEndChunk(0),
        TextChunk("answer", 1),
        ThinkingChunk(signature="s", signature_format="openrouter", index=0),
        TextChunk(" goes on", 1),
    ]


def test_more_words_after_text_go_to_their_block() -> None:
    details = ReasoningDetails(inner := Blocks())
    out: list[Chunk] = []

    details.add([text("a")], out)
    inner.text("answer", out)
    details.add([text("b")], out)
    inner.text("more", out)

    assert out == [
        ThinkingChunk("a", index=0),
        BlockEndChunk(0),
        TextChunk("answer", 1),
        BlockEndChunk(1),
        ThinkingChunk("b", index=0),
        BlockEndChunk(0),
        TextChunk("more", 2),
    ]


def test_a_changed_opaque_entry_replaces_the_state() -> None:
    one = {"type": "reasoning.encrypted", "data": "x", "index": 0}

    assert blocks([one], [{**one, "data": "y"}]) == [block("", [{**one, "data": "y"}])]


def test_halves_of_a_pair_are_joined_in_text_and_state() -> None:
    assert blocks([text("a\ud83d")], [text("\ude80\ud83d")]) == [block("a🚀\ufffd", [text("a🚀\ufffd")])]


@pytest.mark.parametrize(
    "detail",
    [None, 5, "x", {}, {"type": "reasoning.text", "index": 0, "text": ""}, {"type": "x", "format": "y"}],
    ids=str,
)
def test_an_entry_that_says_nothing_makes_no_block(detail: object) -> None:
    assert read([detail]) == []
    assert not ReasoningDetails.speaks([detail])


def test_odd_labels_do_no_harm() -> None:
    odd = {"type": ["x"], "index": {"a": 1}, "id": 5.5, "blob": [1, 2]}

    assert blocks([odd]) == [block("", [odd])]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_pieces_of_a_text_need_not_all_have_its_id(place: int) -> None:
    pieces = [text("a"), text("b"), {"type": "reasoning.text", "index": 0, "signature": "s"}]
    pieces[place]["id"] = "r1"

    (only,) = blocks(*([piece] for piece in pieces))

    assert (only.thinking, only.signature) == ("ab", "s")
    assert json.loads(only.provider_state or "") == [
        {"type": "reasoning.text", "text": "ab", "index": 0, "id": "r1", "signature": "s"}
    ]


def test_another_id_begins_another_text_and_goes_on_with_its_own() -> None:
    first, second = text("a", id="r1"), text("b", id="r2")

    assert [block.thinking for block in blocks([first], [second], [text("c")], [first])] == ["aa", "bc"]


def test_a_signed_text_is_over_for_another_id() -> None:
    signed = {"type": "reasoning.text", "index": 0, "signature": "s"}

    assert [block.thinking for block in blocks([text("a")], [signed], [text("b", id="r2")])] == ["a", "b"]
