"""Fragments find their call, whatever the server leaves out, repeats or changes."""

from typing import Any

import pytest

from agentkit.accumulators import Response
from agentkit.chunks import BlockEndChunk, Chunk, ToolUseChunk
from agentkit.dialects.blocks import Blocks
from agentkit.dialects.openai_chat_calls import ToolCalls

pytestmark = pytest.mark.pure


def fragment(
    index: int | None = None, id_: str | None = None, name: str | None = None, args: Any = None
) -> dict[str, Any]:
    """Return one member of `tool_calls`; what is None is absent."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    top = {key: value for key, value in (("index", index), ("id", id_)) if value is not None}
    return {**top, "function": function}


def read(*deltas: list[dict[str, Any]], cut: bool = False) -> list[tuple[str, str, str, bool]]:
    """Return id, name, input and whether it is complete, of each call."""
    calls = ToolCalls(Blocks())
    chunks: list[Chunk] = []
    for delta in deltas:
        calls.add(delta, chunks)
    calls.end(chunks, cut=cut)
    response = Response()
    for chunk in chunks:
        response.add(chunk)
    return [(call.id, call.name, call.input, call.complete) for call in response.message().tool_uses]


A = ("a", "f", '{"x":1}', True)
B = ("b", "g", '{"y":2}', True)


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        pytest.param([fragment(0, "a", "f", ""), fragment(1, "b", "g", '{"y"'), fragment(0, args='{"x":1}'), fragment(1, args=":2}")],
                     [A, B], id="interleaved by index"),
        pytest.param([fragment(None, "a", "f", '{"x":1}'), fragment(None, "b", "g", '{"y"'), fragment(args=":2}")],
                     [A, B], id="no index: a new id opens, no id continues"),
        pytest.param([fragment(0, "a", "f", '{"x"'), fragment(0, "a", "f", ":1"), fragment(0, "a", "f", "}")],
                     [A], id="id and name repeated"),
        pytest.param([fragment(None, "a", "f", '{"x"'), fragment(None, "a", "f", ":1}"), fragment(None, "a", "f", "")],
                     [A], id="id and name repeated without index"),
        pytest.param([fragment(0, "a", "f", ""), fragment(0, "z", args='{"x":'), fragment(0, "z", args="1}")],
                     [A], id="the id changes later: the first stands"),
        pytest.param([fragment(None, "a", "f", '{"x"'), fragment(None, "q", args=":1"), fragment(None, "r", args="}")],
                     [A], id="the id changes in each fragment, no index"),
        pytest.param([fragment(0, "a", "f", '{"x":1}'), fragment(0, "b", "g", '{"y":2}')],
                     [A, B], id="equal indexes, whole calls"),
        pytest.param([fragment(0, "a", "f", '{"x"'), fragment(0, "b", "g", ":1}")],
                     [A], id="equal indexes, a new id and name inside of arguments"),
        pytest.param([fragment(0, "a", "f", '{"x":1}'), fragment(0, "b", "g", ""), fragment(0, args='{"y":2}')],
                     [A, B], id="equal indexes, the second in pieces"),
        pytest.param([fragment(0, "a", "f", '{"x":1}'), fragment(1, "a", "f", "")],
                     [A], id="the id at another index says nothing more"),
        pytest.param([fragment(0, "a", "f", '{"x"'), fragment(1, "a", args=":1}")],
                     [A], id="the index grows with the fragments"),
        pytest.param([fragment(0, "a", "f", '{"x"'), fragment(0, "", "", ":1"), fragment(0, "", args="}"), fragment(0, "")],
                     [A], id="empty ids and names"),
        pytest.param([fragment(0, "a", "f", {"x": 1}), fragment(1, "b", "g", {"y": 2})], [A, B], id="arguments are objects"),
        pytest.param([fragment(0, "a", "f"), fragment(0, args="")], [("a", "f", "", True)], id="no arguments"),
        pytest.param([fragment(0, name="f", args='{"x"'), fragment(0, "a", args=":1}")], [A], id="the id comes late"),
        pytest.param([fragment(0, "a"), fragment(0, name="f", args='{"x":1}')], [A], id="the name comes late"),
        pytest.param([{"id": "a", "name": "f", "arguments": '{"x":1}'}], [A], id="no function member"),
        pytest.param([fragment(0, "a", "f", '{"x":1}'), fragment(0, "b", "g", '{"y"'), fragment(1, args=":2"), fragment(1, args="}")],
                     [A, B], id="a head at the index of another, its tail elsewhere"),
        pytest.param([fragment(0, "a", "f"), fragment(1, args='{"x"'), fragment(1, args=":1}")], [A], id="head and arguments at two indexes"),
        pytest.param([fragment(0, "a", "f", '{"x"'), fragment(1, args='{"y":2}'), fragment(0, args=":1}"), fragment(1, "b", "g")],
                     [A, B], id="another call whose head comes late"),
        pytest.param([fragment(0, "a", "f", "{}"), fragment(0, args='{"x"'), fragment(0, args=":1}")], [A], id="an empty object first"),
        pytest.param([fragment(0, "a", "f", {}), fragment(0, args=' {"x":1}')], [("a", "f", ' {"x":1}', True)], id="an empty object first, no text"),
        pytest.param([fragment(0, "a", "f", "{}"), fragment(0, args=" "), fragment(0, args="")], [("a", "f", "{}", True)], id="an empty object only"),
        pytest.param([fragment(0, "a", "f", "{}"), fragment(0, args="x")], [("a", "f", "{}x", True)], id="no arguments behind an empty object"),
        pytest.param([fragment(0, "a", "f", '{"x"'), fragment(0, args=":1}"), fragment(0, "a", "f", '{"x":1}')],
                     [A], id="whole arguments said again"),
        pytest.param([fragment(0, "a", "f", '{"x":1}'), fragment(0, "a", "f", '{"y":2}')],
                     [("a", "f", '{"x":1}{"y":2}', True)], id="other whole arguments under one id"),
        pytest.param([{"index": 0, "id": "a", "function": None}, fragment(0, name="f", args='{"x":1}')], [A], id="function null"),
    ],
)  # fmt: skip
def test_fragments_find_their_call(
    fragments: list[dict[str, Any]], calls: list[tuple[str, str, str, bool]]
) -> None:
    assert read(*([f] for f in fragments)) == calls
    assert read(fragments) == calls


@pytest.mark.parametrize(
    "fragments",
    [
        pytest.param([fragment(name="f", args='{"x":1}'), fragment(name="g", args='{"y":2}')], id="no index"),
        pytest.param([fragment(name="f", args='{"x":1}'), fragment(name="f", args='{"y":2}')], id="no index, one name"),
        pytest.param([fragment(name="f", args=""), fragment(name="g", args="")], id="no index, no arguments"),
        pytest.param([fragment(0, name="f", args='{"x":1}'), fragment(1, name="g", args='{"y":2}')], id="indexes"),
        pytest.param([fragment(0, name="f", args='{"x":1}'), fragment(0, name="g", args='{"y":2}')], id="equal indexes"),
        pytest.param([fragment(0, "", "f", '{"x":1}'), fragment(1, "", "g", '{"y":2}')], id="empty ids"),
        pytest.param([fragment(0, "s", "f", '{"x":1}'), fragment(1, "s", "g", '{"y":2}')], id="one id for two"),
    ],
)  # fmt: skip
def test_two_calls_are_told_apart_by_an_id_of_ours(fragments: list[dict[str, Any]]) -> None:
    first, second = read(fragments)

    assert [first[1], second[1]] == [f["function"]["name"] for f in fragments]
    assert [first[2], second[2]] == [f["function"]["arguments"] for f in fragments]
    assert first[0]
    assert second[0]
    assert first[0] != second[0]
    assert read(fragments) == [first, second]


def test_made_up_ids_differ_between_answers() -> None:
    ids = set()
    for seed in ("answer 1", "answer 2"):
        calls = ToolCalls(Blocks())
        calls.seed = seed
        out: list[Chunk] = []
        calls.add([fragment(0, name="f", args="{}")], out)
        calls.end(out)
        ids |= {chunk.id for chunk in out if isinstance(chunk, ToolUseChunk)}

    assert len(ids) == 2


def test_a_call_is_given_out_once_id_and_name_are_known() -> None:
    calls = ToolCalls(Blocks())
    out: list[Chunk] = []

    calls.add([fragment(0, name="f", args='{"x"')], out)
    assert out == []
    calls.add([fragment(0, "a", args=":1")], out)
    calls.add([fragment(0, args="}")], out)
    calls.end(out)

    assert out == [ToolUseChunk("a", "f", '{"x":1', 0), ToolUseChunk("", "", "}", 0), BlockEndChunk(0)]


@pytest.mark.parametrize(
    ("args", "complete"),
    [
        ('{"x":1}', True),
        ('{"x":"}', False),
        ('{"x":"\\"}', False),
        ('{"x":"\\\\"}', True),
        ('{"x":[{', False),
        ("", False),
        (None, False),
    ],
)
def test_a_length_cut_ends_only_calls_whose_arguments_are_whole(args: str | None, complete: bool) -> None:
    pieces = [[fragment(0, "a", "f")], *([fragment(0, args=char)] for char in args or "")]

    assert read(*pieces, cut=True) == [("a", "f", args or "", complete)]
    assert read([fragment(0, "a", "f", args)], cut=True) == [("a", "f", args or "", complete)]
    assert read([fragment(0, "a", "f", args)]) == [("a", "f", args or "", True)]


@pytest.mark.parametrize(
    "text",
    ['{"a":"\\\\\\"}{","b":[1,{"c":"\\u007d"}]}', '{"a":"x\\""}', '{"a":"\\\\"}'],
    ids=["brackets in strings", "an escaped quote", "an escaped backslash"],
)
def test_whether_arguments_are_whole_does_not_depend_on_the_cut(text: str) -> None:
    for cut in range(len(text) + 1):
        first = fragment(0, "a", "f", text[:cut])
        rest = fragment(0, "a", "f", text[cut:])
        other = fragment(0, "b", "g", "{}")

        assert [c[0] for c in read([first, other])] == (["a", "b"] if cut == len(text) else ["a"])
        assert [c[0] for c in read([first, rest, other])] == ["a", "b"]


def test_a_call_goes_on_after_the_first_finish() -> None:
    calls = ToolCalls(Blocks())
    out: list[Chunk] = []

    calls.add([fragment(0, "a", "f", '{"x":1}')], out)
    calls.end(out)
    calls.end(out)
    calls.add([fragment(1, "b", "g", '{"y":2}')], out)
    calls.end(out)

    assert out == [
        ToolUseChunk("a", "f", '{"x":1}', 0),
        BlockEndChunk(0),
        ToolUseChunk("b", "g", '{"y":2}', 1),
        BlockEndChunk(1),
    ]


def test_the_legacy_function_call_is_a_call() -> None:
    calls = ToolCalls(Blocks())
    out: list[Chunk] = []

    calls.add_legacy({"name": "f", "arguments": ""}, out)
    calls.add_legacy({"arguments": '{"x":'}, out)
    calls.add_legacy({"arguments": "1}"}, out)
    calls.end(out)

    assert [type(c) for c in out] == [ToolUseChunk, BlockEndChunk]
    assert isinstance(out[0], ToolUseChunk)
    assert (out[0].name, out[0].input, out[0].id[:5]) == ("f", '{"x":1}', "call_")


def test_a_call_said_in_both_forms_is_one() -> None:
    calls = ToolCalls(Blocks())
    out: list[Chunk] = []

    calls.add([fragment(0, "a", "f", '{"x":')], out)
    calls.add_legacy({"name": "f", "arguments": '{"x":'}, out)
    calls.add([fragment(0, args="1}")], out)
    calls.add_legacy({"arguments": "1}"}, out)

    assert out == [ToolUseChunk("a", "f", '{"x":', 0), ToolUseChunk("", "", "1}", 0)]


def test_halves_of_a_pair_are_joined_over_fragments() -> None:
    assert read([fragment(0, "a", "f", '"\ud83d')], [fragment(0, args='\ude80"\ud83d')]) == [
        ("a", "f", '"🚀"\ufffd', True)
    ]


def test_extra_content_is_the_state_of_its_call() -> None:
    calls = ToolCalls(Blocks())
    out: list[Chunk] = []
    extra = {"google": {"thought_signature": "s"}}

    calls.add([{**fragment(0, "a", "f", "1"), "extra_content": extra}, fragment(1, "b", "g", "2")], out)

    state = '{"google":{"thought_signature":"s"}}'
    assert out == [
        ToolUseChunk("a", "f", "1", 0, "", "", state, "openai-chat"),
        ToolUseChunk("b", "g", "2", 1),
    ]
