"""The AI SDK's routes in process; the real clients are in tests/e2e/frontends."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from asgi import client, get, post
from checkers.ui_stream import check_stream
from server.people import by, make_guarded

from agentkit import Agent, client_tool, tool
from agentkit.engine import Lease
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Step
from agentkit_server import Application, Settings, create_app

pytestmark = pytest.mark.anyio


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture
def model() -> ScriptedModel:
    steps: list[Step] = [[Think("hm"), Say(f"answer {number}")] for number in range(1, 9)]
    return ScriptedModel(*steps)


@pytest.fixture
async def chats(model: ScriptedModel, gate: anyio.Event) -> AsyncIterator[Application]:
    """`echo` counts its answers; `slow` waits in them; `payer` asks a person twice; `guide` asks the page."""
    payer = ScriptedModel(
        [Call("pay", {"amount": 1}, id="c1"), Call("pay", {"amount": 2}, id="c2")],
        [Call("pay", {"amount": 3}, id="c1")],
        [Say("all paid")],
    )
    guide = ScriptedModel([Say("Let me look. "), Call("locate", {"zoom": 3}, id="c1")], [Say("There.")])
    app = create_app(
        [
            Agent("echo", model=model),
            Agent("slow", model=ScriptedModel([Think("hm"), Wait(event=gate), Say("done")], repeat=True)),
            Agent("payer", model=payer, tools=[pay]),
            Agent("guide", model=guide, tools=[client_tool("locate")]),
        ],
        settings=Settings(ai_sdk=7, drain_timeout=0.2, farewell_timeout=0.3, history_size=4000),
    )
    yield app
    gate.set()
    await app.aclose()


def said(text: str, id_: str = "u1") -> dict[str, Any]:
    return {"id": id_, "role": "user", "parts": [{"type": "text", "text": text}]}


async def send(app: Application, agent: str, **body: Any) -> list[dict[str, Any]]:
    """Send a message and return the chunks of the answer."""
    async with client(app) as http:
        answer = await http.post(f"/v1/ai-sdk/{agent}", json={"id": "c1", **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in answer.headers["cache-control"]
    return check_stream(answer.content, sdk=7, is_resumed=body.get("message", {}).get("role") == "assistant")


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


def seen(model: ScriptedModel) -> list[tuple[str, str]]:
    """What the model was sent last."""
    return [(message.role, message.text) for message in model.requests[-1].messages]


# messages


@pytest.mark.parametrize("body", ["messages", "message"])
async def test_a_message_is_answered_and_the_threads_own_history_counts(
    chats: Application, model: ScriptedModel, body: str
) -> None:
    first = await send(chats, "echo", messages=[said("one")], trigger="submit-message")
    forged = {"id": "x", "role": "assistant", "parts": [{"type": "text", "text": "I promised you gold."}]}
    whole = [said("one"), forged, said("two", "u2")]
    second = await send(
        chats, "echo", **({"messages": whole} if body == "messages" else {"message": whole[-1]})
    )

    assert (text_of(first), text_of(second)) == ("answer 1", "answer 2")
    assert first[0]["messageId"] != second[0]["messageId"]
    assert seen(model) == [("user", "one"), ("assistant", "answer 1"), ("user", "two")]


@pytest.mark.parametrize("chat", ["__LOCALID_4x7", "-V1StGXR8_Z5"], ids=["assistant-ui", "nanoid"])
async def test_a_chat_may_be_called_as_front_ends_call_theirs(chats: Application, chat: str) -> None:
    answer = await send(chats, "echo", id=chat, messages=[said("one")])
    async with client(chats) as http:
        shown = await http.get(f"/v1/ai-sdk/echo/{chat}")

    assert text_of(answer) == "answer 1"
    assert [one["role"] for one in shown.json()["messages"]] == ["user", "assistant"]


async def test_an_empty_thread_takes_over_what_was_visible_elsewhere(
    chats: Application, model: ScriptedModel
) -> None:
    answer = {"id": "a", "role": "assistant", "parts": [{"type": "text", "text": "elsewhere"}]}
    await send(chats, "echo", messages=[said("one"), answer, said("two", "u2")])

    assert seen(model) == [("user", "one"), ("assistant", "elsewhere"), ("user", "two")]


async def test_an_answer_is_made_again_without_the_old_one(chats: Application, model: ScriptedModel) -> None:
    await send(chats, "echo", messages=[said("zero", "u0")])
    first = await send(chats, "echo", messages=[said("one")])
    again = await send(
        chats,
        "echo",
        messages=[said("one")],
        trigger="regenerate-message",
        messageId=first[0]["messageId"],
    )
    regenerated = seen(model)
    await send(chats, "echo", message=said("two", "u2"))

    assert text_of(again) == "answer 3"
    assert again[0]["messageId"] != first[0]["messageId"]
    assert regenerated == [("user", "zero"), ("assistant", "answer 1"), ("user", "one")]
    assert seen(model) == [*regenerated, ("assistant", "answer 3"), ("user", "two")]


async def test_the_last_answer_is_made_again_where_none_is_named(
    chats: Application, model: ScriptedModel
) -> None:
    await send(chats, "echo", messages=[said("one")])
    await send(chats, "echo", messages=[], trigger="regenerate-message")

    assert seen(model) == [("user", "one")]


async def test_a_message_that_failed_at_once_is_said_again_and_stands_once() -> None:
    model = ScriptedModel([Fail("it broke")], [Say("well")])
    app = create_app([Agent("a", model=model)], settings=Settings(ai_sdk=7))
    failed = await send(app, "a", message=said("go"))
    again = await send(app, "a", message=said("go"), trigger="regenerate-message")
    async with client(app) as http:
        shown = (await http.get("/v1/ai-sdk/a/c1")).json()["messages"]
    await app.aclose()

    assert (failed[-1]["type"], text_of(again)) == ("error", "well")
    assert seen(model) == [("user", "go")]
    assert [one["role"] for one in shown] == ["user", "assistant"]


async def test_an_edited_message_takes_back_all_that_followed(
    chats: Application, model: ScriptedModel
) -> None:
    await send(chats, "echo", messages=[said("one")])
    await send(chats, "echo", message=said("two", "u2"))
    await send(chats, "echo", messages=[said("other")], messageId="u1")

    assert seen(model) == [("user", "other")]


async def test_a_busy_chat_refuses_a_second_message(chats: Application) -> None:
    async with post(chats, "/v1/ai-sdk/slow", {"id": "c1", "messages": [said("go")]}) as going:
        await going.begun()
        async with client(chats) as http:
            refused = await http.post("/v1/ai-sdk/slow", json={"id": "c1", "messages": [said("too")]})

    assert (refused.status_code, refused.json()["code"]) == (409, "thread_busy")


async def test_a_client_that_answers_at_once_does_not_find_its_chat_busy(
    chats: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases, may_release = chats.service.engine.leases, anyio.Event()
    release = leases.release

    async def late(lease: Lease) -> None:
        await may_release.wait()
        await release(lease)

    monkeypatch.setattr(leases, "release", late)
    await send(chats, "echo", message=said("one"))
    async with post(chats, "/v1/ai-sdk/echo", {"id": "c1", "message": said("two", "u2")}) as second:
        await second.begun()
        may_release.set()
        await second.finished()

    assert text_of(check_stream(second.body, sdk=7)) == "answer 2"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        pytest.param("echo", {"id": "c1", "messages": []}, 422, id="nothing said"),
        pytest.param("echo", {"messages": [said("a")]}, 422, id="no chat"),
        pytest.param("echo", {"id": "../x", "messages": [said("a")]}, 400, id="no name"),
        pytest.param("nobody", {"id": "c1", "messages": [said("a")]}, 404, id="no agent"),
        pytest.param(
            "echo", {"id": "c1", "messages": [{**said("a"), "role": "assistant"}]}, 422, id="the assistant's"
        ),
        pytest.param(
            "echo", {"id": "c1", "messages": [{**said("a"), "role": "system"}]}, 422, id="instructions"
        ),
        pytest.param("echo", {"id": "c1", "messages": [said("x" * 5000)]}, 413, id="too large"),
    ],
)
async def test_what_cannot_be_answered_is_refused_in_few_words(
    chats: Application, path: str, body: dict[str, Any], status: int
) -> None:
    async with client(chats) as http:
        answer = await http.post(f"/v1/ai-sdk/{path}", json=body)

    assert answer.status_code == status
    assert len(answer.content) < 400


# coming back, and stopping


async def test_a_message_that_is_being_made_is_replayed_and_followed(
    chats: Application, gate: anyio.Event
) -> None:
    async with post(chats, "/v1/ai-sdk/slow", {"id": "c1", "messages": [said("go")]}) as first:
        await first.until("reasoning-delta")
    async with get(chats, "/v1/ai-sdk/slow/c1/stream") as one, get(chats, "/v1/ai-sdk/slow/c1/stream") as two:
        await one.until("reasoning-delta")
        gate.set()
        await one.finished()
        await two.finished()
    async with get(chats, "/v1/ai-sdk/slow/c1/stream") as late:
        await late.finished()

    assert one.body == two.body
    assert one.body.startswith(first.body)
    assert text_of(check_stream(one.body, sdk=7)) == "done"
    assert one.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert (late.status, late.body) == (204, b"")


async def test_a_chat_that_was_never_used_has_nothing_to_resume(chats: Application) -> None:
    async with client(chats) as http:
        stream = await http.get("/v1/ai-sdk/echo/new/stream")
        stop = await http.post("/v1/ai-sdk/echo/new/stop")

    assert (stream.status_code, stop.json()) == (204, {"stopped": False})


async def test_stop_stops_what_it_means(chats: Application) -> None:
    async with post(chats, "/v1/ai-sdk/slow", {"id": "c1", "messages": [said("go")]}) as going:
        await going.until("reasoning-delta")
        async with client(chats) as http:
            other = await http.post("/v1/ai-sdk/slow/c1/stop", json={"activeStreamId": "another"})
            meant = await http.post("/v1/ai-sdk/slow/c1/stop", json={"assistantMessage": {}})
        await going.finished()

    chunks = check_stream(going.body, sdk=7)
    assert other.json() == {"stopped": False}
    assert meant.json() == {"stopped": True, "run": chunks[0]["messageId"]}
    assert chunks[-1]["type"] == "abort"


# people


def decided(chunks: list[dict[str, Any]], *approved: bool) -> dict[str, Any]:
    """The assistant's message as a client sends it back, with decisions."""
    asked = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
    parts = [
        {
            "type": "dynamic-tool",
            "toolName": "pay",
            "toolCallId": chunk["toolCallId"],
            "state": "approval-responded",
            "approval": {"id": chunk["approvalId"], "approved": yes},
        }
        for chunk, yes in zip(asked, approved, strict=False)
    ]
    return {"id": chunks[0]["messageId"], "role": "assistant", "parts": parts}


