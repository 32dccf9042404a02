"""Tools: a function, its schema, and one call of it.

It does not decide whether a call may run, and it knows neither run nor model: `tool_calls` does. What a call gives is always a
`ToolResultBlock`; a function's failure is an error result for the model, never an exception of the run.
"""

import dataclasses
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from agentkit.content import (
    DocumentBlock,
    ImageBlock,
    JsonValue,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    valid_text,
)
from agentkit.errors import ConfigurationError, ToolError, quote

if TYPE_CHECKING:
    from pydantic import BaseModel

ToolContent: TypeAlias = TextBlock | ImageBlock | DocumentBlock

MAX_ERROR = 2000
"""Characters of an exception's text that go back to the model."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
"""What all providers take as a tool's name."""


class ToolContext:
    """What a tool may know of the call it answers: annotate a parameter with this class to get it.

    Attributes:
        run: the run's id.
        agent: the agent's name.
        thread: the thread's name.
        step: the step's number, from 1.
        call: the call's id.
        tool: the tool's name.
        metadata: what the caller gave the run.
        depth: 0 in a run, 1 in a run that is a tool of another.
    """

    def __init__(
        self,
        *,
        run: str = "",
        agent: str = "",
        thread: str = "",
        step: int = 0,
        call: str = "",
        tool: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        depth: int = 0,
        progress: Callable[[str, JsonValue], Awaitable[None]] | None = None,
        host: object = None,
    ) -> None:
        self.run = run
        self.agent = agent
        self.thread = thread
        self.step = step
        self.call = call
        self.tool = tool
        self.metadata = metadata or {}
        self.depth = depth
        self.host = host
        """The run itself, for tools that are part of the runtime (sub-agents)."""
        self.cancelled = False
        """True once the call shall stop: for functions in a thread, which nobody can stop from outside."""
        self._progress = progress

    async def progress(self, message: str, data: JsonValue = None) -> None:
        """Tell watchers how far the work is (`tool_execution.progress`)."""
        if self._progress is not None:
            await self._progress(message, data)


