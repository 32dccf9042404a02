"""Random conversations of an AG-UI client with an agent that calls, fails and asks: every answer is a valid stream or a clear refusal."""

import random
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import pytest
from asgi import client
from checkers.ag_ui import Watcher, frames_of

from agentkit import Agent, tool
from agentkit.testing import Call, Fail, Say, ScriptedModel, Think
from agentkit.testing.scripted import Step
from agentkit_server import create_app

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TURNS = 8
LOCATE: Json = {"name": "locate", "description": "Where.", "parameters": {"type": "object"}}
IMAGE: Json = {"type": "image", "source": {"type": "data", "value": "aWk=", "mimeType": "image/png"}}
PARTS: list[Json] = [
    {"type": "text", "text": "x"},
    IMAGE,
    {"type": "audio"},
    {"type": "binary", "mimeType": "image/png", "id": "f"},
    {"type": "document", "source": {"type": "url", "value": "https://x.example/a.pdf"}},
]
STEPS: list[Step] = [
    "hello",
    [Think("hm", signature="s"), Say("so")],
    [Call("rain", {"city": "Rome"}, id="c1"), Call("risk", id="c2")],
    [Say("see"), Call("locate", id="c1"), Call("rain", id="c2")],
    [Call("locate", id="c1"), Call("risk", id="c3")],
    [Call("nobody", id="c1")],
    [Call("locate", "{broken", id="c1")],
    [Say("x"), Fail("it broke")],
]


@tool(requires_approval=True)
def risk() -> str:
    """Risk."""
    return "risked"


@tool
def rain(city: str = "") -> str:
    """Rain."""
    return f"none in {city}"


@dataclass
class Person:
    """Somebody at a page, who does anything that the page lets them do, and some things more."""

    chance: random.Random
    version: str
    messages: list[Json] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """What the last answer wants decided."""
    open: list[str] = field(default_factory=list)
    """The page's calls in it."""

    def input(self, turn: int) -> tuple[Json, list[Json]]:
        """Return an input, and the messages that the page will have if it is taken."""
        chance = self.chance
        fresh: list[Json] = []
        if self.open and chance.random() < 0.8:
            answers = ["ok", [PARTS[0]], ""]
            for call in self.open:
                said = chance.choice(answers)
                fresh.append({"id": f"r{turn}.{call}", "role": "tool", "toolCallId": call, "content": said})
        if chance.random() < 0.7:
            content = chance.choice(["hi", [chance.choice(PARTS)], chance.sample(PARTS, 2), "", " "])
            fresh.append({"id": f"u{turn}", "role": "user", "content": content})
        if chance.random() < 0.2:
            fresh.append({"id": f"s{turn}", "role": chance.choice(["system", "developer"]), "content": "be"})
        if chance.random() < 0.1:
            fresh.append({"id": f"q{turn}", "role": "reasoning", "content": "z", "encryptedValue": "x"})
        all_of_them = [*self.messages, *fresh]
        body: Json = {"threadId": "t", "runId": f"c{turn}"}
        body["messages"] = all_of_them if chance.random() < 0.8 else fresh
        body["tools"] = [LOCATE] if chance.random() < 0.8 else []
        body["state"] = chance.choice([None, {}, {"n": turn}, [1], "s", 0])
        if chance.random() < 0.3:
            body["context"] = [{"description": "file", "value": chance.choice("ab")}]
        if self.version:
            body["protocolVersion"] = self.version
        if self.asked and chance.random() < 0.7:
            body["resume"] = [self._decision(approval) for approval in self.asked]
        return body, all_of_them

    def _decision(self, approval: str) -> Json:
        payload = self.chance.choice([True, False, {"approved": True}, {"approved": False, "reason": "no"}])
        status = self.chance.choice(["resolved", "cancelled"])
        return {"interruptId": approval, "status": status, "payload": payload}


async def talk(person: Person, watcher: Watcher) -> int:
    """Talk for some turns, and return how many were answered."""
    steps = [person.chance.choice(STEPS) for _ in range(500)]
    app = create_app([Agent("a", model=ScriptedModel(*steps), tools=[risk, rain])])
    answered = 0
    async with client(app) as http:
        for turn in range(TURNS):
            body, messages = person.input(turn)
            answer: httpx2.Response = await http.post("/v1/ag-ui/a", json=body)
            assert answer.status_code in (200, 404, 409, 422), answer.text
            if answer.status_code != 200:
                assert answer.json()["detail"]
                continue
            answered += 1
            person.messages = messages
            events = [event for _, event in frames_of(answer.content)]
            if any(event["type"] == "MESSAGES_SNAPSHOT" for event in events):
                continue
            if "resume" not in body:  # whoever goes on without an answer gets none any more
                watcher.answered |= watcher.arguments.keys()
            watcher.answered |= set(person.open)
            watcher.watch(events, run=body["runId"], thread="t")
            waiting = [e["value"]["approval"] for e in events if e.get("name") == "tool_approval.requested"]
            decided = {e["value"]["approval"] for e in events if e.get("name") == "tool_approval.resolved"}
            person.asked = [
                one for one in waiting if one not in decided and events[-1]["type"] == "RUN_FINISHED"
            ]
            left = [call for call in watcher.arguments if call not in watcher.answered]
            person.open = [] if person.asked else left
    await app.aclose()
    return answered


@pytest.mark.parametrize("version", ["1.0", ""], ids=["1.0", "0.0.59"])
async def test_random_conversations(version: str) -> None:
    await _many(range(4), version)


@pytest.mark.full
@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", ["1.0", ""], ids=["1.0", "0.0.59"])
async def test_many_random_conversations(version: str) -> None:
    await _many(range(4, 60), version)


async def _many(seeds: range, version: str) -> None:
    answered = 0
    for seed in seeds:
        print("seed", seed)
        with anyio.fail_after(20):
            person = Person(random.Random(seed), version)
            answered += await talk(person, Watcher(version=version))

    assert answered > len(seeds) * 2