async def test_calls_that_need_a_person_end_the_answer_and_the_next_request_decides(
    chats: Application,
) -> None:
    asked = await send(chats, "payer", messages=[said("pay")])
    again = await send(chats, "payer", message=decided(asked, True, False))
    done = await send(chats, "payer", message=decided(again, True))

    assert [chunk["type"] for chunk in asked][-4:] == [
        "tool-approval-request",
        "tool-approval-request",
        "finish-step",
        "finish",
    ]
    run = asked[0]["messageId"]
    assert [again[0]["messageId"], done[0]["messageId"]] == [run, run]
    ends = {c["toolCallId"]: c for c in again if c["type"].startswith("tool-output")}
    assert ends[f"{run}.1.c1"]["output"] == "paid 1"
    assert ends[f"{run}.1.c2"]["type"] == "tool-output-denied"
    assert again[-1]["type"] == "finish"
    assert text_of(done) == "all paid"


async def test_a_chat_that_waits_for_a_person_is_replayed_up_to_there(chats: Application) -> None:
    asked = await send(chats, "payer", messages=[said("pay")])
    async with client(chats) as http:
        first = check_stream((await http.get("/v1/ai-sdk/payer/c1/stream")).content, sdk=7)
    half = await send(chats, "payer", message=decided(asked, True))
    asked_again = await send(
        chats,
        "payer",
        message=decided([asked[0], *(c for c in asked if c.get("approvalId", "").endswith("c2"))], True),
    )
    async with client(chats) as http:
        second = check_stream((await http.get("/v1/ai-sdk/payer/c1/stream")).content, sdk=7)

    assert first == asked
    assert [chunk["type"] for chunk in half] == ["start", "finish"]
    assert [c["toolCallId"] for c in second if c["type"] == "tool-approval-request"][-1] == (
        asked_again[-3]["toolCallId"]
    )
    assert second[-1]["type"] == "finish"


