"""The options of a run, written once: `generate_text`, `stream_text` and `Agent` take them all by keyword.

It turns what a caller wrote into a `RunSpec`, with a clear error for what is impossible.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic_core import ValidationError

from agentkit.content import JsonValue, Message
from agentkit.errors import ConfigurationError, OutputError, quote
from agentkit.hooks import Hooks
from agentkit.limits import DEFAULT_STEPS, Limits, StopCondition, parse_limits, step_count_is
from agentkit.model import Model
from agentkit.observe import Observer
from agentkit.option_checks import check_options
from agentkit.reasoning import ReasoningSetting, parse_reasoning
from agentkit.run_spec import Compact, Output, RunSpec
from agentkit.tool import Tool, by_name

Models: TypeAlias = Model | str | Sequence[Model | str]
"""A model, a name for `connect`, or several: the later ones are asked where those before fail before anything was visible."""


class RunOptions(TypedDict, total=False):
    """What may be said of a run, by keyword. An agent's own options hold where a call says nothing."""

    system: str
    """The system prompt."""
    tools: Sequence[Tool | Callable[..., Any]] | Mapping[str, Tool]
    """What the model may call; plain functions are made tools."""
    client_tools: Sequence[Tool]
    """Further tools, whose calls the run leaves to its caller (see `client_tool`): beside `tools`, where a call says these."""
    tool_choice: str
    """`auto`, `none`, `required` or a tool's name: for the first step; later ones choose freely."""
    reasoning: Mapping[str, Any] | ReasoningSetting | None
    """`{"effort": …}` or `{"budget": tokens}`; None for the provider's default."""
    provider_options: Mapping[str, Mapping[str, Any]]
    """`{provider: {member: value}}`, merged into that provider's requests; never changed."""
    foreign: Literal["drop", "raise"]
    """What becomes of signatures and thinking state that another model made: `drop` (the default) leaves them out with their thinking and
    tells it, `raise` fails the run with `ForeignSignatureError`."""
    max_tokens: int | None
    """Tokens of one answer at most, as the provider counts them."""
    temperature: float | None
    """As the provider understands it."""
    stop: Sequence[str]
    """Texts before which the model ends its answer."""
    stop_when: StopCondition | Sequence[StopCondition]
    """Ends the run well after a step that called tools; by default `step_count_is(20)`."""
    limits: Mapping[str, Any] | Limits | None
    """`{"steps", "tokens", "seconds", "cost", "price"}`: going past one fails the run."""
    hooks: Hooks
    """Asked before and after each step and call."""
    output_type: Any
    """A pydantic model, or any type that pydantic knows: the answer is JSON of it, read into `result.output`. Or an `Output`."""
    compact: Compact | None
    """Makes a long history shorter before it is sent."""
    on_approval: Literal["wait", "suspend"]
    """Whether a run waits here for a person, or is suspended to the thread store and resumed later."""
    taken_back: Collection[str]
    """Ids of the thread's runs that the model is not shown any more, nor what began them: an answer is made again. They stay in the thread."""
    observers: Sequence[Observer]
    """Who counts, logs or traces the run (see `agentkit.observe`); its sub-agents' runs too."""
    metadata: Mapping[str, JsonValue]
    """The application's own words about the run: on `run.started`, in its record, for tools and hooks."""


def resolve_models(model: Models) -> list[Model]:
    """Return the models that a caller named, at least one.

    Raises:
        ConfigurationError: none, or a name that `connect` does not know.
    """
    given = [model] if isinstance(model, str) or not isinstance(model, Sequence) else list(model)
    if not given:
        raise ConfigurationError("at least one model is needed")
    for one in given:
        if not isinstance(one, str | Model):
            raise ConfigurationError(f"a model is a Model or a name for connect, got {quote(one)}")
    return [_connected(one) if isinstance(one, str) else one for one in given]


def _connected(name: str) -> Model:
    from agentkit.providers import connect  # HTTP and all: who brings a Model has no use for it

    return connect(name)


def make_spec(
    models: Sequence[Model],
    messages: Sequence[Message],
    options: RunOptions,
    *,
    agent: str = "",
    thread: str = "",
) -> RunSpec:
    """Return what a run works on.

    Raises:
        ConfigurationError: an unknown option, or one that is impossible.
    """
    unknown = sorted(set(options) - RunOptions.__optional_keys__)
    if unknown:
        raise ConfigurationError(
            f"unknown options {quote(unknown)}; known: {', '.join(sorted(RunOptions.__optional_keys__))}"
        )
    check_options(options)
    stop_when = options.get("stop_when", (step_count_is(DEFAULT_STEPS),))
    output_type = options.get("output_type")
    return RunSpec(
        models,
        messages,
        options.get("system", ""),
        _tools(options),
        parse_reasoning(options.get("reasoning")),
        options.get("provider_options", {}),
        options.get("max_tokens"),
        options.get("temperature"),
        (stop_when,) if callable(stop_when) else tuple(stop_when),
        parse_limits(options.get("limits")),
        options.get("hooks", Hooks()),
        output_type if output_type is None or isinstance(output_type, Output) else make_output(output_type),
        options.get("compact"),
        options.get("on_approval", "wait"),
        agent,
        thread,
        dict(options.get("metadata", {})),
        foreign=options.get("foreign", "drop"),
        taken_back=frozenset(options.get("taken_back", ())),
        observers=tuple(options.get("observers", ())),
        tool_choice=options.get("tool_choice", "auto"),
        stop=tuple(options.get("stop", ())),
    )


def _tools(options: RunOptions) -> dict[str, Tool]:
    tools, theirs = by_name(options.get("tools", ())), by_name(options.get("client_tools", ()))
    for name, tool in theirs.items():
        if not tool.is_client:
            raise ConfigurationError(f"client_tools are made by client_tool(), {name!r} has a function")
        if name in tools:
            raise ConfigurationError(f"two tools are named {name!r}")
    return {**tools, **theirs}


def make_output(output_type: Any) -> Output:
    """Return the schema and the reader of an output type.

    Raises:
        ConfigurationError: pydantic has no schema for it.
    """
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        adapter = TypeAdapter(output_type)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigurationError(f"output_type has no JSON schema: {quote(str(error))}") from error

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)[:20]
            lines = [f"- {'.'.join(map(str, fault['loc'])) or 'answer'}: {fault['msg']}" for fault in faults]
            raise OutputError("\n".join(["The answer does not fit the schema:", *lines])) from error

    return Output(schema, parse)
