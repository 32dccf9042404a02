"""The description of the API against the API itself: schemathesis with all its checks, at a live server in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.servers import Process, process

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(150)]

SERVER = """
from agentkit import Agent
from agentkit.testing import Say, ScriptedModel, Think
from agentkit_server import Settings, create_app
from agentkit_server.server import listen, make_server

many = 1_000_000
settings = Settings(
    stream_age=0.1, heartbeat=0.1, chat_timeout=0.3, wait_timeout=0.1, retry_ms=(1, 2), drain_timeout=0.2, farewell_timeout=0.2,
    runs=many, runs_each=many, threads_each=many, connections_each=many,
)
listener = listen("127.0.0.1", 0, settings)
print("http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
model = ScriptedModel([Think("hm"), Say("hello")], repeat=True)
make_server(create_app([Agent("planner", model=model)], settings=settings), settings).run(sockets=[listener])
"""
CONFIG = """
[parameters]
"path.agent" = "planner"
"path.model" = "planner"

[[operations]]
include-name = "GET /v1/agents/{agent}/threads/{thread}/runs"
parameters = { "query.after" = "" }
"""
OTHERS = "^/v1/(ag-ui|ai-sdk|chat|models)"
"""Protocols of others: their bodies mean more than a schema says, and a well-formed one may be refused."""
FILES = "^/(assets|agentkit-client|metrics)"
"""Files, and a text whose content type has parameters."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server whose streams end soon, as nobody here reads to their end."""
    program: Path = tmp_path_factory.mktemp("server") / "served.py"
    program.write_text(SERVER)
    with process(str(program), env={"AGENTKIT_ENGINE": "memory://"}) as one:
        yield one


@pytest.mark.parametrize(
    ("chosen", "excluded"),
    [
        # A deleted thread is an empty one, as one that was never used: nobody can tell them apart.
        pytest.param(["--exclude-path-regex", f"{OTHERS}|{FILES}"], "use_after_free", id="ours"),
        pytest.param(["--include-path-regex", OTHERS], "positive_data_acceptance", id="others"),
    ],
)
def test_every_operation_keeps_what_it_says(
    server: Process, tmp_path: Path, chosen: list[str], excluded: str
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)

    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"), "run", f"http://127.0.0.1:{server.port}/openapi.json",
            "--checks", "all", "--exclude-checks", excluded, *chosen, "--phases", "examples,coverage,fuzzing",
            "--max-examples", "6", "--request-timeout", "5", "--seed", "1", "--no-color",
        ],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=100,
    )  # fmt: skip

    print(done.stdout[-600:])
    assert done.returncode == 0, done.stdout[-6000:]
    status, said = server.end() if excluded == "positive_data_acceptance" else (0, "")
    assert (status, "Traceback" in said) == (0, False), said[-3000:]
