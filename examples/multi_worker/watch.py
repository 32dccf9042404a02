"""Start a run, and watch it over several connections, which reach whichever worker takes them: `python watch.py http://127.0.0.1:8000`."""

import asyncio
import sys
from uuid import uuid4

from agentkit_transports.clients import Envelope, connect_agent, follow

READERS = 4


async def read(url: str) -> list[int]:
    """Return the numbers of the records that one reader gets, to the run's end."""
    async with follow(url, after="earliest") as feed:
        return [item.seq async for item in feed if isinstance(item, Envelope)]


async def main(server: str) -> None:
    thread = f"watched-{uuid4().hex}"
    async with connect_agent(f"{server}/v1/agents/assistant") as agent:
        run = await agent.start("Hello", thread=thread)
        url = f"{server}/v1/agents/assistant/threads/{thread}/events?run={run.id}"
        readings = await asyncio.gather(*(read(url) for _ in range(READERS)))
        print(await run.text)
    assert all(reading == readings[0] for reading in readings)
    print(f"{READERS} readers got the same {len(readings[0])} records")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
