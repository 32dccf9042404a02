"""AG-UI: `POST /v1/ag-ui/{agent}` runs an agent for CopilotKit, `HttpAgent` and other clients of the protocol.

A stream that breaks off ends its run, as the protocol has no way back; a client that names its run in `X-Run-Id` (TanStack AI) may come back
with `Last-Event-ID`, by the same POST or a GET. The thread keeps the client's state, in its runs' metadata.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit.approvals import approval_id
from agentkit.content import JsonValue, Message
from agentkit.history import RunRecord, without
from agentkit.log import NOW, Topic
from agentkit.options import RunOptions
from agentkit_server import rewind
from agentkit_server.access import exposure_of, known, topic_of
from agentkit_server.ag_ui_history import snapshot
from agentkit_server.ag_ui_input import (
    Decision,
    RunAgentInput,
    Said,
    Thread,
    read_again,
    read_beside,
    read_decisions,
    read_said,
    read_tools,
)
from agentkit_server.ag_ui_replay import LEFT, by_client, replay, texts
from agentkit_server.body import read_json
from agentkit_server.described import FEED, Description, Parameter, Reply
from agentkit_server.feed import FeedResponse
from agentkit_server.foreign_feed import cancel_on_leave, leave_waiting, start_feed
from agentkit_server.problems import Endpoint, JSONResponse
from agentkit_server.service import ENDED, RunOrder, Service, Started
from agentkit_transports.encoder import View
from agentkit_transports.problem import Problem, ProblemError
from agentkit_transports.sse import open_feed

BUSY_WAIT: Final = 1.0
"""Seconds for a thread's run to end before it counts as busy: who stops an answer and asks again at once does both in one moment."""
MAX_STATE: Final = 256 * 1024
"""Bytes of a client's state, as JSON: every later run of the thread keeps it and gives it back, however little its client sends."""


_LAST: Final = Parameter(
    "Last-Event-ID", "The id of the last frame that came.", {"type": "string", "maxLength": 64}
)
_RUN: Final = Parameter("X-Run-Id", "The client names its run, and may come back to it.")
_AGAIN: Final = Reply("Nothing of the run would follow.", is_empty=True)
RUN: Final = Description(
    "Run an agent for a client of AG-UI, and stream the run's events; or bring what follows Last-Event-ID of one.",
    {200: FEED, 204: _AGAIN},
    body=RunAgentInput,
    headers=[_LAST, _RUN],
    refuses=[409, 410],
    tag="ag-ui",
)
JOIN: Final = Description(
    "Bring an AG-UI client's run again, from its beginning or behind Last-Event-ID.",
    {200: FEED, 204: _AGAIN},
    query=[
        Parameter("threadId", "The thread.", required=True),
        Parameter("runId", "The client's own id of the run.", required=True),
    ],
    headers=[_LAST],
    refuses=[410],
    tag="ag-ui",
)
CAPABILITIES: Final = Description(
    "Say what an agent can do, as AG-UI's AgentCapabilities.", {200: Reply("The capabilities.")}, tag="ag-ui"
)


