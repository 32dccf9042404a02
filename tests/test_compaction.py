import anyio
import pytest
from thread_rules import faults

from agentkit import Agent, ConfigurationError, Message, ToolResultBlock, ToolUseBlock, keep_turns, tool
from agentkit.compaction import turns
from agentkit.content import TextBlock
from agentkit.testing import Call, ScriptedModel
from agentkit.testing.scripted import Step

U1, U2, U3 = (Message.user(word) for word in ("one", "two", "three"))


def said(text: str, run: str) -> Message:
    return Message("assistant", (TextBlock(text),), run=run)


def called(run: str) -> list[Message]:
    return [
        Message("assistant", (ToolUseBlock("c", "work", "{}"),), run=run),
        Message("tool", (ToolResultBlock("c", "work", (TextBlock("ok"),)),), run=run),
    ]


CALL_1, RESULT_1 = called("r1")
A1, A2 = said("first", "r1"), said("second", "r2")
NOTE_1 = Message("user", (TextBlock("say it again"),), run="r1")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("messages", "cut"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([U1, A1, U2, A2], [[U1, A1], [U2, A2]], id="two turns"),
        pytest.param([U1, CALL_1, RESULT_1, A1, U2], [[U1, CALL_1, RESULT_1, A1], [U2]], id="calls"),
        pytest.param(
            [U1, CALL_1, RESULT_1, U2, A1, U3], [[U1, CALL_1, RESULT_1, U2, A1], [U3]], id="steered in"
        ),
        pytest.param(
            [U1, CALL_1, RESULT_1, U2, A2], [[U1, CALL_1, RESULT_1], [U2, A2]], id="cut short after its tools"
        ),
        pytest.param([U1, CALL_1, RESULT_1, U2], [[U1, CALL_1, RESULT_1], [U2]], id="cut short, last"),
        pytest.param([U1, U2, A2], [[U1], [U2, A2]], id="no answer"),
        pytest.param(
            [U1, NOTE_1, A1, NOTE_1, A1, U2], [[U1, NOTE_1, A1, NOTE_1, A1], [U2]], id="words of the run"
        ),
        pytest.param([U1, A1, NOTE_1, U2, A2], [[U1, A1, NOTE_1], [U2, A2]], id="cut short after its word"),
    ],
)
def test_a_turn_is_what_a_user_said_and_what_a_run_did(
    messages: list[Message], cut: list[list[Message]]
) -> None:
    assert turns(messages) == cut


@pytest.mark.pure
def test_the_last_turns_stay_and_so_does_the_system() -> None:
    system = Message.system("be brief")

    assert keep_turns(1)([system, U1, A1, U2, CALL_1, RESULT_1]) == [system, U2, CALL_1, RESULT_1]
    assert keep_turns(9)([U1, A1]) == [U1, A1]


@pytest.mark.pure
def test_at_least_one_turn_is_kept() -> None:
    with pytest.raises(ConfigurationError, match="positive"):
        keep_turns(0)


@pytest.mark.anyio
async def test_a_long_thread_is_sent_in_whole_turns_and_kept_whole() -> None:
    @tool
    def work() -> str:
        """Work."""
        return "ok"

    script: list[Step] = [[Call("work")], "done"]
    model = ScriptedModel(*script * 4)
    agent = Agent("a", model=model, tools=[work], compact=keep_turns(2))
    with anyio.fail_after(20):
        for word in ("one", "two", "three", "four"):
            await agent.chat(word)

    assert [m.text for m in model.requests[-1].messages if m.role == "user"] == ["three", "four"]
    assert [faults(request.messages) for request in model.requests] == [[]] * 8
    assert len(await agent.messages()) == 16
