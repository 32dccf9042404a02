"""How a server ends: whatever is open, within seconds, and polite clients are told."""

import asyncio
import contextlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx2
import pytest
import websockets
from e2e.peers import Follower, Raw, start_run
from e2e.servers import FLOOD, Process, process, until

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[Process]:
    """A server of the test's own."""
    with process() as one:
        yield one


def url(server: Process) -> str:
    return f"http://127.0.0.1:{server.port}"


def idle_stream(peer: Raw) -> None:
    peer.get("/v1/agents/quick/threads/t1/events")
    peer.read_until(b"stream.hello")


def full_stream(peer: Raw) -> None:
    peer.get("/v1/agents/flood/threads/t1/events")
    peer.read_until(b"stream.hello")


def full_socket(peer: Raw) -> None:
    peer.upgrade()
    peer.say(op="sub", rid="1", topic="agents/flood/threads/t1", after="now")
    peer.read_until(b'"ok"')


def half_a_head(peer: Raw) -> None:
    peer.send("GET /healthz HTTP/1.1\r\nho")


def half_a_body(peer: Raw) -> None:
    peer.send(
        "POST /v1/agents/quick/threads/t1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        'content-length: 99\r\n\r\n{"in'
    )


def half_closed(peer: Raw) -> None:
    idle_stream(peer)
    peer.socket.shutdown(1)


def silent(peer: Raw) -> None:
    pass


def waiting_chat(peer: Raw) -> None:
    peer.post("/v1/agents/held/threads/chat/chat", '{"message":"hello"}')


def unread_answer(peer: Raw) -> None:
    peer.get("/v1/agents/flood/threads/t1/messages")


