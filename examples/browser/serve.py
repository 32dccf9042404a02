"""The page beside this file, and the agent that it watches. `uvicorn --app-dir examples/browser serve:app`, then /watch/."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from agentkit import Agent
from agentkit.testing import Say, ScriptedModel, Think
from agentkit_server import create_app

script = [Think("Somebody looks at me.", pieces=5), Say("Hello, page.", pieces=4)]
agents = create_app([Agent("assistant", model=ScriptedModel(script, repeat=True, delay=0.1))])
page = StaticFiles(directory=Path(__file__).parent, html=True)
app = Starlette(routes=[Mount("/watch", page), Mount("/", agents)])
