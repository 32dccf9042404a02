"""The providers: one row each, and nothing but data.

A row says which dialect a provider speaks, where, with which key, and in what it differs from others of its dialect. What differs by model
stands in `models`: patterns that are looked for in the model's name in lower case; the first that is found counts, else the row's profile.
Names that are not matched get the widest profile: a provider that takes less says so itself.
Source: the providers' own references (from public references, not re-read) and recorded requests; where a provider documents only an alias, the alias.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final

from agentkit.dialects.base import Profile
from agentkit.reasoning import Effort

LOCAL: Final = "local"
"""The provider whose server this process starts itself (see `local_model`)."""
LOCAL_FIRST_BYTE: Final = 600.0
"""Seconds until the first byte of a local server: it reads the whole prompt before it answers, and may have a queue."""

_OFF: Final[tuple[Effort, ...]] = ("none", "low", "medium", "high")
_THREE: Final[tuple[Effort, ...]] = ("low", "medium", "high")
_CLAUDE: Final[tuple[Effort, ...]] = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider."""

    name: str
    """What stands before the colon in a model's full name."""
    dialect: str
    base_url: str = ""
    """Used as it is; "" where only the caller knows it."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key; the first that is set counts."""
    profile: Profile = field(default_factory=Profile)
    models: tuple[tuple[str, Profile], ...] = ()
    """Pattern and profile, the first match wins."""
    label: str = ""
    """The provider's name in events, errors and `provider_options`, where it is not the row's."""
    local: bool = False
    """True where it runs on the caller's machines: no key is demanded, and the first byte may take minutes."""
    version: str = ""
    """What is added to a base URL of the caller's that names no version; "" is the dialect's own."""
    url_variable: str = ""
    """The environment variable that may hold the base URL, where the row has none."""

    @property
    def provider(self) -> str:
        """The provider's name in events, errors and `provider_options`."""
        return self.label or self.name

    def profile_of(self, model: str) -> Profile:
        """Return what holds for a model."""
        name = model.lower()
        return next((profile for pattern, profile in self.models if re.search(pattern, name)), self.profile)


VERSIONS: Final = {"openai-chat": "v1", "openai-responses": "v1", "gemini": "v1beta"}
"""The version that a dialect's base URL ends with. The paths of the others begin with theirs."""

_PLAIN: Final = Profile(reasoning_field="")
_TAGS: Final = Profile(think_tags=True, reasoning_field="")

_OPENAI: Final = Profile(max_tokens_field="max_completion_tokens", replay_reasoning="never")
_OPENAI_MODELS: Final = (
    (r"gpt-[34]|chatgpt|gpt-5\S*-chat", replace(_OPENAI, reasoning_field="")),
    (r"\bo\d", replace(_OPENAI, efforts=_THREE)),
    (r"gpt-5\.1(?!\d)", replace(_OPENAI, efforts=_OFF)),
    (r"gpt-5\.\d", replace(_OPENAI, efforts=(*_OFF, "xhigh"))),
    (r"gpt-5", replace(_OPENAI, efforts=("minimal", *_THREE))),
)

_DEEPSEEK: Final = Profile(
    # With tools in the request it refuses any assistant message without the field; without tools it ignores it.
    replay_reasoning="always",
    missing_reasoning="empty",
    reasoning_field="thinking",
    efforts=("low", "high", "max"),
    json_schema=False,
)
_KIMI: Final = Profile(
    # It refuses a call's message without the field, newer models also an empty one.
    replay_reasoning="always",
    missing_reasoning="space",
    reasoning_field="thinking",
    max_tokens_field="max_completion_tokens",
)
_GLM: Final = Profile(
    # Interleaved thinking needs it back inside a turn; earlier turns' is cleared there unless the caller asks otherwise.
    replay_reasoning="always",
    reasoning_field="thinking",
    json_schema=False,
)
_GROQ: Final = Profile(replay_reasoning="never", max_tokens_field="max_completion_tokens")
_CEREBRAS: Final = Profile(max_tokens_field="max_completion_tokens")
_PARSED: Final = {"reasoning_format": "parsed"}
"""Without it these models put their reasoning into the text, and not all of them mark where it begins."""
_MISTRAL: Final = Profile(efforts=("none", "high"), stream_usage=False, short_call_ids=True)
# The model's own template decides what of its reasoning it sees again.
_LLAMA: Final = Profile(reasoning_field="reasoning_budget_tokens", replay_reasoning="within_turn")
_SMOL: Final = replace(
    _LLAMA,
    # Left to itself so small a model says the same sentence for ever.
    options={
        "temperature": 0.3,
        "top_p": 0.9,
        "dry_multiplier": 0.8,
        "dry_penalty_last_n": 512,
        "max_tokens": 256,
    },
)
_GROK_MODELS: Final = (
    (r"grok-3-mini", Profile(efforts=("low", "high"))),
    (r"grok-4\.3", Profile(efforts=_OFF)),
    (r"grok-4\.[4-9](?!\d)", Profile(efforts=_THREE)),
    (r"grok-[234]|grok-code", _PLAIN),
)
_ADAPTIVE: Final = Profile(adaptive_thinking=True, efforts=_CLAUDE)

