"""Start a run, chat, look at a run, wait for it, steer it, decide its calls, stop it."""

from collections.abc import Iterable
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.content import JsonValue
from agentkit.envelope import timestamp
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, NOW, Topic
from agentkit_server.access import exposure_of, known, topic_of
from agentkit_server.answers import (
    AcceptedAnswer,
    ApprovalAnswer,
    CancelAnswer,
    ChatAnswer,
    RunAnswer,
    RunsAnswer,
    SteerAnswer,
)
from agentkit_server.body import read_json
from agentkit_server.described import AFTER, FEED, IDEMPOTENCY, LIMIT, Description, Parameter, Reply
from agentkit_server.feed import FeedResponse
from agentkit_server.inputs import (
    ApprovalBody,
    CancelBody,
    ChatBody,
    RunBody,
    SteerBody,
    read_input,
    read_text,
)
from agentkit_server.paging import limit_of
from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.service import ENDED, THREAD, RunOrder, Service, failure
from agentkit_transports.backend import Action
from agentkit_transports.encoder import View
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.sse import open_feed

M = TypeVar("M", bound=BaseModel)

MAX_KEY = 256
"""Characters of an idempotency key: a UUID has 36."""

START: Final = Description(
    "Start a run. With `Accept: text/event-stream` the answer is the run's feed itself.",
    {202: Reply("Started, or found by its key.", AcceptedAnswer, headers=("Location",)), 200: FEED},
    RunBody,
    headers=(IDEMPOTENCY,),
    refuses=(409,),
)
LIST: Final = Description(
    "A thread's runs.", {200: Reply("A page of them, oldest first.", RunsAnswer)}, query=(LIMIT, AFTER)
)
SHOW: Final = Description(
    "What is known of a run.",
    {200: Reply("It.", RunAnswer)},
    query=(
        Parameter("wait", "Seconds to wait for its end.", {"type": "integer", "minimum": 0, "maximum": 9999}),
    ),
)
CANCEL: Final = Description(
    "Ask a run to stop.", {202: Reply("Asked.", CancelAnswer)}, CancelBody, is_body_optional=True
)
STEER: Final = Description(
    "Put a message into a run.", {202: Reply("Taken.", SteerAnswer)}, SteerBody, refuses=(409,)
)
APPROVE: Final = Description(
    "Decide a call that waits for a person.", {202: Reply("Taken.", ApprovalAnswer)}, ApprovalBody
)
CHAT: Final = Description(
    "Say something and get the visible text of the answer.",
    {
        200: Reply("The answer.", ChatAnswer),
        202: Reply("It takes longer: look at the run.", AcceptedAnswer),
    },
    ChatBody,
    headers=(IDEMPOTENCY,),
    refuses=(409, 502),
)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""
    rooms = _Runs(service)
    return [
        Route(f"{THREAD}/runs", Endpoint(rooms.start, describe=START), methods=["POST"]),
        Route(f"{THREAD}/runs", Endpoint(rooms.list, describe=LIST), methods=["GET"]),
        Route(f"{THREAD}/runs/{{run}}", Endpoint(rooms.show, describe=SHOW), methods=["GET"]),
        Route(f"{THREAD}/runs/{{run}}/cancel", Endpoint(rooms.cancel, describe=CANCEL), methods=["POST"]),
        Route(f"{THREAD}/runs/{{run}}/steer", Endpoint(rooms.steer, describe=STEER), methods=["POST"]),
        Route(
            f"{THREAD}/runs/{{run}}/approvals/{{approval}}",
            Endpoint(rooms.approve, describe=APPROVE),
            methods=["POST"],
        ),
        Route(f"{THREAD}/chat", Endpoint(rooms.chat, describe=CHAT), methods=["POST"]),
    ]


