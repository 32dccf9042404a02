"""Bounds of waiting, and when a request is made again."""

from typing import Any

import pytest

from agentkit.errors import ConfigurationError
from agentkit.pace import RetryPolicy, Timeouts, is_retryable, retry_after, retry_delay

pytestmark = pytest.mark.pure

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": " 0.5 "}, 0.5, id="fraction"),
        pytest.param({"retry-after": "0"}, 0.0, id="zero"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0, id="date"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30.0, id="date-without-zone"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0.0, id="past"),
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, 0.25, id="milliseconds-first"),
        pytest.param({"retry-after-ms": "x", "retry-after": "9"}, 9.0, id="bad-milliseconds"),
        pytest.param({"retry-after": "-5"}, None, id="negative"),
        pytest.param({"retry-after": "inf"}, None, id="infinite"),
        pytest.param({"retry-after": "nan"}, None, id="not-a-number"),
        pytest.param({"retry-after": "9" * 400}, None, id="too-many-digits"),
        pytest.param({"retry-after": "Tue, 99 Nov 2023 22:13:50 GMT"}, None, id="no-such-date"),
        pytest.param({"retry-after": "soon"}, None, id="words"),
        pytest.param({"retry-after": ""}, None, id="empty"),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("repetition", "asked", "random", "delay"),
    [
        pytest.param(1, None, 0.0, 1.0, id="first"),
        pytest.param(2, None, 0.0, 2.0, id="doubled"),
        pytest.param(4, None, 0.0, 8.0, id="doubled-again"),
        pytest.param(4, None, 0.5, 6.0, id="shortened"),
        pytest.param(9, None, 0.0, 20.0, id="bounded"),
        pytest.param(10**6, None, 0.0, 20.0, id="no-overflow"),
        pytest.param(1, 5.0, 0.0, 5.0, id="asked"),
        pytest.param(1, 5.0, 0.5, 5.5, id="never-earlier"),
        pytest.param(1, 1e9, 0.9, 20.0, id="absurd"),
        pytest.param(3, 0.0, 0.0, 0.0, id="asked-for-none"),
    ],
)
def test_a_delay_follows_the_policy(
    repetition: int, asked: float | None, random: float, delay: float
) -> None:
    policy = RetryPolicy(retries=5, base=1.0, max_delay=20.0)

    assert retry_delay(repetition, asked, policy, lambda: random) == delay


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 501, 503, 529, 599])
def test_transient_statuses_are_retryable_unless_the_server_says_no(status: int) -> None:
    assert is_retryable(status, {})
    assert not is_retryable(status, {"x-should-retry": "false"})


@pytest.mark.parametrize("status", [300, 400, 401, 403, 404, 413, 422])
def test_other_statuses_are_not_retryable_unless_the_server_says_so(status: int) -> None:
    assert not is_retryable(status, {})
    assert is_retryable(status, {"x-should-retry": "True"})


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "5", True, None], ids=repr)
def test_timeouts_are_finite_seconds_above_zero(value: Any) -> None:
    for name in ("connect", "first_byte", "idle", "linger"):
        with pytest.raises(ConfigurationError, match=f"timeouts.{name}"):
            Timeouts(**{name: value})


@pytest.mark.parametrize(
    "policy",
    [{"retries": -1}, {"retries": 1.5}, {"retries": True}, {"base": -1}, {"max_delay": float("inf")}],
    ids=repr,
)
def test_a_policy_that_cannot_be_is_refused(policy: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"retry.{next(iter(policy))}"):
        RetryPolicy(**policy)
