"""A server for the page's tests: agents that answer at once, at `/` and again under a prefix, `/inner/`.

Run as a script; it prints its address. The pace of the real demo agents is for people.
"""

from starlette.routing import Mount, Router

from agentkit.agent import Agent
from agentkit.content import Usage
from agentkit.testing import Fail, Say, ScriptedModel, Think
from agentkit.testing.scripted import Part
from agentkit_server.app import create_app
from agentkit_server.demo import redacted_agent
from agentkit_server.serve import listen, make_server, url_of
from agentkit_server.settings import Settings

REASONING = "First I look at the question. Then I look at it again. "
ANSWER = "A short answer, in a few pieces."


def agents() -> list[Agent]:
    """Return `quick`, `slow` (thinks until it is stopped), `failing`, `redacted`."""
    think = Think(REASONING, signature="abc", pieces=8)
    quick: list[Part] = [think, Say(ANSWER, pieces=6), Usage(20, 60, 40)]
    slow = [Think("On and on and on. " * 2_000, pieces=2_000)]
    broken: list[Part] = [
        think,
        Say("Half of an ans", pieces=2),
        Fail("it broke off", "overloaded", retryable=True),
    ]
    return [
        Agent("quick", model=ScriptedModel(quick, repeat=True, delay=0.01)),
        Agent("slow", model=ScriptedModel(slow, repeat=True, delay=0.04)),
        Agent("failing", model=ScriptedModel(broken, repeat=True, delay=0.01)),
        redacted_agent(),
    ]


def main() -> None:
    settings = Settings()
    listener = listen("127.0.0.1", 0, settings)
    router = Router([Mount("/inner", create_app(agents())), Mount("/", create_app(agents()))])
    server = make_server(router, settings)
    print(f"serving at {url_of(listener)}", flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
