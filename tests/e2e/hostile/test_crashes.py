"""Part B of the threats, as a client on a real server sees them: a server that is killed, a clock that jumps, an engine that is not
there. The engines' own tests are elsewhere. See `lines`."""

import asyncio
from collections.abc import Callable
from glob import glob
from pathlib import Path

import httpx2
import pytest
from e2e.hostile.undisturbed import ODD, SECONDS, ask, is_well, odd_server
from e2e.peers import Follower, start_run
from e2e.servers import process, until

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.anyio]

FAKETIME = next(iter(glob("/usr/lib/*/faketime/libfaketime.so.1")), "")
PATH = "/v1/agents/{}/threads/t1"


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


async def test_24_after_a_kill_a_client_goes_on_where_it_was_and_the_run_has_failed_once(
    tmp_path: Path,
) -> None:
    engine = f"sqlite:///{tmp_path / 'log.db'}?lease=1"
    path = PATH.format("held")
    with odd_server(tmp_path, AGENTKIT_ENGINE=engine) as server:
        url = f"http://127.0.0.1:{server.port}{path}"
        run = await start_run(f"http://127.0.0.1:{server.port}", "held", "t1")
        follower = Follower(f"{url}/events?after=earliest")
        await asyncio.wait_for(follower.follow(until="reasoning"), SECONDS)
        server.kill()
    before = list(follower.records)

    with odd_server(tmp_path, AGENTKIT_ENGINE=engine) as server:
        url = f"http://127.0.0.1:{server.port}{path}"
        again = Follower(f"{url}/events", last_id=follower.last_id)
        await asyncio.wait_for(again.follow(until="run.failed"), SECONDS)
        whole = Follower(f"{url}/events?after=earliest")
        await asyncio.wait_for(whole.follow(until="run.failed"), SECONDS)
        status = ask(server, "GET", f"{path}/runs/{run}").json()["status"]
        next_run = await start_run(f"http://127.0.0.1:{server.port}", "quick", "t1")
        assert is_well(server)

    assert whole.records == before + again.records
    assert whole.seqs == list(range(1, len(whole.seqs) + 1))
    assert [one["type"] for one in whole.records].count("run.failed") == 1
    assert [one["type"] for one in again.events if "seq" not in one] == ["stream.hello"]
    assert (status, next_run != run) == ("failed", True)


@pytest.mark.full
@pytest.mark.parametrize("jump", ["-1h", "+30d"])
async def test_45_a_clock_that_jumps_ends_nothing(
    tmp_path: Path, require: Callable[[str, bool, str], None], jump: str
) -> None:
    require("faketime", bool(FAKETIME), "apt-get install faketime")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    env = {
        "LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "AGENTKIT_ENGINE": f"sqlite:///{tmp_path / 'log.db'}",
    }  # fmt: skip
    with odd_server(tmp_path, **env) as server:
        path, url = PATH.format("napper"), f"http://127.0.0.1:{server.port}"
        follower = Follower(f"{url}{path}/events?after=earliest")
        following = asyncio.create_task(follower.follow(until="run.finished"))
        await start_run(url, "napper", "t1")
        await asyncio.to_thread(
            until, lambda: "tool_call.started" in [one["type"] for one in follower.events], SECONDS
        )
        clock.write_text(jump)
        assert is_well(server)
        async with httpx2.AsyncClient(trust_env=False, timeout=SECONDS) as http:
            date = (await http.get(f"{url}/healthz")).headers["date"]
        (tmp_path / "wake").touch()
        await asyncio.wait_for(following, SECONDS)
        status, said = await asyncio.to_thread(server.end)

    times = [one["time"] for one in follower.records]
    assert follower.seqs == list(range(1, len(follower.seqs) + 1))
    assert date
    assert (times[0] > times[-1]) == (jump == "-1h")  # the clock had jumped indeed
    assert times[0][:10] != times[-1][:10] or jump == "-1h"
    assert status == 0, said


@pytest.mark.full
async def test_27_without_its_engine_a_server_says_so_and_ends_in_order(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ODD.parents[2]), "AGENTKIT_ENGINE": "redis://127.0.0.1:1/0"}
    with process(str(ODD), str(tmp_path), env=env) as server:
        healthy, ready = ask(server, "GET", "/healthz"), ask(server, "GET", "/readyz")
        refused = ask(server, "POST", f"{PATH.format('quick')}/runs", json={"input": "x"})
        status, said = await asyncio.to_thread(server.end)

    assert (healthy.status_code, ready.status_code) == (200, 503)
    assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
    assert status == 0, said
