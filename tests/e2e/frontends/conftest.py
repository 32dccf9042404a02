"""A real server with the scripted scenarios and the demo's agents, and Node for the clients that live there."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from e2e.frontends.scenarios import agents, scenes
from e2e.frontends.stand import NODE, Frontends, Node
from e2e.servers import QUICK, running

from agentkit_server.demo import failing_agent, redacted_agent, scripted_agent, tools_agent


@pytest.fixture(scope="session")
def frontends() -> Iterator[Frontends]:
    """A server with an agent for each scenario, and `scripted`, `tools`, `redacted`, `failing` of the demo."""
    models = scenes()
    made = [*agents(models), scripted_agent(), tools_agent(), redacted_agent(), failing_agent()]
    # Node keeps an idle connection for 4 s: a server that closes it before may do so under a request.
    update = {
        "head_timeout": 20.0,
        "body_timeout": 20.0,
        "send_timeout": 10.0,
        "heartbeat": 1.0,
        "keep_alive": 30,
    }
    patient = QUICK.model_copy(update=update)
    with running(patient, made) as server:
        yield Frontends(server, models)


@pytest.fixture(scope="session")
def node(require: Callable[[str, bool, str], None]) -> Node:
    """Node 22 or later, with the clients of tests/npm/package.json."""
    require("npm", shutil.which("npm") is not None, "apt-get install npm")
    require("node", NODE.is_file(), "make npm")
    return Node(str(NODE))
