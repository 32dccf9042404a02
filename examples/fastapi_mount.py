"""Agents inside a FastAPI application: your own routes beside the feeds. Runs without a key.

    pip install fastapi
    uvicorn --app-dir examples fastapi_mount:app
    curl http://127.0.0.1:8000/ask -H 'content-type: application/json' -d '{"question": "Hello"}'
    curl -N 'http://127.0.0.1:8000/agents/v1/agents/assistant/threads/main/events?after=earliest'

The page is served on http://127.0.0.1:8000/agents/.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel

from agentkit import Agent, Model
from agentkit.engines.memory import MemoryEngine
from agentkit.testing import Say, ScriptedModel, Think
from agentkit_server import create_app


def model() -> Model | str:
    if "ANTHROPIC_API_KEY" in os.environ:
        return "anthropic:claude-sonnet-4-5"
    return ScriptedModel([Think("Somebody asks."), Say("I answer by a script.", pieces=4)], repeat=True)


engine = MemoryEngine()  # one engine for both: what your own routes say shows in the feeds
assistant = Agent("assistant", model=model(), engine=engine)
agents = create_app([assistant], engine=engine)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """End the agents' runs and feeds with the application: a mounted application gets no lifespan of its own."""
    yield
    await agents.aclose()


app = FastAPI(lifespan=lifespan)
app.mount("/agents", agents)


class Question(BaseModel):
    question: str
    thread: str = "main"


@app.post("/ask")
async def ask(question: Question) -> dict[str, str]:
    """Answer with the visible text. The feed of the thread has the reasoning."""
    return {"answer": await assistant.chat(question.question, thread=question.thread)}
