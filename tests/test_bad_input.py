"""What can be wrong with a request or at a provider: each its own error, in every dialect, with the right advice and without the key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from provider_server import ProviderServer, Script, answer, stream
from toys import CLIENTS, choose

from agentkit.errors import ConfigurationError, ModelError, ModelStatusError, ModelStreamError
from agentkit.generate import generate_text
from agentkit.pace import RetryPolicy
from agentkit.providers import connect

pytestmark = pytest.mark.anyio


@pytest.fixture(params=CLIENTS)
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(request.param, monkeypatch)


KEY = "sk-test-0123456789abcdef"
NO_RETRY = RetryPolicy(retries=0)

VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "google": "GOOGLE_API_KEY",
    "ollama": "OLLAMA_API_KEY",
}
"""One provider a dialect, and the variable that holds its key."""


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def openai(message: str, code: str | None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def google(status: int, word: str, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": word}}


@dataclass(frozen=True)
class Refusal:
    """An answer that is no stream, as a provider words it."""

    provider: str
    fault: str
    status: int
    body: Mapping[str, Any]
    retryable: bool = False


OPENAI_QUOTA = "You exceeded your current quota, please check your plan and billing details."
OPENAI_CONTEXT = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
)
REFUSALS = [
    Refusal("anthropic", "authentication", 401, anthropic("authentication_error", f"invalid x-api-key {KEY}")),
    Refusal("anthropic", "unknown_model", 404, anthropic("not_found_error", "model: demo")),
    Refusal("anthropic", "context_overflow", 400, anthropic("invalid_request_error", "prompt is too long: 211000 tokens > 200000 maximum")),
    Refusal("anthropic", "quota", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the API.")),
    Refusal("anthropic", "rate_limit", 429, anthropic("rate_limit_error", "This request would exceed your rate limit."), True),
    Refusal("anthropic", "safety", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy")),
    Refusal("anthropic", "overloaded", 529, anthropic("overloaded_error", "Overloaded"), True),
    *(
        refusal
        for name in ("openai", "openai-chat")
        for refusal in (
            Refusal(name, "authentication", 401, openai(f"Incorrect API key provided: {KEY}.", "invalid_api_key")),
            Refusal(name, "unknown_model", 404, openai("The model `demo` does not exist or you do not have access to it.", "model_not_found")),
            Refusal(name, "context_overflow", 400, openai(OPENAI_CONTEXT, "context_length_exceeded")),
            Refusal(name, "quota", 429, openai(OPENAI_QUOTA, "insufficient_quota", "insufficient_quota")),
            Refusal(name, "rate_limit", 429, openai("Rate limit reached for demo on tokens per min.", "rate_limit_exceeded", "tokens"), True),
            Refusal(name, "safety", 400, openai("Your request was rejected by our safety system.", "content_policy_violation")),
            Refusal(name, "overloaded", 503, openai("The server is overloaded or not ready yet.", None, "server_error"), True),
        )
    ),
    Refusal("google", "authentication", 400, google(400, "INVALID_ARGUMENT", f"API key not valid: {KEY}. Please pass a valid API key.")),
    Refusal("google", "unknown_model", 404, google(404, "NOT_FOUND", "models/demo is not found for API version v1beta")),
    Refusal("google", "context_overflow", 400, google(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")),
    Refusal("google", "quota", 429, google(429, "RESOURCE_EXHAUSTED", OPENAI_QUOTA)),
    Refusal("google", "rate_limit", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric requests per minute. Please retry in 20s."), True),
    Refusal("google", "overloaded", 503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), True),
    Refusal("ollama", "authentication", 401, {"error": f"unauthorized: {KEY}"}),
    Refusal("ollama", "unknown_model", 404, {"error": "model 'demo' not found"}),
    Refusal("ollama", "context_overflow", 400, {"error": "the input length exceeds the context length"}),
    Refusal("ollama", "quota", 402, {"error": "you have reached your usage limit"}),
    Refusal("ollama", "rate_limit", 429, {"error": "too many requests"}, True),
    Refusal("ollama", "overloaded", 503, {"error": "server busy, please try again.  maximum pending requests exceeded"}, True),
]  # fmt: skip


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)


async def fail(provider: str, script: Script) -> ModelError:
    """Ask the provider, which answers so, and return the error."""
    with ProviderServer(script) as server, anyio.fail_after(20):
        model = connect(f"{provider}:demo", base_url=server.url, retry=NO_RETRY)
        with pytest.raises(ModelError) as raised:
            await generate_text(model=model, prompt="go")
        assert KEY in "".join(server.requests[0].headers.values())  # it was sent, and may not be told
    return raised.value


def told(error: ModelError) -> str:
    """All that an error says."""
    return json.dumps([str(error), repr(error), {n: repr(v) for n, v in vars(error).items()}])


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.provider} {case.fault}") for case in REFUSALS]
)
async def test_a_refusal_is_its_own_error(case: Refusal) -> None:
    error = await fail(case.provider, answer(case.status, case.body, request_id="req_1"))

    assert isinstance(error, ModelStatusError)
    assert (error.fault, error.retryable, error.status) == (case.fault, case.retryable, case.status)
    assert (error.model, error.request_id) == ("demo", "req_1")
    assert KEY not in told(error)


@pytest.mark.parametrize("provider", VARIABLES)
async def test_a_wrong_key_names_its_variable(provider: str) -> None:
    error = await fail(provider, answer(401, {"error": {"message": f"no: {KEY}"}}))

    assert VARIABLES[provider] in str(error)
    assert KEY not in told(error)


@pytest.mark.parametrize("provider", sorted(set(VARIABLES) - {"ollama"}))
def test_a_missing_key_names_its_variable(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*VARIABLES.values(), "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(ConfigurationError, match=VARIABLES[provider]):
        connect(f"{provider}:demo")


IN_STREAM = {
    "anthropic": stream(
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    ),
    "openai": stream(
        'data: {"type":"error","code":"server_is_overloaded","message":"The server is overloaded.","param":null}\n\n'
    ),
    "openai-chat": stream('data: {"error":{"message":"The engine is currently overloaded","code":503}}\n\n'),
    "google": stream(
        'data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}\n\n'
    ),
    "ollama": stream(
        '{"error":"the server is overloaded, try again later"}\n', content_type="application/x-ndjson"
    ),
}


@pytest.mark.parametrize("provider", IN_STREAM)
async def test_an_overload_inside_of_the_stream_can_be_tried_again(provider: str) -> None:
    error = await fail(provider, IN_STREAM[provider])

    assert isinstance(error, ModelStreamError)
    assert (error.kind, error.fault, error.retryable) == ("provider", "overloaded", True)


STOPPED = {
    "anthropic": stream(
        'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Well"}}\n\n'
        'data: {"type":"message_delta","delta":{"stop_reason":"refusal"}}\n\n'
        'data: {"type":"message_stop"}\n\n'
    ),
    "openai": stream(
        'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"Well"}\n\n'
        'data: {"type":"response.incomplete","response":{"id":"r","status":"incomplete","output":[],'
        '"incomplete_details":{"reason":"content_filter"}}}\n\n'
    ),
    "openai-chat": stream(
        'data: {"choices":[{"delta":{"content":"Well"}}]}\n\n'
        'data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}\n\ndata: [DONE]\n\n'
    ),
}


@pytest.mark.parametrize("provider", STOPPED)
async def test_a_safety_stop_keeps_what_came_and_is_told_by_the_finish(provider: str) -> None:
    with ProviderServer(STOPPED[provider]) as server, anyio.fail_after(20):
        result = await generate_text(
            model=connect(f"{provider}:demo", base_url=server.url, retry=NO_RETRY), prompt="go"
        )

    assert (result.text, result.finish in ("refusal", "content_filter")) == ("Well", True)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"promptFeedback": {"blockReason": "SAFETY"}}, id="the prompt"),
        pytest.param({"candidates": [{"content": {"parts": [{"text": "We"}]}, "finishReason": "SAFETY"}]}, id="the answer"),
    ],
)  # fmt: skip
async def test_a_safety_stop_of_gemini_is_an_error_that_asking_again_does_not_mend(
    payload: dict[str, Any],
) -> None:
    error = await fail("google", stream(f"data: {json.dumps(payload)}\n\n"))

    assert isinstance(error, ModelStreamError)
    assert (error.fault, error.retryable, error.provider_code) == ("safety", False, "SAFETY")


@pytest.mark.parametrize("provider", VARIABLES)
async def test_the_providers_own_word_on_repetition_wins(provider: str) -> None:
    error = await fail(provider, answer(503, {"error": "busy"}, x_should_retry="false"))

    assert (error.fault, error.retryable) == ("overloaded", False)
