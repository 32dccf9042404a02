"""`/v1/chat/completions` and `/v1/models`: agents as models, for every client of OpenAI's.

A request is a conversation of its own: the history is what the client sends, and nothing of it stays here. With a thread (header
`X-Thread-Id`, or `metadata.thread`) the thread's history counts, and of the messages what follows the client's last answer. A client that
leaves stops its run. Reasoning comes as `reasoning_content`. Errors have OpenAI's shape.
"""

import re
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.content import JsonValue
from agentkit.errors import AgentKitError, quote
from agentkit.log import NOW, Record, Topic
from agentkit_server.access import exposure_of, known, topic_of
from agentkit_server.answers import OpenObject
from agentkit_server.body import read_json
from agentkit_server.described import Description, Parameter, Reply
from agentkit_server.directory import Entry
from agentkit_server.foreign_feed import cancel_on_leave, read_run, start_feed
from agentkit_server.openai_request import ChatRequest, check_request, order_of, thread_of
from agentkit_server.problems import Endpoint, JSONResponse, problem_of, response_of
from agentkit_server.service import RunOrder, Service, Started
from agentkit_transports.asgi import Scope
from agentkit_transports.encoder import View
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.protocols.openai_chat import Completion, Fold, State, error_of

HEADER: Final = "x-thread-id"
_THEIRS: Final = re.compile(
    r"/v1/(chat/completions|models|responses|conversations|completions|embeddings|moderations|assistants|threads|batches|files|images|audio)(/.*)?",
    re.DOTALL,
)
"""Where OpenAI's clients ask."""
_KINDS: Final[dict[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}

COMPLETE: Final = Description(
    "A chat completion in OpenAI's shape; streamed where the body says so.",
    {200: Reply("The completion, or its stream.", OpenObject)},
    ChatRequest,
    headers=(
        Parameter("X-Thread-Id", "The thread whose history counts.", {"type": "string", "maxLength": 128}),
    ),
    refuses=(409, 502),
    tag="openai",
    problem=OpenObject,
)
MODELS: Final = Description(
    "The agents as models.",
    {200: Reply("All that you may use.", OpenObject)},
    tag="openai",
    problem=OpenObject,
)
MODEL: Final = Description(
    "One agent as a model.", {200: Reply("It.", OpenObject)}, tag="openai", problem=OpenObject
)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""
    rooms = _Rooms(service)
    return [
        Route(
            "/v1/chat/completions",
            Endpoint(rooms.complete, refuse=refused, describe=COMPLETE),
            methods=["POST"],
        ),
        Route("/v1/models", Endpoint(rooms.models, refuse=refused, describe=MODELS), methods=["GET"]),
        Route(
            "/v1/models/{model:path}", Endpoint(rooms.model, refuse=refused, describe=MODEL), methods=["GET"]
        ),
    ]


class _Rooms:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._created = int(time.time())

    async def complete(self, request: Request) -> Response:
        settings = self._service.settings
        body = await read_json(
            request, ChatRequest, max_size=settings.history_size, max_depth=settings.json_depth
        )
        check_request(body)
        thread = thread_of(body, request.headers.get(HEADER, ""))
        service, topic = await self._place(request, body.model, thread)
        history = await service.engine.threads.messages(topic) if thread else []
        order = order_of(body, history)
        exposure = exposure_of(known(request), service)
        if not body.stream:
            with service.stays.waiting(known(request)):
                return await _whole(request, service, topic, order, View(exposure=exposure))
        usage = body.stream_options is not None and body.stream_options.include_usage
        view = View("openai_chat", (("usage", "1"),) if usage else (), exposure)

        async def leave(started: Started) -> None:
            await cancel_on_leave(service, topic, started)

        started, response = await start_feed(service, topic, order, view, on_leave=leave, refuse=refused)
        response.headers["x-run-id"] = started.run
        return response

    async def _place(self, request: Request, model: str, thread: str) -> tuple[Service, Topic]:
        """Return where the run goes: its thread, or a place of its own that is gone with it."""
        service = self._service
        entry = service.directory.find(model)
        if entry is None or not known(request).sees(model):
            raise _no_model(model)
        topic = await topic_of(request, service, "run", model, thread or "completion")
        return (service if thread else service.fleeting()), topic

    async def models(self, request: Request) -> Response:
        data: list[JsonValue] = [self._model(entry) for entry in self._seen(request)]
        return JSONResponse({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        for entry in self._seen(request):
            if entry.name == name:
                return JSONResponse(self._model(entry))
        raise _no_model(name)

    def _seen(self, request: Request) -> list[Entry]:
        """Return the agents that can be used now, by whoever asks."""
        sees, directory = known(request).sees, self._service.directory
        directory.find("")  # it looks for those that have come meanwhile
        return [entry for entry in directory if entry.available and sees(entry.name)]

    def _model(self, entry: Entry) -> dict[str, JsonValue]:
        out: dict[str, JsonValue] = {
            "id": entry.name,
            "object": "model",
            "created": self._created,
            "owned_by": "agentkit",
        }
        if entry.description:
            out["description"] = entry.description
        return out


async def _whole(request: Request, service: Service, topic: Topic, order: RunOrder, view: View) -> Response:
    """Run to the end, and answer with one object. A client that leaves stops the run."""
    before = await service.hub.locate(topic, NOW)
    started = await service.start(topic, order)
    completion, fold, state = Completion(), Fold(topic.agent, with_usage=True), State()
    failure: AgentKitError | None = None

    def take(record: Record) -> bool:
        nonlocal state
        if record.run == started.run and view.admits(record):
            state, payloads = fold.step(state, record)
            for payload in payloads:
                completion.add(payload)
        return state.is_over

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_gone, request, group.cancel_scope)
            try:
                await read_run(service, topic, before.cursor, take)
            except AgentKitError as error:  # raised outside of the group, which would wrap it
                failure = error
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await cancel_on_leave(service, topic, started)
    if failure is not None:
        raise failure
    if not state.is_over:
        raise ClientDisconnect
    headers = {"x-run-id": started.run}
    if completion.error is None:
        return JSONResponse(completion.body(), 200, headers)
    record = await service.record(topic, started.run)
    status = 502 if record.code.startswith("model") else 500 if record.status == "failed" else 503
    if completion.error["code"] == "approval_required":
        status = 400
    headers["x-should-retry"] = (
        "true" if record.retryable else "false"
    )  # `openai` asks again at any 5xx otherwise
    return JSONResponse({"error": completion.error}, status, headers)


async def _cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    """Cancel a scope once the client has left: its body was read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def refused(error: Exception, scope: Scope) -> Response:
    """Return the answer for an error in OpenAI's shape. A request that does not fit is a 400 there, never a 422."""
    problem, base = problem_of(error), response_of(error, scope)
    status = 400 if problem.status == 422 else problem.status
    kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    headers = {
        name: base.headers[name] for name in ("retry-after", "www-authenticate") if name in base.headers
    }
    body = error_of(problem.detail or HTTPStatus(status).phrase, kind, problem.code, problem.field or None)
    return JSONResponse(body, status, headers)


def not_here(error: Exception, scope: Scope) -> Response | None:
    """Return the answer for a path or method of OpenAI's that is not served: its clients show no other shape. None for other errors."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if not isinstance(error, HTTPException) or not _THEIRS.fullmatch(path):
        return None
    said = (
        f"{scope['method']} {quote(path)} is not served here; ask POST /v1/chat/completions or GET /v1/models"
    )
    return refused(ProblemError(Problem(error.status_code, problem_of(error).code, said)), scope)


def _no_model(name: str) -> ProblemError:
    return ProblemError(Problem(404, "model_not_found", f"there is no model {quote(name)}", field="model"))
