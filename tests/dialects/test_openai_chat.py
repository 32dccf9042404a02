"""The face of the dialect."""

import pytest

from agentkit.dialects.base import Dialect, Profile, StatusFault, Target
from agentkit.dialects.openai_chat import DIALECT

pytestmark = pytest.mark.pure


def test_it_is_a_dialect() -> None:
    dialect: Dialect = DIALECT

    assert (dialect.name, dialect.framing) == ("openai-chat", "sse")
    assert dialect.auth_headers("k") == {"Authorization": "Bearer k"}


def test_the_profile_says_whether_tags_are_looked_for() -> None:
    payload = '{"choices":[{"delta":{"content":"<think>a</think>"}}]}'

    plain = DIALECT.decoder(Target("p", "m")).feed("", payload)
    tagged = DIALECT.decoder(Target("p", "m", Profile(think_tags=True))).feed("", payload)

    assert [type(chunk).__name__ for chunk in plain] == ["TextChunk"]
    assert [type(chunk).__name__ for chunk in tagged] == ["ThinkingChunk"]


def test_a_refused_request_says_why() -> None:
    body = '{"error":{"message":"Slow down","type":"requests","code":"rate_limit_exceeded"}}'

    assert DIALECT.status_fault(429, body) == StatusFault("Slow down", "rate_limit", True)
