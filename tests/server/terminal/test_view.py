"""What a terminal shows of a run, and what it never obeys."""

import io
import re
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from agentkit.errors import AccessError, AgentKitError
from agentkit_server.terminal.view import PlainView, TerminalView, clean, told

pytestmark = pytest.mark.pure

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
USAGE = {"input_tokens": 10, "output_tokens": 20, "reasoning_tokens": 5}


def record(
    name: str, second: float = 0.0, /, *, block: str = "", parent: bool = False, **data: Any
) -> dict[str, Any]:
    """An envelope, as far as a view looks into it."""
    out: dict[str, Any] = {"type": name, "time": f"2026-11-30T10:00:{second:06.3f}Z", "data": data}
    if block:
        out["block"] = block
    if parent:
        out["parent"] = {"run": "r", "call": "c"}
    return out


def shown(*records: Mapping[str, Any], terminal: bool = True, keeps: bool = False) -> str:
    """Return what stands on a terminal of 80 columns, without its escapes."""
    file = io.StringIO()
    view = TerminalView(
        Console(file=file, force_terminal=terminal, width=80, color_system=None, highlight=False),
        is_reasoning_kept=keeps,
    )
    for one in records:
        view.show(one)
    view.close()
    return ESCAPES.sub("", file.getvalue()).replace("\r", "")


def piped(*records: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a pipe gets, and what is complained of."""
    out: list[str] = []
    complaints: list[str] = []
    view = PlainView(out.append, complaints.append)
    for one in records:
        view.show(one)
    view.close()
    return "".join(out), "".join(complaints)


THOUGHT = [
    record("run.started"),
    record("reasoning_block.started", 1, block="b"),
    record("reasoning", 1.5, block="b", kind="delta", provider="p", text="Let me see."),
    record("reasoning", 2, block="b", kind="signature", provider="p", data={"bytes": 3}),
    record("reasoning_block.finished", 3.25, block="b"),
]
ANSWER = [
    record("text.started", 4, block="t"),
    record("text.delta", 4, block="t", text="Yes, "),
    record("text.delta", 4, block="t", text="it is."),
    record("text.finished", 4, block="t"),
    record("run.finished", 5, text="Yes, it is.", finish="stop", usage=USAGE),
]


def test_reasoning_is_folded_to_a_line_that_tells_its_time() -> None:
    text = shown(*THOUGHT, *ANSWER, terminal=False)

    assert text == (
        "◆ Thought for 2.2 s\nYes, it is.\nfinished after 5.0 s · 10 tokens in, 20 out, 5 of them reasoning\n"
    )


def test_reasoning_is_seen_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentkit_server.terminal.view.PERIOD", 0.0)

    assert "Let me see." in shown(*THOUGHT[:3])


def test_reasoning_stays_where_it_is_wanted() -> None:
    assert "◆ Thought for 2.2 s\nLet me see.\n" in shown(*THOUGHT, terminal=False, keeps=True)


def test_a_hidden_block_says_so() -> None:
    text = shown(
        record("reasoning_block.started", 1, block="b"),
        record("reasoning", 1, block="b", kind="state", provider="p", data={"bytes": 900}),
        record("reasoning_block.finished", 2, block="b"),
        terminal=False,
    )

    assert text == "◆ Thought for 1.0 s (hidden by the provider)\n"


def test_calls_and_results_have_a_line_each() -> None:
    text = shown(
        record("text.delta", block="t", text="I look."),
        record("tool_call.ready", block="c", call="1", name="look", input='{\n "at": "sea" }'),
        record("tool_approval.requested", approval="a", call="1", name="look", input="{}"),
        record(
            "tool_result",
            call="1",
            name="look",
            status="ok",
            content=[{"type": "text", "text": "waves\nand foam"}],
        ),
        record(
            "tool_result",
            call="2",
            name="look",
            status="error",
            content=[{"type": "text", "text": "x" * 500}],
        ),
        terminal=False,
    )

    assert text.splitlines() == [
        "I look.",
        '→ look {"at": "sea"}',
        "? look waits for a decision",
        "← look waves and foam",
        f"✗ look error {'x' * 120}…",
    ]


def test_a_failure_tells_what_and_why_after_what_came() -> None:
    text = shown(
        record("run.started"),
        record("text.delta", 1, block="t", text="Half of"),
        record("run.failed", 2, code="overloaded", message="too busy", retryable=True, usage=USAGE),
        terminal=False,
    )

    assert text.splitlines()[:2] == ["Half of", "✗ too busy (overloaded)"]


def test_a_child_does_not_end_its_parent() -> None:
    text = shown(
        record("run.started"), record("run.finished", 1, parent=True, text="", usage=USAGE), terminal=False
    )

    assert text == ""


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\u202e", "\x00", "\x7f"], ids=ascii
)
def test_what_a_model_wrote_steers_no_terminal(hostile: str) -> None:
    records = [
        record("text.delta", block="t", text=f"a{hostile}b"),
        record("reasoning_block.started", block="b"),
        record("reasoning", block="b", kind="delta", text=f"a{hostile}b"),
        record("reasoning_block.finished", block="b"),
        record("tool_call.ready", block="c", call="1", name=f"a{hostile}b", input=f"a{hostile}b"),
        record(
            "tool_result", call="1", name="n", status="ok", content=[{"type": "text", "text": f"a{hostile}b"}]
        ),
        record("run.failed", code=f"a{hostile}b", message=f"a{hostile}b", retryable=False),
    ]
    text = shown(*records, terminal=False, keeps=True)

    assert hostile not in text
    assert clean(f"a{hostile}b")[0] == "a"


def test_a_pipe_gets_the_visible_text_and_nothing_else() -> None:
    assert piped(*THOUGHT, *ANSWER) == ("Yes, it is.\n", "")


def test_a_pipe_does_not_get_what_a_child_says() -> None:
    assert piped(record("text.delta", block="t", parent=True, text="inner")) == ("", "")


def test_a_failure_in_a_pipe_is_told_beside_it() -> None:
    assert piped(*ANSWER[:2], record("run.failed", code="x", message="too busy", retryable=False)) == (
        "Yes, \n",
        "agentkit: too busy\n",
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AccessError("who are you?", status=401), "agentkit: who are you?; set AGENTKIT_TOKEN\n"),
        (AccessError("not yours", status=403), "agentkit: not yours\n"),
        (AgentKitError("no\x1b[2J"), "agentkit: no[2J\n"),
    ],
    ids=["unknown", "forbidden", "escapes"],
)
def test_an_error_is_one_line_with_what_to_do(error: AgentKitError, said: str) -> None:
    assert told(error) == said
