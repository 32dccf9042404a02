"""What a client of chat completions says: the body of its request, and the run that it asks for.

Pure. Members that change nothing a client could rely on are passed over (`user`, `seed`, `top_p`, …); what cannot be done is refused, naming
the member. Nothing is fetched: an image or a file comes as a `data:` URL. Reasoning that comes back is not read: a client is no witness
of what a model thought.
Grounds: platform.openai.com/docs/api-reference/chat/create (read 2026-11-30).
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from agentkit.content import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    RefusalBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentkit.errors import ConfigurationError
from agentkit.options import RunOptions
from agentkit.run_spec import Output
from agentkit.tool import client_tool
from agentkit_server.service import RunOrder
from agentkit_transports.problem import Problem, ProblemError

MAX_MESSAGES: Final = 2000
MAX_STOPS: Final = 16
"""OpenAI takes 4; others more."""

_REFUSED: Final[dict[str, Callable[[Any], bool]]] = {
    "n": lambda value: value != 1,
    "logprobs": bool,
    "top_logprobs": bool,
    "audio": bool,
    "functions": bool,
    "function_call": bool,
    "web_search_options": lambda value: value is not None,
    "prediction": lambda value: value is not None,
    "modalities": lambda value: value != ["text"],
    "parallel_tool_calls": lambda value: value is False,
}
"""What would change the answer and cannot be done, and which of its values ask for it."""


_REASONING: Final = ("thinking", "reasoning", "redacted_thinking")
"""Parts of an answer that some clients keep and send back: no witness, as `reasoning_content` is none."""


class _Open(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="ignore", strict=True)


class Function(_Open):
    """A function of a tool, of a call, or of a choice."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    arguments: str = ""


class ToolMember(_Open):
    """A tool that the client runs, or a call of one."""

    type: Literal["function"] = "function"
    id: str = ""
    function: Function


class Choice(_Open):
    """A tool that the model must call."""

    type: Literal["function"]
    function: Function


class Schema(_Open):
    """A schema of the answer."""

    schema_: Annotated[dict[str, JsonValue], Field(alias="schema")] = Field(default_factory=dict)


class Format(_Open):
    """What form the answer has."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Schema | None = None


class StreamOptions(_Open):
    """What a stream tells beside the answer."""

    include_usage: bool | None = None


class MessageMember(_Open):
    """A message of any role."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, JsonValue]] | None = None
    tool_calls: list[ToolMember] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None


