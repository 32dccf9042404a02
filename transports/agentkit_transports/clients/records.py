"""What a server tells of threads, runs and messages, as the values that an `Agent` gives.

Pure. Signatures and provider state never leave a server: here they are absent.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, get_args

from agentkit.content import JsonValue, Message, Usage, load_messages
from agentkit.errors import WireError, quote
from agentkit.history import RunRecord, RunStatus, ThreadRecord

_STATUSES: Final[dict[str, RunStatus]] = {one: one for one in get_args(RunStatus)}
_OPAQUE: Final = ("signature", "provider_state")


def run_record(value: Mapping[str, JsonValue]) -> RunRecord:
    """Return what is known of a run.

    Raises:
        WireError: it is not the server's `GET …/runs/{run}`.
    """
    run, status = value.get("run"), _STATUSES.get(str(value.get("status")))
    if not isinstance(run, str) or status is None:
        raise WireError(f"a run should have an id and a status, got {quote(dict(value))}")
    usage = value.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    metadata = value.get("metadata")
    ended = value.get("ended")
    return RunRecord(
        run,
        status,
        _time(value.get("created")),
        None if ended is None else _time(ended),
        text=_text(value, "text"),
        refusal=_text(value, "refusal") if "refusal" in value else None,
        finish=_text(value, "finish"),
        usage=Usage(
            *(_count(counts, name) for name in ("input_tokens", "output_tokens", "reasoning_tokens"))
        ),
        code=_text(value, "code"),
        message=_text(value, "message"),
        retryable=value.get("retryable") is True,
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def thread_record(value: Mapping[str, JsonValue]) -> ThreadRecord:
    """Return what is known of a thread.

    Raises:
        WireError: it has no name.
    """
    name = value.get("thread")
    if not isinstance(name, str):
        raise WireError(f"a thread should have a name, got {quote(dict(value))}")
    return ThreadRecord(name, _time(value.get("created")), _time(value.get("updated")), _text(value, "title"))


def visible_messages(answer: Mapping[str, JsonValue]) -> list[Message]:
    """Return the messages in a server's answer.

    Raises:
        WireError: they are none.
    """
    messages = answer.get("messages")
    if not isinstance(messages, list):
        raise WireError(f"the answer should hold a list messages, got {quote(messages)}")
    return load_messages([_readable(message) for message in messages])


def _readable(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        raise WireError(f"a message should have content, got {quote(message)}")
    blocks: list[Any] = []
    for block in message["content"]:
        known = dict(block) if isinstance(block, dict) else {}
        for name in _OPAQUE:
            if isinstance(known.get(name), dict):  # how long it is, and nothing else
                del known[name]
                known.pop(f"{name}_format", None)
                if known.get("type") == "provider":
                    known |= {"provider_state": "", "provider_state_format": ""}
        blocks.append(known)
    return {**message, "content": blocks}


def _text(value: Mapping[str, JsonValue], name: str) -> str:
    member = value.get(name, "")
    return member if isinstance(member, str) else ""


def _count(value: Mapping[str, JsonValue], name: str) -> int:
    member = value.get(name, 0)
    return member if type(member) is int else 0


def _time(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        raise WireError(f"a time should be RFC 3339, got {quote(value)}") from None
