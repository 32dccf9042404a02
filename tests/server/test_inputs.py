"""A user's message: text or blocks, and nothing that only the runtime may write."""

from typing import Any

import pytest

from agentkit.content import Block, DocumentBlock, ImageBlock, TextBlock
from agentkit_server.inputs import read_input
from agentkit_transports.problem import ProblemError

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("hello", "hello", id="text"),
        pytest.param([{"type": "text", "text": "hello"}], [TextBlock("hello")], id="a block"),
        pytest.param(
            [
                {"type": "image", "media_type": "image/png", "data": "AAAA"},
                {"type": "document", "url": "https://example.org/a.pdf", "name": "a.pdf"},
            ],
            [ImageBlock("image/png", "AAAA"), DocumentBlock(url="https://example.org/a.pdf", name="a.pdf")],
            id="an image and a document",
        ),
    ],
)
def test_text_and_blocks_are_taken(value: Any, expected: str | list[Block]) -> None:
    assert read_input(value) == expected


@pytest.mark.parametrize(
    ("value", "field"),
    [
        pytest.param("", "input", id="empty text"),
        pytest.param([], "input", id="no block"),
        pytest.param([{"type": "text", "text": "x"}] * 65, "input", id="65 blocks"),
        pytest.param(7, "input", id="a number"),
        pytest.param(None, "input", id="null"),
        pytest.param([{"type": "text", "text": 1}], "input[0].text", id="a number for text"),
        pytest.param(
            [{"type": "text", "text": "x"}, {"type": "text"}], "input[1].text", id="a missing member"
        ),
        pytest.param(
            [{"type": "text", "text": "x", "signature": "s"}], "input[0].signature", id="a signature"
        ),
        pytest.param(
            [{"type": "image", "media_type": "image/png", "data": "!!!"}], "input[0].data", id="no base64"
        ),
        pytest.param([{"type": "image", "data": "AAAA"}], "input[0]", id="data without a media type"),
        pytest.param([{"type": "image"}], "input[0]", id="an image of nothing"),
        pytest.param(
            [{"type": "document", "data": "AAAA", "url": "https://x"}], "input[0]", id="two sources"
        ),
        pytest.param([{"type": "thinking", "thinking": "x"}], "input[0].type", id="thinking"),
        pytest.param([{"type": "tool_use", "id": "1", "name": "rm"}], "input[0].type", id="a call"),
        pytest.param([{"text": "x"}], "input[0].type", id="no type"),
        pytest.param(["x"], "input[0]", id="text in a list"),
    ],
)
def test_anything_else_is_refused_by_the_name_of_its_field(value: Any, field: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_input(value)

    assert (caught.value.problem.status, caught.value.problem.field) == (422, field)