class _Runs:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def start(self, request: Request) -> Response:
        service, topic = self._service, await self._topic(request, "run")
        body = await self._read(request, RunBody)
        queue = body.on_busy == "queue"
        order = RunOrder(read_input(body.input), body.reasoning, queue, body.metadata, _key(request))
        if not _wants_feed(request):
            started = await service.start(topic, order)
            return _accepted(request, topic, started.run)
        service.stays.demand_room(known(request))
        before = await service.hub.locate(topic, NOW)
        started = await service.start(topic, order)
        run = started.run

        async def leave() -> None:
            if body.on_disconnect == "cancel" and not service.draining:
                await service.cancel(topic, run, "the client left")

        view = View(exposure=exposure_of(known(request), service), run=run)
        feed = await open_feed(
            service.hub,
            topic,
            view,
            before.cursor if started.fresh else EARLIEST,
            given=False,
            has_ended=service.end_of(topic, run),
        )
        if feed is None:  # cannot be: no cursor was given
            return _accepted(request, topic, run)
        response = FeedResponse(feed, on_leave=leave)
        response.headers["Location"] = _run_path(request, topic, run)
        return response

    async def chat(self, request: Request) -> Response:
        service, topic = self._service, await self._topic(request, "run")
        body = await self._read(request, ChatBody)
        said, queue = read_input(body.message, "message"), body.on_busy == "queue"
        order = RunOrder(said, body.reasoning, queue, key=_key(request))
        with service.stays.waiting(known(request)):
            started = await service.start(topic, order)
            record = await service.wait(topic, started.run, service.settings.chat_timeout)
        if record.status not in ENDED:
            return _accepted(request, topic, started.run)
        problem = failure(record)
        if problem is not None:
            raise ProblemError(problem)
        answer: dict[str, JsonValue] = {"text": record.text, "run": record.run}
        if record.refusal is not None:
            answer["refusal"] = record.refusal
        return JSONResponse(answer)

    async def list(self, request: Request) -> Response:
        service, topic = self._service, await self._topic(request, "read")
        limit, after = limit_of(request, service.settings.page_size), request.query_params.get("after", "")
        records = await service.engine.threads.runs(topic, after=after, limit=limit + 1)
        if after and not records and await service.find(topic, after) is None:
            raise ProblemError(Problem(400, "malformed", "after names nothing here", field="after"))
        out: dict[str, JsonValue] = {"runs": [_body(topic, record) for record in records[:limit]]}
        if len(records) > limit:
            out["next"] = records[limit - 1].run
        return JSONResponse(out)

    async def show(self, request: Request) -> Response:
        service, topic, run = self._service, await self._topic(request, "read"), request.path_params["run"]
        seconds = _wait(request, service.settings.wait_timeout)
        record = await service.record(topic, run)
        if seconds and record.status not in ENDED:
            with service.stays.waiting(known(request)):
                record = await service.wait(topic, run, seconds)
        return JSONResponse(_body(topic, record))

    async def cancel(self, request: Request) -> Response:
        topic, run = await self._topic(request, "cancel"), request.path_params["run"]
        await self._service.record(topic, run)  # an unknown run is a 404, whatever the body
        body = CancelBody()
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            body = await self._read(request, CancelBody)
        record = await self._service.cancel(topic, run, body.reason)
        return JSONResponse({"run": record.run, "status": record.status}, 202)

    async def steer(self, request: Request) -> Response:
        topic, run = await self._topic(request, "steer"), request.path_params["run"]
        body = await self._read(request, SteerBody)
        steering = await self._service.steer(topic, run, read_text(body.input))
        return JSONResponse({"run": run, "steering": steering}, 202)

    async def approve(self, request: Request) -> Response:
        topic, run = await self._topic(request, "approve"), request.path_params["run"]
        approval = request.path_params["approval"]
        body = await self._read(request, ApprovalBody)
        await self._service.approve(topic, run, approval, approved=body.approved, reason=body.reason)
        return JSONResponse({"run": run, "approval": approval}, 202)

    async def _topic(self, request: Request, action: Action) -> Topic:
        names = request.path_params
        return await topic_of(request, self._service, action, names["agent"], names["thread"])

    async def _read(self, request: Request, model: type[M]) -> M:
        settings = self._service.settings
        return await read_json(request, model, max_size=settings.body_size, max_depth=settings.json_depth)


def _key(request: Request) -> str:
    """Return the request's idempotency key, "" where it has none.

    Raises:
        ProblemError: 400, it is no key.
    """
    key = request.headers.get("idempotency-key", "")
    if len(key) > MAX_KEY or not key.isascii() or not key.isprintable():
        said = f"should be at most {MAX_KEY} printable ASCII characters"
        raise ProblemError(Problem(400, "malformed", said, field="Idempotency-Key"))
    return key


def _wants_feed(request: Request) -> bool:
    kinds = request.headers.get("accept", "").lower().split(",")
    return any(kind.partition(";")[0].strip() == "text/event-stream" for kind in kinds)


def _wait(request: Request, most: float) -> float:
    values = request.query_params.getlist("wait")
    if not values:
        return 0.0
    text = values[0]
    if len(values) > 1 or not (text.isascii() and text.isdigit() and len(text) < 5):
        raise ProblemError(Problem(400, "malformed", "wait is a whole number of seconds", field="wait"))
    return min(float(text), most)


def _accepted(request: Request, topic: Topic, run: str) -> Response:
    path = _run_path(request, topic, run)
    feed = f"{path.rpartition('/runs/')[0]}/events?" + urlencode({"run": run, "after": "earliest"})
    return JSONResponse({"run": run, "thread": topic.thread, "events": feed}, 202, {"Location": path})


def _run_path(request: Request, topic: Topic, run: str) -> str:
    root = request.scope.get("root_path", "").rstrip("/")
    return f"{quote(root)}/v1/agents/{topic.agent}/threads/{topic.thread}/runs/{run}"


def _body(topic: Topic, record: RunRecord) -> dict[str, JsonValue]:
    """Return what clients see of a run. Absent is omitted."""
    out: dict[str, JsonValue] = {
        "run": record.run,
        "agent": topic.agent,
        "thread": topic.thread,
        "status": record.status,
        "created": timestamp(record.created),
    }
    if record.metadata:
        out["metadata"] = dict(record.metadata)
    if record.ended is None:
        return out
    usage = record.usage
    out |= {
        "ended": timestamp(record.ended),
        "text": record.text,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "total_tokens": usage.total_tokens,
        },
    }
    if record.refusal is not None:
        out["refusal"] = record.refusal
    if record.finish:
        out["finish"] = record.finish
    if record.ended_badly:
        out["message"] = record.message
    if record.status == "failed":
        out |= {"code": record.code, "retryable": record.retryable}
    return out
