"""What agents say to the clients of front ends, in one table for all of them: a script, and what a person should see of it.

Resuming after the end, in two tabs, or in the middle (`held-…`) is done by a test with one of these; it opens the gate when it has seen enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from agentkit.agent import Agent
from agentkit.chunks import BlockEndChunk, TextChunk, ThinkingChunk, ToolUseChunk
from agentkit.content import Origin, Usage
from agentkit.errors import ToolError
from agentkit.model import ModelRequest, ModelStream
from agentkit.testing import Call, Fail, Refuse, Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Part, Step
from agentkit.tool import Tool, tool

SIGNATURE = "c2VjcmV0LXNpZ25hdHVyZQ=="
STATE = '{"type":"redacted_thinking","data":"c2VjcmV0LXN0YXRl"}'
SECRETS = (SIGNATURE, "c2VjcmV0LXN0YXRl")
"""What no client may ever be sent."""
FOREVER = 3600.0
"""Seconds: a run that waits so long is cancelled, or fails its test."""


class Gate:
    """In a script: nothing comes until the test opens the gate, by `Scene.open`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One script, and what it comes to."""

    name: str
    """The agent's name too."""
    steps: Sequence[Sequence[Part | Gate]]
    """The first is played for a message, the next ones for the results of the calls before."""
    text: str = ""
    """All visible text."""
    reasoning: str = ""
    """All readable reasoning."""
    blocks: Sequence[str] = ()
    """The same, block by block; () where there is one at most."""
    tools: Sequence[Tool] = ()
    """The agent's own."""
    calls: Sequence[tuple[str, str, str]] = ()
    """Of each call its id, its tool's name, and its result's status (`ok`, `error`); "" where the client has to answer it."""
    refusal: str = ""
    end: str = "finished"
    """`finished`, `failed` or `cancelled`; the last where the client stops it."""
    client_tools: Sequence[str] = ()
    """Names of the tools that the client has to bring."""

    @property
    def reasoning_apart(self) -> str:
        """All readable reasoning as chat completions have it: a blank line between blocks."""
        return "\n\n".join(self.blocks) or self.reasoning


@tool
def weather(city: str) -> str:
    """Say what the weather is like.

    Args:
        city: the name of a city.
    """
    if city == "Atlantis":
        raise ToolError("there is no station in Atlantis")
    return f"{city}: fog until noon"


class Scene:
    """A `Model` that plays a scenario for every thread and keeps nothing of what it was asked.

    Attributes:
        origin: who the blocks are made by.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.origin = Origin("scripted", "scripted", scenario.name)
        self._steps = scenario.steps
        self._gate = anyio.Event()

    def stream(self, request: ModelRequest) -> ModelStream:
        """Return the step that it is time for. A gate is shut again for each request."""
        roles = [message.role for message in request.messages]
        done = len(roles) - 1 - roles[::-1].index("user")  # messages up to the user's last
        parts = self._steps[min(roles[done:].count("tool"), len(self._steps) - 1)]
        self._gate = anyio.Event()
        step: Step = [Wait(event=self._gate) if isinstance(part, Gate) else part for part in parts]
        return ScriptedModel(step, model=self.origin.model).stream(request)

    def open(self) -> None:
        """Let the answer that was begun last go on; call it in the server's loop."""
        self._gate.set()


HELPER = Agent(
    "helper",
    model=ScriptedModel([Think("the child thinks"), Say("the child speaks")], repeat=True),
    description="Answers for another agent.",
)

