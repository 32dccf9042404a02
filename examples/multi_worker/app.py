"""Your own application in several processes, over one engine. Runs without a key.

    uvicorn --app-dir examples/multi_worker app:app --workers 2
    python examples/multi_worker/watch.py http://127.0.0.1:8000

A run goes on in the worker that its request reached; its feed can be had from any, because they share a SQLite file. Across hosts, give them
a Redis: AGENTKIT_ENGINE=redis://127.0.0.1:6379/0. Without an application of your own: agentkit serve --workers 2.
"""

import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from agentkit import Agent
from agentkit.testing import Say, ScriptedModel, Think
from agentkit_server import create_app

THOUGHT = "Which of us answers, and which of us is watched? It makes no difference. "

model = ScriptedModel([Think(THOUGHT, pieces=20), Say("Any worker.", pieces=3)], repeat=True, delay=0.05)
agents = create_app(
    [Agent("assistant", model=model)],
    engine=os.environ.get("AGENTKIT_ENGINE", "sqlite:///multi-worker.db"),
)


async def worker(_: Request) -> JSONResponse:
    """Say which process this is."""
    return JSONResponse({"worker": os.getpid()})


app = Starlette(routes=[Route("/worker", worker), Mount("/", agents)])
"""uvicorn's lifespan does not reach a mounted application: agentkit hears of the end from uvicorn itself."""
