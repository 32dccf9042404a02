"""Tags are found however the text is cut, and nothing else is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.dialects.think_tags import ThinkTags

pytestmark = pytest.mark.pure


def split(pieces: list[str]) -> tuple[str, str]:
    """Return the thinking and the text of `pieces`."""
    tags = ThinkTags()
    out = [pair for piece in pieces for pair in tags.feed(piece)] + tags.release()
    assert all(piece for _, piece in out)
    return "".join(p for inside, p in out if inside), "".join(p for inside, p in out if not inside)


@pytest.mark.parametrize(
    ("text", "thinking", "visible"),
    [
        pytest.param("<think>a</think>b", "a", "b", id="once"),
        pytest.param("<think>a</think>b<think>c</think>d", "ac", "bd", id="twice"),
        pytest.param("x <think>a", "a", "x ", id="never closed"),
        pytest.param("a</think>b", "", "a</think>b", id="never opened"),
        pytest.param("<think>a<think>b</think>c", "a<think>b", "c", id="tags do not nest"),
        pytest.param("<think></think>a", "", "a", id="empty"),
        pytest.param("<<think>a<</think><", "a<", "<<", id="angles beside tags"),
        pytest.param("<thinking>a</thinking>", "", "<thinking>a</thinking>", id="a longer word"),
        pytest.param("a < b <th", "", "a < b <th", id="half a tag at the end"),
        pytest.param("<think>\n\na\n</think>\n\nb", "\n\na\n", "\n\nb", id="line breaks stay"),
    ],
)
def test_tags_are_split_at_every_cut(text: str, thinking: str, visible: str) -> None:
    for cut in range(len(text) + 1):
        assert split([text[:cut], text[cut:]]) == (thinking, visible)
    assert split(list(text)) == (thinking, visible)


def test_only_what_may_become_a_tag_is_held_back() -> None:
    tags = ThinkTags()

    assert tags.feed("a <") == [(False, "a ")]
    assert tags.feed("thin") == []
    assert tags.feed("g") == [(False, "<thing")]
    assert tags.release() == []


_WORDS = st.lists(st.sampled_from(["<think>", "</think>", "<", "think>", "</", "a", " "]), max_size=12)


@given(_WORDS, st.data())
def test_any_cut_reads_the_same_and_loses_nothing(words: list[str], data: st.DataObject) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    thinking, visible = split(pieces)

    assert (thinking, visible) == whole(text)


def whole(text: str) -> tuple[str, str]:
    """Split a text that is there as a whole, tag by tag."""
    pieces: tuple[list[str], list[str]] = ([], [])
    inside = False
    while text:
        piece, _, text = text.partition("</think>" if inside else "<think>")
        pieces[inside].append(piece)
        inside = not inside
    return "".join(pieces[True]), "".join(pieces[False])
