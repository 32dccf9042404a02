"""Traces in OpenTelemetry's words for generative AI: `invoke_agent`, `chat`, `execute_tool`.

Needs `opentelemetry-api` (the extra `otel`) and nothing of an SDK: where traces go is the application's matter. Nothing else of the house
imports this room. What was said stays out of it unless `content=True`; signatures and provider state always do.
The trace of a request to the server is the parent of the run that it starts, and the provider's request carries the trace on.
Source: semantic conventions for GenAI agents, spans and tools (status: development), read on 2026-11-30.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from agentkit.content import (
    Message,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from agentkit.errors import AgentKitError, ModelStatusError, RunCancelled
from agentkit.observe import CallSight, Observer, RunSight, StepSight
from agentkit.redaction import redacted_message

_PROVIDERS: Final = {
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""The conventions' names, where they differ from the house's."""


class OpenTelemetry(Observer):
    """An `Observer` that makes spans. Give it to an agent, to a run, or to the server: `create_app(…, observers=[OpenTelemetry()])`."""

    def __init__(self, *, tracer_provider: TracerProvider | None = None, content: bool = False) -> None:
        """Make an observer.

        Args:
            tracer_provider: whose tracer; the process's own by default.
            content: write messages, arguments and results into the spans, as far as the run's redact hook lets them.
        """
        self._tracer = trace.get_tracer("agentkit", tracer_provider=tracer_provider)
        self._content = content

    def run(self, sight: RunSight) -> AbstractContextManager[object]:
        """Make the span `invoke_agent`."""
        return self._run(sight)

    @contextmanager
    def _run(self, sight: RunSight) -> Iterator[None]:
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent",
            "agentkit.run": sight.run,
        }
        if sight.agent:
            attributes["gen_ai.agent.name"] = sight.agent
        if sight.thread:
            attributes["gen_ai.conversation.id"] = sight.thread
        with self._span(f"invoke_agent {sight.agent}".strip(), SpanKind.INTERNAL, attributes) as span:
            yield
            span.set_attribute("agentkit.end", sight.end)
            span.set_attribute("agentkit.steps", sight.steps)
            _set_usage(span, sight.usage)
            _set_error(span, sight.error)

    def step(self, sight: StepSight) -> AbstractContextManager[object]:
        """Make the span `chat`."""
        return self._step(sight)

    @contextmanager
    def _step(self, sight: StepSight) -> Iterator[None]:
        request = sight.request
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.stream": True,
            "agentkit.step": sight.step,
            **_origin(sight),
        }
        if sight.run.thread:
            attributes["gen_ai.conversation.id"] = sight.run.thread
        if request.max_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = request.max_tokens
        if request.temperature is not None:
            attributes["gen_ai.request.temperature"] = request.temperature
        if request.stop:
            attributes["gen_ai.request.stop_sequences"] = list(request.stop)
        if request.output_schema is not None:
            attributes["gen_ai.output.type"] = "json"
        with self._span(f"chat {sight.origin.model}".strip(), SpanKind.CLIENT, attributes) as span:
            yield
            span.set_attributes(_origin(sight))  # of several models, the one that answered
            span.update_name(f"chat {sight.origin.model}".strip())
            if sight.finish:
                span.set_attribute("gen_ai.response.finish_reasons", [sight.finish])
            for name, at in (("reasoning", sight.first_reasoning), ("text", sight.first_text)):
                if at is not None:
                    span.set_attribute(f"agentkit.first_{name}", at - sight.began)
            firsts = [at for at in (sight.first_reasoning, sight.first_text) if at is not None]
            if firsts:
                span.set_attribute("gen_ai.response.time_to_first_chunk", min(firsts) - sight.began)
            _set_usage(span, sight.usage)
            _set_error(span, sight.error)
            if self._content:
                _set_content(span, sight)

    def call(self, sight: CallSight) -> AbstractContextManager[object]:
        """Make the span `execute_tool`."""
        return self._call(sight)

    @contextmanager
    def _call(self, sight: CallSight) -> Iterator[None]:
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": sight.name,
            "gen_ai.tool.call.id": sight.call,
            "gen_ai.tool.type": "function",
        }
        with self._span(f"execute_tool {sight.name}", SpanKind.INTERNAL, attributes) as span:
            yield
            result = sight.result
            status = result.status if result is not None else "interrupted"
            if status != "ok":
                span.set_attribute("error.type", f"tool_{status}")
                span.set_status(Status(StatusCode.ERROR))
            if self._content:
                use = ToolUseBlock(sight.call, sight.name, sight.input)
                blocks = (use,) if result is None else (use, result)
                for part in _parts(sight.run, [Message("assistant", blocks)])[0]["parts"]:
                    if part["type"] == "tool_call":
                        span.set_attribute("gen_ai.tool.call.arguments", _json(part["arguments"]))
                    else:
                        span.set_attribute("gen_ai.tool.call.result", part["response"])

    def headers(self) -> Mapping[str, str]:
        """Return the trace as headers, in the application's format (`traceparent` by default)."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return carrier

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Go on with a client's trace, unless the application's own middleware has begun one."""
        return _going_on(headers)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Mapping[str, AttributeValue]) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span


