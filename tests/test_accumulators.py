import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.accumulators import Images, Refusal, Response, Text, Thinking, ToolUses
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
    ImageBlock,
    Message,
    Origin,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)

pytestmark = pytest.mark.pure

ANY_INDEX = st.integers(min_value=-(10**30), max_value=10**30)


def test_the_seed_example_keeps_the_last_signature() -> None:
    accumulated = Thinking()
    accumulated.add(ThinkingChunk(thinking="check "))
    accumulated.add(ThinkingChunk(thinking="facts", signature="signed"))

    assert accumulated.block() == ThinkingBlock("check facts", "signed")


def test_nothing_is_there_before_a_chunk() -> None:
    assert (Text().block(), Thinking().block(), Refusal().block()) == (None, None, None)
    assert (Thinking().blocks(), ToolUses().blocks(), Images().blocks(), Response().blocks()) == (
        [],
        [],
        [],
        [],
    )
    assert Text().empty
    assert Thinking().empty
    assert ToolUses().empty
    assert Refusal().empty
    assert Images().empty
    assert Response().empty


def test_an_empty_string_counts_as_received() -> None:
    text, thinking, tools, refusal = Text(), Thinking(), ToolUses(), Refusal()

    text.add(TextChunk(""))
    thinking.add(ThinkingChunk(""))
    tools.add(ToolUseChunk())
    refusal.add(RefusalChunk(""))

    assert not (text.empty or thinking.empty or tools.empty or refusal.empty)
    assert (text.block(), thinking.block()) == (TextBlock(""), ThinkingBlock())
    assert (tools.blocks(), refusal.block()) == ([ToolUseBlock("", "")], RefusalBlock(""))


def test_an_empty_signature_does_not_overwrite() -> None:
    thinking = Thinking()
    thinking.add(ThinkingChunk("", "first", "a"))
    thinking.add(ThinkingChunk("", "", "b"))

    assert thinking.block() == ThinkingBlock("", "first", signature_format="a")


def test_the_last_signature_travels_with_its_own_format() -> None:
    thinking = Thinking()
    thinking.add(ThinkingChunk("", "first", "a"))
    thinking.add(ThinkingChunk("", "second", "b"))

    assert thinking.block() == ThinkingBlock("", "second", signature_format="b")


def test_a_state_without_a_format_is_ignored() -> None:
    thinking = Thinking()
    thinking.add(ThinkingChunk(provider_state='{"a":1}', provider_state_format="x"))
    thinking.add(ThinkingChunk(provider_state='{"b":2}'))

    assert thinking.block() == ThinkingBlock("", "", '{"a":1}', "x")


def test_blocks_come_by_ascending_index_and_gaps_make_no_filler() -> None:
    thinking, tools = Thinking(), ToolUses()
    for index in (7, -3, sys.maxsize + 5):
        thinking.add(ThinkingChunk(str(index), index=index))
        tools.add(ToolUseChunk(str(index), "t", index=index))

    assert [block.thinking for block in thinking.blocks()] == ["-3", "7", str(sys.maxsize + 5)]
    assert [block.id for block in tools.blocks()] == ["-3", "7", str(sys.maxsize + 5)]
    assert thinking.block() == ThinkingBlock("-3")


def test_tool_input_is_the_raw_text_and_id_and_name_are_set_not_appended() -> None:
    tools = ToolUses()
    tools.add(ToolUseChunk("call_1", "add", '{"a'))
    tools.add(ToolUseChunk("", "", '":1'))
    tools.add(ToolUseChunk("call_1", "add", ""))

    assert tools.blocks() == [ToolUseBlock("call_1", "add", '{"a":1')]


def test_the_last_image_of_an_index_wins() -> None:
    images = Images()
    images.add(ImageChunk("image/png", "half", index=1))
    images.add(ImageChunk("image/png", "whole", index=1))

    assert images.blocks() == [ImageBlock("image/png", "whole")]


