import json

import pytest

from agentkit.errors import (
    AccessError,
    ConfigurationError,
    EngineError,
    LimitError,
    ModelStreamError,
    RemoteError,
    RunCancelled,
    ThreadBusy,
)
from agentkit_transports.clients.refusal import (
    Cut,
    Refused,
    close_error,
    failure,
    is_transient,
    refusal,
    refusal_of,
)
from agentkit_transports.session import CloseCode

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "malformed", ConfigurationError),
        (401, "unauthenticated", Refused),
        (403, "forbidden", AccessError),
        (404, "not_found", RemoteError),
        (408, "", Cut),
        (409, "thread_busy", ThreadBusy),
        (409, "not_running", RemoteError),
        (422, "invalid", ConfigurationError),
        (429, "rate", Cut),
        (500, "", Cut),
        (501, "not_supported", RemoteError),
        (503, "draining", Cut),
        (520, "", Cut),
    ],
)
def test_a_problem_is_an_error_of_the_tree(status: int, code: str, kind: type[Exception]) -> None:
    problem = {"status": status, "code": code, "detail": "what was wrong"}

    over_http = refusal(status, {}, json.dumps(problem).encode(), 0)
    over_socket = refusal_of(problem)

    assert type(over_http) is type(over_socket) is kind
    assert "what was wrong" in str(over_http)


def test_how_long_to_wait_comes_along() -> None:
    date = {"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}

    assert [refusal(503, headers, body, 40.0).delay for headers, body in ((date, b""), ({"retry-after": "5"}, b""), ({}, b'{"retry_after_ms":1500}'), ({}, b"<html>"))] == [60.0, 5.0, 1.5, None]  # type: ignore[attr-defined]  # fmt: skip


@pytest.mark.parametrize("code", CloseCode, ids=lambda code: code.name)
def test_every_close_code_of_the_server_says_come_back_or_stop(code: CloseCode) -> None:
    error = close_error(code, "why", delay=2.0)

    assert isinstance(error, Cut | Refused) == (code.means_return or code is CloseCode.BAD_TOKEN)
    assert isinstance(error, RemoteError) == (not code.means_return and code is not CloseCode.BAD_TOKEN)
    if isinstance(error, Cut):
        assert error.delay == 2.0


def test_other_close_codes() -> None:
    assert [type(close_error(code, "", delay=None)) for code in (1000, 1001, 1006, 1011, 1012, 1002, 1008, 4499, 4999)] == [*[Cut] * 5, RemoteError, RemoteError, Cut, RemoteError]  # fmt: skip


def test_a_failed_runs_word_becomes_its_error() -> None:
    stream = failure("model_stream", "broke", retryable=True, partial="half")

    assert isinstance(stream, ModelStreamError) and (stream.retryable, stream.partial) == (True, "half")
    assert isinstance(failure("limit", "m", retryable=False), LimitError)
    assert isinstance(failure("engine", "m", retryable=False), EngineError)
    assert isinstance(failure("cancelled", "m", retryable=False), RunCancelled)
    other = failure("owner_lost", "m", retryable=True)
    assert isinstance(other, RemoteError) and other.problem == "owner_lost"


def test_what_can_help() -> None:
    assert [is_transient(status) for status in (200, 404, 409, 425, 429, 500, 501, 505, 599)] == [
        False, False, False, True, True, True, False, False, True,
    ]  # fmt: skip
