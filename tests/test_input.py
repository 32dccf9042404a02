"""What a run may begin with."""

from typing import Any

import pytest

from agentkit.content import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock
from agentkit.errors import ConfigurationError
from agentkit.input import read_input

pytestmark = pytest.mark.pure

RESULT = ToolResultBlock("c1", "f", (TextBlock("r"),))
IMAGE = ImageBlock("image/png", "AAAA")


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        pytest.param("hi", [Message.user("hi")], id="text"),
        pytest.param([TextBlock("hi"), IMAGE], [Message.user([TextBlock("hi"), IMAGE])], id="blocks"),
        pytest.param([RESULT], [Message("tool", (RESULT,))], id="results"),
        pytest.param(
            [TextBlock("hi"), RESULT], [Message("tool", (RESULT,)), Message.user("hi")], id="results go first"
        ),
        pytest.param(
            [Message.user("a"), Message.assistant("b"), Message.user("c")],
            [Message.user("a"), Message.assistant("b"), Message.user("c")],
            id="messages",
        ),
    ],
)
def test_input_becomes_messages(given: Any, messages: list[Message]) -> None:
    assert read_input(given) == messages


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param("", "empty", id="no text"),
        pytest.param("  \n", "empty", id="blank"),
        pytest.param([], "empty", id="nothing"),
        pytest.param([TextBlock("")], "empty", id="a blank block"),
        pytest.param([Message.user("a"), TextBlock("b")], "do not mix", id="both"),
        pytest.param([Message.user("a"), Message.assistant("b")], "last message", id="ends with an answer"),
        pytest.param([ThinkingBlock("hm")], "cannot hold", id="thinking"),
        pytest.param(["hi"], "begins with", id="a list of text"),
        pytest.param(7, "begins with", id="a number"),
        pytest.param(None, "begins with", id="none"),
    ],
)
def test_what_cannot_begin_a_run_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_input(given)
