"""Part A of the threats, on a server in a process of its own: very many peers, silent, sleeping, or all at once. See `lines`."""

import asyncio
import hashlib
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from e2e.hostile.odd import LONG, LONG_RECORDS
from e2e.hostile.undisturbed import SECONDS, ask, is_well, odd_server, open_files, undisturbed
from e2e.peers import Follower, Raw, start_run
from e2e.servers import Process, until

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]

PLACE = re.compile(rb"\nid: ?[^\n]+-(\d+)\n(?:event|data)")


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One server for this file, which gives heads three seconds."""
    with odd_server(tmp_path_factory.mktemp("odd"), HEAD_TIMEOUT="3") as one:
        yield one


@pytest.fixture
def server(shared: Process) -> Iterator[Process]:
    """The server; nothing is left of an attack."""
    with undisturbed(shared):
        yield shared


SLEEPER = """
import asyncio, hashlib, sys
from agentkit_transports.clients import ClientSettings, Gap, follow

async def main():
    seqs, text = [], hashlib.sha256()
    settings = ClientSettings(first_delay=0.01, longest_delay=0.1)
    async with follow(sys.argv[1], after="earliest", transport=sys.argv[2], settings=settings) as feed:
        async for item in feed:
            assert not isinstance(item, Gap), item
            seqs.append(item.seq)
            if item.type == "run.started":
                print("begun", flush=True)
            if item.type == "text.delta":
                text.update(item.event.text.encode())
            if item.type == "run.finished":
                break
    assert seqs == list(range(1, len(seqs) + 1)), seqs
    print(text.hexdigest(), flush=True)

asyncio.run(main())
"""


@pytest.mark.full
@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_7_a_client_that_is_stopped_has_the_whole_text_once_it_goes_on(
    server: Process, transport: str
) -> None:
    thread = f"sleeper-{transport}"
    url = f"http://127.0.0.1:{server.port}"
    path = f"{url}/v1/agents/long/threads/{thread}"
    files = open_files(server)
    with subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, "-c", SLEEPER, path, transport], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        try:
            await start_run(url, "long", thread)
            assert await asyncio.to_thread(client.stdout.readline) == "begun\n"
            client.send_signal(signal.SIGSTOP)
            whole = await asyncio.wait_for(
                Follower(f"{path}/events?after=earliest").follow(until="run.finished"), SECONDS
            )
            await asyncio.to_thread(until, lambda: open_files(server) <= files, SECONDS)  # the sleeper is cut
            client.send_signal(signal.SIGCONT)
            said, _ = await asyncio.to_thread(client.communicate, timeout=SECONDS)
        finally:
            client.kill()

    assert whole.seqs == list(range(1, len(whole.seqs) + 1))
    assert said == hashlib.sha256((LONG * LONG_RECORDS).encode()).hexdigest() + "\n"


async def test_10_a_thousand_that_say_nothing_are_closed_and_others_are_served(server: Process) -> None:
    peers = [Raw(server.port) for _ in range(1000)]
    try:
        assert is_well(server)
        ends = {peer.read_all() for peer in peers}
    finally:
        for peer in peers:
            peer.socket.close()

    assert ends == {b""}


def leave(peer: Raw, number: int) -> None:
    """Open a feed or a socket, and leave it in one of eight ways."""
    if number % 2:
        peer.upgrade()
        peer.say(op="sub", rid="1", topic="agents/quick/threads/churn", after="earliest")
    else:
        peer.get("/v1/agents/quick/threads/churn/events?after=earliest")
    match number // 2 % 4:
        case 0:
            peer.read_until(b"stream.hello" if number % 2 == 0 else b'"ok"')
        case 1:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        case 2:
            peer.socket.shutdown(socket.SHUT_WR)
        case _:
            peer.send(b"\x88\x80\0\0\0\0" if number % 2 else b"no request\r\n\r\n")


@pytest.mark.parametrize("times", [200, pytest.param(2000, marks=pytest.mark.full)])
async def test_15_clients_that_come_and_go_leave_no_file_and_no_memory(server: Process, times: int) -> None:
    await start_run(f"http://127.0.0.1:{server.port}", "quick", "churn")
    for number in range(times):
        with Raw(server.port) as peer:
            leave(peer, number)


async def test_16_head_and_options_subscribe_to_nothing(server: Process) -> None:
    path, files = "/v1/agents/quick/threads/asked/events", open_files(server)
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=SECONDS) as http:
        heads = {http.head(path).status_code for _ in range(50)}
        options = {http.options(path).status_code for _ in range(50)}
        kept = open_files(server) - files

    assert heads == {200}
    assert options <= {200, 204, 405}
    assert kept <= 1  # the client's own connection


def spent(server: Process) -> int:
    """Return the server's ticks of processor time."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_18_without_file_descriptors_it_waits_and_then_accepts_again(tmp_path: Path) -> None:
    with odd_server(tmp_path, HEAD_TIMEOUT="3") as server:
        files = open_files(server)
        before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (200, 200))
        assert before[0] > 200
        peers = []
        try:
            for _ in range(400):  # the kernel completes them all; the server can accept half of them
                peers.append(Raw(server.port))
            until(lambda: open_files(server) >= 195, SECONDS)
            ticks = spent(server)
            await asyncio.sleep(1)  # a second in which there is nothing to do
            busy = (spent(server) - ticks) / os.sysconf("SC_CLK_TCK")
            for peer in peers[:300]:
                peer.socket.close()
            assert is_well(server)
        finally:
            for peer in peers:
                peer.socket.close()
        assert is_well(server)
        until(lambda: open_files(server) <= files, SECONDS)
        status, said = await asyncio.to_thread(server.end)

    assert busy < 0.7  # a loop that tries again and again takes all of it
    assert status == 0, said


