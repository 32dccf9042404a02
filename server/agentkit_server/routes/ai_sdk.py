"""The AI SDK's chat transport: `useChat` and `DefaultChatTransport` talk to an agent without glue.

A chat is a thread, a run is an assistant message of the run's id. A client that leaves stops nothing: it comes back to `…/stream`, which
replays the message that is being made, or it asks `…/stop`. What a client sends back is not trusted (see `ui_messages`).
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.approvals import approval_id
from agentkit.content import Block, JsonValue, Message, ToolUseBlock
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, NOW, Cursor, Record, Topic
from agentkit.options import RunOptions
from agentkit.repair import open_calls
from agentkit_server import rewind
from agentkit_server.access import exposure_of, known, topic_of
from agentkit_server.answers import OpenObject
from agentkit_server.body import read_json
from agentkit_server.described import FEED, Description, Reply
from agentkit_server.feed import FeedResponse
from agentkit_server.foreign_feed import leave_waiting, run_feed, start_feed
from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.run_end import PAGE
from agentkit_server.service import ENDED, RunOrder, Service
from agentkit_server.ui_history import ui_messages
from agentkit_server.ui_messages import (
    Answer,
    ChatRequest,
    StopRequest,
    UIMessage,
    answers,
    older,
    read_messages,
    results,
    said,
)
from agentkit_transports.encoder import View
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.protocols.ai_sdk import HEADERS, nothing_yet

CHAT: Final = "/v1/ai-sdk/{agent}"
"""Path of an agent's chats, as routes write it."""
REGENERATE: Final = "regenerate-message"

SEND: Final = Description(
    "Say something in a chat of the AI SDK, and get its stream.",
    {200: FEED},
    ChatRequest,
    refuses=(409,),
    tag="ai-sdk",
)
SHOW: Final = Description(
    "A chat's messages, as the AI SDK keeps them.", {200: Reply("All of them.", OpenObject)}, tag="ai-sdk"
)
RESUME: Final = Description(
    "The message that is being made, from its beginning.",
    {200: FEED, 204: Reply("None is.", is_empty=True)},
    tag="ai-sdk",
)
STOP: Final = Description(
    "Stop the message that is being made.",
    {200: Reply("Whether it was, and which run.", OpenObject)},
    StopRequest,
    is_body_optional=True,
    tag="ai-sdk",
)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""
    rooms = _Chats(service)
    return [
        Route(CHAT, Endpoint(rooms.send, describe=SEND), methods=["POST"]),
        Route(f"{CHAT}/{{chat}}", Endpoint(rooms.show, describe=SHOW), methods=["GET"]),
        Route(f"{CHAT}/{{chat}}/stream", Endpoint(rooms.resume, describe=RESUME), methods=["GET"]),
        Route(f"{CHAT}/{{chat}}/stop", Endpoint(rooms.stop, describe=STOP), methods=["POST"]),
    ]