OPENINGS = [
    idle_stream, full_stream, full_socket, half_a_head, half_a_body, half_closed, silent, waiting_chat, unread_answer,
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("opening", OPENINGS, ids=lambda opening: opening.__name__)
async def test_sigterm_ends_within_seconds(server: Process, opening: Callable[[Raw], None]) -> None:
    with Raw(server.port) as peer, Raw(server.port) as other:
        opening(peer)
        opening(other)
        await start_run(url(server), "flood", "t1")
        await asyncio.sleep(0.5)  # the flood fills the buffers of who does not read

        status, said = await asyncio.to_thread(server.end)

    assert status == 0, said
    assert "Traceback" not in said


async def test_sigterm_with_all_of_them_at_once(server: Process) -> None:
    with contextlib.ExitStack() as stack:
        for opening in OPENINGS * 3:
            opening(stack.enter_context(Raw(server.port)))
        await start_run(url(server), "flood", "t1")
        await start_run(url(server), "held", "t1")
        await asyncio.sleep(0.5)

        status, said = await asyncio.to_thread(server.end)

    assert status == 0, said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_polite_clients_are_told_and_the_run_says_why_it_ended(server: Process, number: int) -> None:
    path = f"{url(server)}/v1/agents/held/threads/t1"
    follower = Follower(f"{path}/events?after=earliest")
    following = asyncio.create_task(follower.follow(until="nothing"))
    async with websockets.connect(
        f"ws://127.0.0.1:{server.port}/v1/ws",
        subprotocols=[websockets.Subprotocol("agentkit.v1")],
        proxy=None,
    ) as socket:
        await start_run(url(server), "held", "t1")
        await asyncio.to_thread(until, lambda: "reasoning" in follower.named)

        status, said = await asyncio.to_thread(server.end, number)
        frames = [json.loads(text) async for text in _rest(socket)]
    await asyncio.wait_for(following, 20)

    assert status == 0, said
    assert [event["type"] for event in follower.events[-2:]] == ["run.cancelled", "stream.closing"]
    assert follower.events[-2]["data"]["reason"] == "the server stops"
    assert follower.ended_cleanly
    assert (frames[-1]["op"], frames[-1]["code"], socket.close_code) == ("bye", 4000, 4000)


async def _rest(socket: websockets.ClientConnection) -> AsyncIterator[str | bytes]:
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:
            yield await socket.recv()


async def test_a_run_that_ends_in_time_ends_well() -> None:
    with process(env={"DRAIN": "20"}) as server:
        path = f"{url(server)}/v1/agents/quick/threads/t1"
        run = await start_run(url(server), "quick", "t1")
        follower = Follower(f"{path}/events?run={run}&after=earliest")
        following = asyncio.create_task(follower.follow(until="nothing"))
        await asyncio.to_thread(until, lambda: "text.delta" in follower.named)

        await asyncio.to_thread(server.end)
        await asyncio.wait_for(following, 20)

    assert [event["type"] for event in follower.events[-2:]] == ["run.finished", "stream.end"]


async def test_a_second_signal_ends_it_at_once() -> None:
    with process("-m", "agentkit_server", "--port", "0", env={"AGENTKIT_DRAIN_TIMEOUT": "60"}) as server:
        await start_run(url(server), "scripted", "t1")
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(
            until, lambda: httpx2.get(f"{url(server)}/readyz", trust_env=False).status_code == 503
        )

        status, _ = await asyncio.to_thread(server.end)

    assert status == -signal.SIGTERM  # not after the drain's 60 seconds


async def test_an_old_cursor_is_a_gap_on_the_next_server(server: Process) -> None:
    await start_run(url(server), "quick", "t1")
    old = await Follower(f"{url(server)}/v1/agents/quick/threads/t1/events?after=earliest").follow(
        until="text.delta"
    )
    await asyncio.to_thread(server.end)

    with process() as after:
        follower = Follower(f"{url(after)}/v1/agents/quick/threads/t1/events", last_id=old.last_id)
        following = asyncio.create_task(follower.follow(until="run.finished"))
        await asyncio.to_thread(until, lambda: len(follower.events) == 2)
        await start_run(url(after), "quick", "t1")
        await asyncio.wait_for(following, 20)

    assert [event["type"] for event in follower.events[:3]] == ["stream.hello", "stream.gap", "run.started"]
    assert follower.events[1]["data"]["reason"] == "epoch"
    assert follower.events[2]["seq"] == 1


async def test_under_plain_uvicorn_an_open_feed_does_not_keep_the_server(tmp_path: Path) -> None:
    program = tmp_path / "plain.py"
    program.write_text(
        "import socket, uvicorn\n"
        "from starlette.applications import Starlette\n"
        "from starlette.routing import Mount\n"
        "from e2e.servers import QUICK, agents\n"
        "from agentkit_server import create_app\n"
        "sock = socket.create_server(('127.0.0.1', 0))\n"
        "print('http://127.0.0.1:%d' % sock.getsockname()[1], flush=True)\n"
        "app = Starlette(routes=[Mount('/inner', create_app(agents(), settings=QUICK))])\n"
        "uvicorn.Server(uvicorn.Config(app, log_level='warning')).run(sockets=[sock])\n"
    )
    with process(str(program), env={"PYTHONPATH": str(Path(__file__).parents[1])}) as server:
        path = f"{url(server)}/inner/v1/agents/held/threads/t1"
        follower = Follower(f"{path}/events?after=earliest")
        following = asyncio.create_task(follower.follow(until="nothing"))
        await start_run(f"{url(server)}/inner", "held", "t1")
        await asyncio.to_thread(until, lambda: "reasoning" in follower.named)

        status, said = await asyncio.to_thread(server.end)
        await asyncio.wait_for(following, 20)

    assert status == -signal.SIGTERM, said
    assert [event["type"] for event in follower.events[-2:]] == ["run.cancelled", "stream.closing"]
    assert follower.ended_cleanly


@pytest.mark.full
async def test_a_flood_to_readers_that_do_not_read_costs_no_memory(server: Process) -> None:
    await start_run(url(server), "flood", "warm")
    await Follower(f"{url(server)}/v1/agents/flood/threads/warm/events?after=earliest").follow(
        until="run.finished"
    )
    before = server.memory()
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            full_stream(stack.enter_context(Raw(server.port)))
            full_socket(stack.enter_context(Raw(server.port)))
        for _ in range(3):
            await start_run(url(server), "flood", "t1")
            follower = Follower(f"{url(server)}/v1/agents/flood/threads/t1/events")
            await asyncio.wait_for(follower.follow(until="run.finished"), 30)
        used = server.memory() - before

    print(f"100 readers that do not read, {3 * 300 * len(FLOOD)} bytes each: {used} bytes of memory")
    assert used < 100 * 150_000 + 32_000_000


HALF_OPEN = """
import subprocess, sys, threading, time
from e2e.peers import Raw
from e2e.servers import running, until
import httpx2

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with running() as server:
    before = server.look()[0]
    stream, socket = Raw(server.port), Raw(server.port)
    stream.get("/v1/agents/quick/threads/t1/events")
    stream.read_until(b"stream.hello")
    socket.upgrade()
    until(lambda: server.look()[1] == 2)
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    start = time.monotonic()
    until(lambda: server.look()[1] <= 1, 5)
    print("stream freed after %.1f s" % (time.monotonic() - start))
    until(lambda: server.look()[1] == 0, 5)
    print("socket freed after %.1f s" % (time.monotonic() - start))
    until(lambda: server.look()[0] <= before, 5)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
print("done")
"""


def _can_unshare() -> bool:
    if sys.platform != "linux" or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_unshare(), reason="needs network namespaces (unshare -rn) and ip")
async def test_a_peer_whose_line_is_dead_is_let_go() -> None:
    command = ["unshare", "-rn", sys.executable, "-c", HALF_OPEN]
    result = await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, text=True, timeout=40,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip

    assert result.stdout.endswith("done\n"), result.stdout + result.stderr
