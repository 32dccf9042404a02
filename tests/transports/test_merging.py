"""Adjacent deltas merged: same text, fewer records, nothing across anything else."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from agentkit.envelope import draft_all
from agentkit.events import (
    Event,
    Parent,
    Reasoning,
    ReasoningEvent,
    RefusalDelta,
    TextDelta,
    TextFinished,
    ToolCallDelta,
)
from agentkit.log import MAX_RECORD, Record, Topic
from agentkit_transports.merging import MAX_TEXT, merge

pytestmark = pytest.mark.pure

TOPIC = Topic("", "a", "t")


def log(*events: Event, first: int = 1) -> list[Record]:
    return [Record.of(draft, "E", first + n) for n, draft in enumerate(draft_all(TOPIC, events))]


def text(word: str, block: str = "r.1.0", time: float = 1.5e9) -> TextDelta:
    return TextDelta("r", 1, time, block, word)


def thought(kind: Any, word: str, data: dict[str, Any] | None = None) -> Reasoning:
    return Reasoning("r", 1, 1.5e9, "r.1.0", ReasoningEvent(kind, "anthropic", word, data or {}))


def said(records: Sequence[Record]) -> list[tuple[int, int, str]]:
    """First, last and text of each."""
    found = []
    for record in records:
        body = json.loads(record.wire)
        assert (body["id"], body["seq"]) == (record.id, record.seq)
        found.append((body.get("first", body["seq"]), body["seq"], body["data"].get("text", "")))
    return found


def test_adjacent_deltas_become_one_that_is_the_last_and_says_the_first() -> None:
    records = log(text("a"), text("b\n"), text('\u00e9\U0001f600"\\', time=1.6e9), first=7)

    (one,) = merge(records)

    assert one == Record("E", 9, "text.delta", "", "r", "r.1.0", 1.6e9, one.body)
    last = json.loads(records[-1].wire)
    assert json.loads(one.wire) == {
        **last, "first": 7, "data": {"text": 'ab\n\u00e9\U0001f600"\\'},
    }  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([text("a"), text("b", "r.1.1")], id="another block"),
        pytest.param([text("a"), TextFinished("r", 1, 1.0, "r.1.0"), text("b")], id="an event between"),
        pytest.param([text("a"), RefusalDelta("r", 1, 1.0, "r.1.0", "b")], id="another type"),
        pytest.param([thought("delta", "a"), thought("summary", "b")], id="another kind"),
        pytest.param([thought("summary", "a", {"part": 0}), thought("summary", "b", {"part": 1})], id="another part"),
        pytest.param([thought("signature", "", {"signature": "x"})] * 2, id="signatures"),
        pytest.param([thought("state", "", {"state": "x"})] * 2, id="states"),
        pytest.param(
            [ToolCallDelta("r", 1, 1.0, "r.1.0", "c1", "{"), ToolCallDelta("r", 1, 1.0, "r.1.0", "c2", "}")],
            id="another call",
        ),
        pytest.param(
            [text("a"), TextDelta("r2", 1, 1.0, "r.1.0", "b", parent=Parent("r", "c"))], id="a sub-agent's"
        ),
        pytest.param([text("a")], id="one alone"),
        pytest.param([], id="none"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_stays_as_it_is(events: list[Event]) -> None:
    records = log(*events)

    assert merge(records) == records


@pytest.mark.parametrize("kind", ["delta", "summary"])
def test_reasoning_merges_by_its_text_alone(kind: str) -> None:
    (one,) = merge(log(thought(kind, "a", {"part": 1}), thought(kind, "b", {"part": 1})))

    assert json.loads(one.body)["data"] == {
        "kind": kind,
        "provider": "anthropic",
        "text": "ab",
        "data": {"part": 1},
    }


def test_texts_that_look_like_members_are_texts() -> None:
    words = ['"time":"', '"text":"', '\\"', "\\", ',"data":{"text":"x"}}', "}}"]
    topic = Topic("", '"text":"', '"time":"')
    drafts = draft_all(topic, [text(word) for word in words])

    (one,) = merge([Record.of(draft, "E", n) for n, draft in enumerate(drafts, 1)])

    assert json.loads(one.body)["data"] == {"text": "".join(words)}
    assert json.loads(one.body)["agent"] == '"text":"'


def test_bodies_of_another_form_are_left_alone() -> None:
    bodies = [
        b"{}",
        b"[]",
        b"no JSON",
        b'{"time":1,"data":{"text":5}}',
        b'{"time":1,"data":[]}',
        b'{"data":{"text":"x"}}',
    ]
    records = [Record("E", n, "text.delta", "", "r", "b", 0.0, body) for n, body in enumerate(bodies * 2, 1)]

    assert merge(records) == records


def test_no_merged_record_outgrows_a_record() -> None:
    records = log(*[text("\x01" * 100) for _ in range(1000)])

    merged = merge(records)

    assert max(len(record.body) for record in merged) < MAX_RECORD
    assert len(merged) > 1
    assert MAX_TEXT < MAX_RECORD
    assert "".join(word for *_, word in said(merged)) == "\x01" * 100_000


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_log_merging_loses_nothing_and_covers_every_number_once(seed: int) -> None:
    chance = random.Random(seed)
    events: list[Event] = []
    for n in range(300):
        block = f"r.1.{chance.choice([0, 0, 0, 1])}"
        match chance.randrange(8):
            case 0:
                events.append(TextFinished("r", 1, 1.0, block))
            case 1:
                events.append(thought(chance.choice(["delta", "summary", "signature"]), f"{n} "))
            case _:
                events.append(text(f"{n} ", block))
    records = log(*events)

    merged = merge(records)

    ranges = [(first, last) for first, last, _ in said(merged)]
    assert [seq for first, last in ranges for seq in range(first, last + 1)] == list(range(1, 301))
    assert "".join(word for *_, word in said(merged)) == "".join(word for *_, word in said(records))
    assert len(merged) < len(records)
    for (first, last), record in zip(ranges, merged, strict=True):
        assert {(r.type, r.kind, r.block) for r in records[first - 1 : last]} == {
            (record.type, record.kind, record.block)
        }
