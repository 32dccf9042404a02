"""Part A of the threats, where the numbers are the attack: lines 18 and 23; and line 66, a client of another age."""

import asyncio
import resource
import time

import pytest
from e2e.hostile.conftest import House
from e2e.peers import Follower, Raw
from e2e.servers import until

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

THREAD = "/v1/agents/quick/threads/crowds"


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


def test_18_without_file_descriptors_the_server_waits_and_goes_on(house: House) -> None:
    pid = house.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (house.open_files() + 20, hard))
    peers: list[Raw] = []
    try:
        for _ in range(60):
            peers.append(Raw(house.port))
        busy = house.seconds_of_work()
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            peers[0].is_cut()
        spent = house.seconds_of_work() - busy
    finally:
        for peer in peers:
            peer.socket.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    assert spent < 0.9  # it does not spin
    until(house.is_well)


async def test_23_many_that_come_back_at_once_miss_nothing(house: House) -> None:
    run = house.ask("POST", f"{THREAD}/chat", "crowd", json={"message": "x"}).json()["run"]
    url = f"{house.url}{THREAD}/events?run={run}&after=earliest"
    whole = (await Follower(url, key=house.keys["crowd"]).follow()).records

    again = [Follower(url, last_id=whole[3]["id"], key=house.keys["crowd"]) for _ in range(20)]
    async with asyncio.timeout(15):
        await asyncio.gather(*(reader.follow() for reader in again))

    assert all(reader.records == whole[4:] for reader in again)


def test_66_a_client_of_http_1_0_gets_a_feed_that_ends_with_its_connection(house: House) -> None:
    run = house.ask("POST", f"{THREAD}-old/chat", "ann", json={"message": "x"}).json()["run"]
    with Raw(house.port) as peer:
        peer.send(
            f"GET {THREAD}-old/events?run={run}&after=earliest HTTP/1.0\r\nauthorization: Bearer {house.keys['ann']}\r\n\r\n"
        )
        answer = peer.read_all()

    assert answer.split(b" ", 2)[1] == b"200"
    assert b"run.finished" in answer
    assert b"stream.end" in answer
