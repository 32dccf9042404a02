"""`/v1/ag-ui/{agent}` over HTTP: what becomes of an input, and what the model is asked."""

from collections.abc import Sequence
from typing import Any

import anyio
import httpx2
import pytest
from asgi import client
from checkers.ag_ui import Watcher, frames_of

from agentkit import Agent, ToolContext, tool
from agentkit.content import JsonValue, Message, TextBlock, ToolResultBlock
from agentkit.redaction import RedactWords
from agentkit.testing import Call, Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Step
from agentkit_server import Application, Settings, create_app
from agentkit_server.routes import ag_ui

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

SEEN: list[JsonValue] = []
LOCATE: Json = {"name": "locate", "description": "Say where the user is.", "parameters": {"type": "object"}}


@tool(requires_approval=True)
def risk(context: ToolContext) -> str:
    """Risk."""
    SEEN.append(dict(context.metadata))
    return "risked"


def make_app(*steps: Step, tools: Sequence[Any] = (), **settings: Any) -> tuple[Application, ScriptedModel]:
    model = ScriptedModel(*steps)
    app = create_app(
        [Agent("a", model=model, tools=tools, system="You plan.")], settings=Settings(**settings)
    )
    return app, model


def body(*said: str, run: str = "c1", **more: Any) -> Json:
    messages = [{"id": f"{run}.{n}", "role": "user", "content": text} for n, text in enumerate(said)]
    return {"threadId": "t1", "runId": run, "messages": messages, "tools": [], "context": [], **more}


async def ask(http: httpx2.AsyncClient, given: Json, *, watcher: Watcher | None = None) -> list[Json]:
    with anyio.fail_after(20):
        answer = await http.post("/v1/ag-ui/a", json=given)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [event for _, event in frames_of(answer.content)]
    if watcher is not None:
        watcher.watch(events, run=given["runId"], thread="t1")
    return events


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


async def history(app: Application) -> list[Message]:
    return await app.service.engine.threads.messages(app.service.topic("a", "t1"))


async def test_an_answer_is_streamed_and_kept() -> None:
    app, model = make_app([Think("hm"), Say("hello")])
    async with client(app) as http:
        events = await ask(http, body("hi", protocolVersion="1.0"), watcher=Watcher())
    kept = await history(app)
    await app.aclose()

    assert types(events) == [
        "RUN_STARTED", "STEP_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END", "REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "STEP_FINISHED", "RUN_FINISHED",
    ]  # fmt: skip
    assert [message.text for message in kept] == ["hi", "hello"]
    assert model.requests[0].system == "You plan."


async def test_a_persons_answer_comes_with_the_next_input() -> None:
    SEEN.clear()
    app, model = make_app([Say("I ask."), Call("risk", id="c")], "done", tools=[risk])
    watcher = Watcher()
    async with client(app) as http:
        first = await ask(http, body("go", protocolVersion="1.0", state={"n": 1}), watcher=watcher)
        [asked] = first[-1]["outcome"]["interrupts"]
        answer = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
        second = await ask(
            http, body(run="c2", protocolVersion="1.0", resume=[answer], state={"n": 2}), watcher=watcher
        )
        late = await http.post("/v1/ag-ui/a", json=body(run="c3", resume=[answer]))
    await app.aclose()

    assert asked["toolCallId"] in watcher.arguments
    assert (asked["reason"], asked["responseSchema"]["required"]) == ("tool_call", ["approved"])
    assert watcher.results == {asked["toolCallId"]: "risked"}
    assert second[1] == {**second[1], "type": "STATE_SNAPSHOT", "snapshot": {"n": 2}}
    assert second[-1]["outcome"] == {"type": "success"}
    assert [one["state"] for one in SEEN if isinstance(one, dict)] == [{"n": 2}]
    assert len(model.requests) == 2
    assert (late.status_code, late.json()["code"]) == (409, "not_suspended")


async def test_a_denied_call_is_told_to_the_model() -> None:
    app, model = make_app([Call("risk", id="c")], "then not", tools=[risk])
    watcher = Watcher(version="")
    async with client(app) as http:
        first = await ask(http, body("go"), watcher=watcher)
        [asked] = [one["value"] for one in first if one.get("name") == "tool_approval.requested"]
        answer = {"interruptId": asked["approval"], "status": "cancelled"}
        second = await ask(http, body(run="c2", resume=[answer]), watcher=watcher)
    await app.aclose()

    assert "outcome" not in first[-1]
    assert asked["toolCallId"] in watcher.arguments
    assert second[-1]["type"] == "RUN_FINISHED"
    [result] = model.requests[1].messages[-1].content
    assert isinstance(result, ToolResultBlock)
    assert (result.status, "did not answer" in result.text) == ("denied", True)


