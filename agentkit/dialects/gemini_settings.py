"""The members of a Gemini request beside its contents: thinking, limits, tools, the form of the answer, provider options.

Pure. How a model is told to think depends on its generation, which its name tells.
Source: ai.google.dev "Thinking", "Structured outputs", "Function calling" (from public references, not re-read).
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from agentkit.errors import ConfigurationError, quote
from agentkit.model import ModelRequest
from agentkit.reasoning import BUDGETS, Effort, ReasoningSetting

_GENERATION: Final = re.compile(r"gemini-(\d{1,3})(?:\.(\d{1,3}))?", re.ASCII)

_TOP: Final = frozenset(
    {
        "contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent", "labels",
        "serviceTier", "store", "continuationToken",
    }
)  # fmt: skip
"""Members of a request; options that are none of them belong into `generationConfig`."""

_DATA: Final = frozenset(
    {
        "responseSchema",
        "responseJsonSchema",
        "parameters",
        "parametersJsonSchema",
        "labels",
        "args",
        "response",
    }
)
"""Members whose insides are a user's own names, never rewritten."""

_NOT_UNDERSTOOD: Final = frozenset({"$schema", "default", "discriminator", "examples"})
"""Keywords that pydantic writes and Gemini's JSON Schema does not have."""


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return provider options as the wire has them: camel case, and those of `generationConfig` in it. A copy."""
    out: dict[str, Any] = {}
    for name, value in _camel(options).items():
        place = out if name in _TOP else out.setdefault("generationConfig", {})
        if name == "generationConfig" and isinstance(value, dict):
            out["generationConfig"] = value | out.get("generationConfig", {})
        else:
            place[name] = value
    return out


def _camel(value: Any) -> Any:
    if isinstance(value, Mapping):
        names = {str(name): re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), str(name)) for name in value}
        return {
            names[str(name)]: deepcopy(member) if names[str(name)] in _DATA else _camel(member)
            for name, member in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_camel(member) for member in value]
    return value


def settings(request: ModelRequest, model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that say how to answer.

    Args:
        request: what the caller asks for.
        model: the model that is asked.
        options: the provider options that will be merged over it, as `wire_options` returns them.

    Raises:
        ConfigurationError: the model cannot do it, or an option says the same as `reasoning`.
    """
    out = _tools(request)
    config: dict[str, Any] = {}
    limit = request.max_tokens
    if request.reasoning is not None:
        _check_options(options)
        thinking = config["thinkingConfig"] = _thinking(request.reasoning, model)
        if not thinking:
            del config["thinkingConfig"]
        budget = thinking.get("thinkingBudget") or request.reasoning.budget or 0
        if limit is not None and limit <= budget:
            limit += budget  # the wire counts thinking in the limit; the caller meant the answer
    if limit is not None:
        config["maxOutputTokens"] = limit
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.stop:
        config["stopSequences"] = list(request.stop)
    if request.output_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = _schema(request.output_schema)
    return out | ({"generationConfig": config} if config else {})


def checks_signatures(model: str) -> bool:
    """Tell whether a model refuses calls without a signature: since generation 3. An unknown name counts as new."""
    generation = _generation(model)
    return generation is None or generation >= (3, 0)


def _generation(model: str) -> tuple[int, int] | None:
    found = _GENERATION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def _check_options(options: Mapping[str, Any]) -> None:
    config = options.get("generationConfig")
    thinking = config.get("thinkingConfig") if isinstance(config, Mapping) else None
    said = {"thinkingBudget", "thinkingLevel"} & set(thinking) if isinstance(thinking, Mapping) else ()
    if said:
        raise ConfigurationError(
            f"reasoning= and the provider option {', '.join(sorted(said))} say the same: give one of them"
        )


def _thinking(setting: ReasoningSetting, model: str) -> dict[str, Any]:
    """Return the `thinkingConfig`: a level since generation 3, a budget for 2.5. An unknown name gets what the caller said."""
    generation = _generation(model)
    if generation is None:
        if setting.budget is not None or setting.off:
            return _budget(setting.as_budget())
        return {"thinkingLevel": _level(setting.as_effort(), _LEVELS), "includeThoughts": True}
    if generation < (2, 5):
        if setting.off:
            return {}
        raise ConfigurationError(f"model {quote(model)} cannot reason: leave reasoning= out")
    if generation < (3, 0):
        return _budget(_within(setting, model))
    levels = _model_levels(model, generation)
    if setting.off:
        if "minimal" not in levels:
            raise ConfigurationError(f"model {quote(model)} cannot switch reasoning off")
        return {"thinkingLevel": "minimal", "includeThoughts": False}  # as near as the model gets
    return {"thinkingLevel": _level(setting.as_effort(), levels), "includeThoughts": True}


def _budget(tokens: int) -> dict[str, Any]:
    return {"thinkingBudget": tokens, "includeThoughts": tokens > 0}


def _within(setting: ReasoningSetting, model: str) -> int:
    """Return the budget in the bounds of a model of generation 2.5."""
    lite, pro = "lite" in model, "pro" in model
    if setting.off:
        if pro:
            raise ConfigurationError(
                f"model {quote(model)} cannot switch reasoning off: its least budget is 128"
            )
        return 0
    least, most = (512, 24_576) if lite else (128, 32_768) if pro else (1, 24_576)
    return min(max(setting.as_budget(), least), most)


_LEVELS: Final[tuple[Effort, ...]] = ("minimal", "low", "medium", "high")


def _model_levels(model: str, generation: tuple[int, int]) -> tuple[Effort, ...]:
    if "pro" not in model:
        return _LEVELS
    return ("low", "high") if generation == (3, 0) else ("low", "medium", "high")


def _level(effort: Effort, levels: tuple[Effort, ...]) -> Effort:
    """Return the level that stands for an effort: itself, the next above it, or the highest."""
    return next((level for level in levels if BUDGETS[level] >= BUDGETS[effort]), levels[-1])


def _tools(request: ModelRequest) -> dict[str, Any]:
    choice = request.tool_choice
    if choice not in ("auto", "none", "required") and choice not in {tool.name for tool in request.tools}:
        raise ConfigurationError(f"tool_choice {quote(choice)} is not among the tools of the request")
    if not request.tools:
        if choice == "required":
            raise ConfigurationError('tool_choice "required" needs tools')
        return {}
    functions = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": _schema(tool.parameters),
        }
        for tool in request.tools
    ]
    out: dict[str, Any] = {"tools": [{"functionDeclarations": functions}]}
    match choice:
        case "auto":
            return out
        case "none":
            mode: dict[str, Any] = {"mode": "NONE"}
        case "required":
            mode = {"mode": "ANY"}
        case name:
            mode = {"mode": "ANY", "allowedFunctionNames": [name]}
    return out | {"toolConfig": {"functionCallingConfig": mode}}


def _schema(schema: Any, *, names: bool = False) -> Any:
    """Return a JSON Schema that Gemini reads.

    It takes JSON Schema (references, unions, nested objects) in the members `…JsonSchema`; only `const` is unknown to it, which is an
    `enum` of one, and a few keywords that say nothing to a model.

    Args:
        schema: the schema, or a part of it.
        names: the members of this object are a user's names, not keywords.
    """
    if isinstance(schema, list):
        return [_schema(member) for member in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for name, value in schema.items():
        if names:
            out[name] = _schema(value)
        elif name == "const":
            out["enum"] = [deepcopy(value)]
        elif name == "enum":
            out[name] = deepcopy(value)
        elif name not in _NOT_UNDERSTOOD:
            out[name] = _schema(value, names=name in ("properties", "$defs", "definitions"))
    return out
