"""A process that watches a topic as a server would, for tests: `python watcher.py URL PROTOCOL`.

It prints `ready` once it reads, and then what each send carried, as JSON texts; at the end the reason for it.
"""

import asyncio
import json
import sys

from agentkit.engines.url import open_engine
from agentkit.log import EARLIEST, Topic
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub
from agentkit_transports.outlet import Batch, Outlet

TOPIC = Topic("", "a", "main")


class Printer(Outlet):
    """A connection to the test."""

    def __init__(self) -> None:
        pass

    async def send(self, batch: Batch) -> None:
        """Print it."""
        print(json.dumps(batch.data.decode()), flush=True)


async def main(url: str, protocol: str) -> None:
    engine = open_engine(url)
    hub = Hub(engine.log)
    over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    hub.attach(await hub.locate(TOPIC, EARLIEST), View(protocol), Printer(), over.set_result)
    print(json.dumps("ready"), flush=True)
    async with asyncio.timeout(30):
        print(json.dumps(await over), flush=True)
    await engine.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
