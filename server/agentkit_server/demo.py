"""Agents that need no key: for trying the page, and for testing clients.

`scripted` says what stands here, at a human pace. `replay` plays provider streams, byte for byte as providers frame them, through the
real decoders. `tools` calls a tool, `approval` asks a person first, `failing` breaks on purpose. None of them reads what the user says; a file is played only if the operator named it.
"""

from collections.abc import Sequence
from pathlib import Path

import anyio

from agentkit.agent import Agent
from agentkit.content import Origin, Usage
from agentkit.dialects.table import DIALECTS
from agentkit.errors import ConfigurationError, ToolError, quote
from agentkit.model import Model, ModelRequest, ModelStream
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think, replay
from agentkit.testing.scripted import Step
from agentkit.tool import tool

STREAMS = Path(__file__).parent / "streams"
BUILT_IN = (
    ("anthropic-thinking.sse", "anthropic-messages"),
    ("chat-reasoning.sse", "openai-chat"),
    ("anthropic-redacted.sse", "anthropic-messages"),
)
"""The streams written for this project, and the dialect of each."""
REDACTED = ("anthropic-redacted.sse", "anthropic-messages")
PACE = 0.04
"""Seconds between two pieces: about as fast as a person reads."""

SIGNATURE = "c2NyaXB0ZWQtc2lnbmF0dXJl"
"""What a signed block carries; clients only learn its length."""
REASONING = (
    "The user has sent a message, and this agent has a script, so the honest thing is to say so and to show what a client can expect. "
    "First comes the reasoning, piece by piece, in a block of its own that opens by itself. "
    "Then a signature arrives, of which clients only ever learn the length. "
    "After that the visible answer is streamed, and the block folds. That is the whole plan; now I write the answer."
)
ANSWER = (
    "I am a scripted agent: I always say this, and I need no key.\n\n"
    "What you saw above was reasoning, streamed live as events of its own. "
    "What you read now is the visible text. Both are kept in the thread, and any client can resume them from any point."
)


class Scene:
    """A `Model` that plays one script for every message of a user, and keeps nothing of what it was asked.

    Args:
        *steps: the first is played for a message, the next ones for the results of the calls before.
        name: the model's name.
    """

    def __init__(self, *steps: Step, name: str) -> None:
        self._steps = steps
        self.origin = Origin("scripted", "scripted", name)
        """Who the blocks are made by."""

    def stream(self, request: ModelRequest) -> ModelStream:
        """Return the step that it is time for."""
        roles = [message.role for message in request.messages]
        done = len(roles) - 1 - roles[::-1].index("user")  # messages up to the user's last
        step = self._steps[min(roles[done:].count("tool"), len(self._steps) - 1)]
        return ScriptedModel(step, delay=PACE, model=self.origin.model).stream(request)


class Cycle:
    """A `Model` of several: each request gets the next."""

    origin = Origin("replay", "replay", "streams")
    """One name for all: who asks cannot know which is next."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)
        self._next = 0

    def stream(self, request: ModelRequest) -> ModelStream:
        """Return the next model's answer."""
        model = self._models[self._next % len(self._models)]
        self._next += 1
        return model.stream(request)


def scripted_agent() -> Agent:
    """Return `scripted`: about three seconds, reasoning first, then text."""
    step: Step = [
        Think(REASONING, signature=SIGNATURE, pieces=40),
        Say(ANSWER, pieces=30),
        Usage(20, 130, 80),
    ]
    model = Scene(step, name="scripted")
    return Agent(
        "scripted",
        model=model,
        description="Says what it is, in three seconds: reasoning, then text. No key.",
    )


def replay_agent(files: Sequence[Path] = (), *, dialect: str = "", delay: float = PACE) -> Agent:
    """Return `replay`: the files if there are any, else the streams that were written for this project, in turn.

    Args:
        files: provider streams as recorded.
        dialect: what they are written in.
        delay: seconds between two frames.

    Raises:
        ConfigurationError: an unknown dialect, or a file that cannot be read.
    """
    if files:
        sources = [(file, dialect) for file in files]
        said = f"Plays {', '.join(file.name for file in files)} as {dialect}, through the real decoder."
    else:
        sources = [(STREAMS / file, name) for file, name in BUILT_IN]
        said = "Plays provider streams through the real decoders: thinking, reasoning_content, a redacted block. No key."
    models = [_replay(file, name, delay) for file, name in sources]
    return Agent("replay", model=models[0] if len(models) == 1 else Cycle(models), description=said)