Approval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
"""Whether a person must agree: always, never, or asked with the checked arguments."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call.

    Raises:
        ConfigurationError: the name does not fit, or a number is not positive.
    """

    name: str
    """Letters, digits, `_`, `-`; 64 at most."""
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments: an object."""
    function: Callable[..., Any] | None
    """Called with the checked arguments by name; sync ones run in a worker thread. None: the caller of the run answers the calls."""
    model: "type[BaseModel] | None" = None
    """What checks the arguments; None takes any JSON object."""
    context: str = ""
    """The parameter that gets the `ToolContext`, or ""."""
    requires_approval: Approval = False
    timeout: float | None = None
    """Seconds of one call at most."""
    max_concurrency: int | None = None
    """Calls at work at the same time in this event loop at most."""
    retries: int = 0
    """Further attempts after an exception."""
    _limiter: RunVar[anyio.CapacityLimiter] = field(
        default_factory=lambda: RunVar("tool limiter"), repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"tool name {quote(self.name)} does not match {_NAME.pattern}")
        for word, number in (("timeout", self.timeout), ("max_concurrency", self.max_concurrency)):
            if number is not None and number <= 0:
                raise ConfigurationError(f"{word} of tool {self.name!r} must be positive, got {number}")

    @property
    def is_client(self) -> bool:
        """True where the run leaves the calls open for its caller (see `client_tool`)."""
        return self.function is None

    def check(self, raw: str) -> dict[str, Any]:
        """Return the arguments that raw JSON text holds, checked and converted.

        Raises:
            ToolError: they do not fit; the message is for the model.
        """
        try:
            value = from_json(raw) if raw.strip() else {}
        except ValueError as error:
            raise ToolError(f"the arguments of {self.name} are not JSON: {error}") from None
        if not isinstance(value, dict):
            raise ToolError(f"the arguments of {self.name} must be a JSON object, got {quote(raw)}")
        return self.fit(value)

    def fit(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that `value` holds, checked and converted.

        Raises:
            ToolError: they do not fit; the message is for the model.
        """
        if self.model is None:
            return dict(value)
        try:
            checked = self.model.model_validate(value)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            lines = [
                f"- {'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
                for fault in faults[:20]
            ]
            raise ToolError("\n".join([f"the arguments of {self.name} do not fit:", *lines])) from None
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a person must agree to a call with these arguments."""
        if isinstance(self.requires_approval, bool):
            return self.requires_approval
        answer = self.requires_approval(arguments)
        return await answer if inspect.isawaitable(answer) else bool(answer)

    async def call(
        self, use: ToolUseBlock, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResultBlock:
        """Call the function and return what goes back to the model, also where it fails or takes too long."""
        limiter = self._capacity()
        try:
            if limiter is None:
                return await self._attempts(use, arguments, context)
            async with limiter:
                return await self._attempts(use, arguments, context)
        except ToolError as error:
            return result(use, str(error), "error")

    async def _attempts(
        self, use: ToolUseBlock, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResultBlock:
        for attempt in range(self.retries + 1):
            try:
                return result(use, await self._once(arguments, context))
            except ToolError:
                raise
            except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
                raise
            except BaseException as error:  # a tool that calls sys.exit(), or another loop's cancellation, ends nothing but itself
                if attempt == self.retries:
                    said = valid_text(f"{type(error).__name__}: {error}")[:MAX_ERROR]
                    raise ToolError(said) from error
        raise AssertionError("range(retries + 1) is not empty")

    async def _once(self, arguments: Mapping[str, Any], context: ToolContext) -> object:
        function = self.function
        if function is None:
            raise ToolError(f"{self.name} is not run here")
        named = dict(arguments)
        if self.context:
            named[self.context] = context
        try:
            with anyio.fail_after(self.timeout):
                if inspect.iscoroutinefunction(function):
                    return await function(**named)
                value = await anyio.to_thread.run_sync(
                    lambda: _in_thread(function, named), abandon_on_cancel=True
                )
                return await value if inspect.isawaitable(value) else value
        except TimeoutError as error:
            if self.timeout is None:
                raise
            context.cancelled = True
            raise ToolError(f"{self.name} took longer than {self.timeout} s") from error

    def _capacity(self) -> anyio.CapacityLimiter | None:
        if self.max_concurrency is None:
            return None
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = anyio.CapacityLimiter(self.max_concurrency)
            self._limiter.set(limiter)
        return limiter


def _in_thread(function: Callable[..., Any], named: Mapping[str, Any]) -> object:
    """Call a sync function; a cancellation that it raises is its own, never that of the loop which waits for it."""
    try:
        return function(**named)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ToolError(valid_text(f"{type(error).__name__}: {error}")[:MAX_ERROR]) from error


def result(use: ToolUseBlock, value: object, status: str = "ok") -> ToolResultBlock:
    """Return a function's value as a result: text as it is, content blocks as they are, anything else as JSON.

    Raises:
        ToolError: it is none of these; a Python repr never reaches a model.
    """
    if status not in ("ok", "error", "denied", "interrupted"):
        raise ConfigurationError(f"unknown result status {status!r}")
    return ToolResultBlock(use.id, use.name, _content(use.name, value), status)  # type: ignore[arg-type]  # checked above


def _content(name: str, value: object) -> tuple[ToolContent, ...]:
    if isinstance(value, str):
        return (TextBlock(valid_text(value)),)
    if isinstance(value, ToolContent):
        return (value,)
    if isinstance(value, Sequence) and value and all(isinstance(part, ToolContent) for part in value):
        return tuple(part for part in value if isinstance(part, ToolContent))
    try:
        text = to_json(value, inf_nan_mode="constants", by_alias=True).decode()
        if "NaN" in text or "Infinity" in text:
            from_json(text, allow_inf_nan=False)  # raises where they stand as numbers, not inside a string
    except (PydanticSerializationError, UnicodeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"{name} returned {type(value).__name__}, which is not JSON: {quote(str(error))}"
        ) from error
    return (TextBlock(text),)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    requires_approval: Approval = False,
    timeout: float | None = None,
    max_concurrency: int | None = None,
    retries: int = 0,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    requires_approval: Approval = False,
    timeout: float | None = None,
    max_concurrency: int | None = None,
    retries: int = 0,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: schema from its signature, words from its docstring.

    Every parameter needs an annotation that pydantic understands; `Annotated[…, Field(…)]` adds bounds and words. A parameter
    annotated `ToolContext` is filled by the runtime and is not part of the schema.

    Args:
        function: the function; or call `tool(…)` with options and decorate with what it returns.
        name: "" or None takes the function's.
        description: None takes the docstring up to its sections.
        requires_approval: True, or a function of the arguments that says whether a person must agree.
        timeout: seconds of one call at most.
        max_concurrency: calls at work at the same time at most.
        retries: further attempts after an exception.

    Raises:
        ConfigurationError: no schema can be made of the signature.
    """

    def make(function: Callable[..., Any]) -> Tool:
        from agentkit.tool_schema import (  # pydantic's models: who has no tools does not load them
            arguments_model,
            read_docstring,
        )

        words, arguments = read_docstring(inspect.getdoc(function) or "")
        tool_name = str(name or getattr(function, "__name__", ""))
        model, context = arguments_model(function, tool_name, arguments, ToolContext)
        schema = model.model_json_schema(by_alias=True)
        schema.pop("title", None)
        for member in schema.get("properties", {}).values():
            member.pop("title", None)
        schema.setdefault("properties", {})
        return Tool(
            tool_name,
            description if description is not None else words,
            schema,
            function,
            model,
            context,
            requires_approval,
            timeout,
            max_concurrency,
            retries,
        )

    return make(function) if function is not None else make


