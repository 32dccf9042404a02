"""Watch what an agent does, over WebSocket, from any machine: reasoning, text, tools, and what was lost.

    agentkit serve &
    python examples/watch_ws.py ws://127.0.0.1:8000/v1/agents/scripted/threads/main

Cut the line or restart the server: it comes back by itself. AGENTKIT_TOKEN is the token, where the server wants one.
"""

import asyncio
import os
import sys

from agentkit.events import Reasoning, RunFinished, TextDelta, ToolExecutionStarted
from agentkit_transports.clients import Gap, follow

URL = "ws://127.0.0.1:8000/v1/agents/scripted/threads/main"


async def main(url: str) -> None:
    async with follow(url, after="earliest", auth=os.environ.get("AGENTKIT_TOKEN")) as feed:
        async for item in feed:
            if isinstance(item, Gap):
                print(f"\n[lost: {item.first} to {item.last}, {item.reason}]")
                continue
            match item.event:
                case Reasoning(event=said) if said.text:
                    print(f"\033[2m{said.text}\033[0m", end="", flush=True)
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case ToolExecutionStarted(name=name, input=given):
                    print(f"\n[{name} {given}]")
                case RunFinished(usage=usage):
                    print(f"\n[{usage.total_tokens} tokens; go on with after={item.id!r}]")
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else URL))
