"""Every public fault of `README.md` stays mended, for the dialects that are built.

Stream cases are decoded as they say, and also cut anywhere. Replay cases are put into our messages and encoded; their conditions are
checked on the JSON body of the first request. What follows a refusal (`exchange`) goes through the real client.
"""

import copy
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from agentkit.chunks import Chunk
from agentkit.client import StreamingClient
from agentkit.content import (
    Block,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    dump_messages,
    load_messages,
)
from agentkit.dialects.base import Profile, Target, state_text
from agentkit.dialects.table import DIALECTS
from agentkit.errors import ModelStatusError
from agentkit.events import Event, Reasoning
from agentkit.model import ModelRequest, ToolSpec
from agentkit.pace import RetryPolicy
from agentkit.reading import STATE_MEMBERS, decode_body, read_chunks
from agentkit.reasoning import ReasoningSetting
from agentkit.step_events import StepEvents

README_FINISHES = ("stop", "tool_calls", "length", "error", None)
README_FINISH = {"refusal": "stop", "pause": "stop", "content_filter": "stop", "other": "stop"}
"""Our finer words for how a turn ended, as the five of the README have them: it ended, and that is no fault of the stream."""

Json = dict[str, Any]


# streams


def target_of_stream(case: Json) -> Target:
    options = case["expected"].get("options", {})
    return Target("case", "demo", Profile(think_tags=options.get("think_tags", False)))


def decode(case: Json, reads: Iterable[bytes]) -> tuple[list[Chunk], Json]:
    chunks, fault = decode_body(DIALECTS[case["dialect"]], target_of_stream(case), reads)
    return chunks, read_chunks(chunks, fault)


def body_of(folder: Path) -> bytes:
    [path] = folder.glob("stream.*")
    return path.read_bytes()


def fed(case: Json, body: bytes) -> list[bytes]:
    """Return the reads as the case says that they arrive."""
    match case.get("feed"):
        case None:
            return [body]
        case {"every": int(size)}:
            return [body[at : at + size] for at in range(0, len(body), size)]
        case {"split_at": list(places)}:
            return cut_at(body, places)
        case feed:
            raise ValueError(f"unknown feed {feed!r}")


def cut_at(body: bytes, places: list[int]) -> list[bytes]:
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def splits(case: Json, body: bytes) -> Iterator[list[bytes]]:
    chance = random.Random(case["id"])
    yield [body]
    yield [body[at : at + 1] for at in range(len(body))]
    for _ in range(30):
        cut = chance.randrange(len(body))
        yield [body[:cut], body[cut:]]
        yield cut_at(body, sorted(chance.randrange(len(body)) for _ in range(20)))


def test_a_stream_reads_as_the_case_says(stream_case: tuple[Path, Json]) -> None:
    folder, case = stream_case
    body = body_of(folder)

    chunks, reading = decode(case, fed(case, body))

    assert stream_differences(case["expected"], chunks, reading) == []


def test_any_split_of_a_stream_reads_the_same(stream_case: tuple[Path, Json]) -> None:
    folder, case = stream_case
    body = body_of(folder)
    _, whole = decode(case, fed(case, body))

    for reads in splits(case, body):
        assert decode(case, reads)[1] == whole


