"""Names become models: the table of providers, keys, base URLs, and real dialects over real sockets."""

import subprocess
import sys
from typing import Any

import pytest
from provider_server import ProviderServer, answer, stream
from toys import REQUEST, ToyDialect, collect

from agentkit.chunks import ErrorChunk, FinishChunk, TextChunk, ThinkingChunk
from agentkit.client import StreamingClient
from agentkit.content import Origin
from agentkit.dialects.base import Profile
from agentkit.dialects.table import DIALECTS
from agentkit.endpoint import join_path
from agentkit.errors import ConfigurationError, ModelStatusError
from agentkit.pace import RetryPolicy, Timeouts
from agentkit.provider_table import ALIASES, PROVIDERS
from agentkit.providers import anthropic, connect, find_provider, google, openai, target_of

KEY = "key-0123456789"

URLS = {
    "anthropic": "https://api.anthropic.com/v1/messages",
    "openai": "https://api.openai.com/v1/responses",
    "openai-chat": "https://api.openai.com/v1/chat/completions",
    "google": "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
    "azure": "https://us.openai.azure.com/openai/v1/responses",
    "azure-chat": "https://us.openai.azure.com/openai/v1/chat/completions",
    "deepseek": "https://api.deepseek.com/chat/completions",
    "openrouter": "https://openrouter.ai/api/v1/chat/completions",
    "groq": "https://api.groq.com/openai/v1/chat/completions",
    "xai": "https://api.x.ai/v1/responses",
    "xai-chat": "https://api.x.ai/v1/chat/completions",
    "mistral": "https://api.mistral.ai/v1/chat/completions",
    "together": "https://api.together.xyz/v1/chat/completions",
    "cerebras": "https://api.cerebras.ai/v1/chat/completions",
    "moonshot": "https://api.moonshot.ai/v1/chat/completions",
    "zai": "https://api.z.ai/api/paas/v4/chat/completions",
    "alibaba": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
    "ollama": "http://127.0.0.1:11434/api/chat",
    "ollama-chat": "http://127.0.0.1:11434/v1/chat/completions",
    "llama.cpp": "http://127.0.0.1:8080/v1/chat/completions",
    "local": "http://127.0.0.1:8081/v1/chat/completions",
    "vllm": "http://127.0.0.1:8000/v1/chat/completions",
    "sglang": "http://127.0.0.1:30000/v1/chat/completions",
    "compatible": "https://own.example/v1/chat/completions",
}
"""Where a request for the model `m` goes, by each provider's own reference."""

HOSTED = sorted(name for name, row in PROVIDERS.items() if not row.local and row.base_url)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROVIDERS.values():
        for variable in (*row.key_variables, row.url_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)


def url_of(model: StreamingClient) -> str:
    return join_path(model.base_url, model.dialect.encode(REQUEST, model.target).path)


def connect_any(name: str, **settings: Any) -> StreamingClient:
    """A model of any row: those without an address get one."""
    addresses = {"compatible": "https://own.example", "local": "http://127.0.0.1:8081"}
    azure = "https://us.openai.azure.com"
    if not PROVIDERS[name].base_url:
        settings.setdefault("base_url", addresses.get(name, azure))
    return connect(f"{name}:m", **{"key": KEY, **settings})


# rows


def test_every_row_is_expected() -> None:
    assert sorted(URLS) == sorted(PROVIDERS)


@pytest.mark.parametrize("name", sorted(URLS))
def test_a_row_leads_to_its_providers_url(name: str) -> None:
    assert url_of(connect_any(name)) == URLS[name]


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_row_makes_a_model(name: str) -> None:
    row = PROVIDERS[name]
    model = connect_any(name)

    endpoint = "" if row.base_url else model.base_url
    assert model.origin == Origin(row.dialect, row.label or name, "m", endpoint)
    assert model.dialect is DIALECTS[row.dialect]
    assert model.timeouts == Timeouts(first_byte=600 if row.local else 60)


@pytest.mark.parametrize("name", HOSTED)
def test_a_missing_key_is_told_with_its_variable(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"{name} needs a key: set {PROVIDERS[name].key_variables[0]}"
    ):
        connect(f"{name}:m")


