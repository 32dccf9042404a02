"""What was read goes back: each recording becomes a turn, is saved and loaded, and is sent to its own provider and to all others.

Judges are `checkers`, written from the providers' rules; what a turn must keep is looked for in the body itself.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.table import CHECKERS, answered, secrets, send, through_the_store

from agentkit.accumulators import Response
from agentkit.content import Message, TextBlock, ThinkingBlock
from agentkit.dialects.base import Profile, Target, origin
from agentkit.dialects.table import DIALECTS
from agentkit.reading import decode_body
from agentkit.repair import repair

Json = dict[str, Any]


def turn_of(recording: tuple[Path, Json]) -> tuple[Target, Message]:
    """Return who was asked, and the turn that the recording makes."""
    folder, entry = recording
    target = Target(entry["provider"], entry["model"] or "demo")
    chunks, fault = decode_body(DIALECTS[entry["dialect"]], target, [(folder / entry["file"]).read_bytes()])
    response = Response(origin(entry["dialect"], target))
    for chunk in chunks:
        response.add(chunk)
    return target, response.message(partial=fault is not None or response.error is not None)


def faults(dialect: str, body: Json) -> list[str]:
    return CHECKERS[dialect](body)


def test_a_recorded_turn_goes_back_to_its_own_provider(recording: tuple[Path, Json]) -> None:
    target, turn = turn_of(recording)
    dialect = recording[1]["dialect"]
    history = through_the_store(answered(turn))

    body = send(dialect, history, target)

    assert faults(dialect, body) == []
    sent = json.dumps(body, ensure_ascii=False)
    kept = repair(history)[1] if turn.content else turn
    assert all(json.dumps(text, ensure_ascii=False)[1:-1] in sent for text in words(kept))
    if turn.status == "complete" and dialect in ("anthropic-messages", "openai-responses", "gemini"):
        owned = [secret for block in kept.content for secret in secrets(block)]
        assert [s for s in owned if json.dumps(s, ensure_ascii=False)[1:-1] not in sent] == []


def test_a_recorded_turn_gives_no_other_provider_what_is_not_its_own(recording: tuple[Path, Json]) -> None:
    _, turn = turn_of(recording)
    history = through_the_store(answered(turn))
    hidden = [secret for block in turn.content for secret in secrets(block)]
    thoughts = [b.thinking for b in turn.content if isinstance(b, ThinkingBlock) and len(b.thinking) > 40]
    visible = turn.text

    for dialect, check in CHECKERS.items():
        body = send(dialect, history, Target("somebody-else", "demo", Profile(replay_reasoning="always")))
        sent = json.dumps(body, ensure_ascii=False)

        assert (dialect, check(body)) == (dialect, [])
        for secret in hidden:
            assert json.dumps(secret, ensure_ascii=False)[1:-1] not in sent
        for thought in thoughts:
            assert thought in visible or json.dumps(thought, ensure_ascii=False)[1:-1] not in sent
        assert all(json.dumps(text, ensure_ascii=False)[1:-1] in sent for text in words(repair(history)[1]))


def words(turn: Message) -> list[str]:
    """Return the visible text of a turn that must be there wherever it goes."""
    return [block.text for block in turn.content if isinstance(block, TextBlock) and block.text.strip()]


def test_a_recorded_turn_that_broke_off_is_sent_all_the_same(recording: tuple[Path, Json]) -> None:
    target, turn = turn_of(recording)
    dialect = recording[1]["dialect"]
    for end in range(len(turn.content)):
        half = replace(turn, content=turn.content[:end], status="partial")

        assert faults(dialect, send(dialect, [Message.user("go"), half, Message.user("more")], target)) == []
