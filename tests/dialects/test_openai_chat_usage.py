"""Token counts are found under every name."""

from typing import Any

import pytest

from agentkit.content import Usage
from agentkit.dialects.openai_chat_usage import read_usage

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                      "prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 3}},
                     Usage(9, 4, 3, 5), id="OpenAI"),
        pytest.param({"prompt_tokens": 288, "completion_tokens": 27, "total_tokens": 628,
                      "completion_tokens_details": {"reasoning_tokens": 313}},
                     Usage(288, 340, 313), id="reasoning beside the output"),
        pytest.param({"prompt_tokens": 28, "completion_tokens": 9, "total_tokens": 37,
                      "completion_tokens_details": {"reasoning_tokens": 61}},
                     Usage(28, 9, 61), id="a total without reasoning"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 6}, Usage(9, 4, 0, 6), id="DeepSeek"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 6}, Usage(9, 4, 0, 6), id="Moonshot"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4, "reasoning_tokens": 2,
                      "prompt_tokens_details": None, "completion_tokens_details": None},
                     Usage(9, 4, 2), id="SGLang"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cache_write_tokens": 3}},
                     Usage(9, 4, 0, 0, 3), id="OpenRouter"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3},
                     Usage(9, 4, 0, 2, 3), id="Databricks"),
        pytest.param({"input_tokens": 9, "output_tokens": 4}, Usage(9, 4), id="other names"),
        pytest.param({"prompt_tokens": None, "completion_tokens": "4", "prompt_tokens_details": []}, Usage(), id="odd"),
        pytest.param({"prompt_tokens": 9.0, "completion_tokens": -4, "total_tokens": True}, Usage(9, 0), id="absurd"),
        pytest.param({"prompt_tokens": float("nan"), "completion_tokens": 1e400}, Usage(), id="no numbers"),
    ],
)  # fmt: skip
def test_counts_are_found_under_every_name(usage: dict[str, Any], read: Usage) -> None:
    assert read_usage(usage) == read
