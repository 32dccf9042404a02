"""The members of a chat request beside its messages: reasoning, limits, tools, the form of the answer.

Pure. How an endpoint calls them is its profile's to say.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from agentkit.content import JsonValue
from agentkit.dialects.base import Profile
from agentkit.dialects.strict_schema import strict_schema
from agentkit.errors import ConfigurationError, quote
from agentkit.model import ModelRequest
from agentkit.reasoning import Effort, ReasoningSetting

_SAME_MEANING: Final = frozenset(
    {"reasoning_effort", "thinking", "enable_thinking", "thinking_budget", "reasoning_budget_tokens"}
)
"""Options that say how much to reason, by whatever endpoint; `reasoning=` beside one of them is a contradiction."""
_INSIDE: Final = {
    "reasoning": frozenset({"effort", "max_tokens", "enabled"}),
    "chat_template_kwargs": frozenset({"enable_thinking", "thinking", "thinking_budget", "reasoning_effort"}),
}
"""The same, inside of options that also say other things."""

_LIMITS: Final = ("max_tokens", "max_completion_tokens")


def settings(request: ModelRequest, profile: Profile, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that say how to answer.

    Args:
        request: what the caller asks for.
        profile: how the endpoint calls it.
        options: the provider options that will be merged over it.

    Raises:
        ConfigurationError: the endpoint cannot do it, or an option says the same as `reasoning`.
    """
    out: dict[str, Any] = {}
    limit = request.max_tokens
    if request.reasoning is not None:
        _check_options(options)
        out |= _reasoning(request.reasoning, profile)
        limit = _limit(limit, request.reasoning, profile)
    if limit is not None and not any(name in options for name in _LIMITS):
        out[profile.max_tokens_field] = limit
    if request.temperature is not None:
        out["temperature"] = request.temperature
    if request.stop:
        out["stop"] = list(request.stop)
    out |= _tools(request)
    if request.output_schema is not None:
        out["response_format"] = _response_format(request.output_schema, profile)
    return out


def _check_options(options: Mapping[str, Any]) -> None:
    said = [name for name in options if name in _SAME_MEANING]
    for name, members in _INSIDE.items():
        inside = options.get(name)
        if isinstance(inside, Mapping) and members & set(inside):
            said.append(name)
    if said:
        raise ConfigurationError(
            f"reasoning= and the provider option {', '.join(sorted(said))} say the same: give one of them"
        )


def _reasoning(setting: ReasoningSetting, profile: Profile) -> dict[str, Any]:
    match profile.reasoning_field:
        case "reasoning_effort":
            return {"reasoning_effort": _effort(setting, profile)}
        case "reasoning":
            if setting.budget:
                return {"reasoning": {"max_tokens": setting.budget}}
            return {"reasoning": {"effort": _effort(setting, profile)}}
        case "thinking":
            if setting.off:
                return {"thinking": {"type": "disabled"}}
            on: dict[str, Any] = {"thinking": {"type": "enabled"}}
            return on | ({"reasoning_effort": _effort(setting, profile)} if profile.efforts else {})
        case "enable_thinking":
            if setting.off:
                return {"enable_thinking": False}
            return {"enable_thinking": True, "thinking_budget": setting.as_budget()}
        case "reasoning_budget_tokens":
            return {
                "reasoning_budget_tokens": setting.as_budget(),
                "chat_template_kwargs": {"enable_thinking": not setting.off},
            }
        case "chat_template_kwargs":
            return {"chat_template_kwargs": {"enable_thinking": not setting.off}}
        case "":
            raise ConfigurationError(
                "the model or its endpoint takes no reasoning setting: leave reasoning= out"
            )


def _effort(setting: ReasoningSetting, profile: Profile) -> Effort:
    """Return an effort that the endpoint takes."""
    effort = setting.as_effort()
    if not profile.efforts or effort in profile.efforts:
        return effort
    if effort == "none":
        raise ConfigurationError(
            f"reasoning cannot be switched off there; efforts that it takes: {', '.join(profile.efforts)}"
        )
    wanted = ReasoningSetting(effort=effort).as_budget()
    enough = [known for known in profile.efforts if ReasoningSetting(effort=known).as_budget() >= wanted]
    return enough[0] if enough else profile.efforts[-1]


def _limit(limit: int | None, setting: ReasoningSetting, profile: Profile) -> int | None:
    """Return the output limit, above the budget where the wire counts reasoning in it: the caller meant the answer."""
    counted = profile.reasoning_field == "reasoning_budget_tokens" or (
        profile.reasoning_field == "reasoning" and setting.budget is not None
    )
    if limit is None or not counted or limit > setting.as_budget():
        return limit
    return limit + setting.as_budget()


def _tools(request: ModelRequest) -> dict[str, Any]:
    names = {tool.name for tool in request.tools}
    choice = request.tool_choice
    if choice not in ("auto", "none", "required") and choice not in names:
        raise ConfigurationError(f"tool_choice {quote(choice)} is not among the tools of the request")
    if not request.tools:
        if choice == "required":
            raise ConfigurationError('tool_choice "required" needs tools')
        return {}
    tools = []
    for tool in request.tools:
        function: dict[str, Any] = {"name": tool.name, "parameters": tool.parameters}
        if tool.description:
            function["description"] = tool.description
        tools.append({"type": "function", "function": function})
    if choice == "auto":
        return {"tools": tools}  # what every endpoint does unasked; some refuse the word
    if choice in ("none", "required"):
        return {"tools": tools, "tool_choice": choice}
    return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": choice}}}


def _response_format(schema: dict[str, JsonValue], profile: Profile) -> dict[str, Any]:
    if not profile.json_schema:
        raise ConfigurationError("the endpoint takes no JSON schema for its answer: leave output_type= out")
    title = schema.get("title")
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", title)[:64] if isinstance(title, str) and title else "answer"
    strict = strict_schema(schema)
    named = {"name": name, "schema": schema if strict is None else strict, "strict": strict is not None}
    return {"type": "json_schema", "json_schema": named}