def redacted_agent() -> Agent:
    """Return `redacted`: the stream with a redacted block, every time."""
    file, dialect = REDACTED
    return Agent(
        "redacted",
        model=_replay(STREAMS / file, dialect, PACE),
        description="Plays a provider stream whose reasoning is partly encrypted. No key.",
    )


def failing_agent() -> Agent:
    """Return `failing`: some reasoning, some text, then an error of the provider."""
    step: Step = [
        Think("I begin as if nothing were wrong, and then the provider breaks off.", pieces=12),
        Say("This answer will not be fin", pieces=6),
        Fail("the scripted provider is overloaded", code="overloaded", retryable=True),
    ]
    return Agent(
        "failing",
        model=Scene(step, name="failing"),
        description="Fails in the middle of its answer, on purpose. No key.",
    )


@tool
async def weather(city: str) -> str:
    """Say what the weather is like.

    Args:
        city: the name of a city.
    """
    await anyio.sleep(PACE * 10)
    if city == "Atlantis":
        raise ToolError("there is no weather station in Atlantis")
    skies = ("clear", "a light rain", "fog until noon", "wind from the sea")
    return f"{city}: {skies[len(city) % len(skies)]}, {8 + len(city)} °C"


def tools_agent() -> Agent:
    """Return `tools`: it reasons, asks for two calls at once, of which one fails, reasons about what they gave, and answers."""
    model = Scene(
        [
            Think(
                "Two cities are to be compared, so I ask for both at once.", signature=SIGNATURE, pieces=12
            ),
            Call("weather", {"city": "Oslo"}, pieces=4),
            Call("weather", {"city": "Atlantis"}, pieces=4),
            Usage(40, 60, 20),
        ],
        [
            Think("One answer is here; the other call failed, and I say so.", signature=SIGNATURE, pieces=10),
            Say(
                "I asked for the weather in Oslo and in Atlantis. Oslo's stands above, as the tool gave it; Atlantis has no station.",
                pieces=20,
            ),
            Usage(90, 50, 15),
        ],
        name="tools",
    )
    return Agent(
        "tools",
        model=model,
        tools=[weather],
        description="Calls a tool twice at once, one call fails; then it answers. No key.",
    )


@tool(requires_approval=True)
async def send_postcard(to: str, text: str) -> str:
    """Send a postcard. It cannot be taken back, so a person decides.

    Args:
        to: who gets it.
        text: what stands on it.
    """
    return f"A postcard to {to} is on its way: {text}"


def approval_agent() -> Agent:
    """Return `approval`: it asks for a call that waits for a person, and says what became of it."""
    model = Scene(
        [
            Think("A postcard cannot be taken back. Somebody should look at it first.", pieces=12),
            Call("send_postcard", {"to": "Ada", "text": "The engine hums. Wish you were here."}, pieces=6),
            Usage(40, 50, 20),
        ],
        [
            Say("You have decided; what became of the postcard stands above.", pieces=12),
            Usage(80, 20, 0),
        ],
        name="approval",
    )
    return Agent(
        "approval",
        model=model,
        tools=[send_postcard],
        description="Asks you before it calls its tool. No key.",
    )


def _replay(file: Path, dialect: str, delay: float) -> Model:
    if not dialect:
        raise ConfigurationError(
            f"say what {file.name!r} is written in, with dialect: {', '.join(sorted(DIALECTS))}"
        )
    if dialect not in DIALECTS:
        raise ConfigurationError(f"unknown dialect {quote(dialect)}; known: {', '.join(sorted(DIALECTS))}")
    try:
        return replay(file, dialect=DIALECTS[dialect], model=file.stem, delay=delay)
    except OSError as error:
        raise ConfigurationError(f"cannot read {str(file)!r}: {error.strerror}") from None