async def test_who_says_something_instead_of_an_answer_is_heard() -> None:
    app, model = make_app([Call("risk", id="c")], "as you like", tools=[risk])
    watcher = Watcher()
    async with client(app) as http:
        first = await ask(http, body("go", protocolVersion="1.0"), watcher=watcher)
        [asked] = first[-1]["outcome"]["interrupts"]
        answer = {"interruptId": asked["id"], "status": "cancelled"}
        picture = {"type": "image", "source": {"type": "url", "value": "https://x.example/a.png"}}
        seen = {"id": "p", "role": "user", "content": [picture]}
        refused = await http.post("/v1/ag-ui/a", json={**body(run="c2", resume=[answer]), "messages": [seen]})
        given = body("never mind, just talk", run="c2", protocolVersion="1.0", resume=[answer])
        second = await ask(http, given, watcher=watcher)
    kept = await history(app)
    await app.aclose()

    assert (refused.status_code, refused.json()["field"]) == (422, "messages")
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool", "user"]
    assert model.requests[1].messages[-1].text == kept[-2].text == "never mind, just talk"
    assert [e["value"]["text"] for e in second if e.get("name") == "run.steered"] == ["never mind, just talk"]
    assert second[-1]["outcome"] == {"type": "success"}


async def test_who_asks_something_else_leaves_a_waiting_run_behind() -> None:
    app, _ = make_app([Call("risk", id="c")], "something else", tools=[risk])
    async with client(app) as http:
        await ask(http, body("go"))
        second = await ask(http, body("something else", run="c2"))
    runs = await app.service.engine.threads.runs(app.service.topic("a", "t1"))
    await app.aclose()

    assert second[-1]["type"] == "RUN_FINISHED"
    assert [run.status for run in runs] == ["cancelled", "finished"]


async def test_all_that_waits_must_be_answered() -> None:
    app, _ = make_app([Call("risk", id="c1"), Call("risk", id="c2")], "done", tools=[risk])
    async with client(app) as http:
        first = await ask(http, body("go", protocolVersion="1.0"))
        ids = [one["id"] for one in first[-1]["outcome"]["interrupts"]]
        entries = [{"interruptId": id, "status": "cancelled"} for id in ids]  # noqa: A001
        some = await http.post("/v1/ag-ui/a", json=body(run="c2", resume=entries[:1]))
        unknown = await http.post(
            "/v1/ag-ui/a", json=body(run="c2", resume=[{"interruptId": "run_0.1.c", "status": "cancelled"}])
        )
        both = await ask(http, body(run="c2", protocolVersion="1.0", resume=entries))
    await app.aclose()

    assert (some.status_code, ids[1] in some.json()["detail"]) == (422, True)
    assert unknown.status_code == 404
    assert both[-1]["outcome"] == {"type": "success"}


async def test_a_page_that_comes_back_is_asked_again() -> None:
    app, _ = make_app([Call("risk", id="c1")], tools=[risk])
    async with client(app) as http:
        first = await ask(http, body("go", protocolVersion="1.0"))
        shown = await ask(http, body(run="c2", protocolVersion="1.0"))
    await app.aclose()

    assert types(shown) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    [asked], [again] = first[-1]["outcome"]["interrupts"], shown[-1]["outcome"]["interrupts"]
    [call] = shown[1]["messages"][-1]["toolCalls"]
    assert again == {**asked, "toolCallId": call["id"]}


async def test_the_pages_tools_are_offered_beside_the_agents_own() -> None:
    app, model = make_app([Call("locate", id="c1")], "you are there", tools=[risk])
    watcher = Watcher()
    async with client(app) as http:
        given = body("where?", protocolVersion="1.0", tools=[LOCATE])
        first = await ask(http, given, watcher=watcher)
        [pending] = first[-1]["outcome"]["pendingToolCallIds"]
        watcher.answered.add(pending)
        result = {"id": "r", "role": "tool", "toolCallId": pending, "content": "Oslo"}
        given = body(run="c2", protocolVersion="1.0", tools=[LOCATE])
        second = await ask(http, {**given, "messages": [result]}, watcher=watcher)
        clash = await http.post("/v1/ag-ui/a", json=body("x", run="c3", tools=[{**LOCATE, "name": "risk"}]))
    await app.aclose()

    assert [spec.name for spec in model.requests[0].tools] == ["risk", "locate"]
    assert model.requests[1].messages[-1].content == (ToolResultBlock("c1", "locate", (TextBlock("Oslo"),)),)
    assert second[-1]["outcome"] == {"type": "success"}
    assert (clash.status_code, "risk" in clash.json()["detail"]) == (422, True)


