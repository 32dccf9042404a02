"""Problems as JSON."""

import pytest

from agentkit.errors import AgentKitError
from agentkit_transports.problem import Problem, ProblemError

pytestmark = pytest.mark.pure


def test_absent_members_are_left_out() -> None:
    assert Problem(404, "not_found").body() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "code": "not_found",
    }


def test_all_members_are_there() -> None:
    problem = Problem(429, "rate", "slow down", "input", "/v1/runs", 1500)

    assert problem.body() == {
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "code": "rate",
        "detail": "slow down",
        "field": "input",
        "instance": "/v1/runs",
        "retry_after_ms": 1500,
    }


def test_a_problem_can_be_raised() -> None:
    error = ProblemError(Problem(409, "thread_busy", "a run is going on"))

    assert isinstance(error, AgentKitError)
    assert str(error) == "409 thread_busy: a run is going on"