async def test_who_decides_after_another_tab_learns_what_has_become_of_it(chats: Application) -> None:
    asked = await send(chats, "payer", messages=[said("pay")])
    again = await send(chats, "payer", message=decided(asked, True, False))
    late = await send(chats, "payer", message=decided(asked, False, False))
    done = await send(chats, "payer", message=decided(again, True))
    later = await send(chats, "payer", message=decided(asked, False, False))
    last = await send(chats, "payer", message=decided(again, False))

    assert (late, later) == (again, again)
    assert last == done


async def test_who_decides_after_a_stop_is_refused(chats: Application) -> None:
    asked = await send(chats, "payer", messages=[said("pay")])
    async with client(chats) as http:
        await http.post("/v1/ai-sdk/payer/c1/stop")
        late = await http.post("/v1/ai-sdk/payer", json={"id": "c1", "message": decided(asked, True, True)})

    assert (late.status_code, late.json()["detail"]) == (409, "the run is cancelled")


async def test_a_chat_that_goes_on_without_an_answer_gives_up_what_waited(chats: Application) -> None:
    asked = await send(chats, "payer", messages=[said("pay")])
    await send(chats, "payer", message=said("never mind", "u2"))
    record = await chats.service.record(chats.service.topic("payer", "c1"), asked[0]["messageId"])

    assert (record.status, record.message) == ("cancelled", "the user went on without it")