def test_a_response_keeps_all_kinds_in_order_with_their_origin() -> None:
    origin = Origin("d", "p", "m")
    response = Response(origin)
    for chunk in (
        ThinkingChunk("hm", "sig", "d", index=0),
        BlockEndChunk(0),
        TextChunk("a", 1),
        ProviderChunk("search", "{}", "d", 2),
        ToolUseChunk("c1", "t", "{}", 3),
        ToolUseChunk("c2", "t", "{", 4),
        BlockEndChunk(3),
        RefusalChunk("no", 5),
        ImageChunk("image/png", "AA", index=6),
        TextChunk("b", 1),
        UsageChunk(Usage(1, 1)),
        UsageChunk(Usage(3, 4)),
        FinishChunk("tool_calls"),
        FinishChunk("stop", "end"),
        ErrorChunk("provider", "first"),
        ErrorChunk("truncated", "second"),
    ):
        response.add(chunk)

    assert response.blocks() == [
        ThinkingBlock("hm", "sig", signature_format="d", origin=origin),
        TextBlock("ab", origin=origin),
        ProviderBlock("search", "{}", "d", origin),
        ToolUseBlock("c1", "t", "{}", origin=origin),
        ToolUseBlock("c2", "t", "{", complete=False, origin=origin),
        RefusalBlock("no", origin),
        ImageBlock("image/png", "AA", origin=origin),
    ]
    assert (response.usage, response.finish) == (Usage(3, 4), FinishChunk("stop", "end"))
    assert response.error == ErrorChunk("provider", "first")
    assert response.message(run="r", partial=True) == Message(
        "assistant", tuple(response.blocks()), "partial", "r"
    )


def test_reading_a_block_in_the_middle_changes_nothing() -> None:
    response = Response()
    seen = []
    for letter in "abc":
        response.add(TextChunk(letter))
        seen.append(response.message().text)

    assert seen == ["a", "ab", "abc"]


@given(
    st.lists(
        st.one_of(
            st.builds(TextChunk, st.text(max_size=2), st.integers(0, 2), st.sampled_from(["", "s"])),
            st.builds(ThinkingChunk, st.text(max_size=2), index=st.integers(0, 2), summary=st.booleans()),
            st.builds(
                ToolUseChunk, st.sampled_from(["", "c"]), input=st.text(max_size=2), index=st.integers(0, 2)
            ),
            st.builds(RefusalChunk, st.text(max_size=2), st.integers(0, 2)),
            st.builds(BlockEndChunk, st.integers(0, 2)),
            st.builds(FinishChunk, st.sampled_from(["stop", "length"])),
        )
    )
)
def test_chunks_at_once_fold_as_one_by_one(chunks: list[Chunk]) -> None:
    once, singly = Response(), Response()

    once.extend(chunks)
    for chunk in chunks:
        singly.add(chunk)

    assert (once.blocks(), once.finish) == (singly.blocks(), singly.finish)


@given(
    st.lists(
        st.builds(
            ThinkingChunk,
            st.text(max_size=4),
            st.sampled_from(["", "s1", "s2"]),
            st.sampled_from(["", "f"]),
            st.sampled_from([None, "", "{}", "[1]"]),
            st.sampled_from(["", "f", "g"]),
            ANY_INDEX,
            st.booleans(),
        )
    )
)
def test_thinking_folds_as_a_plain_reading_says(chunks: list[ThinkingChunk]) -> None:
    thinking, response = Thinking(), Response()
    for chunk in chunks:
        thinking.add(chunk)
        response.add(chunk)

    expected = []
    for index in sorted({chunk.index for chunk in chunks}):
        own = [chunk for chunk in chunks if chunk.index == index]
        stated: list[tuple[str | None, str]]
        signed = [(c.signature, c.signature_format) for c in own if c.signature] or [("", "")]
        stated = [
            (c.provider_state, c.provider_state_format)
            for c in own
            if c.provider_state and c.provider_state_format
        ] or [(None, "")]
        expected.append(
            ThinkingBlock(
                "".join(c.thinking for c in own),
                signed[-1][0],
                stated[-1][0],
                stated[-1][1],
                signed[-1][1],
                any(c.summary for c in own),
            )
        )
    assert thinking.blocks() == expected
    assert response.blocks() == expected