def stream_differences(expected: Json, chunks: list[Chunk], reading: Json) -> list[str]:
    """Return what differs, a line a member; [] where the reading is as expected. Members that are absent are not checked."""
    out: list[str] = []

    def check(name: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            out.append(f"{name}: {ours!r} is not {theirs!r}")

    for name, theirs in expected.items():
        match name:
            case "text" if expected.get("text_compare") == "strip_leading_newlines":
                check(name, reading["text"].lstrip("\n"), theirs.lstrip("\n"))
            case "finish" if theirs in README_FINISHES:
                check(name, README_FINISH.get(reading["finish"], reading["finish"]), theirs)
            case "text" | "finish" | "order":
                check(name, reading[name], theirs)
            case "thinking":
                out += thinking_differences(theirs, reading["thinking"], expected.get("text_join"))
            case "tools":
                out += tool_differences(theirs, reading["tools"])
            case "error":
                out += error_differences(theirs, reading["error"])
            case "distinct_tool_ids":
                ids = [tool["id"] for tool in reading["tools"]]
                check(name, len(set(ids)) == len(ids), theirs)
            case "part_signatures":
                check(name, [{"kind": "text", **signed} for signed in reading["text_signatures"]], theirs)
            case "usage":
                check(name, {member: (reading["usage"] or {}).get(member) for member in theirs}, theirs)
            case "event_kinds":
                check(name, {"thinking": announced(chunks)}, {"thinking": {theirs["thinking"]}})
            case "utf8_safe_events":
                check(name, all(is_utf8(event) for event in events(chunks)), theirs)
            case "options" | "text_compare" | "text_join":
                pass  # inputs and ways to compare
            case _:
                out.append(f"{name}: the runner does not know this member")
    return out


def thinking_differences(expected: list[Json], blocks: list[Json], join: str | None) -> list[str]:
    if len(expected) != len(blocks):
        return [f"thinking: {blocks!r} is not {expected!r}"]
    out = []
    for theirs, ours in zip(expected, blocks, strict=True):
        parts = theirs["text"].split(join) if join else [theirs["text"]]
        if not re.fullmatch(r"\s*".join(map(re.escape, parts)), ours["text"]):
            out.append(f"thinking text: {ours['text']!r} is not {theirs['text']!r}")
        if {**ours, "text": ""} != {**theirs, "text": ""}:
            out.append(f"thinking: {ours!r} is not {theirs!r}")
    return out


def tool_differences(expected: list[Json], tools: list[Json]) -> list[str]:
    if len(expected) != len(tools):
        return [f"tools: {tools!r} is not {expected!r}"]
    out = []
    for theirs, ours in zip(expected, tools, strict=True):
        if not (ours["id"] if theirs["id"] == "*" else ours["id"] == theirs["id"]):
            out.append(f"tool id: {ours['id']!r} is not {theirs['id']!r}")
        wanted = {"complete": True, **{k: v for k, v in theirs.items() if k != "id"}}
        shown = {"complete": True, "signature": None, **ours}
        if any(shown.get(member) != value for member, value in wanted.items()):
            out.append(f"tool: {ours!r} is not {theirs!r}")
    return out


def error_differences(expected: Json | None, error: Json | None) -> list[str]:
    if expected is None or error is None:
        return [] if expected is error else [f"error: {error!r} is not {expected!r}"]
    out = []
    for name, theirs in expected.items():
        match name:
            case "message_contains":
                same = theirs in error["message"]
            case "code":
                same = error["code"] == str(theirs)
            case "auto_retry":
                same = (error["retryable"] and not error["partial"]) == theirs
            case _:
                same = error[name] == theirs
        if not same:
            out.append(f"error {name}: {error!r} is not {expected!r}")
    return out


def events(chunks: list[Chunk]) -> list[Event]:
    step = StepEvents("run", 1, "case")
    return [*step.map(chunks, 0.0), *step.close(0.0)]


def announced(chunks: list[Chunk]) -> set[str]:
    return {
        event.event.kind
        for event in events(chunks)
        if isinstance(event, Reasoning) and event.event.text is not None
    }


def is_utf8(event: Event) -> bool:
    try:
        "".join(strings(asdict(event))).encode()
    except UnicodeEncodeError:
        return False
    return True


# replay


def message_of(turn: Json) -> Message:
    """Put a neutral turn into our words."""
    match turn["role"]:
        case "user":
            return Message.user(turn["text"])
        case "tool":
            return Message("tool", tuple(result_of(result) for result in turn["results"]))
        case "assistant":
            told = turn["origin"]
            origin = Origin(told["dialect"], told["provider"], told["model"], told.get("endpoint", ""))
            blocks = tuple(block_of(block, origin) for block in turn["blocks"])
            return Message("assistant", blocks, "complete" if turn["status"] == "complete" else "partial")
        case role:
            raise ValueError(f"unknown role {role!r}")


def result_of(result: Json) -> ToolResultBlock:
    content = () if result["content"] is None else (TextBlock(result["content"]),)
    return ToolResultBlock(result["id"], content=content, status=result["status"])


def block_of(block: Json, made_by: Origin) -> Block:
    # A store that changes a block takes its origin away: nobody made it as it is now.
    origin = None if block.get("modified") else made_by
    signature = block.get("signature") or ""
    signature_format = made_by.dialect if signature else ""
    state, state_format = state_of(block, made_by)
    match block["kind"]:
        case "thinking":
            return ThinkingBlock(
                block["text"], signature, state, state_format, signature_format, origin=origin
            )
        case "text":
            return TextBlock(block["text"], signature, signature_format, state, state_format, origin)
        case "tool_call":
            args = json.dumps(block["args"])
            whole = block.get("complete", True)
            return ToolUseBlock(
                block["id"],
                block["name"],
                args,
                whole,
                signature,
                signature_format,
                state,
                state_format,
                origin,
            )
        case kind:
            raise ValueError(f"unknown block {kind!r}")


def state_of(block: Json, made_by: Origin) -> tuple[str | None, str]:
    state = block.get("state")
    if state:
        return state_text(state[STATE_MEMBERS[state["format"]]]), state["format"]
    if block.get("item_id"):
        return state_text({"id": block["item_id"]}), made_by.dialect
    return None, ""


def target_of(case: Json) -> Target:
    told = case["target"]
    pairs = dict(pair.split("=") for pair in told.get("profile", "").split(";") if pair)
    replay: Any = pairs.pop("replay_reasoning", None)
    missing: Any = pairs.pop("missing_reasoning", "empty" if replay else "")
    if pairs:
        raise ValueError(f"unknown profile members {sorted(pairs)}")
    profile = Profile(replay_reasoning=replay, missing_reasoning=missing)
    return Target(told["provider"], told["model"], profile, told.get("endpoint", ""))


def request_of(case: Json) -> ModelRequest:
    told = case["target"]
    messages = [message_of(turn) for turn in case["history"]]
    if told.get("through") == "json save and load":
        messages = load_messages(dump_messages(messages))
    names = {
        block["name"]
        for turn in case["history"]
        for block in turn.get("blocks", ())
        if block["kind"] == "tool_call"
    }
    options = {name: told[name] for name in ("store", "previous_response_id") if name in told}
    return ModelRequest(
        messages,
        tools=[ToolSpec(name, "", {"type": "object"}) for name in sorted(names)],
        reasoning=ReasoningSetting(effort="medium") if told.get("thinking") else None,
        provider_options={told["provider"]: options} if options else {},
    )


def first_body(case: Json) -> Json:
    """Return the body of the first request, as the wire has it: JSON in UTF-8."""
    parts = DIALECTS[case["dialect"]].encode(request_of(case), target_of(case))
    body: Json = json.loads(json.dumps(parts.body, ensure_ascii=False, allow_nan=False).encode())
    return body


def test_a_replay_sends_what_the_case_says(replay_case: tuple[Path, Json]) -> None:
    _, case = replay_case

    assert replay_differences(case, first_body(case)) == []


def test_a_replay_leaves_the_history_as_it_is(replay_case: tuple[Path, Json]) -> None:
    _, case = replay_case
    request = request_of(case)
    before = dump_messages(request.messages)

    DIALECTS[case["dialect"]].encode(request, target_of(case))

    assert dump_messages(request.messages) == before


ACCEPTED: dict[str, str] = {
    "anthropic-messages": 'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n',
    "openai-responses": 'data: {"type":"response.completed","response":{"status":"completed","output":[]}}\n\n',
    "openai-chat": 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "gemini": 'data: {"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}\n\n',
    "ollama": '{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n',
}
"""The shortest answer that a dialect calls whole."""


class Exchange:
    """A provider that answers as a case's `exchange` says, and keeps what it was asked."""

    def __init__(self, case: Json) -> None:
        self.dialect = case["dialect"]
        self.steps: list[Json] = case["exchange"]
        self.bodies: list[Json] = []
        self.wrong: list[str] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        place = len(self.bodies)
        self.bodies.append(body)
        step = self.steps[min(place, len(self.steps) - 1)]
        if place < len(self.steps) or step.get("every_attempt"):
            refused = True
        else:
            refused = False
            wanted = step.get("next_any_of", ())
            unmet = [replay_differences(conditions, body) for conditions in wanted]
            if wanted and all(unmet):
                self.wrong.append(f"attempt {place + 1}: {unmet}")
        if refused:
            return httpx2.Response(step["reply"]["status"], json=step["reply"]["body"])
        return httpx2.Response(
            200, text=ACCEPTED[self.dialect], headers={"content-type": "text/event-stream"}
        )


async def ask(case: Json, exchange: Exchange) -> ModelStatusError | None:
    """Make the case's request through the real client, and return how it was refused in the end."""
    client = StreamingClient(
        DIALECTS[case["dialect"]],
        target_of(case),
        "http://provider.test",
        transport=lambda: httpx2.MockTransport(exchange.answer),
        retry=RetryPolicy(base=0.001),
    )
    try:
        async with client.stream(request_of(case)) as answer:
            while await answer.next():
                pass
    except ModelStatusError as error:
        return error
    return None


@pytest.mark.anyio
async def test_a_refusal_is_followed_as_the_case_says(exchange_case: tuple[Path, Json]) -> None:
    _, case = exchange_case
    exchange, expected = Exchange(case), case["expected"]

    with anyio.fail_after(20):
        error = await ask(case, exchange)

    assert exchange.wrong == []
    assert replay_differences(case, exchange.bodies[0]) == []
    most = [step["max_attempts"] for step in exchange.steps if "max_attempts" in step]
    assert len(exchange.bodies) <= min([*most, expected.get("attempts_at_most", 99)])
    match expected.get("request_accepted"):
        case True:
            assert (error, len(exchange.bodies)) == (None, 1)
        case "on second attempt":
            assert (error, len(exchange.bodies)) == (None, 2)
        case None:
            assert error is not None
            assert error.status == expected["error"]["status"]
        case other:
            pytest.fail(f"unknown expectation {other!r}")


@pytest.mark.anyio
async def test_a_provider_that_refuses_for_ever_is_asked_twice_at_most(
    exchange_case: tuple[Path, Json],
) -> None:
    _, case = exchange_case
    exchange = Exchange({**case, "exchange": [{**step, "every_attempt": True} for step in case["exchange"]]})

    with anyio.fail_after(20):
        error = await ask(case, exchange)

    assert error is not None
    assert len(exchange.bodies) <= 2
    assert exchange.bodies[0] not in exchange.bodies[1:]  # the same again would be refused again


def replay_differences(conditions: Json, body: Json) -> list[str]:
    """Return the conditions that a body does not meet."""
    missing = [c for c in conditions.get("must_send", ()) if not holds(c, body)]
    forbidden = [c for c in conditions.get("must_not_send", ()) if holds(c, body)]
    return [f"must send {c!r}" for c in missing] + [f"must not send {c!r}" for c in forbidden]


def holds(condition: Json, body: Json) -> bool:
    places = at_path(body, condition.get("path", ""))
    value = condition.get("value")
    match condition["op"]:
        case "subset":
            return any(is_subset(value, place) for place in places)
        case "equals":
            return any(place == value for place in places)
        case "string":
            return any(str(value) in text for place in places for text in strings(place))
        case "string_once":
            return sum(text.count(str(value)) for place in places for text in strings(place)) == 1
        case "key":
            return any(value in keys for place in places for keys in key_sets(place))
        case "types":
            kinds = [
                [item.get("type", "message") for item in place] for place in places if isinstance(place, list)
            ]
            return value in kinds
        case op:
            raise ValueError(f"unknown op {op!r}")


def at_path(value: object, path: str) -> list[Any]:
    """Return what a JSON pointer points at; `*` is any element."""
    found = [value]
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        below: list[Any] = []
        for place in found:
            if isinstance(place, dict):
                below += place.values() if name == "*" else [place[name]] if name in place else []
            elif isinstance(place, list):
                below += place if name == "*" else place[int(name) : int(name) + 1] if name.isdigit() else []
        found = below
    return found


def is_subset(part: object, whole: object) -> bool:
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(name in whole and is_subset(value, whole[name]) for name, value in part.items())
    return part == whole


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings(member)


def key_sets(value: object) -> Iterator[set[str]]:
    if isinstance(value, dict):
        yield set(value)
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from key_sets(member)


# the runner is honest


def changed(expected: Json) -> Iterator[tuple[str, Json]]:
    """Return the expectation with each of its members changed, one after the other."""
    for name, value in expected.items():
        if name in ("options", "text_compare", "text_join", "event_kinds"):
            continue
        other = copy.deepcopy(expected)
        match value:
            case bool():
                other[name] = not value
            case str():
                other[name] = value + "x"
            case list():
                other[name] = [*value, {"id": "x", "text": "x", "signature": None}]
            case {"kind": str(kind)}:
                other[name] = {**value, "kind": kind + "x"}
            case {"input_tokens": int(count)}:
                other[name] = {**value, "input_tokens": count + 1}
            case None:
                other[name] = {"kind": "provider"} if name == "error" else "x"
            case _:
                raise ValueError(f"no change for {name!r}")
        yield name, other
    for at, call in enumerate(expected.get("tools", ())):
        for member in call:
            other = copy.deepcopy(expected)
            other["tools"][at][member] = not call[member] if isinstance(call[member], bool) else "changed"
            yield f"tools/{at}/{member}", other
    for at, block in enumerate(expected.get("thinking", ())):
        for member in block:
            other = copy.deepcopy(expected)
            other["thinking"][at][member] = "changed"
            yield f"thinking/{at}/{member}", other
    for member in expected.get("error") or ():
        other = copy.deepcopy(expected)
        value = other["error"][member]
        other["error"][member] = not value if isinstance(value, bool) else "changed"
        yield f"error/{member}", other
    yield "an unknown member", {**expected, "unheard_of": 1}


def test_a_changed_stream_expectation_fails(stream_case: tuple[Path, Json]) -> None:
    folder, case = stream_case
    chunks, reading = decode(case, fed(case, body_of(folder)))

    unseen = [
        name for name, other in changed(case["expected"]) if not stream_differences(other, chunks, reading)
    ]

    assert unseen == []


def test_a_changed_replay_condition_fails(replay_case: tuple[Path, Json]) -> None:
    _, case = replay_case
    body = first_body(case)

    for condition in case["must_send"]:
        value = condition["value"]
        other = {**value, "unheard_of": 1} if isinstance(value, dict) else "unheard of"
        assert replay_differences({"must_send": [{**condition, "value": other}]}, body)
        assert replay_differences({"must_not_send": [condition]}, body)
    for condition in case["must_not_send"]:
        assert replay_differences({"must_send": [condition]}, body)


CONDITIONS = [
    ({"op": "subset", "path": "/a/*", "value": {"x": {"y": 1}}}, True),
    ({"op": "subset", "path": "/a/*", "value": {"x": {"y": 2}}}, False),
    ({"op": "subset", "path": "/a/0", "value": {}}, True),
    ({"op": "subset", "path": "/b", "value": {}}, False),
    ({"op": "equals", "path": "/a/0/x", "value": {"y": 1, "z": [1, "wordy"]}}, True),
    ({"op": "equals", "path": "/a/0/x/z", "value": [1]}, False),
    ({"op": "equals", "path": "/a/7", "value": None}, False),
    ({"op": "string", "value": "word"}, True),
    ({"op": "string", "value": "Word"}, False),
    ({"op": "string", "value": "typ"}, True),
    ({"op": "string_once", "value": "word"}, True),
    ({"op": "string_once", "value": "t"}, False),
    ({"op": "key", "value": "z"}, True),
    ({"op": "key", "value": "wordy"}, False),
    ({"op": "types", "path": "/a", "value": ["message", "t"]}, True),
    ({"op": "types", "path": "/a", "value": ["t"]}, False),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS, ids=[str(c) for c, _ in CONDITIONS])
def test_conditions_mean_what_the_readme_says(condition: Json, expected: bool) -> None:
    body: Json = {"a": [{"x": {"y": 1, "z": [1, "wordy"]}}, {"type": "t"}]}

    assert holds(condition, body) is expected
