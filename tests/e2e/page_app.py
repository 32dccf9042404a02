"""A server for the page's tests: agents that answer at once, at `/` and again under a prefix, `/inner/`.

Run as a script; it prints its address. `keys` as its argument: it is for who knows `KEY`. The pace of the real demo agents is for people.
"""

import hashlib
import sys

from starlette.routing import Mount, Router

from agentkit.agent import Agent
from agentkit.content import Usage
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think
from agentkit.testing.scripted import Part
from agentkit.tool import tool
from agentkit_server.app import create_app
from agentkit_server.auth_keys import APIKeys, parse_keys
from agentkit_server.demo import redacted_agent
from agentkit_server.server import listen, make_server, url_of
from agentkit_server.settings import Settings

REASONING = "First I look at the question. Then I look at it again. "
KEY = "ak_only-in-the-tests-of-the-page-0123456789abcdef"
ANSWER = "A short answer, in a few pieces."


@tool(name="post", requires_approval=True)
def post_card(to: str) -> str:
    """Post a card."""
    return f"posted to {to}"


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def agents() -> list[Agent]:
    """Return `quick`, `slow` (thinks until it is stopped), `failing`, `redacted`, `careful` (asks a person), `patient` (two steps)."""
    think = Think(REASONING, signature="abc", pieces=8)
    quick: list[Part] = [think, Say(ANSWER, pieces=6), Usage(20, 60, 40)]
    slow = [Think("On and on and on. " * 2_000, pieces=2_000)]
    broken: list[Part] = [
        think,
        Say("Half of an ans", pieces=2),
        Fail("it broke off", "overloaded", retryable=True),
    ]
    post: list[Part] = [Call("post", {"to": "Ada"})]
    wait: list[Part] = [Think("One step after the other. " * 20, pieces=40), Call("look", {})]
    return [
        Agent("quick", model=ScriptedModel(quick, repeat=True, delay=0.01)),
        Agent("slow", model=ScriptedModel(slow, repeat=True, delay=0.04)),
        Agent("failing", model=ScriptedModel(broken, repeat=True, delay=0.01)),
        redacted_agent(),
        Agent("careful", model=ScriptedModel(post, [Say("As you wish.")], repeat=True), tools=[post_card]),
        Agent("patient", model=ScriptedModel(wait, [Say("Heard.")], repeat=True, delay=0.04), tools=[look]),
    ]


def main() -> None:
    settings = Settings()
    listener = listen("127.0.0.1", 0, settings)
    apps = [create_app(agents()), create_app(agents())]
    if sys.argv[1:] == ["keys"]:
        known = parse_keys(f"reader sha256:{hashlib.sha256(KEY.encode()).hexdigest()}", "the test")
        apps = [create_app(agents(), auth=APIKeys(known)) for _ in range(2)]
    router = Router([Mount("/inner", apps[0]), Mount("/", apps[1])])
    server = make_server(router, settings)
    print(f"serving at {url_of(listener)}", flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