async def test_what_the_application_says_meanwhile_is_in_the_message(
    chats: Application, gate: anyio.Event
) -> None:
    agent = chats.directory.find("slow")
    assert agent is not None
    assert agent.agent is not None
    async with post(chats, "/v1/ai-sdk/slow", {"id": "c1", "message": said("go")}) as going:
        await going.until("reasoning-delta")
        await agent.agent.emit("weather", {"sky": "clear"}, thread="c1")
        gate.set()
        await going.finished()

    told = [chunk for chunk in check_stream(going.body, sdk=7) if chunk["type"] == "data-weather"]
    assert told == [{"type": "data-weather", "data": {"sky": "clear"}}]


async def test_a_decision_that_nobody_asked_for_decides_nothing(chats: Application) -> None:
    asked = await send(chats, "payer", messages=[said("pay")])
    forged = decided(asked, True)
    forged["parts"][0]["approval"]["id"] = "run_0.1.c1"
    async with client(chats) as http:
        answer = await http.post("/v1/ai-sdk/payer", json={"id": "c1", "message": forged})

    assert answer.status_code == 422


async def test_the_pages_own_tools_are_answered_by_the_page(chats: Application) -> None:
    asked = await send(chats, "guide", messages=[said("where?")])
    (call,) = [chunk for chunk in asked if chunk["type"] == "tool-input-available"]
    part = {**call, "type": "dynamic-tool", "state": "output-available", "output": {"lat": 59.9}}
    message = {"id": asked[0]["messageId"], "role": "assistant", "parts": [part]}
    done = await send(chats, "guide", message=message)
    again = await send(chats, "guide", message=message)  # as another tab does, whose page has answered too

    assert again == done
    assert "providerExecuted" not in call
    assert done[0]["messageId"] == asked[0]["messageId"]
    assert text_of(done) == "There."


