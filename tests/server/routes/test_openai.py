"""Chat completions and models, in process: what goes to the model, what comes back, and what is refused."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from asgi import client, post
from checkers.chat_chunks import check_answer

from agentkit.agent import Agent
from agentkit.content import ImageBlock, Message, TextBlock, ToolResultBlock
from agentkit.reasoning import ReasoningSetting
from agentkit.testing import Call, Say, ScriptedModel, Think, Wait
from agentkit.tool import tool
from agentkit_server import Application, Settings, create_app
from agentkit_server.auth_keys import APIKeys, new_key, parse_keys

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
PNG = "data:image/png;base64,aWk="
LOCATE = {
    "type": "function",
    "function": {"name": "locate", "description": "Find.", "parameters": {"type": "object", "properties": {"zoom": {"type": "integer"}}}},
}  # fmt: skip


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return path


def body(model: str = "echo", **members: Any) -> dict[str, Any]:
    return {"model": model, "messages": HI, **members}


class Asked:
    """A server with one agent whose model remembers what it was asked."""

    def __init__(self, *steps: Any, **options: Any) -> None:
        self.model = ScriptedModel(*(steps or ("yes",)), repeat=True)
        self.app = create_app([Agent("echo", model=self.model, **options)], settings=Settings())

    async def ask(self, status: int = 200, **members: Any) -> Any:
        with anyio.fail_after(20):
            async with client(self.app) as http:
                answer = await http.post(CHAT, json=body(**members))
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    one = Asked()
    yield one
    await one.app.aclose()


async def test_an_answer_is_one_object(app: Application) -> None:
    async with client(app) as http:
        answer = await http.post(CHAT, json=body("planner"))

    said = answer.json()
    assert answer.status_code == 200
    assert said["id"].startswith("chatcmpl-run_")
    assert answer.headers["x-run-id"] == said["id"].removeprefix("chatcmpl-")
    assert (said["object"], said["model"], said["created"] > 0) == ("chat.completion", "planner", True)
    message = {
        "role": "assistant",
        "content": "then speak",
        "refusal": None,
        "reasoning_content": "first think",
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    assert said["choices"] == [choice]
    assert "c2VjcmV0" not in answer.text


async def test_an_answer_is_a_stream(app: Application) -> None:
    async with post(app, CHAT, body("planner", stream=True, stream_options={"include_usage": True})) as feed:
        await feed.finished()

    answer = check_answer(feed.body, usage=True)
    assert feed.headers["content-type"].startswith("text/event-stream")
    assert (answer.reasoning_content, answer.content, answer.finish) == ("first think", "then speak", "stop")
    assert answer.usage is not None
    assert b"c2VjcmV0" not in feed.body


async def test_nothing_of_a_request_stays(app: Application) -> None:
    async with client(app) as http:
        await http.post(CHAT, json=body("planner"))
        threads = (await http.get("/v1/agents/planner/threads")).json()["threads"]

    assert threads == []
    assert app.service.hub.is_idle


async def test_the_messages_go_to_the_model_as_they_are(asked: Asked) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "locate", "arguments": '{"zoom":1}'}}
    await asked.ask(
        messages=[
            {"role": "system", "content": "Be short."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "where?", "name": "ada"},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "made up"},
            {"role": "tool", "tool_call_id": "c1", "content": "here"},
            {"role": "assistant", "content": "Here.", "annotations": []},
            {"role": "user", "content": [{"type": "text", "text": "and this?"}, {"type": "image_url", "image_url": {"url": PNG}}]},
        ]
    )  # fmt: skip

    [request] = asked.model.requests
    assert [message.role for message in request.messages] == [
        "system", "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert request.messages[1] == Message.system("Be kind.")
    assert request.messages[3].tool_uses[0].input == '{"zoom":1}'
    assert request.messages[3].thinking == ()
    assert request.messages[4].content == (ToolResultBlock("c1", "locate", (TextBlock("here"),)),)
    assert request.messages[6].content == (TextBlock("and this?"), ImageBlock("image/png", "aWk="))


async def test_settings_go_to_the_model(asked: Asked) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    await asked.ask(
        max_completion_tokens=50,
        max_tokens=60,
        temperature=1,
        stop="END",
        reasoning_effort="low",
        tools=[LOCATE],
        tool_choice={"type": "function", "function": {"name": "locate"}},
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        # what is passed over
        user="ada", seed=7, top_p=0.9, n=1, logit_bias={}, store=False, parallel_tool_calls=True, unknown={"a": [1]},
    )  # fmt: skip

    [request] = asked.model.requests
    assert (request.max_tokens, request.temperature, list(request.stop)) == (50, 1, ["END"])
    assert request.reasoning == ReasoningSetting(effort="low")
    assert (request.tool_choice, [spec.name for spec in request.tools]) == ("locate", ["locate"])
    assert request.output_schema == schema


async def test_nulls_mean_nothing(asked: Asked) -> None:
    names = "stream stream_options max_tokens temperature stop response_format tools tool_choice n logprobs metadata functions reasoning_effort"
    nulls: dict[str, Any] = dict.fromkeys(names.split())
    await asked.ask(**nulls)

    assert len(asked.model.requests) == 1


async def test_a_tool_of_the_client_is_called_and_answered() -> None:
    asked = Asked([Think("hm"), Call("locate", {"zoom": 3}, id="c1")], "There.")
    first = await asked.ask(tools=[LOCATE])
    [choice] = first["choices"]
    await asked.ask(
        tools=[LOCATE],
        messages=[*HI, choice["message"], {"role": "tool", "tool_call_id": "c1", "content": "here"}],
    )
    await asked.app.aclose()

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    function = {"name": "locate", "arguments": '{"zoom": 3}'}
    assert choice["message"]["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert [message.role for message in asked.model.requests[1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("named", ["header", "metadata"])
async def test_a_thread_keeps_what_was_said(named: str, asked: Asked) -> None:
    headers = {"x-thread-id": "t1"} if named == "header" else {}
    more: dict[str, Any] = {"metadata": {"thread": "t1", "team": "x"}} if named == "metadata" else {}
    system = {"role": "system", "content": "Be short."}
    conversation: list[dict[str, Any]] = [system, *HI]
    async with client(asked.app) as http:
        for text in ("and?", "more?"):
            answer = await http.post(CHAT, json=body(messages=conversation, **more), headers=headers)
            assert answer.status_code == 200, answer.text
            conversation += [answer.json()["choices"][0]["message"], {"role": "user", "content": text}]
        alone = body(messages=[{"role": "user", "content": "last"}], **more)
        await http.post(CHAT, json=alone, headers=headers)
        threads = (await http.get("/v1/agents/echo/threads")).json()["threads"]

    assert [thread["thread"] for thread in threads] == ["t1"]
    roles = [message.role for message in asked.model.requests[2].messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m.text for m in asked.model.requests[2].messages if m.role == "user"] == ["hi", "and?", "last"]


async def test_a_thread_takes_results_of_calls_that_it_holds() -> None:
    asked = Asked([Call("locate", {}, id="c1")], "There.")
    with_thread: dict[str, Any] = {"metadata": {"thread": "t1"}, "tools": [LOCATE]}
    await asked.ask(**with_thread)
    said = await asked.ask(
        **with_thread, messages=[{"role": "tool", "tool_call_id": "c1", "content": "here"}]
    )
    await asked.app.aclose()

    assert said["choices"][0]["message"]["content"] == "There."


async def test_a_busy_thread_is_a_conflict(app: Application) -> None:
    headers = {"x-thread-id": "t1"}
    async with post(app, CHAT, body("held", stream=True), headers) as feed:
        await feed.next()
        async with client(app) as http:
            answer = await http.post(CHAT, json=body("held"), headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "thread_busy")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "object"])
async def test_a_client_that_leaves_stops_its_run(stream: bool, app: Application) -> None:
    headers = {"x-thread-id": "t1"}
    async with post(app, CHAT, body("held", stream=stream), headers) as feed:
        if stream:
            await feed.next()
        with anyio.fail_after(20):
            while not (runs := await app.service.engine.threads.runs(app.service.topic("held", "t1"))):
                await anyio.lowlevel.checkpoint()
        feed.leave()

    topic = app.service.topic("held", "t1")
    with anyio.fail_after(20):
        record = await app.service.wait(topic, runs[0].run, 5)
    assert (record.status, record.message) == ("cancelled", "the client left")


async def test_a_failed_run_is_an_error_in_both_forms(app: Application) -> None:
    async with client(app) as http:
        whole = await http.post(CHAT, json=body("failing"))
    async with post(app, CHAT, body("failing", stream=True)) as feed:
        await feed.finished()

    error = {"message": "scripted: it broke", "type": "server_error", "param": None, "code": "model_stream"}
    assert (whole.status_code, whole.json()) == (502, {"error": error})
    assert whole.headers["x-should-retry"] == "true"
    streamed = check_answer(feed.body)
    assert (streamed.content, streamed.error) == ("so far", error)


async def test_a_refusal_has_its_own_place(app: Application) -> None:
    async with client(app) as http:
        said = (await http.post(CHAT, json=body("refusing"))).json()

    [choice] = said["choices"]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": "I will not"}
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "object"])
async def test_a_call_that_needs_a_person_is_refused(stream: bool) -> None:
    asked = Asked([Call("delete", {"path": "x"})], tools=[delete])
    async with post(asked.app, CHAT, body(stream=stream)) as feed:
        with anyio.fail_after(20):
            await feed.finished()
    await asked.app.aclose()

    error = check_answer(feed.body).error if stream else feed.json()["error"]
    assert feed.status == (200 if stream else 400)
    assert error is not None
    assert error["code"] == "approval_required"


async def test_reasoning_that_the_operator_keeps_back_is_not_told() -> None:
    model = ScriptedModel([Think("psst"), Say("hi")], repeat=True)
    app = create_app([Agent("echo", model=model)], settings=Settings(exposure="none"))
    async with client(app) as http:
        whole = (await http.post(CHAT, json=body())).json()
    async with post(app, CHAT, body(stream=True)) as feed:
        await feed.finished()
    await app.aclose()

    assert "reasoning_content" not in whole["choices"][0]["message"]
    assert check_answer(feed.body).reasoning_content == ""


async def test_a_server_that_stops_says_so_in_the_stream(app: Application) -> None:
    async with post(app, CHAT, body("held", stream=True)) as feed:
        await feed.next()
        await app.drain()
        await feed.finished()

    error = check_answer(feed.body).error
    assert error is not None
    assert error["code"] == "closing"


BAD = [
    pytest.param({"messages": []}, "messages", id="no messages"),
    pytest.param({"messages": [{"role": "assistant", "content": "x"}]}, "messages", id="ends with an answer"),
    pytest.param({"messages": [{"role": "system", "content": "x"}]}, "messages", id="only instructions"),
    pytest.param({"messages": [{"role": "king", "content": "x"}]}, "messages.0.role", id="role"),
    pytest.param({"messages": [{"role": "user", "content": ""}]}, "messages.0.content", id="blank"),
    pytest.param({"messages": [*HI, {"role": "tool", "tool_call_id": "c9", "content": "x"}]}, "messages.1.tool_call_id", id="orphan"),
    pytest.param({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}]}, "messages.0.content.0.image_url.url", id="address"),
    pytest.param({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:text/plain;base64,aWk="}}]}]}, "messages.0.content.0.image_url.url", id="no image"),
    pytest.param({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}]}]}, "messages.0.content.0.image_url.url", id="no base64"),
    pytest.param({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, "messages.0.content.0.type", id="audio"),
    pytest.param({"n": 2}, "n", id="n"),
    pytest.param({"logprobs": True}, "logprobs", id="logprobs"),
    pytest.param({"functions": [{"name": "f"}]}, "functions", id="functions"),
    pytest.param({"parallel_tool_calls": False}, "parallel_tool_calls", id="parallel"),
    pytest.param({"max_tokens": 0}, "max_tokens", id="max_tokens"),
    pytest.param({"temperature": 3}, "temperature", id="temperature"),
    pytest.param({"stop": [""]}, "stop", id="stop"),
    pytest.param({"stream": "yes"}, "stream", id="stream"),
    pytest.param({"tools": [{"type": "custom", "custom": {}}]}, "tools.0.type", id="custom tool"),
    pytest.param({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function", id="tool name"),
    pytest.param({"tools": [LOCATE, LOCATE]}, None, id="two tools"),
    pytest.param({"response_format": {"type": "json_schema"}}, "response_format.json_schema", id="no schema"),
    pytest.param({"metadata": {"thread": 7}}, "metadata.thread", id="thread"),
    pytest.param({"metadata": {"thread": "a/b"}}, "thread", id="thread name"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "param"), BAD)
async def test_what_cannot_be_done_is_refused_in_openais_shape(
    members: Any, param: str | None, asked: Asked
) -> None:
    said = await asked.ask(400, **members)

    assert set(said) == {"error"}
    assert set(said["error"]) == {"message", "type", "param", "code"}
    assert said["error"]["type"] == "invalid_request_error"
    assert said["error"]["param"] == (param if param is None else said["error"]["param"])
    if param is not None:
        assert said["error"]["param"].startswith(param)
    assert asked.model.requests == []


async def test_a_name_of_the_agents_own_tool_cannot_be_taken() -> None:
    asked = Asked("never", tools=[delete])
    function = {"name": "delete", "parameters": {"type": "object"}}
    said = await asked.ask(400, tools=[{"type": "function", "function": function}])
    await asked.app.aclose()

    assert "two tools are named 'delete'" in said["error"]["message"]


async def test_instructions_at_the_end_go_before_the_question(asked: Asked) -> None:
    await asked.ask(messages=[*HI, {"role": "system", "content": "Be short."}])

    assert [message.role for message in asked.model.requests[0].messages] == ["system", "user"]


async def test_errors_before_the_body_is_read_have_the_shape_too(app: Application) -> None:
    async with client(app) as http:
        broken = await http.post(CHAT, content=b"{", headers={"content-type": "application/json"})
        form = await http.post(CHAT, data={"model": "planner"})
        unknown = await http.post(CHAT, json=body("nobody"))

    assert [answer.status_code for answer in (broken, form, unknown)] == [400, 415, 404]
    assert all(
        set(answer.json()["error"]) == {"message", "type", "param", "code"}
        for answer in (broken, form, unknown)
    )
    error = unknown.json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")


async def test_a_client_that_sends_the_whole_conversation_has_more_room() -> None:
    model = ScriptedModel("yes")
    app = create_app([Agent("echo", model=model)], settings=Settings(body_size=2000, history_size=20_000))
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'aWlp' * 4000}"}}
    said = {"role": "user", "content": [picture]}
    async with client(app) as http:
        taken = await http.post(CHAT, json=body(messages=[said]))
        large = await http.post(CHAT, json=body(messages=[said, said]))
    await app.aclose()

    assert (taken.status_code, large.status_code) == (200, 413)
    assert large.json()["error"]["code"] == "too_large"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("POST", "/v1/responses", 404, id="responses"),
        pytest.param("GET", "/v1/responses/resp_1", 404, id="a response"),
        pytest.param("POST", "/v1/embeddings", 404, id="embeddings"),
        pytest.param("GET", "/v1/chat/completions", 405, id="stored completions"),
        pytest.param("DELETE", "/v1/models/planner", 405, id="a model's end"),
    ],
)
async def test_what_openais_clients_ask_by_mistake_is_refused_in_their_shape(
    app: Application, method: str, path: str, status: int
) -> None:
    async with client(app) as http:
        answer = await http.request(method, path)

    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (status, "invalid_request_error")
    assert error["message"].startswith(f"{method} {path!r} is not served here; ask POST /v1/chat/completions")
    assert ("allow" in answer.headers) == (status == 405)


async def test_who_is_not_known_learns_it_in_openais_shape() -> None:
    key, line = new_key("ada")
    model = ScriptedModel("yes", repeat=True)
    app = create_app([Agent("echo", model=model)], settings=Settings(), auth=APIKeys(parse_keys(line)))
    async with client(app) as http:
        unknown = await http.post(CHAT, json=body())
        listed = await http.get("/v1/models")
        known = await http.post(CHAT, json=body(), headers={"authorization": f"Bearer {key}"})
    await app.aclose()

    assert (unknown.status_code, listed.status_code, known.status_code) == (401, 401, 200)
    assert unknown.headers["www-authenticate"] == "Bearer"
    assert unknown.json()["error"]["type"] == "authentication_error"


async def test_an_owners_thread_is_not_anothers() -> None:
    (one, line), (two, other) = new_key("ada"), new_key("bob")
    model = ScriptedModel("yes", repeat=True)
    auth = APIKeys(parse_keys(f"{line}\n{other}"))
    app = create_app([Agent("echo", model=model)], settings=Settings(), auth=auth)
    async with client(app) as http:
        for key in (one, two):
            await http.post(
                CHAT, json=body(), headers={"authorization": f"Bearer {key}", "x-thread-id": "t1"}
            )
    await app.aclose()

    assert [len(request.messages) for request in model.requests] == [1, 1]


async def test_pages_of_listed_sites_may_send_what_openais_client_sends() -> None:
    page = "https://page.example"
    app = create_app([Agent("echo", model=ScriptedModel())], settings=Settings(allowed_origins=(page,)))
    sent = (
        "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,"
        "x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout,x-thread-id"
    )
    asked = {"origin": page, "access-control-request-method": "POST", "access-control-request-headers": sent}
    async with client(app) as http:
        answer = await http.options(CHAT, headers=asked)
    await app.aclose()

    allowed = {name.strip() for name in answer.headers["access-control-allow-headers"].split(",")}
    assert answer.headers["access-control-allow-origin"] == page
    assert set(sent.split(",")) <= allowed


async def test_one_stream_too_many_is_refused_in_openais_shape() -> None:
    key, line = new_key("ada")
    model = ScriptedModel([Say("so"), Wait(60)], repeat=True)
    auth, few = APIKeys(parse_keys(line)), Settings(connections_each=1, drain_timeout=0.1)
    app = create_app([Agent("echo", model=model)], settings=few, auth=auth)
    headers = {"authorization": f"Bearer {key}"}
    async with post(app, CHAT, body(stream=True), headers) as first:
        await first.next()
        async with post(app, CHAT, body(stream=True), headers) as second:
            await second.finished()
    await app.aclose()

    assert (second.status, second.json()["error"]["type"]) == (429, "rate_limit_error")
    assert app.service.going == 0


async def test_agents_are_models(app: Application) -> None:
    async with client(app) as http:
        listed = (await http.get("/v1/models")).json()
        one = await http.get("/v1/models/planner")
        none = await http.get("/v1/models/nobody")

    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["planner", "held", "failing", "refusing"]
    assert one.json() == listed["data"][0]
    assert {name: one.json()[name] for name in ("object", "owned_by", "description")} == {
        "object": "model",
        "owned_by": "agentkit",
        "description": "Plans.",
    }
    assert (none.status_code, none.json()["error"]["code"]) == (404, "model_not_found")


async def test_many_requests_at_once_share_nothing() -> None:
    gate = anyio.Event()
    asked = Asked(*[[Say("a"), Wait(event=gate), Say("b")]])
    answers: list[Any] = []

    async def one() -> None:
        answers.append(await asked.ask())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(one)
        with anyio.fail_after(20):
            while len(asked.model.requests) < 5:
                await anyio.lowlevel.checkpoint()
        gate.set()
    await asked.app.aclose()

    assert [answer["choices"][0]["message"]["content"] for answer in answers] == ["ab"] * 5
    assert len({answer["id"] for answer in answers}) == 5
