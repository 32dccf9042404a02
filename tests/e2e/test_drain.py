"""Start, drain and stop wherever the app runs: in a thread, reloaded, in several processes, twice, inside of others; and no herd comes back."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import uvicorn
from e2e.peers import Follower, Raw, start_run
from e2e.servers import QUICK, Process, agents, process, running, until
from provider_server import ProviderServer
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from toys import GOOD, client

from agentkit import Agent
from agentkit.client import _clients
from agentkit_server import Application, create_app

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]

TESTS = str(Path(__file__).parents[1])
APP = """
import os
from e2e.servers import QUICK, agents
from agentkit_server import create_app

app = create_app(agents(), engine=os.environ.get("AGENTKIT_ENGINE"), settings=QUICK)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


def path(url: str, agent: str = "held", thread: str = "t1") -> str:
    return f"{url}/v1/agents/{agent}/threads/{thread}"


async def watched(url: str) -> tuple[Follower, "asyncio.Task[Follower]"]:
    """Start a run that never ends, and return a client that has seen it begin."""
    follower = Follower(f"{path(url)}/events?after=earliest")
    following = asyncio.create_task(follower.follow(until="nothing"))
    await start_run(url, "held", "t1")
    await asyncio.to_thread(until, lambda: "reasoning" in follower.named)
    return follower, following


def took_leave(follower: Follower) -> bool:
    types = [event["type"] for event in follower.events[-2:]]
    return types == ["run.cancelled", "stream.closing"] and follower.ended_cleanly


async def test_a_thousand_readers_are_told_to_come_back_at_a_thousand_moments() -> None:
    settings = QUICK.model_copy(
        update={"retry_ms": (1000, 4000), "farewell_timeout": 10.0, "heartbeat": 15.0, "head_timeout": 20.0,
                "connections": 2000, "connections_each": 2000, "send_timeout": 10.0}
    )  # fmt: skip
    with contextlib.ExitStack() as stack, running(settings) as server:
        peers = [stack.enter_context(Raw(server.port)) for _ in range(1000)]
        for peer in peers:
            peer.get("/v1/agents/quick/threads/t1/events")
        hellos = [await asyncio.to_thread(peer.read_until, b"stream.hello") for peer in peers]

        began = time.monotonic()
        server.do(server.app.drain())
        took = time.monotonic() - began
        farewells = [await asyncio.to_thread(peer.read_until, b"0\r\n\r\n") for peer in peers]

    print(f"1,000 farewells in {took:.2f} s")
    for said in (hellos, farewells):
        waits = [int(found[1]) for text in said if (found := re.search(rb"retry: ?(\d+)", text))]
        assert len(waits) == 1000
        assert all(1000 <= wait <= 4000 for wait in waits)
        # Uniform over 30 tenths of a second: 33 each, with a deviation of 5.7. Twice that many at once never happens by chance.
        tenths = Counter(wait // 100 for wait in waits)
        assert len(tenths) >= 30
        assert max(tenths.values()) < 75


async def test_uvicorn_in_a_thread_is_drained_by_its_owner() -> None:
    app = create_app(agents(), settings=QUICK)
    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve(sockets=[sock])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    await asyncio.to_thread(until, lambda: server.started)
    follower, following = await watched(f"http://127.0.0.1:{sock.getsockname()[1]}")

    asyncio.run_coroutine_threadsafe(app.drain(), loops[0]).result(10)
    server.should_exit = True
    await asyncio.to_thread(thread.join, 10)
    await asyncio.wait_for(following, 20)

    assert not thread.is_alive()
    assert took_leave(follower)


async def test_two_servers_in_one_process_end_apart() -> None:
    with running() as one:
        with running() as other:
            ours, our_task = await watched(one.url)
            theirs, their_task = await watched(other.url)
        await asyncio.wait_for(their_task, 20)
        async with httpx2.AsyncClient(trust_env=False) as http:
            ready = await http.get(f"{one.url}/readyz")
        seen = list(ours.events)
    await asyncio.wait_for(our_task, 20)

    assert took_leave(theirs)
    assert ready.status_code == 200
    assert seen[-1]["type"] != "stream.closing"
    assert took_leave(ours)


async def test_in_an_app_whose_lifespan_does_not_reach_it_a_signal_does(tmp_path: Path) -> None:
    program = tmp_path / "outer.py"
    program.write_text(
        "import socket, uvicorn\n"
        "from starlette.applications import Starlette\n"
        "from starlette.routing import Mount\n"
        "from contextlib import asynccontextmanager\n"
        f"{APP}\n"
        "@asynccontextmanager\n"
        "async def own(_):\n"
        "    yield\n"
        "    print('outer ended', flush=True)\n"
        "outer = Starlette(routes=[Mount('/inner', app)], lifespan=own)\n"
        "sock = socket.create_server(('127.0.0.1', 0))\n"
        "print('http://127.0.0.1:%d' % sock.getsockname()[1], flush=True)\n"
        "uvicorn.Server(uvicorn.Config(outer, log_level='warning')).run(sockets=[sock])\n"
    )
    with process(str(program), env={"PYTHONPATH": TESTS}) as server:
        follower, following = await watched(f"http://127.0.0.1:{server.port}/inner")
        server.process.send_signal(signal.SIGTERM)
        out, said = await asyncio.to_thread(server.process.communicate, None, 10)
        await asyncio.wait_for(following, 20)

    assert took_leave(follower), said
    assert "outer ended" in out


async def test_an_outer_app_may_end_it_by_hand() -> None:
    inner = create_app(agents(), settings=QUICK)
    outer = Starlette(routes=[Mount("/inner", inner), Route("/", lambda _: PlainTextResponse("outer"))])

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=outer), base_url="http://localhost"
    ) as http:
        assert (await http.get("/inner/readyz")).status_code == 200
        await inner.aclose()
        ready, alive = await http.get("/inner/readyz"), await http.get("/inner/healthz")
        assert (ready.status_code, alive.status_code) == (503, 200)
        assert (await http.get("/")).text == "outer"