@contextmanager
def _going_on(headers: Mapping[str, str]) -> Iterator[None]:
    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)


def _origin(sight: StepSight) -> dict[str, AttributeValue]:
    origin = sight.origin
    return {
        "gen_ai.provider.name": _PROVIDERS.get(origin.provider, origin.provider),
        "gen_ai.request.model": origin.model,
    }


def _set_usage(span: Span, usage: Usage) -> None:
    for name, tokens in (
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("reasoning.output_tokens", usage.reasoning_tokens),
        ("cache_read.input_tokens", usage.cache_read_tokens),
        ("cache_creation.input_tokens", usage.cache_write_tokens),
    ):
        if tokens:
            span.set_attribute(f"gen_ai.usage.{name}", tokens)


def _set_error(span: Span, error: BaseException | None) -> None:
    """Say what kind of error it was, and not its words: they may quote what was said."""
    if error is None:
        return
    if isinstance(error, RunCancelled) or not isinstance(error, Exception):
        span.set_attribute("error.type", "cancelled")
        return  # somebody wanted it: no error of ours
    code = error.code if isinstance(error, AgentKitError) else type(error).__name__
    span.set_attribute("error.type", code)
    if isinstance(error, ModelStatusError):
        span.set_attribute("http.response.status_code", error.status)
    span.set_status(Status(StatusCode.ERROR))


def _set_content(span: Span, sight: StepSight) -> None:
    if sight.request.system:
        instructions = _parts(sight.run, [Message.system(sight.request.system)])[0]["parts"]
        span.set_attribute("gen_ai.system_instructions", _json(instructions))
    span.set_attribute("gen_ai.input.messages", _json(_parts(sight.run, sight.request.messages)))
    if sight.answer is not None:
        (answer,) = _parts(sight.run, [sight.answer])
        span.set_attribute("gen_ai.output.messages", _json([{**answer, "finish_reason": sight.finish}]))


def _parts(run: RunSight, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in the conventions' form, as others may see them, without what only the provider may read."""
    out: list[dict[str, Any]] = []
    for message in messages:
        parts: list[dict[str, Any]] = []
        for block in redacted_message(run.redact, message).content:
            match block:
                case TextBlock():
                    parts.append({"type": "text", "content": block.text})
                case ThinkingBlock():
                    parts.append({"type": "reasoning", "content": block.thinking})
                case RefusalBlock():
                    parts.append({"type": "text", "content": block.refusal})
                case ToolUseBlock():
                    call = {"id": block.id, "name": block.name, "arguments": _arguments(block.input)}
                    parts.append({"type": "tool_call", **call})
                case ToolResultBlock():
                    parts.append(
                        {"type": "tool_call_response", "id": block.tool_use_id, "response": block.text}
                    )
                case _:
                    parts.append({"type": block.type})
        out.append({"role": message.role, "parts": parts})
    return out


def _arguments(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
