"""Consume a provider's stream with another library, as its own documentation does. The first argument names it."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import consuming

os.environ |= {"ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none", "DO_NOT_TRACK": "1"}
MESSAGES = [{"role": "user", "content": "hi"}]
Pieces = AsyncIterator[tuple[str, bool]]
"""Text, and whether it is reasoning."""

_kept: dict[str, Any] = {}


def kept(name: str, make: Callable[[], Any]) -> Any:
    """Return what was made under a name before, or make it: a client is made once, as one should."""
    if name not in _kept:
        _kept[name] = make()
    return _kept[name]


async def anthropic_sdk(shape: str, base: str, name: str) -> Pieces:
    import anthropic

    if shape != "anthropic":
        raise NotImplementedError
    client = kept("sdk", lambda: anthropic.AsyncAnthropic(base_url=base))
    stream = await client.messages.create(model=name, max_tokens=64_000, messages=MESSAGES, stream=True)
    async for event in stream:
        if event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                yield event.delta.text, False
            elif event.delta.type == "thinking_delta":
                yield event.delta.thinking, True


async def anthropic_helper(shape: str, base: str, name: str) -> Pieces:
    import anthropic

    if shape != "anthropic":
        raise NotImplementedError
    client = kept("sdk", lambda: anthropic.AsyncAnthropic(base_url=base))
    async with client.messages.stream(model=name, max_tokens=64_000, messages=MESSAGES) as stream:
        async for event in stream:
            if event.type == "text":
                yield event.text, False
            elif event.type == "thinking":
                yield event.thinking, True
        await stream.get_final_message()


async def openai_sdk(shape: str, base: str, name: str) -> Pieces:
    import openai

    client = kept("sdk", lambda: openai.AsyncOpenAI(base_url=f"{base}/v1"))
    if shape == "chat":
        stream = await client.chat.completions.create(model=name, messages=MESSAGES, stream=True)
        async for event in stream:
            if event.choices:
                delta = event.choices[0].delta
                if delta.content:
                    yield delta.content, False
                elif getattr(delta, "reasoning_content", None):
                    yield delta.reasoning_content, True
    elif shape == "responses":
        stream = await client.responses.create(model=name, input="hi", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                yield event.delta, False
            elif event.type == "response.reasoning_summary_text.delta":
                yield event.delta, True
    else:
        raise NotImplementedError


def pydantic_ai_agent(shape: str, base: str, name: str) -> Any:
    from pydantic_ai import Agent

    if shape == "anthropic":
        import anthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        sdk = kept("sdk", lambda: anthropic.AsyncAnthropic(base_url=base))
        return Agent(AnthropicModel(name, provider=AnthropicProvider(anthropic_client=sdk)))
    if shape not in ("chat", "responses"):
        raise NotImplementedError
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = kept("provider", lambda: OpenAIProvider(base_url=f"{base}/v1", api_key="none"))
    return Agent((OpenAIChatModel if shape == "chat" else OpenAIResponsesModel)(name, provider=provider))


async def pydantic_ai(shape: str, base: str, name: str) -> Pieces:
    agent = kept(f"{shape}:{name}", lambda: pydantic_ai_agent(shape, base, name))
    async with agent.run_stream_events("hi") as stream:
        async for event in stream:
            if event.event_kind == "part_delta":
                kind, text = event.delta.part_delta_kind, getattr(event.delta, "content_delta", None)
            elif event.event_kind == "part_start":
                kind, text = event.part.part_kind, getattr(event.part, "content", None)
            else:
                continue
            if kind in ("text", "thinking") and text:
                yield text, kind == "thinking"


def ai_query_model(shape: str, base: str, name: str) -> Any:
    from ai_query import providers

    if shape == "anthropic":
        return providers.anthropic(name, api_key="none", base_url=base)
    if shape == "chat":
        return providers.openai(name, api_key="none", base_url=f"{base}/v1")
    if shape == "gemini":
        model = providers.google(name, api_key="none")
        model.provider.base_url = f"{base}/v1beta"
        return model
    raise NotImplementedError


async def ai_query(shape: str, base: str, name: str) -> Pieces:
    from ai_query import stream_text

    model = kept(f"{shape}:{name}", lambda: ai_query_model(shape, base, name))
    async for event in stream_text(model=model, prompt="hi").event_stream:
        kind = type(event).__name__
        if kind == "TextDeltaEvent":
            yield event.text, False
        elif kind == "StreamReasoningEvent" and event.event.text:
            yield event.event.text, True


PEERS = {
    "anthropic": anthropic_sdk,
    "anthropic-helper": anthropic_helper,
    "openai": openai_sdk,
    "pydantic-ai": pydantic_ai,
    "ai-query": ai_query,
}


def consumer(peer: str) -> consuming.Consume:
    async def consume(shape: str, base: str, name: str) -> consuming.Sink:
        sink = consuming.Sink()
        async for text, reasoning in PEERS[peer](shape, base, name):
            sink.add(text, reasoning=reasoning)
        return sink

    return consume


if __name__ == "__main__":
    consuming.main(consumer(sys.argv.pop(1)))