async def test_context_goes_to_the_model_as_the_users_words() -> None:
    app, model = make_app("one", "two")
    context = [{"description": "open file", "value": "a.py"}]
    async with client(app) as http:
        await ask(http, body("hi", context=context))
        await ask(http, body("more", run="c2", context=context))
    await app.aclose()

    assert model.requests[0].system == "You plan."
    assert "open file: a.py" in model.requests[0].messages[0].text
    assert [m.text for m in model.requests[1].messages if m.role == "user"][1] == "more"


async def test_state_is_given_back_until_there_is_another() -> None:
    app, _ = make_app("one", "two", "three", "four")
    async with client(app) as http:
        given: list[JsonValue] = [{"n": 1}, {}, None, [2]]
        got = [
            [
                event["snapshot"]
                for event in await ask(http, body("hi", run=f"c{n}", state=state))
                if "snapshot" in event
            ]
            for n, state in enumerate(given)
        ]
    await app.aclose()

    assert got == [[{"n": 1}], [{"n": 1}], [{"n": 1}], [[2]]]


async def test_a_state_too_large_for_a_record_is_given_back_all_the_same() -> None:
    app, _ = make_app("one")
    state = {"text": "x" * 200_000}
    async with client(app) as http:
        events = await ask(http, body("hi", protocolVersion="1.0", state=state), watcher=Watcher())
    await app.aclose()

    assert events[1]["snapshot"] == state
    assert events[-1]["outcome"] == {"type": "success"}


async def test_a_state_that_every_run_would_keep_has_a_bound() -> None:
    app, model = make_app([Say("one")])
    async with client(app) as http:
        answer = await http.post("/v1/ag-ui/a", json=body("hi", state={"doc": "x" * 300_000}))
    await app.aclose()

    assert (answer.status_code, answer.json()["field"]) == (422, "state")
    assert model.requests == []


async def test_a_client_that_sends_the_whole_conversation_has_more_room() -> None:
    app, _ = make_app("one", body_size=2000, history_size=200_000)
    long = {"id": "a0", "role": "assistant", "content": "x" * 100_000}
    async with client(app) as http:
        given = body("hi")
        events = await ask(http, {**given, "messages": [long, *given["messages"]]})
        refused = await http.post("/v1/ag-ui/a", json={**given, "messages": [long] * 2})
    await app.aclose()

    assert events[-1]["type"] == "RUN_FINISHED"
    assert refused.status_code == 413


async def test_an_answer_is_made_again_in_the_place_of_the_first() -> None:
    app, model = make_app("one", "two", "three")
    async with client(app) as http:
        await ask(http, body("hi"))
        await ask(http, body("hi"))  # the same message, without its answer
        await ask(http, {**body("more", run="c3")})
    await app.aclose()

    assert [message.text for message in model.requests[1].messages] == ["hi"]
    assert [message.text for message in model.requests[2].messages] == ["hi", "two", "more"]


def said(text: str, name: str) -> Json:
    return {"id": name, "role": "user", "content": text}


def answered(text: str) -> Json:
    return {"id": f"a.{text}", "role": "assistant", "content": text}


async def talked(http: httpx2.AsyncClient, *messages: Json, run: str, **more: Any) -> list[Json]:
    return await ask(http, {**body(run=run, **more), "messages": list(messages)})


@pytest.mark.parametrize(
    ("again", "asked", "later"),
    [
        pytest.param([said("one", "u1")], ["one"], ["one", "c", "more"], id="the first again"),
        pytest.param([said("one!", "u1")], ["one!"], ["one!", "c", "more"], id="the first changed"),
        pytest.param(
            [said("one", "u1"), answered("a"), said("two!", "u2")],
            ["one", "a", "two!"],
            ["one", "a", "two!", "c", "more"],
            id="the last changed",
        ),
    ],
)
async def test_who_goes_back_to_a_message_has_its_answer_made_again_and_what_followed_is_gone(
    again: list[Json], asked: list[str], later: list[str]
) -> None:
    app, model = make_app("a", "b", "c", "d")
    async with client(app) as http:
        await talked(http, said("one", "u1"), run="c1")
        await talked(http, said("one", "u1"), answered("a"), said("two", "u2"), run="c2")
        await talked(http, *again, run="c3")
        await talked(http, *again, answered("c"), said("more", "u4"), run="c4")
        shown = await talked(http, run="c5")
    await app.aclose()

    assert [message.text for message in model.requests[2].messages] == asked
    assert [message.text for message in model.requests[3].messages] == later
    [snapshot] = [event["messages"] for event in shown if event["type"] == "MESSAGES_SNAPSHOT"]
    assert [message["content"] for message in snapshot] == [*later, "d"]


