"""A thread's messages as an AG-UI stream without a run, for a client that comes with none: a page that was loaded again.

Pure. What it leaves out: opaque state, reasoning that may not be shown, what a page said of itself, and what was put into a run for its
model only: nobody has said that.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from agentkit.approvals import approval_id
from agentkit.content import (
    DocumentBlock,
    ImageBlock,
    JsonValue,
    Message,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentkit.history import RunRecord
from agentkit_server.ag_ui_input import is_about
from agentkit_transports.encoder import Exposure
from agentkit_transports.protocols.ag_ui import interrupt

Json = dict[str, JsonValue]


def snapshot(
    messages: Sequence[Message],
    waiting: RunRecord | None,
    said: Mapping[str, str],
    thread: str,
    exposure: Exposure,
    questions: Mapping[str, str] | None = None,
) -> bytes:
    """Return RUN_STARTED, the state if there is one, MESSAGES_SNAPSHOT and RUN_FINISHED.

    Args:
        messages: the thread's.
        waiting: its last run, if that waits for a person: what it asks is asked again.
        said: the options of the client's view.
        thread: the thread's name.
        exposure: how much reasoning is shown.
        questions: for each run the client's own id of the message that it answers; "" stands for a run of which no message is there yet.
    """
    calls: dict[str, str] = {}
    told = list(_messages(messages, calls, exposure, questions or {}))
    head: Json = {"threadId": thread, "runId": said["run"]}
    version: Json = {"protocolVersion": "1.0"} if "version" in said else {}
    events: list[Json] = [{"type": "RUN_STARTED", **head, **version}]
    if "state" in said:
        events.append({"type": "STATE_SNAPSHOT", "snapshot": json.loads(said["state"])})
    events.append({"type": "MESSAGES_SNAPSHOT", "messages": list[JsonValue](told)})
    asked: list[JsonValue] = []
    if waiting is not None:
        for use in waiting.pending:
            approval = approval_id(waiting.run, waiting.step, use.id)
            asked.append(interrupt(approval, calls.get(use.id, ""), use.name))
    outcome: Json = {"outcome": {"type": "interrupt", "interrupts": asked} if asked else {"type": "success"}}
    events.append({"type": "RUN_FINISHED", **head, **(outcome if version else {})})
    return b"".join(
        b"data: %b\n\n" % json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        for event in events
    )


def _messages(
    messages: Sequence[Message], calls: dict[str, str], exposure: Exposure, questions: Mapping[str, str]
) -> Iterator[Json]:
    """Yield the messages; `calls` learns the client's id of each call, by the provider's.

    Ids are those that the streams of the runs gave, and the client its own messages: it finds them again.
    """
    steps: Counter[str] = Counter()
    named: set[str] = set()
    for place, message in enumerate(messages):
        name = f"{message.run or 'm'}.{place}"
        match message.role:
            case "user" if not message.run:
                following = messages[place + 1].run if place + 1 < len(messages) else ""
                is_last = following or place + 1 == len(messages)
                given = questions.get(following, "") if is_last and following not in steps else ""
                name = given if given and given not in named else name
                named.add(name)
                content = _said(message)
                if content:
                    yield {"id": name, "role": "user", "content": content}
            case "assistant":
                if message.run:
                    steps[message.run] += 1
                    name = f"{message.run}.{steps[message.run]}"
                yield from _answer(message, name, calls, exposure)
            case "tool":
                for block in message.content:
                    if isinstance(block, ToolResultBlock) and block.tool_use_id in calls:
                        call = calls[block.tool_use_id]
                        result: Json = {"id": f"{call}.result", "role": "tool", "content": block.text}
                        error: Json = {"error": block.text} if block.is_error else {}
                        yield {**result, "toolCallId": call, **error}
            case _:
                pass


def _said(message: Message) -> str | list[JsonValue]:
    """Return what a user said: text, or parts."""
    blocks = [block for block in message.content if not is_about(block)]
    if all(isinstance(block, TextBlock) for block in blocks):
        return "".join(block.text for block in blocks if isinstance(block, TextBlock))
    parts: list[JsonValue] = []
    for block in blocks:
        match block:
            case TextBlock():
                parts.append({"type": "text", "text": block.text})
            case ImageBlock() | DocumentBlock():
                source: Json = {"type": "data", "value": block.data, "mimeType": block.media_type}
                if block.url:
                    source = {"type": "url", "value": block.url}
                parts.append({"type": block.type, "source": source})
            case _:
                pass
    return parts


def _answer(message: Message, name: str, calls: dict[str, str], exposure: Exposure) -> list[Json]:
    """Return the blocks in order. A call belongs to the text before it, or to a message for the calls of the step."""
    out: list[Json] = []
    anchor: Json | None = None
    for number, block in enumerate(message.content):
        match block:
            case ThinkingBlock() if exposure == "full" or (exposure == "summary" and block.summary):
                out.append(
                    {"id": f"{name}.{number}.reasoning", "role": "reasoning", "content": block.thinking}
                )
            case TextBlock() if block.text:
                anchor = {"id": f"{name}.{number}.text", "role": "assistant", "content": block.text}
                out.append(anchor)
            case RefusalBlock() if block.refusal:
                anchor = {"id": f"{name}.{number}.refusal", "role": "assistant", "content": block.refusal}
                out.append(anchor)
            case ToolUseBlock() if block.complete and block.id:
                if anchor is None:
                    anchor = {"id": f"{name}.calls", "role": "assistant"}
                    out.append(anchor)
                calls[block.id] = f"{name}.{block.id}" if message.run else block.id
                function: JsonValue = {"name": block.name, "arguments": block.input or "{}"}
                uses = anchor.setdefault("toolCalls", [])
                assert isinstance(uses, list)
                uses.append({"id": calls[block.id], "type": "function", "function": function})
            case _:
                pass
    return out