_ROWS: Final = (
    Provider(
        "anthropic",
        "anthropic-messages",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        models=(
            (r"claude-(opus|sonnet)-4-6", Profile(adaptive_thinking=True, efforts=(*_THREE, "max"))),
            # From 4.7 on, and in all of the fifth generation, a budget is refused. A date behind the 4 is no version.
            (r"claude-[a-z]+-(4-([7-9]|[1-9]\d)|[5-9]|\d\d)(?!\d)|claude-mythos", _ADAPTIVE),
        ),
    ),
    Provider("openai", "openai-responses", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    Provider(
        "openai-chat",
        "openai-chat",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        _OPENAI,
        _OPENAI_MODELS,
        label="openai",
    ),
    Provider(
        "google",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    Provider(
        "azure",
        "openai-responses",
        key_variables=("AZURE_OPENAI_API_KEY",),
        version="openai/v1",
        url_variable="AZURE_OPENAI_ENDPOINT",
    ),
    Provider(
        "azure-chat",
        "openai-chat",
        "",
        ("AZURE_OPENAI_API_KEY",),
        _OPENAI,
        _OPENAI_MODELS,
        label="azure",
        version="openai/v1",
        url_variable="AZURE_OPENAI_ENDPOINT",
    ),
    Provider(
        "deepseek",
        "openai-chat",
        "https://api.deepseek.com",
        ("DEEPSEEK_API_KEY",),
        _DEEPSEEK,
        # The first reasoning model has the opposite rule: nothing of earlier turns, and no switch.
        models=((r"\br1\b", Profile(replay_reasoning="within_turn", reasoning_field="", json_schema=False)),),
    ),
    Provider(
        "openrouter",
        "openai-chat",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        Profile(
            reasoning_field="reasoning",
            efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
            document_urls=True,
        ),
    ),
    Provider(
        "groq",
        "openai-chat",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        _GROQ,
        models=(
            (r"gpt-oss", replace(_GROQ, efforts=_THREE)),
            (r"qwen|deepseek-r1", replace(_GROQ, reasoning_field="", options=_PARSED)),
            (r"llama|gemma|kimi", replace(_GROQ, reasoning_field="")),
        ),
    ),
    # xAI shows its reasoning, as summaries, on this dialect only.
    Provider("xai", "openai-responses", "https://api.x.ai/v1", ("XAI_API_KEY",), models=_GROK_MODELS),
    Provider(
        "xai-chat",
        "openai-chat",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        models=_GROK_MODELS,
        label="xai",
    ),
    Provider(
        "mistral",
        "openai-chat",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        _MISTRAL,
        models=(
            (
                r"magistral|codestral|ministral|pixtral|devstral|nemo",
                replace(_MISTRAL, reasoning_field="", efforts=()),
            ),
        ),
    ),
    Provider(
        "together",
        "openai-chat",
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        models=(
            (r"gpt-oss", Profile(efforts=_THREE)),
            (r"deepseek-r1|qwq", _TAGS),
            (r"llama|gemma|mixtral", _PLAIN),
        ),
    ),
    Provider(
        "cerebras",
        "openai-chat",
        "https://api.cerebras.ai/v1",
        ("CEREBRAS_API_KEY",),
        _CEREBRAS,
        models=(
            (r"gpt-oss", replace(_CEREBRAS, efforts=_THREE)),
            (r"qwen", replace(_CEREBRAS, efforts=_OFF, options=_PARSED)),
            (r"llama", replace(_CEREBRAS, reasoning_field="")),
        ),
    ),
    Provider(
        "moonshot",
        "openai-chat",
        "https://api.moonshot.ai/v1",
        ("MOONSHOT_API_KEY", "KIMI_API_KEY"),
        _KIMI,
        models=(
            (r"kimi-k3", replace(_KIMI, reasoning_field="reasoning_effort", efforts=("low", "high", "max"))),
            (r"kimi-k2\.7", replace(_KIMI, reasoning_field="")),
            (r"moonshot-v1", _PLAIN),
        ),
    ),
    Provider(
        "zai",
        "openai-chat",
        "https://api.z.ai/api/paas/v4",
        ("ZAI_API_KEY",),
        _GLM,
        models=((r"glm-5\.[2-9]", replace(_GLM, efforts=("minimal", *_CLAUDE))),),
    ),
    Provider(
        "alibaba",
        "openai-chat",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY",),
        Profile(reasoning_field="enable_thinking"),
    ),
    Provider(
        "ollama",
        "ollama",
        "http://127.0.0.1:11434",
        ("OLLAMA_API_KEY",),
        # Older servers leave the tags in the text, newer ones have none there.
        models=((r"qwen3|qwq|deepseek-r1|deepscaler|magistral", Profile(think_tags=True)),),
        local=True,
    ),
    Provider(
        "ollama-chat",
        "openai-chat",
        "http://127.0.0.1:11434/v1",
        ("OLLAMA_API_KEY",),
        Profile(efforts=_OFF),
        label="ollama",
        local=True,
    ),
    Provider(
        "llama.cpp",
        "openai-chat",
        "http://127.0.0.1:8080/v1",
        ("LLAMA_API_KEY",),
        _LLAMA,
        local=True,
    ),
    # The same server, started by `local_model` where no base URL is given.
    Provider(LOCAL, "openai-chat", profile=_LLAMA, models=((r"smollm2", _SMOL),), local=True),
    Provider(
        "vllm",
        "openai-chat",
        "http://127.0.0.1:8000/v1",
        ("VLLM_API_KEY",),
        Profile(reasoning_field="chat_template_kwargs"),
        models=((r"gpt-oss", Profile(efforts=_THREE)),),
        local=True,
    ),
    Provider(
        "sglang",
        "openai-chat",
        "http://127.0.0.1:30000/v1",
        ("SGLANG_API_KEY",),
        Profile(reasoning_field="chat_template_kwargs"),
        models=((r"gpt-oss", Profile(efforts=_THREE)),),
        local=True,
    ),
    Provider("compatible", "openai-chat", key_variables=("COMPATIBLE_API_KEY",), local=True),
)

PROVIDERS: Final = {row.name: row for row in _ROWS}
"""Name to row."""
ALIASES: Final = {"gemini": "google", "llamacpp": "llama.cpp"}
"""Other names that people try."""