class ChatRequest(_Open):
    """`POST /v1/chat/completions`."""

    model_config = ConfigDict(defer_build=True, extra="allow", strict=True)

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[MessageMember], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    max_completion_tokens: Annotated[int, Field(gt=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    stop: str | list[str] | None = None
    response_format: Format | None = None
    tools: list[ToolMember] | None = None
    tool_choice: Literal["none", "auto", "required"] | Choice | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    metadata: dict[str, JsonValue] | None = None

    @field_validator("stop")
    @classmethod
    def _stops(cls, value: str | list[str] | None) -> str | list[str] | None:
        texts = [value] if isinstance(value, str) else value or []
        if len(texts) > MAX_STOPS or not all(texts):
            raise ValueError(f"should be at most {MAX_STOPS} texts that are not empty")
        return value


def check_request(request: ChatRequest) -> None:
    """Refuse what cannot be done.

    Raises:
        ProblemError: 400, naming the member.
    """
    for name, value in (request.model_extra or {}).items():
        asks = _REFUSED.get(name)
        if asks is not None and value is not None and asks(value):
            raise _bad(name, f"{name} is not supported with this value")


def thread_of(request: ChatRequest, header: str) -> str:
    """Return the thread that a request names, in its header or as `metadata.thread`, or "".

    Raises:
        ProblemError: 400, it names two, or none that is text.
    """
    named = (request.metadata or {}).get("thread")
    if named is not None and not isinstance(named, str):
        raise _bad("metadata.thread", "should be the name of a thread")
    if header and named and header != named:
        raise _bad("metadata.thread", "is another thread than that of the header X-Thread-Id")
    return header or named or ""


def order_of(request: ChatRequest, known: Sequence[Message] = ()) -> RunOrder:
    """Return the run that a request asks for.

    Args:
        request: checked by `check_request`.
        known: what the thread has already. Then of the messages only those count that follow the client's last answer.

    Raises:
        ProblemError: 400, naming the member at fault.
    """
    messages = _in_order(list(_messages(request.messages, known)))
    if known:
        last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
        said = {message.text for message in known if message.role == "system"}
        messages = [
            message
            for place, message in enumerate(messages)
            if (place > last and message.role != "system") or (message.role == "system" and message.text not in said)
        ]  # fmt: skip
    if not messages or messages[-1].role not in ("user", "tool"):
        raise _bad("messages", "the last message should be the user's or a tool's")
    metadata = {name: value for name, value in (request.metadata or {}).items() if name != "thread"}
    reasoning: dict[str, JsonValue] | None = None
    if request.reasoning_effort is not None:
        reasoning = {"effort": request.reasoning_effort}
    return RunOrder(messages, reasoning, metadata=metadata, options=_options(request))


def _options(request: ChatRequest) -> RunOptions:
    options = RunOptions()
    limit = request.max_completion_tokens or request.max_tokens
    if limit is not None:
        options["max_tokens"] = limit
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.stop:
        options["stop"] = [request.stop] if isinstance(request.stop, str) else request.stop
    if request.tools:
        options["client_tools"] = [_tool(tool, place) for place, tool in enumerate(request.tools)]
    match request.tool_choice:
        case None:
            pass
        case str() as word:
            options["tool_choice"] = word
        case Choice() as choice:
            options["tool_choice"] = choice.function.name
    schema = _schema(request.response_format)
    if schema is not None:
        options["output_type"] = Output(schema, str, 0)
    return options


def _tool(tool: ToolMember, place: int) -> Any:
    function = tool.function
    try:
        return client_tool(function.name, function.description or "", function.parameters)
    except ConfigurationError as error:
        raise _bad(f"tools.{place}.function", str(error)) from None


def _schema(form: Format | None) -> dict[str, JsonValue] | None:
    match form:
        case None | Format(type="text"):
            return None
        case Format(type="json_object"):
            return {"type": "object"}
        case _:
            if form.json_schema is None:
                raise _bad("response_format.json_schema", "is missing")
            return form.json_schema.schema_ or {"type": "object"}


def _messages(given: Sequence[MessageMember], known: Sequence[Message]) -> Iterator[Message]:
    names = {use.id: use.name for message in known for use in message.tool_uses}
    results: list[ToolResultBlock] = []
    for place, member in enumerate(given):
        field = f"messages.{place}"
        if member.role == "tool":
            results.append(_result(member, names, field))
            continue
        if results:
            yield Message("tool", tuple(results))
            results = []
        if member.role == "assistant":
            blocks = [*_parts(member, field), *_refusal(member), *_calls(member)]
            names |= {block.id: block.name for block in blocks if isinstance(block, ToolUseBlock)}
            if blocks:
                yield Message("assistant", tuple(blocks))
            continue
        blocks = list(_parts(member, field))
        if member.role == "user":
            if not blocks:
                raise _bad(f"{field}.content", "must not be empty")
            yield Message("user", tuple(blocks))
        elif blocks:
            if not all(isinstance(block, TextBlock) for block in blocks):
                raise _bad(f"{field}.content", "should be text")
            yield Message("system", tuple(blocks))
    if results:
        yield Message("tool", tuple(results))


def _in_order(messages: list[Message]) -> list[Message]:
    """Put instructions that stand at the end before what they are about: some clients add them last."""
    end = len(messages)
    while end and messages[end - 1].role == "system":
        end -= 1
    last = max((place for place in range(end) if messages[place].role == "user"), default=0)
    return [*messages[:last], *messages[end:], *messages[last:end]]


def _result(member: MessageMember, names: dict[str, str], field: str) -> ToolResultBlock:
    call = member.tool_call_id or ""
    if call not in names:
        raise _bad(f"{field}.tool_call_id", "answers no call of the messages before")
    content = tuple(_parts(member, field))
    if not all(isinstance(block, TextBlock | ImageBlock | DocumentBlock) for block in content):
        raise _bad(f"{field}.content", "should be text or images")
    return ToolResultBlock(call, names[call], content)  # type: ignore[arg-type]  # checked above


def _refusal(member: MessageMember) -> list[Block]:
    return [RefusalBlock(member.refusal)] if member.refusal else []


def _calls(member: MessageMember) -> list[Block]:
    return [
        ToolUseBlock(call.id, call.function.name, call.function.arguments) for call in member.tool_calls or ()
    ]


def _parts(member: MessageMember, field: str) -> Iterator[Block]:
    if member.content is None:
        return
    if isinstance(member.content, str):
        if member.content:
            yield TextBlock(member.content)
        return
    for place, part in enumerate(member.content):
        if member.role == "assistant" and part.get("type") in _REASONING:
            continue
        block = _part(part, f"{field}.content.{place}")
        if not isinstance(block, TextBlock) or block.text:
            yield block


def _part(part: dict[str, JsonValue], field: str) -> Block:
    kind = part.get("type")
    inside = part.get(kind) if isinstance(kind, str) else None
    if kind in ("text", "refusal"):
        if not isinstance(inside, str):
            raise _bad(f"{field}.{kind}", "should be text")
        return TextBlock(inside) if kind == "text" else RefusalBlock(inside)
    if kind == "image_url":
        url = inside.get("url") if isinstance(inside, dict) else inside
        media_type, data = _data(url, f"{field}.image_url.url")
        if not media_type.startswith("image/"):
            raise _bad(f"{field}.image_url.url", "should be an image")
        return ImageBlock(media_type, data)
    if kind == "file" and isinstance(inside, dict) and "file_data" in inside:
        media_type, data = _data(inside["file_data"], f"{field}.file.file_data")
        name = inside.get("filename")
        return DocumentBlock(media_type, data, name=name if isinstance(name, str) else "")
    raise _bad(f"{field}.type", "should be text, image_url, or file with file_data")


def _data(url: JsonValue, field: str) -> tuple[str, str]:
    """Return media type and base64 data of a `data:` URL (RFC 2397)."""
    if not isinstance(url, str) or not url[:5].lower() == "data:":
        raise _bad(field, "should be a data: URL with base64; nothing is fetched from other places")
    head, comma, data = url[5:].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or "base64" not in (parameter.strip().lower() for parameter in parameters) or not media_type:
        raise _bad(field, "should be data:<media type>;base64,<data>")
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise _bad(field, "is not base64") from None
    if not data:
        raise _bad(field, "holds nothing")
    return media_type.strip().lower(), data


def _bad(field: str, said: str) -> ProblemError:
    return ProblemError(Problem(400, "invalid", f"{field}: {said}", field=field))
