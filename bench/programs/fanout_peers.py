"""A fan-out as other libraries' documentation does it: a queue for each reader, JSON once, `EventSourceResponse`; or `websockets.broadcast`.

python fanout_peers.py sse-starlette | websockets
python fanout_peers.py ai-query | pydantic-ai URL MODEL        (a pipeline: `GET /run`)
"""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import producing

peer = sys.argv[1]
queues: set["asyncio.Queue[dict[str, str]]"] = set()
RUN = "run_0123456789abcdef"


class Waiting:
    """What has been put in and not yet taken out."""

    count = 0
    done: "asyncio.Future[None] | None" = None


async def queue_events() -> AsyncIterator[dict[str, str]]:
    queue: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    queues.add(queue)
    try:
        while True:
            yield await queue.get()
            Waiting.count -= 1
            if Waiting.count <= 0 and Waiting.done is not None and not Waiting.done.done():
                Waiting.done.set_result(None)
    finally:
        queues.discard(queue)


def starlette_app(listener: socket.socket) -> None:
    import uvicorn
    from pydantic import BaseModel
    from sse_starlette import EventSourceResponse
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    class Data(BaseModel):
        text: str

    class Envelope(BaseModel):
        v: int
        id: str
        seq: int
        type: str
        agent: str
        thread: str
        run: str
        step: int
        block: str
        time: float
        data: Data

    seq = 0

    def put(text: str, what: str = "text.delta") -> None:
        nonlocal seq
        seq += 1
        id = f"0123abcd-{seq}"  # noqa: A001 - the field's name
        envelope = Envelope(
            v=1, id=id, seq=seq, type=what, agent="bench", thread="main", run=RUN, step=1, block=f"{RUN}.1.0",
            time=time.time(), data=Data(text=text),
        )  # fmt: skip
        event = {"id": id, "event": what, "data": envelope.model_dump_json()}
        Waiting.count += len(queues)
        for queue in queues:
            queue.put_nowait(event)

    async def publish(burst: int) -> None:
        for _ in range(burst):
            put(producing.text())
        if Waiting.count > 0:
            Waiting.done = asyncio.get_running_loop().create_future()
            await Waiting.done

    async def go(request: Request) -> Response:
        await producing.go(request.url.query, publish)
        return PlainTextResponse("ok")

    async def run(_: Request) -> Response:
        from client_peers import PEERS

        async for text, reasoning in PEERS[peer]("anthropic", sys.argv[2], sys.argv[3]):
            put(text, "reasoning" if reasoning else "text.delta")
        return PlainTextResponse("ok")

    async def events(_: Request) -> Response:
        return EventSourceResponse(queue_events(), sep="\n", ping=600)

    app = Starlette(routes=[Route("/go", go), Route("/run", run), Route("/events", events)])
    config = uvicorn.Config(
        app, http="httptools", loop="auto", access_log=False, log_level="warning", backlog=2048
    )
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


async def broadcaster(listener: socket.socket) -> None:
    import json

    from websockets.asyncio.server import broadcast, serve
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    sockets: set[Any] = set()
    seq = 0

    async def publish(burst: int) -> None:
        nonlocal seq
        for _ in range(burst):
            seq += 1
            envelope = {"v": 1, "id": f"0123abcd-{seq}", "seq": seq, "type": "text.delta", "agent": "bench", "thread": "main",
                        "run": RUN, "step": 1, "block": f"{RUN}.1.0", "time": time.time(), "data": {"text": producing.text()}}  # fmt: skip
            broadcast(sockets, json.dumps(envelope))
        await asyncio.sleep(0)

    async def handle(connection: Any) -> None:
        sockets.add(connection)
        try:
            await connection.wait_closed()
        finally:
            sockets.discard(connection)

    async def process(_: Any, request: Any) -> Any:
        if not request.path.startswith("/go"):
            return None
        await producing.go(request.path.partition("?")[2], publish)
        return Response(200, "OK", Headers({"content-length": "2", "connection": "close"}), b"ok")

    async with serve(
        handle,
        sock=listener,
        process_request=process,
        compression=None,
        ping_interval=None,
        open_timeout=None,
    ):
        await asyncio.get_running_loop().create_future()


async def ai_query_server(listener: socket.socket) -> None:
    """ai-query's own server: an agent whose events go to all who watch it."""
    from ai_query.agents import Agent
    from ai_query.agents.server import AgentServer
    from aiohttp import web

    server = AgentServer(Agent)
    agent = server.get_or_create("bench")

    async def publish(burst: int) -> None:
        for _ in range(burst):
            text = producing.text()
            await agent.emit(
                "text.delta",
                {"run": RUN, "step": 1, "block": f"{RUN}.1.0", "time": time.time(), "text": text},
            )

    async def go(request: Any) -> Any:
        await producing.go(request.query_string, publish)
        return web.Response(text="ok")

    app = server.create_app()
    app.router.add_get("/go", go)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listening.getsockname()[1], flush=True)
    if peer == "websockets":
        asyncio.run(broadcaster(listening))
    elif peer == "ai-query-server":
        asyncio.run(ai_query_server(listening))
    else:
        starlette_app(listening)