async def test_a_page_that_was_loaded_again_finds_its_own_messages() -> None:
    app, model = make_app("a", "b", "c")
    async with client(app) as http:
        await talked(http, said("one", "u1"), run="c1")
        await talked(http, said("one", "u1"), answered("a"), said("two", "u2"), run="c2")
        shown = await talked(http, run="c3")
        [loaded] = [event["messages"] for event in shown if event["type"] == "MESSAGES_SNAPSHOT"]
        await talked(http, *loaded[:3], run="c4")
    await app.aclose()

    assert [message["id"] for message in loaded if message["role"] == "user"] == ["u1", "u2"]
    assert [message.text for message in model.requests[2].messages] == ["one", "a", "two"]


async def test_a_message_whose_id_was_used_before_is_heard() -> None:
    app, model = make_app("a", "b", "c")
    async with client(app) as http:
        await talked(http, said("one", "u"), run="c1")
        await talked(http, said("one", "u"), answered("a"), said("two", "u"), run="c2")
        three = [said("one", "u"), answered("a"), said("two", "u"), answered("b"), said("three", "u")]
        await talked(http, *three, run="c3")
    await app.aclose()

    assert [message.text for message in model.requests[2].messages] == ["one", "a", "two", "b", "three"]


async def test_an_answer_made_again_knows_what_the_page_said() -> None:
    app, model = make_app("a", "b")
    context = [{"description": "file", "value": "x.py"}]
    async with client(app) as http:
        await talked(http, said("one", "u1"), run="c1", context=context)
        await talked(http, said("one!", "u1"), run="c2", context=context)
    await app.aclose()

    assert model.requests[0].messages[0].text.endswith("- file: x.py\n\none")
    assert model.requests[1].messages[0].text == f"{model.requests[0].messages[0].text}!"