def routes(service: Service) -> Iterable[Route]:
    """Return this room's routes."""
    rooms = _AGUI(service)
    path = "/v1/ag-ui/{agent}"
    return [
        Route(path, Endpoint(rooms.run, describe=RUN), methods=["POST"]),
        Route(path, Endpoint(rooms.join, describe=JOIN), methods=["GET"]),
        Route(f"{path}/capabilities", Endpoint(rooms.capabilities, describe=CAPABILITIES), methods=["GET"]),
    ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request."""

    request: Request
    topic: Topic
    body: RunAgentInput
    records: Sequence[RunRecord]
    """The thread's runs so far."""
    state: JsonValue
    """The client's, or what the thread has kept of it."""

    @property
    def survives(self) -> bool:
        """True where the client can come back, so that its leaving means nothing."""
        return "x-run-id" in self.request.headers


class _AGUI:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def run(self, request: Request) -> Response:
        settings = self._service.settings
        body = await read_json(
            request, RunAgentInput, max_size=settings.history_size, max_depth=settings.json_depth
        )
        topic = await topic_of(request, self._service, "run", request.path_params["agent"], body.thread_id)
        records = await self._service.engine.threads.runs(topic)
        asked = _Asked(request, topic, body, records, _state(body, records))
        if asked.survives or "last-event-id" in request.headers:
            again = by_client(records, body.run_id)
            if again is not None:
                await topic_of(request, self._service, "read", topic.agent, topic.thread)
                return await replay(self._service, request, topic, again)
            if "last-event-id" in request.headers:
                raise ProblemError(Problem(404, "not_found", "no such run on this thread", field="runId"))
        if body.resume:
            return await self._go_on(asked, read_decisions(body))
        return await self._begin(asked)

    async def join(self, request: Request) -> Response:
        """Replay a run, or what follows `Last-Event-ID` of it."""
        query = request.query_params
        thread, run = query.get("threadId", ""), query.get("runId", "")
        if not thread or not run:
            raise ProblemError(Problem(400, "malformed", "threadId and runId are needed", field="runId"))
        topic = await topic_of(request, self._service, "read", request.path_params["agent"], thread)
        record = by_client(await self._service.engine.threads.runs(topic), run)
        if record is None:
            raise ProblemError(Problem(404, "not_found", "no such run on this thread", field="runId"))
        return await replay(self._service, request, topic, record)

    # a new run

    async def _begin(self, asked: _Asked) -> Response:
        service, topic, body = self._service, asked.topic, asked.body
        messages = await service.engine.threads.messages(topic)
        standing = rewind.standing(asked.records)
        said = read_said(body, _thread(messages, standing))
        if not said.input:
            if body.messages or not messages:
                raise ProblemError(
                    Problem(422, "invalid", "messages: no message of the user to answer", field="messages")
                )
            await topic_of(asked.request, service, "read", topic.agent, topic.thread)
            return self._show(asked, messages)
        await leave_waiting(asked.request, service, topic, asked.records)
        order = self._order(asked, said, messages)
        view = self._view(asked)

        async def leave(started: Started) -> None:
            await self._leave(asked, started)

        try:
            _, response = await start_feed(service, topic, order, view, on_leave=leave)
        except ProblemError as error:
            if error.problem.status != 409 or not await self._is_free(topic):
                raise
            _, response = await start_feed(service, topic, replace(order, queue=True), view, on_leave=leave)
        return response

    def _show(self, asked: _Asked, messages: Sequence[Message]) -> Response:
        """Answer a client that comes without messages: with those of the thread."""
        last = asked.records[-1] if asked.records else None
        waiting = last if last is not None and last.status == "suspended" else None
        view = self._view(asked)
        kept = without(messages, rewind.taken_back(asked.records))
        shown = [self._service.shown(asked.topic.agent, message) for message in kept]
        questions = _questions(asked.records, kept)
        body = snapshot(shown, waiting, dict(view.options), asked.topic.thread, view.exposure, questions)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Response(body, media_type="text/event-stream", headers=headers)

    def _order(self, asked: _Asked, said: Said, messages: Sequence[Message]) -> RunOrder:
        body, given = asked.body, said.input
        words: dict[str, JsonValue] = {**dict(_words(asked))}
        if said.context:
            words["context"] = said.context
        metadata: dict[str, JsonValue] = {LEFT: words}
        if asked.state is not None:
            metadata["state"] = asked.state
        if body.context:
            metadata["context"] = [part.model_dump() for part in body.context]
        if body.forwarded_props not in (None, {}):
            metadata["forwarded_props"] = body.forwarded_props
        if said.last:
            metadata[rewind.MESSAGE] = said.last
        replaces = rewind.answered_by(asked.records, said.last) if said.is_again else ""
        if replaces:
            metadata[rewind.REPLACES] = replaces
            given = read_again(said, rewind.question_of(messages, replaces))
        options = self._options(asked)
        if gone := rewind.taken_back(asked.records, replaces):
            options["taken_back"] = gone
        return RunOrder(list(given), metadata=metadata, options=options)

    def _options(self, asked: _Asked) -> RunOptions:
        """Return what the client may say of a run: its own tools. A call that needs a person ends the stream."""
        options = RunOptions(on_approval="suspend")
        if tools := read_tools(asked.body):
            options["client_tools"] = tools
        return options

    async def _is_free(self, topic: Topic) -> bool:
        """Wait a moment for the thread's run to end."""
        holder = await self._service.engine.leases.holder(topic)
        if holder is None:
            return True
        return (await self._service.wait(topic, holder, BUSY_WAIT)).status in ENDED

    async def _leave(self, asked: _Asked, started: Started) -> None:
        """Stop a run whose client has left; not one that waits for it, nor one to which it can come back."""
        if asked.survives:
            return
        record = await self._service.record(asked.topic, started.run)
        if record.status != "suspended":
            await cancel_on_leave(self._service, asked.topic, started)

    # a run that waits for a person

    async def _go_on(self, asked: _Asked, decisions: Sequence[Decision]) -> Response:
        service, topic = self._service, asked.topic
        await topic_of(asked.request, service, "approve", topic.agent, topic.thread)
        record = await service.record(topic, decisions[0].approval.partition(".")[0])
        if record.status != "suspended":
            raise ProblemError(Problem(409, "not_suspended", f"the run is {record.status}", field="resume"))
        wanted = {approval_id(record.run, record.step, use.id) for use in record.pending}
        wanted -= record.decisions.keys()
        if wanted != {one.approval for one in decisions}:
            wish = f"resume: should answer exactly {', '.join(sorted(wanted)) or 'nothing'}"
            raise ProblemError(Problem(422, "invalid", wish, field="resume"))
        options = self._options(asked)
        messages = await service.engine.threads.messages(topic)
        said = read_said(asked.body, _thread(messages, rewind.standing(asked.records)))
        results, steering = read_beside(said)
        if steering:
            await topic_of(asked.request, service, "steer", topic.agent, topic.thread)
        if not await service.engine.threads.swap_run(topic, record, _renewed(record, asked.state, said)):
            raise ProblemError(Problem(409, "not_suspended", "somebody else has decided", field="resume"))
        if results:
            await service.engine.threads.extend(topic, [Message("tool", results, run=record.run)])
        before = await service.hub.locate(topic, NOW)
        for one in decisions:
            await service.approve(
                topic,
                record.run,
                one.approval,
                approved=one.approved,
                reason=one.reason,
                options=options,
                steering=steering,
            )
        view = replace(self._view(asked), run=record.run)

        async def leave() -> None:
            await self._leave(asked, Started(record.run, fresh=False))

        feed = await open_feed(
            service.hub,
            topic,
            view,
            before.cursor,
            given=False,
            has_ended=service.end_of(topic, record.run),
        )
        assert feed is not None  # no cursor was given
        return FeedResponse(feed, on_leave=leave)

    def _view(self, asked: _Asked) -> View:
        options = dict(_words(asked))
        if asked.state is not None:
            options["state"] = json.dumps(asked.state)
        exposure = exposure_of(known(asked.request), self._service)
        return View("ag_ui", tuple(sorted(options.items())), exposure, beside=True)

    async def capabilities(self, request: Request) -> Response:
        service = self._service
        agent = request.path_params["agent"]
        await topic_of(request, service, "read", agent, "main")
        entry = service.entry(agent)
        reasoning = exposure_of(known(request), service) != "none"
        identity: dict[str, JsonValue] = {"name": entry.name, "type": "agentkit"}
        if entry.description:
            identity["description"] = entry.description
        said: dict[str, JsonValue] = {
            "identity": identity,
            "transport": {"streaming": True, "websocket": False, "httpBinary": False, "resumable": True},
            "tools": {"supported": True, "parallelCalls": True, "clientProvided": True},
            "state": {"snapshots": True, "memory": True, "persistentState": True},
            "reasoning": {"supported": reasoning, "streaming": reasoning},
            "multimodal": {"input": {"image": True, "pdf": True, "audio": False, "video": False}},
            "humanInTheLoop": {"supported": True, "approvals": True, "interrupts": True},
        }
        return JSONResponse(said)


def _words(asked: _Asked) -> tuple[tuple[str, str], ...]:
    """Return what the client said of its run, as its stream and a later replay need it."""
    body = asked.body
    words = {"run": body.run_id, "version": body.protocol_version or "", "parent": body.parent_run_id or ""}
    return tuple((name, value) for name, value in words.items() if value)


def _renewed(record: RunRecord, state: JsonValue, said: Said) -> RunRecord:
    """Return what is kept of a run that goes on: its tools find the client's new state where they found the one before."""
    metadata = dict(record.metadata)
    if state is not None:
        metadata["state"] = state
    if said.last:
        metadata[rewind.MESSAGE] = said.last
    return replace(record, metadata=metadata)


def _thread(messages: Sequence[Message], standing: Sequence[RunRecord]) -> Thread:
    def latest(values: Iterable[JsonValue]) -> str:
        return next((value for value in values if isinstance(value, str) and value), "")

    def words(record: RunRecord) -> Mapping[str, str]:
        return dict(texts(record.metadata.get(LEFT)))

    last = latest(record.metadata.get(rewind.MESSAGE) for record in reversed(standing))
    context = latest(words(record).get("context") for record in reversed(standing))
    return Thread(messages, last, context, set(_questions(standing, ()).values()))


def _questions(records: Sequence[RunRecord], messages: Sequence[Message]) -> dict[str, str]:
    """Return the client's id of the message that each standing run answers; under "" also of the latest, if no message is of it."""
    out: dict[str, str] = {}
    for record in rewind.standing(records):
        if isinstance(named := record.metadata.get(rewind.MESSAGE), str):
            out[record.run] = named
    last = records[-1].run if records else ""
    if last in out and not any(message.run == last for message in messages):
        out[""] = out[last]
    return out


def _state(body: RunAgentInput, records: Sequence[RunRecord]) -> JsonValue:
    """Return the client's state; {} is what a client sends that has none yet, and gets back what the thread kept.

    Raises:
        ProblemError: 422, it is too large.
    """
    if body.state not in (None, {}):
        if len(json.dumps(body.state)) > MAX_STATE:
            said = f"state: should be at most {MAX_STATE} bytes of JSON"
            raise ProblemError(Problem(422, "invalid", said, field="state"))
        return body.state
    return next((one.metadata["state"] for one in reversed(records) if "state" in one.metadata), None)