@pytest.mark.parametrize(
    "name", sorted(name for name, row in PROVIDERS.items() if row.local and row.base_url)
)
def test_a_local_server_needs_no_key(name: str) -> None:
    assert connect(f"{name}:m").target.model == "m"


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_other_names_lead_to_the_same_row(alias: str, name: str) -> None:
    assert find_provider(f"{alias}:m") == (PROVIDERS[name], "m")


@pytest.mark.parametrize(
    "name", ["gpt-5.4", "", ":", ":m", "openai:", "openai: ", "OpenAI:m", "nobody:m", "openai:a\nb"]
)
def test_a_name_that_means_nothing_is_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(ConfigurationError, match="openai"):
        connect(name, key=KEY)


def test_a_models_name_may_hold_colons_and_slashes() -> None:
    assert find_provider("ollama:qwen3:14b")[1] == "qwen3:14b"
    assert find_provider("openrouter:anthropic/claude-sonnet-4.5")[1] == "anthropic/claude-sonnet-4.5"


# profiles


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("anthropic:claude-3-7-sonnet-20250219", {"adaptive_thinking": False}),
        ("anthropic:claude-opus-4-20250514", {"adaptive_thinking": False}),
        ("anthropic:claude-opus-4-1-20250805", {"adaptive_thinking": False}),
        ("anthropic:claude-sonnet-4-5", {"adaptive_thinking": False}),
        ("anthropic:claude-haiku-4-5-20251001", {"adaptive_thinking": False}),
        (
            "anthropic:claude-opus-4-6",
            {"adaptive_thinking": True, "efforts": ("low", "medium", "high", "max")},
        ),
        ("anthropic:claude-opus-4-7", {"adaptive_thinking": True}),
        ("anthropic:claude-sonnet-5", {"adaptive_thinking": True}),
        ("anthropic:claude-fable-5-1", {"adaptive_thinking": True}),
        ("openai-chat:gpt-4o", {"reasoning_field": ""}),
        ("openai-chat:o3-mini", {"efforts": ("low", "medium", "high")}),
        ("openai-chat:gpt-5-mini", {"efforts": ("minimal", "low", "medium", "high")}),
        ("openai-chat:gpt-5.1", {"efforts": ("none", "low", "medium", "high")}),
        ("openai-chat:gpt-5.4", {"efforts": ("none", "low", "medium", "high", "xhigh")}),
        ("openai-chat:gpt-6", {"efforts": (), "max_tokens_field": "max_completion_tokens"}),
        ("deepseek:deepseek-v4-flash", {"replay_reasoning": "always", "missing_reasoning": "empty"}),
        ("deepseek:deepseek-reasoner", {"replay_reasoning": "always", "reasoning_field": "thinking"}),
        ("deepseek:DeepSeek-R1-0528", {"replay_reasoning": "within_turn", "reasoning_field": ""}),
        ("moonshot:kimi-k2.6", {"replay_reasoning": "always", "missing_reasoning": "space"}),
        ("moonshot:kimi-k3", {"reasoning_field": "reasoning_effort", "efforts": ("low", "high", "max")}),
        ("groq:openai/gpt-oss-120b", {"replay_reasoning": "never", "options": {}}),
        ("groq:qwen/qwen3-32b", {"replay_reasoning": "never", "options": {"reasoning_format": "parsed"}}),
        ("together:deepseek-ai/DeepSeek-R1", {"think_tags": True}),
        ("ollama:qwen3:14b", {"think_tags": True}),
        ("ollama:llama3", {"think_tags": False}),
        ("mistral:mistral-small-latest", {"short_call_ids": True, "stream_usage": False}),
        ("zai:glm-4.7", {"reasoning_field": "thinking", "efforts": ()}),
        ("alibaba:qwen3-max", {"reasoning_field": "enable_thinking"}),
        ("xai:grok-4.3", {"efforts": ("none", "low", "medium", "high")}),
        ("compatible:any", {"replay_reasoning": None, "think_tags": False}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_models_profile_is_found_by_its_name(name: str, expected: dict[str, Any]) -> None:
    provider, model = find_provider(name)
    profile = target_of(provider, model).profile

    assert {member: getattr(profile, member) for member in expected} == expected


def test_a_profile_of_the_callers_wins() -> None:
    own = Profile(think_tags=True)

    assert connect("ollama:llama3", profile=own).target.profile is own


# addresses


@pytest.mark.parametrize(
    ("name", "base_url", "url"),
    [
        ("openai-chat", "http://localhost:9", "http://localhost:9/v1/chat/completions"),
        ("openai-chat", "http://localhost:9/", "http://localhost:9/v1/chat/completions"),
        ("openai-chat", "http://localhost:9/v1/", "http://localhost:9/v1/chat/completions"),
        ("openai-chat", "http://localhost:9/llm", "http://localhost:9/llm/v1/chat/completions"),
        ("openai-chat", "https://g/v1beta/openai", "https://g/v1beta/openai/chat/completions"),
        ("openai", "http://localhost:9", "http://localhost:9/v1/responses"),
        ("anthropic", "http://localhost:9", "http://localhost:9/v1/messages"),
        ("anthropic", "http://localhost:9/v1", "http://localhost:9/v1/messages"),
        ("anthropic", "https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
        ("ollama", "http://box:11434/", "http://box:11434/api/chat"),
        ("ollama", "http://box:11434/api", "http://box:11434/api/chat"),
        (
            "azure",
            "https://us.openai.azure.com/openai/v1/",
            "https://us.openai.azure.com/openai/v1/responses",
        ),
        ("azure", "https://us.openai.azure.com/openai", "https://us.openai.azure.com/openai/v1/responses"),
        (
            "zai",
            "https://api.z.ai/api/coding/paas/v4",
            "https://api.z.ai/api/coding/paas/v4/chat/completions",
        ),
    ],
)
def test_a_base_url_may_come_with_or_without_its_version(name: str, base_url: str, url: str) -> None:
    model = connect_any(name, base_url=base_url)

    assert url_of(model) == url
    assert model.target.endpoint == model.base_url


def test_a_providers_own_base_url_is_no_endpoint_of_its_own() -> None:
    assert connect_any("groq", base_url="https://api.groq.com/openai/v1/").target.endpoint == ""


def test_azure_takes_its_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="pass base_url=, or set AZURE_OPENAI_ENDPOINT"):
        connect("azure:m", key=KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://us.openai.azure.com/")

    assert url_of(connect("azure:m", key=KEY)) == URLS["azure"]


def test_any_compatible_server_needs_only_an_address() -> None:
    with pytest.raises(ConfigurationError, match="pass base_url="):
        connect("compatible:m")

    assert (
        url_of(connect("compatible:m", base_url="http://localhost:9"))
        == "http://localhost:9/v1/chat/completions"
    )


def test_an_address_of_the_callers_needs_no_key_and_on_this_machine_has_time() -> None:
    hosted, local = (
        connect("openai-chat:m", base_url=f"http://{host}") for host in ("far.example", "localhost:9")
    )

    assert (hosted.timeouts.first_byte, local.timeouts.first_byte) == (60, 600)


@pytest.mark.parametrize("base_url", ["localhost:8000", "ftp://x", "https://me:secret@x"])
def test_a_base_url_that_cannot_be_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        connect("compatible:m", base_url=base_url)


# dialects


def test_another_dialect_goes_by_name_or_as_an_object() -> None:
    toy = ToyDialect()
    named = connect("compatible:m", base_url="http://localhost:9", dialect="anthropic-messages")
    given = connect("compatible:m", base_url="http://localhost:9", dialect=toy)

    assert url_of(named) == "http://localhost:9/v1/messages"
    assert given.dialect is toy


def test_an_unknown_dialect_is_refused_with_what_is_known() -> None:
    with pytest.raises(ConfigurationError, match="unknown dialect 'morse'; known: anthropic-messages, "):
        connect("compatible:m", base_url="http://localhost:9", dialect="morse")


def test_the_callables_of_three_providers() -> None:
    made = [
        anthropic("claude-sonnet-4-5", key=KEY),
        google("gemini-2.5-pro", key=KEY),
        openai("gpt-5.4", key=KEY),
    ]

    assert [(model.target.provider, model.target.model) for model in made] == [
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-pro"),
        ("openai", "gpt-5.4"),
    ]


def test_importing_the_providers_loads_no_dialect() -> None:
    code = (
        "import sys, agentkit.providers\n"
        "print([m for m in sys.modules if m in {f'agentkit.dialects.{name}' for name in ('anthropic_messages', "
        "'openai_responses', 'openai_chat', 'gemini', 'ollama')}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout.strip() == "[]"


# keys


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("variables", "key", "sent", "said"),
    [
        pytest.param(
            {"GOOGLE_API_KEY": "from-google"}, None, "from-google", "from GOOGLE_API_KEY", id="first"
        ),
        pytest.param(
            {"GEMINI_API_KEY": "from-gemini"}, None, "from-gemini", "from GEMINI_API_KEY", id="second"
        ),
        pytest.param(
            {"GOOGLE_API_KEY": "", "GEMINI_API_KEY": "from-gemini"},
            None,
            "from-gemini",
            "from GEMINI_API_KEY",
            id="empty-is-unset",
        ),
        pytest.param(
            {"GOOGLE_API_KEY": "from-google"}, KEY, KEY, "that was passed as key=", id="passed-wins"
        ),
        pytest.param({}, None, None, "set GOOGLE_API_KEY or GEMINI_API_KEY", id="none"),
    ],
)
async def test_a_key_comes_from_the_caller_or_the_environment_and_a_refusal_says_which(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], key: str | None, sent: str | None, said: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    script = answer(401, {"error": {"message": "no", "status": "UNAUTHENTICATED"}})
    with ProviderServer(script) as server, pytest.raises(ModelStatusError, match=said) as caught:
        await collect(connect("google:gemini-2.5-pro", key=key, base_url=server.url))

    assert server.requests[0].headers.get("x-goog-api-key") == sent
    assert sent is None or sent not in str(caught.value)


def test_a_broken_key_in_the_environment_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant\n")

    with pytest.raises(ConfigurationError, match="the key from ANTHROPIC_API_KEY must be visible ASCII"):
        connect("anthropic:m")


# real dialects over real sockets

ANTHROPIC = """event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hello"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

"""
CHAT = """data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm"}}]}

data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

"""
RESPONSES = """data: {"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"Hm"}

data: {"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hello"}

data: {"type":"response.completed","response":{"status":"completed","output":[]}}

"""
GEMINI = """data: {"candidates":[{"content":{"parts":[{"text":"Hm","thought":true}]}}]}\r
\r
data: {"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}]}\r
\r
"""
OLLAMA = """{"message":{"role":"assistant","thinking":"Hm","content":""},"done":false}
{"message":{"role":"assistant","content":"Hello"},"done":false}
{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}
"""


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1_000_000, 7], ids=["whole", "in-pieces"])
@pytest.mark.parametrize(
    ("name", "body"),
    [
        pytest.param("anthropic:claude-sonnet-4-5", ANTHROPIC, id="anthropic"),
        pytest.param("openai-chat:gpt-5", CHAT, id="chat"),
        pytest.param("openai:gpt-5", RESPONSES, id="responses"),
        pytest.param("google:gemini-2.5-pro", GEMINI, id="gemini"),
        pytest.param("ollama:llama3", OLLAMA, id="ollama"),
    ],
)
async def test_a_dialect_streams_over_a_socket(name: str, body: str, size: int) -> None:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    with ProviderServer(stream(*parts)) as server:
        got = await collect(connect(name, key=KEY, base_url=server.url, retry=RetryPolicy(retries=0)))

    assert "".join(chunk.thinking for chunk in got if isinstance(chunk, ThinkingChunk)) == "Hm"
    assert "".join(chunk.text for chunk in got if isinstance(chunk, TextChunk)) == "Hello"
    assert [chunk.reason for chunk in got if isinstance(chunk, FinishChunk)] == ["stop"]
    assert [chunk for chunk in got if isinstance(chunk, ErrorChunk)] == []