async def test_the_models_connections_end_with_the_app_and_not_with_the_loop() -> None:
    with ProviderServer(GOOD) as provider:
        model = client(provider.url)
        app: Application = create_app([Agent("planner", model=model)], settings=QUICK)
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://localhost"
        ) as http:
            answer = await http.post("/v1/agents/planner/threads/t1/chat", json={"message": "hi"})
        assert answer.json()["text"] == "Hello"
        assert _clients.find(model._address) is not None

        await app.aclose()

        assert _clients.find(model._address) is None


class Uvicorn:
    """uvicorn's own command, on a file of the test's."""

    def __init__(self, folder: Path, *options: str, env: dict[str, str] | None = None) -> None:
        (folder / "served.py").write_text(APP)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "uvicorn", "served:app", "--port", str(self.port), *options]
        environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{folder}", **(env or {})}
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=self.log, stderr=self.log, env=environment, process_group=0
        )
        until(self._answers, 30)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        except httpx2.HTTPError:
            return False

    def end(self) -> tuple[int, str]:
        """Send SIGTERM, and return the status and the log."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(20)
        self.log.seek(0)
        return status, self.log.read()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def under_uvicorn(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Uvicorn]:
    one = Uvicorn(folder, *options, env=env)
    try:
        yield one
    finally:
        one.kill()


@pytest.mark.full
async def test_under_uvicorns_reload_watchers_are_told_before_the_next_code_serves(tmp_path: Path) -> None:
    with under_uvicorn(tmp_path, "--reload", "--reload-dir", str(tmp_path)) as server:
        follower, following = await watched(server.url)
        (tmp_path / "served.py").write_text(f"{APP}\n# changed\n")
        await asyncio.wait_for(following, 20)
        await asyncio.to_thread(until, server._answers, 20)
        status, log = await asyncio.to_thread(server.end)

    assert took_leave(follower), log
    assert "Traceback" not in log
    assert status in (0, -signal.SIGTERM)


@pytest.mark.full
async def test_with_uvicorns_workers_every_worker_takes_its_leave(tmp_path: Path) -> None:
    env = {"AGENTKIT_ENGINE": f"sqlite:///{tmp_path / 'threads.db'}"}
    with under_uvicorn(tmp_path, "--workers", "2", env=env) as server:
        follower, following = await watched(server.url)
        others = [Follower(f"{path(server.url, 'quick', f't{n}')}/events") for n in range(8)]
        tasks = [asyncio.create_task(other.follow(until="nothing")) for other in others]
        await asyncio.to_thread(until, lambda: all(other.events for other in others))
        status, log = await asyncio.to_thread(server.end)
        for task in (following, *tasks):
            await asyncio.wait_for(task, 20)

    # A worker does not wait for the ends of runs that another one has.
    everybody = [follower, *others]
    assert all(one.events[-1]["type"] == "stream.closing" and one.ended_cleanly for one in everybody), log
    # uvicorn's own processes may die of the signal as they like
    assert not re.search(r'File "[^"]*agentkit_', log), log
    assert status in (0, -signal.SIGTERM)


async def test_metrics_have_a_port_of_their_own_that_is_there_until_the_drain_is_over() -> None:
    arguments = (
        "-m",
        "agentkit_server",
        "--port",
        "0",
        "--metrics-port",
        "0",
        "--log-format",
        "json",
        "--log-level",
        "info",
    )
    with process(*arguments, env={"AGENTKIT_DRAIN_TIMEOUT": "0.2", "AGENTKIT_ENGINE": "memory://"}) as server:
        line = await asyncio.to_thread(_line, server)
        found = re.search(r"metrics are at (http://\S+)", line)
        assert found is not None, line
        async with httpx2.AsyncClient(trust_env=False) as http:
            run = await start_run(f"http://127.0.0.1:{server.port}", "scripted", "t1")
            await http.get(f"{path(f'http://127.0.0.1:{server.port}', 'scripted')}/runs/{run}?wait=20")
            metrics = await http.get(found[1])
            nothing = await http.get(found[1].replace("/metrics", "/v1/agents"))
        status, said = await asyncio.to_thread(server.end)

    assert 'agentkit_runs_total{agent="scripted",end="completed"} 1.0' in metrics.text
    assert nothing.status_code == 404
    assert status == 0
    assert f'"run":"{run}"' in said
    assert '"message":"run completed"' in said


def _line(server: Process) -> str:
    assert server.process.stdout is not None
    return server.process.stdout.readline()