async def test_a_history_of_elsewhere_begins_an_empty_thread() -> None:
    app, model = make_app("sure")
    given = body()
    given["messages"] = [
        {"id": "u1", "role": "user", "content": "hi"},
        {"id": "a1", "role": "assistant", "content": "hello"},
        {"id": "u2", "role": "user", "content": "again?"},
    ]
    async with client(app) as http:
        await ask(http, given)
    await app.aclose()

    assert [(message.role, message.text) for message in model.requests[0].messages] == [
        ("user", "hi"), ("assistant", "hello"), ("user", "again?"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        pytest.param({"threadId": "t1", "messages": []}, 422, "runId", id="no run"),
        pytest.param(body(), 422, "messages", id="nothing to answer"),
        pytest.param({**body("x"), "threadId": "a/b"}, 400, "thread", id="no name of a thread"),
        pytest.param({**body(), "messages": [{"role": 1}]}, 422, "messages.0.role", id="no role"),
        pytest.param(body("x", resume=[{"interruptId": "a", "status": "resolved"}]), 422, "resume.0.payload", id="no decision"),
        pytest.param(body(" "), 422, "", id="an empty message"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused(given: Json, status: int, field: str) -> None:
    app, _ = make_app("never")
    async with client(app) as http:
        answer = await http.post("/v1/ag-ui/a", json=given)
        unknown = await http.post("/v1/ag-ui/nobody", json=body("hi"))
    await app.aclose()

    assert (answer.status_code, answer.json().get("field", "")) == (status, field)
    assert unknown.status_code == 404


async def test_who_comes_back_to_nothing_is_told_so() -> None:
    app, _ = make_app("one")
    async with client(app) as http:
        await http.post("/v1/ag-ui/a", json=body("hi"), headers={"x-run-id": "c1"})
        unknown = await http.post("/v1/ag-ui/a", json=body("hi", run="c9"), headers={"last-event-id": "E-1"})
        malformed = await http.post("/v1/ag-ui/a", json=body("hi"), headers={"last-event-id": "x"})
        middle = await http.post("/v1/ag-ui/a", json=body("hi"), headers={"last-event-id": "E-1.x"})
        elsewhere = await http.get("/v1/ag-ui/a?threadId=t1&runId=c9")
        nothing = await http.get("/v1/ag-ui/a?runId=c1")
        other_log = await http.post("/v1/ag-ui/a", json=body("hi"), headers={"last-event-id": "deadbeef-3"})
    await app.aclose()

    statuses = [one.status_code for one in (unknown, malformed, middle, elsewhere, nothing, other_log)]
    assert statuses == [404, 400, 400, 404, 400, 410]


async def test_what_the_application_says_meanwhile_is_a_custom_event() -> None:
    gate = anyio.Event()
    app, _ = make_app([Say("so "), Wait(event=gate), Say("far")], "two")
    entry = app.service.entry("a")
    assert entry.agent is not None
    events: list[list[Json]] = []

    async def talk(http: httpx2.AsyncClient) -> None:
        events.append(await ask(http, body("hi", protocolVersion="1.0"), watcher=Watcher()))

    async with client(app) as http:
        await entry.agent.emit("cart.changed", {"before": True}, thread="t1")
        async with anyio.create_task_group() as group:
            group.start_soon(talk, http)
            tail = await app.service.engine.log.tail(app.service.topic("a", "t1"))
            while not any(record.type == "text.delta" for record in tail.records):  # noqa: ASYNC110
                await anyio.sleep(0.001)
            await entry.agent.emit("cart.changed", {"items": [1, None]}, thread="t1")
            gate.set()
        events.append(await ask(http, body("more", run="c2", protocolVersion="1.0"), watcher=Watcher()))
    await app.aclose()

    told = [[e["value"] for e in one if e["type"] == "CUSTOM"] for one in events]
    assert told == [[{"items": [1, None]}], []]
    assert types(events[0])[0] == types(events[1])[0] == "RUN_STARTED"


async def test_a_busy_thread_refuses_and_one_that_is_about_to_be_free_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ag_ui, "BUSY_WAIT", 0.2)
    gate = anyio.Event()
    app, _ = make_app([Say("so "), Wait(event=gate), Say("far")], "two", "three")
    first: list[Json] = []

    async def talk(http: httpx2.AsyncClient) -> None:
        first.extend(await ask(http, body("hi")))

    async with client(app) as http, anyio.create_task_group() as group:
        group.start_soon(talk, http)
        while app.service.going == 0:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        refused = await http.post("/v1/ag-ui/a", json=body("me too", run="c2"))
        group.start_soon(lambda: _later(gate))
        second = await ask(http, body("and now?", run="c3"))
    await app.aclose()

    assert (refused.status_code, refused.json()["code"]) == (409, "thread_busy")
    assert types(first)[-1] == types(second)[-1] == "RUN_FINISHED"


async def _later(gate: anyio.Event) -> None:
    await anyio.lowlevel.checkpoint()
    gate.set()


async def test_what_is_kept_from_watchers_is_in_no_page_that_comes_back() -> None:
    model = ScriptedModel([Think("a secret"), Say("the secret word")])
    app = create_app([Agent("a", model=model, redact=RedactWords(["secret"]))], settings=Settings())
    async with client(app) as http:
        await ask(http, body("what is the secret?"))
        pages = [
            await http.post("/v1/ag-ui/a", json=body()),
            await http.get("/v1/ag-ui/a?threadId=t1&runId=c1"),
            await http.get("/v1/ai-sdk/a/t1"),
        ]
    kept = await history(app)
    await app.aclose()

    assert "secret" in kept[0].text
    assert all(page.status_code == 200 and "word" in page.text for page in pages)
    assert not any("secret" in page.text for page in pages)


async def test_a_run_whose_metadata_another_client_has_written_is_replayed() -> None:
    app, _ = make_app([Say("well")])
    left = {"run": "r9", "skip": "x", "state": "{", "sdk": "9"}
    async with client(app) as http:
        with anyio.fail_after(20):
            given = {"input": "hi", "metadata": {"ag_ui": left}}
            started = await http.post("/v1/agents/a/threads/t1/runs", json=given)
            await http.get(f"/v1/agents/a/threads/t1/runs/{started.json()['run']}?wait=4")
            answer = await http.get("/v1/ag-ui/a?threadId=t1&runId=r9")
    await app.aclose()

    assert types([event for _, event in frames_of(answer.content)])[-1] == "RUN_FINISHED"