def client_tool(name: str, description: str = "", parameters: Mapping[str, JsonValue] | None = None) -> Tool:
    """Return a tool that the caller of a run answers: a page, a program of the user's, another agent.

    A run whose model calls it ends well at that step, with the calls left open (`RunResult.open_calls`, termination `client_tools`);
    the thread's next run begins with their `ToolResultBlock`s. Hooks and approvals are not asked for such calls.

    Args:
        name: letters, digits, `_`, `-`; 64 at most.
        description: what the model is told of it.
        parameters: JSON Schema of the arguments, an object; None where it takes none.

    Raises:
        ConfigurationError: the name does not fit, or the schema is not that of an object.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ConfigurationError(
            f"the parameters of {quote(name)} must be a JSON Schema, got {quote(parameters)}"
        )
    schema: dict[str, JsonValue] = dict(parameters or {})
    if schema.setdefault("type", "object") != "object":
        raise ConfigurationError(f"the parameters of {quote(name)} must be an object's schema")
    schema.setdefault("properties", {})
    return Tool(name, description, schema, None)


def by_name(tools: Sequence[Tool | Callable[..., Any]] | Mapping[str, Tool]) -> dict[str, Tool]:
    """Return tools by their names; plain functions are made tools.

    Raises:
        ConfigurationError: two have one name, or something is no tool.
    """
    given: object = tools
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"tools are a list of tools or functions, got {quote(tools)}")
    out: dict[str, Tool] = {}
    members = (
        [dataclasses.replace(member, name=name) for name, member in tools.items()]
        if isinstance(tools, Mapping)
        else tools
    )
    for member in members:
        if not callable(member) and not isinstance(member, Tool):
            raise ConfigurationError(f"not a tool: {quote(member)}")
        made = member if isinstance(member, Tool) else tool(member)
        if made.name in out:
            raise ConfigurationError(f"two tools are named {made.name!r}")
        out[made.name] = made
    return out