class _Chats:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def send(self, request: Request) -> Response:
        """Start a run for what the user said, or go on with one that waits for the client."""
        service = self._service
        settings = service.settings
        # A client sends back whatever tools gave, some levels deeper; what is not read is not sent on.
        depth = 2 * settings.json_depth
        body = await read_json(request, ChatRequest, max_size=settings.history_size, max_depth=depth)
        given = read_messages(body)
        topic = await topic_of(request, service, "run", request.path_params["agent"], body.id)
        records = await service.engine.threads.runs(topic)
        last = given[-1] if given else None
        if last is not None and last.role == "assistant" and body.trigger != REGENERATE:
            return await self._go_on(request, topic, last, records)
        order = await self._order(topic, body, given, records)
        await leave_waiting(request, service, topic, records)
        return await self._start(topic, order, self._view(request))

    async def show(self, request: Request) -> Response:
        """Return a chat's messages as a page shows them, but for the one that is being made."""
        service, names = self._service, request.path_params
        topic = await topic_of(request, service, "read", names["agent"], names["chat"])
        records = await service.engine.threads.runs(topic)
        messages = await service.engine.threads.messages(topic)
        active = _active(records)
        shown = ui_messages(
            [service.shown(topic.agent, message) for message in messages],
            records,
            exposure_of(known(request), service),
            leave_out=active.run if active is not None else "",
        )
        return JSONResponse({"id": topic.thread, "messages": [*shown]})

    async def resume(self, request: Request) -> Response:
        """Replay the message that is being made, and follow it; 204 where none is."""
        service, names = self._service, request.path_params
        topic = await topic_of(request, service, "read", names["agent"], names["chat"])
        record = _active(await service.engine.threads.runs(topic))
        if record is None:
            return Response(status_code=204)
        options: dict[str, str] = {}
        if record.step:  # it has waited for a person
            options["pauses"] = str(await self._pauses(topic, record.run))
        if message := _message_of(record):
            options["message"] = message
        return _headed(await run_feed(service, topic, record.run, self._view(request, **options)))

    async def stop(self, request: Request) -> Response:
        """Stop the message that is being made; one that the client does not mean is left alone."""
        service, names = self._service, request.path_params
        topic = await topic_of(request, service, "cancel", names["agent"], names["chat"])
        body = StopRequest()
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            settings = service.settings
            body = await read_json(
                request, StopRequest, max_size=settings.body_size, max_depth=settings.json_depth
            )
        record = _active(await service.engine.threads.runs(topic))
        if record is None or body.activeStreamId not in (None, record.run):
            return JSONResponse({"stopped": False})
        await service.cancel(topic, record.run)
        return JSONResponse({"stopped": True, "run": record.run})

    # a new message

    async def _order(
        self, topic: Topic, body: ChatRequest, given: Sequence[UIMessage], records: Sequence[RunRecord]
    ) -> RunOrder:
        """Return the run that a message asks for: what the user says now, and the thread's own history before it."""
        metadata: dict[str, JsonValue] = {}
        replaces = self._replaced(body, records)
        last = given[-1] if given else None
        messages = await self._service.engine.threads.messages(topic)
        input_: list[Block] | list[Message] = []
        if body.trigger == REGENERATE and replaces:
            input_ = list(rewind.question_of(messages, replaces))
        if not input_ and last is not None and last.role == "user":
            input_ = said(last)
            if not messages:
                input_ = [*older(given[:-1]), Message.user(input_)]
        if not input_:
            field = last.field if last is not None else "messages"
            raise _invalid(field, "there is no message of the user to answer")
        if last is not None and last.role == "user" and last.id:
            metadata[rewind.MESSAGE] = last.id
        if replaces:
            metadata[rewind.REPLACES] = replaces
        return RunOrder(input_, body.reasoning, metadata=metadata, options=self._options(records, replaces))

    def _replaced(self, body: ChatRequest, records: Sequence[RunRecord]) -> str:
        """Return the run whose place the new one takes: an answer that is made again, or that of a message which was edited."""
        kept = [record.run for record in rewind.standing(records)]
        named = body.messageId or ""
        if body.trigger == REGENERATE and not named and kept:
            return kept[-1]
        return named if named in kept else rewind.answered_by(records, named) if named else ""

    def _options(self, records: Sequence[RunRecord], replaces: str = "") -> RunOptions:
        options = RunOptions()
        if self._service.settings.ai_sdk >= 6:
            options["on_approval"] = "suspend"  # the client answers by its next request: this one has to end
        if gone := rewind.taken_back(records, replaces):
            options["taken_back"] = gone
        return options

    async def _start(self, topic: Topic, order: RunOrder, view: View) -> Response:
        """Start a run. One that has told its end, and has not let go of the thread yet, is waited for: clients answer at once."""
        try:
            _, response = await start_feed(self._service, topic, order, view)
        except ProblemError as error:
            if error.problem.status != 409 or await self._is_at_work(topic):
                raise
            _, response = await start_feed(self._service, topic, replace(order, queue=True), view)
        return _headed(response)

    async def _is_at_work(self, topic: Topic) -> bool:
        holder = await self._service.engine.leases.holder(topic)
        record = await self._service.engine.threads.get_run(topic, holder) if holder else None
        return record is not None and record.status == "running"

    # a run that waits for the client

    async def _go_on(
        self, request: Request, topic: Topic, last: UIMessage, records: Sequence[RunRecord]
    ) -> Response:
        """Take a person's decisions, or results of the client's own tools."""
        latest = records[-1] if records else None
        if latest is not None and latest.status == "suspended":
            decided = [one for one in answers(last) if one.approval in _asked(latest)]
            if decided:
                return await self._decide(request, topic, latest, decided)
        if latest is not None and latest.status == "finished":
            calls = await self._open_calls(topic, latest.run)
            given = results(last, latest.run, calls)
            if calls and len(given) == len(calls):
                message = _message_of(latest) or latest.run
                order = RunOrder(
                    list(given),
                    metadata={rewind.CONTINUES: message},
                    key=f"ai-sdk: results for {latest.run}",  # two tabs may answer in one moment
                    options=self._options(records),
                )
                return await self._start(topic, order, self._view(request, message=message))
        if (following := _gone_on(last, records)) is not None:
            await topic_of(request, self._service, "read", topic.agent, topic.thread)
            view = self._view(request, message=last.id)
            return _headed(await run_feed(self._service, topic, following.run, view))
        if latest is not None:
            late = {one.approval for one in answers(last) if one.approval.startswith(f"{latest.run}.")}
            if late:
                return await self._catch_up(request, topic, latest, late)
        raise _invalid(last.field, "the last message must be the user's, or answer what the run waits for")

    async def _decide(
        self, request: Request, topic: Topic, record: RunRecord, decided: Sequence[Answer]
    ) -> Response:
        """Tell decisions to a run that waits; it goes on with the last of them."""
        service, options = self._service, self._options(await self._service.engine.threads.runs(topic))
        await topic_of(request, service, "approve", topic.agent, topic.thread)
        pauses = await self._pauses(topic, record.run)
        before = await service.hub.locate(topic, NOW)
        for one in decided:
            await service.approve(
                topic, record.run, one.approval, approved=one.approved, reason=one.reason, options=options
            )
        now = await service.record(topic, record.run)
        if not _asked(now) <= now.decisions.keys():
            return Response(nothing_yet(record.run), media_type="text/event-stream", headers=dict(HEADERS))
        view = self._view(request, pauses=str(pauses + 1), again="1")
        return _headed(await run_feed(service, topic, record.run, view, before.cursor))

    async def _catch_up(
        self, request: Request, topic: Topic, record: RunRecord, late: Collection[str]
    ) -> Response:
        """Tell what has become of a run since it asked: another tab has decided before.

        Raises:
            ProblemError: 409, it did not go on. A stream that says nothing would have the client ask again, and again.
        """
        service = self._service
        await topic_of(request, service, "read", topic.agent, topic.thread)
        asked_at, pauses = await self._asked_at(topic, record.run, late)
        if not 0 < pauses <= await self._pauses(topic, record.run):
            raise ProblemError(Problem(409, "not_suspended", f"the run is {record.status}"))
        options = {"pauses": str(pauses), "again": "1"}
        if message := _message_of(record):
            options["message"] = message
        return _headed(await run_feed(service, topic, record.run, self._view(request, **options), asked_at))

    async def _asked_at(self, topic: Topic, run: str, approvals: Collection[str]) -> tuple[Cursor, int]:
        """Return where a run began to wait for one of some approvals, and how often it had by then; 0 where nothing tells it."""
        cursor, pauses, is_asked = EARLIEST, 0, False
        while True:
            page = await self._service.engine.log.read(topic, cursor, PAGE)
            for one in page.records:
                if one.run == run and one.type == "tool_approval.requested":
                    is_asked |= _approval_of(one) in approvals
                elif one.run == run and one.type == "run.suspended":
                    pauses += 1
                    if is_asked:
                        return Cursor(one.epoch, one.seq), pauses
            if not page.records:
                return cursor, 0
            cursor = page.cursor

    async def _open_calls(self, topic: Topic, run: str) -> list[ToolUseBlock]:
        messages = await self._service.engine.threads.messages(topic)
        turn = next((one for one in reversed(messages) if one.tool_uses), None)
        return open_calls(turn.tool_uses, messages) if turn is not None and turn.run == run else []

    async def _pauses(self, topic: Topic, run: str) -> int:
        """Return how often a run has waited for a person and gone on."""
        cursor, count = EARLIEST, 0
        while True:
            page = await self._service.engine.log.read(topic, cursor, PAGE)
            count += sum(one.type == "run.resumed" and one.run == run for one in page.records)
            if not page.records:
                return count
            cursor = page.cursor

    def _view(self, request: Request, **options: str) -> View:
        options["sdk"] = str(self._service.settings.ai_sdk)
        exposure = exposure_of(known(request), self._service)
        return View("ai_sdk", tuple(sorted(options.items())), exposure, beside=True)