SCENARIOS: Sequence[Scenario] = (
    Scenario(
        "reasoning-then-text",
        [
            [
                Think("First I think. Then I speak.", signature=SIGNATURE, pieces=4),
                Say("Here is the answer.\n\nIn two parts: “ü” and 🎉.", pieces=5),
                Usage(10, 30, 12),
            ]
        ],
        text="Here is the answer.\n\nIn two parts: “ü” and 🎉.",
        reasoning="First I think. Then I speak.",
    ),
    Scenario(
        "interleaved",
        [
            [
                ThinkingChunk("one ", index=0),
                TextChunk("eins ", 1),
                ThinkingChunk("two", index=0),
                TextChunk("zwei", 1),
                BlockEndChunk(0),
                ThinkingChunk("three", index=2),
                BlockEndChunk(1),
                BlockEndChunk(2),
                TextChunk(" drei", 3),
                BlockEndChunk(3),
            ]
        ],
        text="eins zwei drei",
        reasoning="one twothree",
        blocks=("one two", "three"),
    ),
    Scenario("redacted-only", [[Think(state=STATE), Say("Hidden, but here.")]], text="Hidden, but here."),
    Scenario("signature-only", [[Think(signature=SIGNATURE), Say("Signed.")]], text="Signed."),
    Scenario(
        "summary", [[Think("In short.", summary=True), Say("Done.")]], text="Done.", reasoning="In short."
    ),
    Scenario(
        "schema", [[Say('{"name":"Oslo","north":59.9}', pieces=3)]], text='{"name":"Oslo","north":59.9}'
    ),
    Scenario("refused", [[Refuse("I will not.")]], refusal="I will not."),
    Scenario(
        "parallel-tools",
        [
            [
                Think("Two cities.", signature=SIGNATURE),
                Say("I ask. "),
                Call("weather", {"city": "Oslo"}, id="c1", pieces=3),
                Call("weather", {"city": "Rome"}, id="c2", pieces=3),
                Usage(20, 40, 5),
            ],
            [Think("Both are here.", signature=SIGNATURE), Say("Fog in both."), Usage(60, 10, 4)],
        ],
        text="I ask. Fog in both.",
        reasoning="Two cities.Both are here.",
        blocks=("Two cities.", "Both are here."),
        tools=[weather],
        calls=[("c1", "weather", "ok"), ("c2", "weather", "ok")],
    ),
    Scenario(
        "tool-error",
        [
            [Call("weather", {"city": "Oslo"}, id="c1"), Call("weather", {"city": "Atlantis"}, id="c2")],
            [Say("Only Oslo answered.")],
        ],
        text="Only Oslo answered.",
        tools=[weather],
        calls=[("c1", "weather", "ok"), ("c2", "weather", "error")],
    ),
    Scenario(
        "sub-agent",
        [[Call("helper", {"message": "help"}, id="c1")], [Say("The parent speaks.")]],
        text="The parent speaks.",
        tools=[HELPER.as_tool()],
        calls=[("c1", "helper", "ok")],
    ),
    Scenario(
        "client-tool",
        [
            [
                Say("Let me look. "),
                Call("weather", {"city": "Oslo"}, id="c1"),
                Call("locate", {"zoom": 3}, id="c2"),
            ],
            [Say("You are there.")],
        ],
        text="Let me look. ",
        tools=[weather],
        calls=[("c1", "weather", "ok"), ("c2", "locate", "")],
        client_tools=["locate"],
    ),
    Scenario(
        "failed",
        [
            [
                Think("All is well.", pieces=2),
                Say("This will not be fin", pieces=2),
                Fail("the scripted provider is overloaded", code="overloaded", retryable=True),
            ]
        ],
        text="This will not be fin",
        reasoning="All is well.",
        end="failed",
    ),
    Scenario(
        "failed-at-once",
        [[Fail("the scripted provider is overloaded", code="overloaded", retryable=True)]],
        end="failed",
    ),
    Scenario(
        "cancelled",
        [[Think("I take my time."), Say("So far "), TextChunk("and", 2), Wait(FOREVER), Say("never said")]],
        text="So far and",
        reasoning="I take my time.",
        end="cancelled",
    ),
    Scenario(
        "held-reasoning",
        [
            [
                ThinkingChunk("before ", index=0),
                Gate(),
                ThinkingChunk("after", index=0),
                ThinkingChunk("", SIGNATURE, "scripted", index=0),
                BlockEndChunk(0),
                TextChunk("The end.", 1),
                BlockEndChunk(1),
            ]
        ],
        text="The end.",
        reasoning="before after",
    ),
    Scenario(
        "held-arguments",
        [
            [
                TextChunk("I ask. ", 0),
                BlockEndChunk(0),
                ToolUseChunk("c1", "weather", '{"city":', 1),
                Gate(),
                ToolUseChunk("", "", ' "Oslo"}', 1),
                BlockEndChunk(1),
            ],
            [Say("Fog.")],
        ],
        text="I ask. Fog.",
        tools=[weather],
        calls=[("c1", "weather", "ok")],
    ),
)

BY_NAME: Mapping[str, Scenario] = {scenario.name: scenario for scenario in SCENARIOS}


def scenes() -> dict[str, Scene]:
    """Return a model for each scenario, by name."""
    return {scenario.name: Scene(scenario) for scenario in SCENARIOS}


def agents(models: Mapping[str, Scene]) -> list[Agent]:
    """Return an agent for each scenario."""
    return [
        Agent(name, model=models[name], tools=BY_NAME[name].tools, description=f"Plays {name}.")
        for name in models
    ]
