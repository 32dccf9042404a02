"""What durable engines write of runs and messages, and how a run ends whose owner died.

Pure: values to text and back. No engine's own.
"""

import json
import logging
from dataclasses import replace
from functools import cache

from pydantic import TypeAdapter, ValidationError

from agentkit.content import JsonValue, Message, dump_messages, load_messages, plain
from agentkit.envelope import draft_all
from agentkit.errors import EngineError, WireError
from agentkit.events import Event, RunCancelledEvent, RunFailed, RunFinished
from agentkit.history import RunRecord
from agentkit.log import Draft, Topic

logger = logging.getLogger("agentkit")


@cache
def _runs() -> TypeAdapter[RunRecord]:
    return TypeAdapter(RunRecord)  # with the first that is read: it takes longer than loading this room


@cache
def _data() -> TypeAdapter[dict[str, JsonValue]]:
    return TypeAdapter(dict[str, JsonValue])


OWNER_LOST = "owner_lost"
"""The code of a run whose process died."""


def dump_run(record: RunRecord) -> str:
    """Return a run's record as JSON text."""
    return json.dumps(plain(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def load_run(text: str | bytes) -> RunRecord:
    """Return the run's record that `dump_run` wrote.

    Raises:
        EngineError: it did not.
    """
    try:
        return _runs().validate_json(text)
    except ValidationError as error:
        raise EngineError(f"a stored run cannot be read: {error.error_count()} faults") from None


def load_lost(text: str | bytes, run: str) -> RunRecord | None:
    """Return the record of a run whose owner died, or None where it cannot be read: its thread is set free all the same."""
    try:
        return load_run(text)
    except EngineError as error:
        logger.error("run %s is lost, and its end was not told: %s", run, error)
        return None


def dump_message(message: Message) -> bytes:
    """Return one message as JSON."""
    return dump_messages([message])[1:-1]


def load_all(stored: list[bytes]) -> list[Message]:
    """Return the messages that `dump_message` wrote.

    Raises:
        EngineError: it did not.
    """
    try:
        return load_messages(b"[%s]" % b",".join(stored))
    except WireError as error:
        raise EngineError(f"a stored thread cannot be read: {error}") from None


def dump_data(data: object) -> str:
    """Return metadata, or a signal's data, as JSON text."""
    return json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def load_data(text: str | bytes) -> dict[str, JsonValue]:
    """Return what `dump_data` wrote.

    Raises:
        EngineError: it did not.
    """
    try:
        return _data().validate_json(text)
    except ValidationError:
        raise EngineError("stored metadata cannot be read") from None


def end_of_lost(topic: Topic, record: RunRecord, now: float) -> tuple[RunRecord, Draft | None]:
    """Return what becomes of a run whose owner's lease has expired: its record, and the end that its log needs if it has none.

    A run that was at work has failed. One that had kept its end, but died before it told it, ended as it kept. One that waits for a
    person goes on waiting.
    """
    end: Event
    match record.status:
        case "suspended":
            return record, None
        case "finished":
            end = RunFinished(
                record.run,
                0,
                now,
                record.text,
                record.finish,
                record.usage,
                record.termination or "completed",
            )
        case "cancelled":
            end = RunCancelledEvent(record.run, 0, now, record.message, record.usage, record.text)
        case _:
            if record.status != "failed":
                record = replace(
                    record,
                    status="failed",
                    ended=now,
                    code=OWNER_LOST,
                    message="the process that ran it is gone",
                    retryable=True,
                    termination="failed",
                )
            end = RunFailed(
                record.run, 0, now, record.code, record.message, record.retryable, record.usage, record.text
            )
    return record, draft_all(topic, [end])[0]
