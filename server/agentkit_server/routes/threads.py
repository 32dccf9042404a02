"""Agents, their threads, and a thread's messages: without what only the provider may read."""

from collections.abc import Iterable
from typing import Any, Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.content import JsonValue, Message, plain
from agentkit.envelope import timestamp
from agentkit.threads import erase_thread
from agentkit_server.access import exposure_of, known, owner_of, topic_of
from agentkit_server.answers import AgentsAnswer, MessagesAnswer, ThreadsAnswer
from agentkit_server.described import AFTER, EMPTY, LIMIT, Description, Reply
from agentkit_server.paging import limit_of
from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.service import THREAD, Service
from agentkit_transports.encoder import Exposure
from agentkit_transports.problem import Problem, ProblemError

OPAQUE = frozenset({"signature", "provider_state"})
"""Members of blocks whose values never leave the server: clients learn how long they are."""

AGENTS: Final = Description("The agents.", {200: Reply("All that you may see.", AgentsAnswer)}, tag="threads")
THREADS: Final = Description(
    "An agent's threads, by name.",
    {200: Reply("A page of them.", ThreadsAnswer)},
    query=(LIMIT, AFTER),
    tag="threads",
)
DELETE: Final = Description(
    "Erase a thread: its runs are stopped, its messages, runs and log go.",
    {204: EMPTY},
    refuses=(409,),
    tag="threads",
)
MESSAGES: Final = Description(
    "A thread's messages.", {200: Reply("All of them, oldest first.", MessagesAnswer)}, tag="threads"
)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""

    async def agents(request: Request) -> Response:
        return JSONResponse(service.directory.body(known(request).sees))

    async def threads(request: Request) -> Response:
        agent = request.path_params["agent"]
        owner = await owner_of(request, service, agent)
        limit = limit_of(request, service.settings.page_size)
        after = request.query_params.get("after", "")
        found = await service.engine.threads.threads(owner, agent, after=after, limit=limit + 1)
        page: list[JsonValue] = [
            {
                "thread": record.thread,
                "created": timestamp(record.created),
                "updated": timestamp(record.updated),
                **({"title": record.title} if record.title else {}),
            }
            for record in found[:limit]
        ]
        out: dict[str, JsonValue] = {"threads": page}
        if len(found) > limit:
            out["next"] = found[limit - 1].thread
        return JSONResponse(out)

    async def messages(request: Request) -> Response:
        names = request.path_params
        topic = await topic_of(request, service, "read", names["agent"], names["thread"])
        exposure = exposure_of(known(request), service)
        found = await service.engine.threads.messages(topic)
        return JSONResponse(
            {"messages": [visible(service.shown(topic.agent, message), exposure) for message in found]}
        )

    async def delete(request: Request) -> Response:
        names = request.path_params
        topic = await topic_of(request, service, "delete", names["agent"], names["thread"])
        with (
            service.stays.waiting(known(request)),
            anyio.move_on_after(service.settings.wait_timeout) as waiting,
        ):
            await erase_thread(service.engine, topic)
        if waiting.cancelled_caught:
            said = "a run of the thread did not stop in time; ask again"
            raise ProblemError(Problem(409, "thread_busy", said, retry_after_ms=1000))
        return Response(status_code=204)

    return [
        Route("/v1/agents", Endpoint(agents, describe=AGENTS), methods=["GET"]),
        Route("/v1/agents/{agent}/threads", Endpoint(threads, describe=THREADS), methods=["GET"]),
        Route(THREAD, Endpoint(delete, describe=DELETE), methods=["DELETE"]),
        Route(f"{THREAD}/messages", Endpoint(messages, describe=MESSAGES), methods=["GET"]),
    ]


def visible(message: Message, exposure: Exposure = "full") -> dict[str, JsonValue]:
    """Return a message as clients see it: each signature and provider state is `{"bytes": N}`, and of the reasoning what may be seen."""
    out: dict[str, Any] = plain(message)
    if exposure != "full":
        out["content"] = [
            block
            for block in out["content"]
            if block["type"] != "thinking" or (exposure == "summary" and block.get("summary"))
        ]
    for block in out["content"]:
        for name in OPAQUE & block.keys():
            block[name] = {"bytes": len(str(block[name]).encode())}
    return out
