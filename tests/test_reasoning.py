import pytest

from agentkit.errors import ConfigurationError
from agentkit.reasoning import BUDGETS, EFFORTS, ReasoningSetting, parse_reasoning

pytestmark = pytest.mark.pure


def test_both_forms_are_read() -> None:
    assert parse_reasoning({"effort": "high"}) == ReasoningSetting(effort="high")
    assert parse_reasoning({"budget": 1024}) == ReasoningSetting(budget=1024)
    assert parse_reasoning(None) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param({}, "exactly one", id="empty"),
        pytest.param({"effort": "high", "budget": 1}, "exactly one", id="both"),
        pytest.param({"effrot": "high"}, "effrot", id="misspelt"),
        pytest.param({"effort": "huge"}, "known: none, minimal", id="unknown effort"),
        pytest.param({"budget": -1}, "whole number", id="negative"),
        pytest.param({"budget": True}, "whole number", id="bool"),
        pytest.param({"budget": 1.5}, "whole number", id="fraction"),
        pytest.param("high", "must be", id="a string"),
    ],
)
def test_what_is_impossible_is_said(value: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse_reasoning(value)  # type: ignore[arg-type]  # that is the point


def test_effort_and_budget_stand_for_each_other() -> None:
    for effort in EFFORTS:
        assert ReasoningSetting(budget=ReasoningSetting(effort=effort).as_budget()).as_effort() == effort
    assert ReasoningSetting(budget=1025).as_effort() == "low"
    assert ReasoningSetting(budget=10**9).as_effort() == "max"
    assert list(BUDGETS.values()) == sorted(BUDGETS.values())


def test_off_is_told_by_both() -> None:
    assert [ReasoningSetting(effort="none").off, ReasoningSetting(budget=0).off] == [True, True]
    assert not ReasoningSetting(budget=1).off
