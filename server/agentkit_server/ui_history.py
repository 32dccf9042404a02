"""A thread as the AI SDK's UI messages: what a page shows when it is opened again.

Pure. The same ids and parts as the streams of the runs had, so that what is replayed fits what is loaded; no signature, no state.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from agentkit.content import (
    DocumentBlock,
    ImageBlock,
    JsonValue,
    Message,
    ProviderBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    plain,
)
from agentkit.history import RunRecord, without
from agentkit.repair import parsed_input
from agentkit_server.rewind import CONTINUES, MESSAGE, standing, taken_back
from agentkit_transports.encoder import Exposure
from agentkit_transports.protocols.ai_sdk_words import finish_word, output_of, usage_of

Part = dict[str, JsonValue]


def ui_messages(
    messages: Sequence[Message], records: Sequence[RunRecord], exposure: Exposure, *, leave_out: str = ""
) -> list[Part]:
    """Return the messages that a page shows.

    Args:
        messages: the thread's.
        records: its runs; those that were taken back do not show.
        exposure: how much of the reasoning is shown.
        leave_out: the run whose answer is being made: a resumed stream brings it.
    """
    known = {record.run: record for record in standing(records)}
    out: list[Part] = []
    asked: list[Message] = []
    runs = list(_by_run(without(messages, taken_back(records))))
    for place, (run, group) in enumerate(runs):
        if not run:
            asked = group
            continue
        record = known.get(run)
        out += _asked(asked, run, record)
        asked = []
        if run != leave_out:
            following = runs[place + 1][1] if place + 1 < len(runs) else []
            is_open = record is not None and record.termination == "client_tools"
            answer = _Answer(run, group, exposure, following if is_open else None)
            _append(out, run, record, answer.parts())
    return out + _asked(asked, leave_out, known.get(leave_out))


def _by_run(messages: Sequence[Message]) -> Iterator[tuple[str, list[Message]]]:
    """Yield messages that belong together: all of a run, also what was put into it; or what was said between."""
    place = 0
    while place < len(messages):
        run = messages[place].run
        if run:
            end = 1 + max(number for number, one in enumerate(messages) if one.run == run)
        else:
            end = next(
                (number for number in range(place, len(messages)) if messages[number].run), len(messages)
            )
        yield run, list(messages[place:end])
        place = end


def _asked(messages: Sequence[Message], run: str, record: RunRecord | None) -> list[Part]:
    """Return what was said before a run: the last of it has the id that its sender gave it. What stood elsewhere may be an assistant's."""
    out: list[Part] = []
    given = record.metadata.get(MESSAGE) if record is not None else None
    for place, message in enumerate(messages, 1 - len(messages)):
        if message.role in ("user", "assistant"):
            id_ = given if place == 0 and isinstance(given, str) else f"{run or 'said'}.{place}"
            parts: list[JsonValue] = [part for block in message.content for part in _visible(block)]
            out.append({"id": id_, "role": message.role, "parts": parts})
    return out


def _append(out: list[Part], run: str, record: RunRecord | None, parts: list[JsonValue]) -> None:
    """Add an answer, or what goes on with the one before it."""
    metadata: Part = {"runId": run, **(_ending(record) if record is not None else {})}
    continued = record.metadata.get(CONTINUES) if record is not None else None
    if out and continued is not None and out[-1]["id"] == continued:
        before, known = out[-1]["parts"], out[-1]["metadata"]
        assert isinstance(before, list)
        assert isinstance(known, dict)
        before += parts
        known |= metadata  # as the SDK merges what a stream brings
    elif parts:
        out.append({"id": run, "role": "assistant", "metadata": metadata, "parts": parts})


def _ending(record: RunRecord) -> Part:
    """Return what the stream of a run said of its end."""
    usage = usage_of({"usage": asdict(record.usage) | {"total_tokens": record.usage.total_tokens}})
    match record.status:
        case "finished":
            return {"finishReason": finish_word(record.finish), **usage}
        case "failed":
            return {"error": {"code": record.code or "failed", "retryable": record.retryable}, **usage}
        case "cancelled":
            return {"cancelled": {"reason": record.message}, **usage}
        case _:
            return {}


def _visible(block: object) -> Iterator[JsonValue]:
    match block:
        case TextBlock() if block.text:
            yield {"type": "text", "text": block.text, "state": "done"}
        case ImageBlock() | DocumentBlock():
            url = f"data:{block.media_type};base64,{block.data}" if block.data else block.url
            file: Part = {"type": "file", "mediaType": block.media_type or "image/*", "url": url}
            if isinstance(block, DocumentBlock) and block.name:
                file["filename"] = block.name
            yield file
        case _:
            pass


class _Answer:
    """The parts of one run.

    Args:
        run: its id.
        messages: what it said, and the results that it had.
        exposure: how much of the reasoning is shown.
        following: what came after a run that left calls to its page: their results, if the page has answered. None for other runs.
    """

    def __init__(
        self, run: str, messages: Sequence[Message], exposure: Exposure, following: Sequence[Message] | None
    ) -> None:
        self._run = run
        self._messages = messages
        self._exposure = exposure
        self._following = following

    def parts(self) -> list[JsonValue]:
        """Return them in order."""
        out: list[JsonValue] = []
        step = 0
        for place, message in enumerate(self._messages):
            if message.role == "assistant":
                step += 1
                results = _results(self._messages[place + 1 :])
                out.append({"type": "step-start"})
                for block in message.content:
                    out += self._part(block, step, results)
        return out

    def _part(self, block: object, step: int, results: Mapping[str, ToolResultBlock]) -> Iterator[JsonValue]:
        match block:
            case ThinkingBlock():
                if self._exposure == "full" or (self._exposure == "summary" and block.summary):
                    yield {"type": "reasoning", "text": block.thinking, "state": "done"}
            case RefusalBlock():
                metadata: Part = {"agentkit": {"refusal": True}}
                yield {
                    "type": "text",
                    "text": block.refusal,
                    "state": "done",
                    "providerMetadata": metadata,
                }
            case ToolUseBlock():
                yield self._call(block, step, results.get(block.id))
            case ProviderBlock():
                pass  # the provider's own: no page knows it
            case _:
                yield from _visible(block)

    def _call(self, call: ToolUseBlock, step: int, result: ToolResultBlock | None) -> Part:
        arguments = parsed_input(call)
        part: Part = {
            "type": "dynamic-tool",
            "toolName": call.name,
            "toolCallId": f"{self._run}.{step}.{call.id}",
            "input": call.input if arguments is None else plain(arguments),
        }
        if result is None and self._following is not None:
            result = _results(self._following).get(call.id)
            return part | (_outcome(result) if result is not None else {"state": "input-available"})
        return part | _outcome(result) | {"providerExecuted": True}


def _results(messages: Sequence[Message]) -> dict[str, ToolResultBlock]:
    """Return the first result of each call in some messages: a provider may use its ids again."""
    out: dict[str, ToolResultBlock] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                out.setdefault(block.tool_use_id, block)
    return out


def _outcome(result: ToolResultBlock | None) -> Part:
    if result is None:
        return {"state": "output-error", "errorText": "This call was not run."}
    if result.status == "ok":
        return {"state": "output-available", "output": output_of({"content": plain(result.content)})}
    return {"state": "output-error", "errorText": result.text}