async def places(port: int, target: str, last_id: str, ready: asyncio.Event | None = None) -> list[int]:
    """Follow a run's feed to its end, and return the places that came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nhost: localhost\r\nlast-event-id: {last_id}\r\n\r\n".encode())
        got = await reader.readuntil(b"stream.hello")
        if ready is not None:
            ready.set()
        got += await reader.readuntil(b"event: run.finished\n")
        return [int(place) for place in PLACE.findall(got)]
    finally:
        writer.transport.abort()


async def test_23_a_thousand_that_come_back_at_once_each_get_the_rest(server: Process) -> None:
    url, target = f"http://127.0.0.1:{server.port}", "/v1/agents/quick/threads/storm/events"
    await start_run(url, "quick", "storm")
    whole = await Follower(f"{url}{target}?after=earliest").follow(until="run.finished")
    middle = len(whole.records) // 2
    last_id = whole.records[middle - 1]["id"]

    async with asyncio.timeout(60):
        storm = asyncio.gather(*(places(server.port, target, last_id) for _ in range(1000)))
        well = await asyncio.to_thread(is_well, server)
        got = await storm

    assert well
    assert {tuple(one) for one in got} == {tuple(whole.seqs[middle:])}


@pytest.mark.full
async def test_13_14_five_hundred_that_wait_each_get_every_record(server: Process) -> None:
    url, target = f"http://127.0.0.1:{server.port}", "/v1/agents/quick/threads/burst/events"
    epoch = (
        (await Follower(f"{url}{target}?after=earliest").follow(until="stream.hello"))
        .events[0]["data"]["epoch"]
    )  # fmt: skip
    ready = [asyncio.Event() for _ in range(500)]
    async with asyncio.timeout(60):
        waiting = asyncio.gather(*(places(server.port, target, f"{epoch}-0", one) for one in ready))
        await asyncio.gather(*(one.wait() for one in ready))
        await start_run(url, "quick", "burst")
        got = await waiting

    last = json.loads(ask(server, "GET", "/v1/agents/quick/threads/burst/runs").text)["runs"]
    assert len(last) == 1
    assert {tuple(one) for one in got} == {tuple(range(1, len(got[0]) + 1))}
    assert len(got[0]) > 30