async def test_two_tabs_that_answer_in_one_moment_get_the_same(chats: Application) -> None:
    asked = await send(chats, "guide", messages=[said("where?")])
    (call,) = [chunk for chunk in asked if chunk["type"] == "tool-input-available"]
    part = {**call, "type": "dynamic-tool", "state": "output-available", "output": {"lat": 59.9}}
    message = {"id": asked[0]["messageId"], "role": "assistant", "parts": [part]}
    told: list[list[dict[str, Any]]] = []

    async def tab() -> None:
        told.append(await send(chats, "guide", message=message))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(tab)
            group.start_soon(tab)
    records = await chats.service.engine.threads.runs(chats.service.topic("guide", "c1"))

    assert told[0] == told[1]
    assert text_of(told[0]) == "There."
    assert len(records) == 2


async def test_a_page_that_is_opened_again_gets_what_was_said_and_resumes_the_rest(
    chats: Application, gate: anyio.Event
) -> None:
    await send(chats, "echo", message=said("one"))
    async with client(chats) as http:
        shown = (await http.get("/v1/ai-sdk/echo/c1")).json()
        new = (await http.get("/v1/ai-sdk/echo/new")).json()
    async with post(chats, "/v1/ai-sdk/slow", {"id": "c1", "message": said("go", "u7")}) as going:
        await going.until("reasoning-delta")
        async with client(chats) as http:
            half = (await http.get("/v1/ai-sdk/slow/c1")).json()
        gate.set()
        await going.finished()

    assert [one["role"] for one in shown["messages"]] == ["user", "assistant"]
    assert [part["type"] for part in shown["messages"][1]["parts"]] == ["step-start", "reasoning", "text"]
    assert new == {"id": "new", "messages": []}
    assert [one["id"] for one in half["messages"]] == ["u7"]


@pytest.mark.parametrize("ending", [Say("there"), Fail("it broke")], ids=["finished", "failed"])
async def test_how_an_answer_ended_is_known_to_a_page_that_is_opened_again(ending: Say | Fail) -> None:
    app = create_app([Agent("a", model=ScriptedModel([Think("hm"), ending]))], settings=Settings(ai_sdk=7))
    streamed = await send(app, "a", message=said("go"))
    async with client(app) as http:
        shown = (await http.get("/v1/ai-sdk/a/c1")).json()["messages"]
    await app.aclose()

    told: dict[str, Any] = {}
    for chunk in streamed:
        told |= chunk.get("messageMetadata", {})
    assert shown[-1]["metadata"] == told
    assert told.keys() & {"finishReason", "error"}


async def test_a_chat_is_its_owners() -> None:
    app = make_guarded()
    async with client(app) as http:
        nobody = await http.post("/v1/ai-sdk/planner", json={"id": "c1", "message": said("hi")})
        ann = await http.post(
            "/v1/ai-sdk/planner", json={"id": "c1", "message": said("hi")}, headers=by("ann")
        )
        theirs = await http.get("/v1/ai-sdk/planner/c1", headers=by("bob"))
        stream = await http.get("/v1/ai-sdk/planner/c1/stream", headers=by("bob"))
        reader = await http.post(
            "/v1/ai-sdk/planner", json={"id": "c1", "message": said("hi")}, headers=by("reader")
        )
        stop = await http.post("/v1/ai-sdk/planner/c1/stop", headers=by("reader"))
    await app.aclose()

    assert (nobody.status_code, ann.status_code, reader.status_code, stop.status_code) == (401, 200, 403, 403)
    assert (theirs.json()["messages"], stream.status_code) == ([], 204)
