"""agentkit's own server; what is published goes through the log, as a run's events do."""

import asyncio
import sys
import time
from typing import Any

import producing

from agentkit.agent import Agent
from agentkit.engines.memory import MemoryEngine
from agentkit.envelope import draft_all
from agentkit.events import TextDelta
from agentkit.log import Topic
from agentkit.providers import connect
from agentkit.testing import Say, ScriptedModel
from agentkit_server import Settings, create_app
from agentkit_server.server import listen, make_server

RUN = "run_0123456789abcdef"
SPINS = 10_000
"""Turns of the loop that a burst may take; a reader that stalls is not waited for."""


def main() -> None:
    """Args: the provider's URL and model's name, for a pipeline; without, only `/go` publishes."""
    model = (
        connect(f"anthropic:{sys.argv[2]}", key="none", base_url=sys.argv[1]) if len(sys.argv) > 2 else None
    )
    agent = Agent("bench", model=model or ScriptedModel([Say("hi")], repeat=True))
    engine = MemoryEngine()
    many = 20_000
    settings = Settings(heartbeat=600.0, connections=many, connections_each=many, unknown_sockets=many)
    application = create_app([agent], engine=engine, settings=settings)
    hub = application.service.hub
    topic = Topic("", "bench", "main")

    async def publish(burst: int) -> None:
        before = hub.stats.written
        run = [TextDelta(RUN, 1, time.time(), f"{RUN}.1.0", producing.text()) for _ in range(burst)]
        await engine.log.append(topic, draft_all(topic, run))
        for _ in range(SPINS):
            await asyncio.sleep(0)
            if hub.stats.written - before >= hub.connections:
                break

    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path")
        if path not in ("/go", "/run"):
            await application(scope, receive, send)
            return
        if path == "/run":
            entry = application.directory.find("bench")
            assert entry is not None
            assert entry.agent is not None
            await (await entry.agent.start("hi")).result()
        else:
            await producing.go(scope["query_string"].decode(), publish)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = listen("127.0.0.1", 0, settings)
    print(listener.getsockname()[1], flush=True)
    server = make_server(app, settings)
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