def _message_of(record: RunRecord) -> str:
    message = record.metadata.get(rewind.CONTINUES)
    return message if isinstance(message, str) else ""


def _gone_on(last: UIMessage, records: Sequence[RunRecord]) -> RunRecord | None:
    """Return the run that goes on with a client's message already: another tab has given the results that this one brings."""
    if len(records) < 2 or records[-1].metadata.get(rewind.CONTINUES) != last.id:
        return None
    before, latest = f"{records[-2].run}.", f"{records[-1].run}."
    calls = [(str(part.get("toolCallId")), part.get("state")) for part in last.parts]
    has_answered = any(
        call.startswith(before) and state in ("output-available", "output-error") for call, state in calls
    )
    knows = any(call.startswith(latest) for call, _ in calls)
    return records[-1] if has_answered and not knows else None


def _approval_of(record: Record) -> JsonValue:
    """Return the approval that a record asks for."""
    data: JsonValue = json.loads(record.body).get("data")
    return data.get("approval") if isinstance(data, dict) else None


def _asked(record: RunRecord) -> set[str]:
    """Return the approvals for which a run waits."""
    return {approval_id(record.run, record.step, use.id) for use in record.pending}


def _active(records: Sequence[RunRecord]) -> RunRecord | None:
    """Return the run that is at work; else the latest, if it waits."""
    going = [one for one in records if one.status == "running"]
    if going:
        return going[0]
    waiting = [one for one in records if one.status not in ENDED]
    return waiting[-1] if waiting and waiting[-1] is records[-1] else None


def _headed(response: FeedResponse) -> FeedResponse:
    response.headers.update(HEADERS)
    return response


def _invalid(field: str, detail: str) -> ProblemError:
    return ProblemError(Problem(422, "invalid", f"{field}: {detail}", field=field))
