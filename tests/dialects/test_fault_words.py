"""Error bodies of any shape are read, and told apart by what a caller can do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.dialects.base import StatusFault
from agentkit.dialects.fault_words import MAX_MESSAGE, status_fault

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"error": {"message": "No.", "type": "t", "code": "c"}}, "No.", id="OpenAI"),
        pytest.param({"error": "No."}, "No.", id="a string"),
        pytest.param({"detail": "No."}, "No.", id="FastAPI"),
        pytest.param({"detail": [{"loc": ["body", "n"], "msg": "No.", "type": "int"}]}, "body.n: No.", id="FastAPI validation"),
        pytest.param({"message": "No.", "request_id": "r"}, "No.", id="plain"),
        pytest.param({"object": "error", "message": {"detail": [{"msg": "No."}, {"msg": "Nor."}]}}, "No.; Nor.", id="Mistral"),
        pytest.param([{"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}}], "No.", id="a list"),
        pytest.param({"errors": [{"code": 7, "message": "No."}], "success": False}, "No.", id="errors"),
        pytest.param({"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"No."}}'}}},
                     "Provider returned error: No.", id="OpenRouter with the upstream's own"),
        pytest.param({"title": "No.", "status": 400, "type": "about:blank"}, "No.", id="a problem document"),
        pytest.param("No.", "No.", id="a JSON string"),
        pytest.param({}, "HTTP 418 without a message", id="nothing"),
        pytest.param(None, "HTTP 418 without a message", id="null"),
    ],
)  # fmt: skip
def test_every_shape_has_its_message(body: object, message: str) -> None:
    assert status_fault(418, json.dumps(body)).message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("busy, come later", "busy, come later"),
        ("", "HTTP 418 without a message"),
        ("<!DOCTYPE html><html><head><title>502 Bad Gateway</title>", "an HTML page: 502 Bad Gateway"),
        ("<html><body>x", "an HTML page"),
        ("[" * 100_000, "[" * MAX_MESSAGE + "…"),
    ],
    ids=["text", "empty", "a page", "a page without title", "deep"],
)
def test_what_is_not_json_is_read_too(body: str, message: str) -> None:
    assert status_fault(418, body).message == message


OPENAI_QUOTA = "You exceeded your current quota, please check your plan and billing details."
LLAMA_CONTEXT = "the request exceeds the available context size (4096 tokens), try increasing it"


@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (401, {"message": "Incorrect API key provided", "code": "invalid_api_key"}, "authentication", False),
        (400, {"message": "API key not valid. Please pass a valid API key."}, "authentication", False),
        (403, {"message": "Your key lacks permission"}, "permission", False),
        (403, {"message": "Input flagged by moderation"}, "safety", False),
        (404, {"message": "The model `x` does not exist", "code": "model_not_found"}, "unknown_model", False),
        (400, {"message": "x is not a valid model ID"}, "unknown_model", False),
        (404, {"message": "No endpoints found for x."}, "unknown_model", False),
        (404, {"message": "Not Found"}, "not_found", False),
        (400, {"message": "This model's maximum context length is 8192 tokens."}, "context_overflow", False),
        (400, {"message": LLAMA_CONTEXT, "type": "exceed_context_size_error"}, "context_overflow", False),
        (413, {"message": "Request too large"}, "context_overflow", False),
        (429, {"message": OPENAI_QUOTA, "code": "insufficient_quota"}, "quota", False),
        (402, {"message": "Insufficient Balance"}, "quota", False),
        (429, {"message": "Quota exceeded: 5 per minute, retry in 12s"}, "rate_limit", True),
        (429, {"message": "Rate limit reached for model x"}, "rate_limit", True),
        (429, {"message": "The engine is currently overloaded"}, "overloaded", True),
        (429, {}, "rate_limit", True),
        (503, {"message": "The model is overloaded"}, "overloaded", True),
        (529, {}, "overloaded", True),
        (500, {"message": "Internal server error"}, "server_error", True),
        (504, {"message": "x"}, "timeout", True),
        (408, {"message": "x"}, "timeout", True),
        (
            400,
            {"message": "Blocked by our content policy", "code": "content_policy_violation"},
            "safety",
            False,
        ),
        (400, {"message": "Model names are case sensitive: unknown model X"}, "unknown_model", False),
        (400, {"message": "Unsupported parameter: 'max_tokens'"}, "invalid_request", False),
        (422, {"message": "x"}, "invalid_request", False),
        (200, {"message": "x", "code": 429}, "rate_limit", True),
        (200, {"message": "Provider returned error", "code": 502}, "server_error", True),
        (451, {"message": "x"}, "invalid_request", False),
        (599, {"message": "x"}, "server_error", True),
    ],
)
def test_faults_are_told_apart(
    status: int, error: dict[str, object], code: str, retryable: bool | None
) -> None:
    fault = status_fault(status, json.dumps({"error": error}))

    assert (fault.code, fault.retryable) == (code, retryable)


def test_what_nothing_tells_is_left_to_the_status() -> None:
    assert status_fault(200, '{"error":{"message":"x","code":"odd"}}') == StatusFault("x", "odd", None)


@pytest.mark.parametrize(
    "key",
    ["sk-abcdEFGH12345678", "gsk_abcdefgh12345678", "Bearer abcdefgh12345678", "sk-ab***************cd"],
)
def test_a_key_in_a_message_is_masked(key: str) -> None:
    fault = status_fault(401, json.dumps({"error": {"message": f"Incorrect API key provided: {key}."}}))

    assert "[key]" in fault.message
    assert not any(part in fault.message for part in ("12345678", "***"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "code", "metadata", "loc", "msg", "raw"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.integers(200, 599), _JSON.map(json.dumps) | st.text(max_size=200))
def test_any_body_is_read_without_raising(status: int, body: str) -> None:
    fault = status_fault(status, body)

    fault.message.encode()
    assert fault.message
