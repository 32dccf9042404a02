"""A process that appends numbered words to a topic, for tests to kill: `python appender.py URL NAME COUNT`.

It prints each word once it is acknowledged, so that what it printed must be in the log. Words that failed are tried again.
"""

import sys

import anyio

from agentkit.engines.url import open_engine
from agentkit.envelope import draft_all
from agentkit.errors import EngineError
from agentkit.log import Topic
from agentkit.testing.engine_stand import said

TOPIC = Topic("", "a", "main")


async def main(url: str, name: str, count: int) -> None:
    engine = open_engine(url)
    for number in range(count):
        word = f"{name}-{number}"
        for _ in range(20):
            try:
                await engine.log.append(TOPIC, draft_all(TOPIC, [said(word)]))
            except EngineError:
                await anyio.sleep(0.05)
                continue
            print(word, flush=True)
            break
        await anyio.sleep(0.002)
    await engine.aclose()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
