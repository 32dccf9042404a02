"""`examples/cluster` as processes: two servers, a Redis, nginx by the example's own configuration."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import websockets
from e2e.peers import Follower, start_run
from e2e.servers import Process, process, until
from redis_server import PROGRAM, RedisServer

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.anyio,
    pytest.mark.full,
    pytest.mark.timeout(180),
]

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
LEASE = 1.5
THREAD = "/v1/agents/scripted/threads/t1"


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


@dataclass
class Cluster:
    """What runs."""

    url: str
    servers: list[Process]
    log: Path
    """Where nginx says which server it asked."""

    def asked(self) -> list[int]:
        """Return the ports of the servers that were asked, in order."""
        return [int(port) for port in re.findall(r":(\d+)$", self.log.read_text(), re.MULTILINE)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def redis_options() -> list[str]:
    """Return the options of the compose file's redis-server."""
    found = re.search(r"command: (\[\"redis-server\".*\])", (FOLDER / "compose.yaml").read_text())
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words[1:]


def configuration(port: int, ports: list[int]) -> str:
    """Return the example's configuration for processes of this machine."""
    text = (FOLDER / "nginx.conf").read_text()
    changes = {
        "server server-a:8000": f"server 127.0.0.1:{ports[0]}",
        "server server-b:8000": f"server 127.0.0.1:{ports[1]}",
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "http {": "http {\n    log_format asked '$request_method $upstream_addr';\n    access_log asked.log asked;\n"
        + "".join(f"    {name}_temp_path {name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
    }  # fmt: skip
    for before, after in changes.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def cluster(
    require: Callable[[str, bool, str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The example."""
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    require("nginx", NGINX is not None, "apt-get install nginx-light")
    assert NGINX is not None
    folder = tmp_path_factory.mktemp("cluster")
    redis = RedisServer(folder, *redis_options())
    env = {"AGENTKIT_ENGINE": f"{redis.url}?lease={LEASE}", "LOCAL": "0"}
    with contextlib.ExitStack() as stack:
        stack.callback(redis.kill)
        serve = ("-m", "agentkit_server", "--port", "0")
        servers = [stack.enter_context(process(*serve, env=env)) for _ in range(2)]
        port = free_port()
        (folder / "nginx.conf").write_text(configuration(port, [one.port for one in servers]))
        words = [
            NGINX,
            "-p",
            str(folder),
            "-e",
            "error.log",
            "-c",
            "nginx.conf",
            "-g",
            "daemon off; pid nginx.pid;",
        ]
        nginx = subprocess.Popen(words)
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        made = Cluster(f"http://127.0.0.1:{port}", servers, folder / "asked.log")
        until(lambda: answers(made.url))
        yield made


def answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


async def test_both_servers_are_asked_and_each_knows_what_the_other_does(cluster: Cluster) -> None:
    for number in range(4):
        await start_run(cluster.url, "failing", f"f{number}")
    async with httpx2.AsyncClient(trust_env=False) as http:
        found = [(await http.get(f"{cluster.url}/v1/agents/failing/threads")).json() for _ in range(2)]

    assert [len(one["threads"]) for one in found] == [4, 4]
    assert set(cluster.asked()) == {one.port for one in cluster.servers}


async def test_events_come_when_they_happen_and_on_a_socket_too(cluster: Cluster) -> None:
    follower = Follower(f"{cluster.url}{THREAD}/events?after=earliest")
    following = asyncio.create_task(follower.follow(until="run.finished"))
    async with websockets.connect(
        f"{cluster.url.replace('http', 'ws')}/v1/ws",
        subprotocols=[websockets.Subprotocol("agentkit.v1")],
        proxy=None,
    ) as ws:
        await ws.send(json.dumps({"op": "hello"}))
        await ws.send(json.dumps({"op": "sub", "rid": "1", "topic": THREAD[4:], "after": "earliest"}))
        run = await start_run(cluster.url, "scripted", "t1")
        await asyncio.to_thread(until, lambda: "reasoning" in follower.named)
        async with httpx2.AsyncClient(trust_env=False) as http:
            during = (await http.get(f"{cluster.url}{THREAD}/runs/{run}")).json()
        seen = []
        async with asyncio.timeout(15):
            while "run.finished" not in seen:
                seen += [one["type"] for one in json.loads(await ws.recv()).get("e", [])]
    await asyncio.wait_for(following, 15)

    assert during["status"] == "running"  # the first reasoning was here before the run's end
    assert seen == [event["type"] for event in follower.records]


async def test_a_killed_server_costs_its_runs_and_nobody_elses_place(cluster: Cluster) -> None:
    path = f"{cluster.url}/v1/agents/scripted/threads/t2"
    follower = Follower(f"{path}/events?after=earliest")
    following = asyncio.create_task(follower.follow(until="run.failed"))
    await asyncio.to_thread(until, lambda: bool(follower.events))
    await start_run(cluster.url, "scripted", "t2")
    owner = cluster.asked()[-1]
    await asyncio.to_thread(until, lambda: "reasoning" in follower.named)

    for server in cluster.servers:
        if server.port == owner:
            server.process.kill()
            server.process.wait()
    async with asyncio.timeout(30):
        await following
        while "run.failed" not in follower.named:  # its link was cut: come back, to the other server
            again = await Follower(f"{path}/events", last_id=follower.last_id).follow(until="run.failed")
            follower.events += again.events
            follower.named += again.named
            follower.last_id = again.last_id
    async with httpx2.AsyncClient(trust_env=False, timeout=15) as http:
        chat = await http.post(f"{path}/chat", json={"message": "hello"})

    assert follower.records[-1]["data"]["code"] == "owner_lost"
    assert follower.seqs == list(range(1, len(follower.seqs) + 1))
    assert chat.status_code == 200
