"""The members of a Responses request beside its input: reasoning, limits, tools, the form of the answer.

Pure. What a model takes is told by its name, in one table; a name that is not there takes everything, and its provider says no.
Source: the OpenAI guides on reasoning and structured outputs, and the model pages (from public references, not re-read).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from agentkit.content import JsonValue
from agentkit.dialects.base import Target
from agentkit.dialects.strict_schema import strict_schema
from agentkit.errors import ConfigurationError, quote
from agentkit.model import ModelRequest
from agentkit.reasoning import BUDGETS, EFFORTS, Effort, ReasoningSetting

_EFFORTS: Final[tuple[tuple[re.Pattern[str], tuple[Effort, ...]], ...]] = (
    (re.compile(r"gpt-[34]|chatgpt|computer-use"), ()),
    (re.compile(r"o\d"), ("low", "medium", "high")),
    (re.compile(r"gpt-5(?![.\d])"), ("minimal", "low", "medium", "high")),
    (re.compile(r"gpt-5\.1(?!\d)"), ("none", "low", "medium", "high")),
    (re.compile(r"gpt-5\.[2-5](?!\d)"), ("none", "low", "medium", "high", "xhigh")),
)
"""Beginnings of model names, and the efforts that these models take, ascending; () is none: they do not reason."""


def settings(request: ModelRequest, target: Target, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that say how to answer.

    Args:
        request: what the caller asks for.
        target: the model that is asked.
        options: the provider options that will be merged over it.

    Raises:
        ConfigurationError: the dialect or the model cannot do it, or an option says the same as `reasoning`.
    """
    out: dict[str, Any] = {}
    limit = request.max_tokens
    if request.reasoning is not None:
        inside = options.get("reasoning")
        if isinstance(inside, Mapping) and {"effort", "enabled", "max_tokens"} & set(inside):
            raise ConfigurationError(
                "reasoning= and the provider option reasoning.effort say the same: give one of them"
            )
        out |= _reasoning(request.reasoning, target)
        budget = request.reasoning.budget or 0
        if limit is not None and limit <= budget:
            limit += budget  # the wire counts reasoning in the limit; the caller meant the answer
    if limit is not None:
        out["max_output_tokens"] = limit
    if request.temperature is not None:
        out["temperature"] = request.temperature
    if request.stop:
        raise ConfigurationError("the Responses dialect has no stop sequences: leave stop= out")
    out |= _tools(request)
    if request.output_schema is not None:
        out["text"] = {"format": _format(request.output_schema)}
    return out


def can_reason(model: str) -> bool:
    """Tell whether a model reasons, as far as its name says."""
    return _efforts(model) != ()


def _efforts(model: str) -> tuple[Effort, ...]:
    name = model.rpartition("/")[2]  # gateways put the maker before it
    return next((efforts for pattern, efforts in _EFFORTS if pattern.match(name)), EFFORTS)


def _reasoning(setting: ReasoningSetting, target: Target) -> dict[str, Any]:
    known = target.profile.efforts or _efforts(target.model)
    if not known:
        if setting.off:
            return {}
        raise ConfigurationError(f"model {quote(target.model)} cannot reason: leave reasoning= out")
    effort: Effort = "none" if setting.off else setting.as_effort()
    if effort == "none" and "none" not in known:
        raise ConfigurationError(
            f"model {quote(target.model)} cannot switch reasoning off; efforts that it takes: {', '.join(known)}"
        )
    if effort not in known:  # the next above it, or the highest
        effort = next((step for step in known if BUDGETS[step] >= BUDGETS[effort]), known[-1])
    return {"reasoning": {"effort": effort} if effort == "none" else {"effort": effort, "summary": "auto"}}


def _tools(request: ModelRequest) -> dict[str, Any]:
    choice = request.tool_choice
    if choice not in ("auto", "none", "required") and choice not in {tool.name for tool in request.tools}:
        raise ConfigurationError(f"tool_choice {quote(choice)} is not among the tools of the request")
    if not request.tools:
        if choice == "required":
            raise ConfigurationError('tool_choice "required" needs tools')
        return {}
    tools: list[JsonValue] = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in request.tools
    ]
    if choice in ("auto", "none", "required"):
        return {"tools": tools} if choice == "auto" else {"tools": tools, "tool_choice": choice}
    return {"tools": tools, "tool_choice": {"type": "function", "name": choice}}


def _format(schema: dict[str, JsonValue]) -> dict[str, Any]:
    """Return the answer's format; strict where the schema can be said so, which makes the fit a promise."""
    title = schema.get("title")
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", title)[:64] if isinstance(title, str) and title else "answer"
    strict = strict_schema(schema)
    return {
        "type": "json_schema",
        "name": name,
        "schema": schema if strict is None else strict,
        "strict": strict is not None,
    }
