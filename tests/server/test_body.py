"""JSON bodies: clean, bounded, of the right shape, or a problem."""

import json
import time
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, JsonValue

from agentkit_server.body import parse
from agentkit_transports.problem import Problem, ProblemError

pytestmark = pytest.mark.pure


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    count: int = 0
    extra: JsonValue = None


def refusal(data: bytes, max_depth: int = 64) -> Problem:
    with pytest.raises(ProblemError) as caught:
        parse(data, Order, max_depth=max_depth)
    return caught.value.problem


def nested(levels: int) -> bytes:
    return b'{"text":"x","extra":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        pytest.param(b"", "cannot read the body: not JSON", id="empty"),
        pytest.param(b'{"text":', "cannot read the body: not JSON", id="cut"),
        pytest.param(b'{"text":"\xff"}', "cannot read the body: not JSON", id="not UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"text":"x"}', "cannot read the body: not JSON", id="BOM"),
        pytest.param(b'{\x00"\x00}\x00', "cannot read the body: not JSON", id="UTF-16"),
        pytest.param(b'{"text":"a","text":"b"}', "the same key twice", id="a name twice"),
        pytest.param(b'{"text":"a","extra":{"k":1,"k":2}}', "the same key twice", id="a name twice inside"),
        pytest.param(b'{"text":"a","extra":NaN}', "not JSON", id="NaN"),
        pytest.param(b'{"text":"a","extra":-Infinity}', "not JSON", id="infinity"),
        pytest.param(b'{"text":"a","extra":1e999}', "infinite", id="a float out of range"),
        pytest.param(b'{"text":"a","extra":' + b"9" * 5000 + b"}", "number out of range", id="5,000 digits"),
        pytest.param(b'{"text":"a","extra":9223372036854775808}', "past 64 bits", id="2**63"),
        pytest.param(b'{"text":"\\ud83d"}', "not JSON", id="half a pair"),
        pytest.param(b'{"text":"a","extra":{"\\udc00":1}}', "not JSON", id="half a pair in a name"),
        pytest.param(nested(65), "nested deeper than 64 levels", id="65 levels"),
        pytest.param(b"[" * 100_000, "cannot read the body: ", id="100,000 levels"),
    ],
)
def test_json_that_is_not_clean_is_refused(data: bytes, detail: str) -> None:
    problem = refusal(data)

    assert (problem.status, problem.code) == (400, "malformed")
    assert detail in problem.detail


@pytest.mark.parametrize("value", [b"[]", b"{}", b"0", b'"a\\"[,"', b'{"a":0}'])
def test_more_values_than_anybody_needs_are_refused_before_they_are_parsed(value: bytes) -> None:
    data = b'{"text":"x","extra":[' + b",".join([value] * 400_000) + b"]}"
    began = time.process_time()

    problem = refusal(data)

    assert (problem.status, problem.code) == (400, "malformed")
    assert "more than 100000 values" in problem.detail
    assert time.process_time() - began < 1.0  # parsing them takes several seconds, in which nobody is served


@pytest.mark.parametrize("text", ["a, [b] {c}, " * 100_000, '\\",' * 200_000])
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    assert parse(json.dumps({"text": text}).encode(), Order, max_depth=64).text == text


def test_a_text_that_does_not_end_is_looked_at_once() -> None:
    began = time.process_time()

    assert "not JSON" in refusal(b'["' + b'\\",' * 1_000_000).detail
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("data", "order"),
    [
        pytest.param(b'{"text":"x"}', Order(text="x"), id="plain"),
        pytest.param(b'{"text":"\\ud83d\\ude00"}', Order(text="😀"), id="a whole pair"),
        pytest.param(
            b'{"text":"x","extra":9223372036854775807}', Order(text="x", extra=2**63 - 1), id="64 bits"
        ),
        pytest.param(
            b'{"text":"x","extra":{"__proto__":{}}}', Order(text="x", extra={"__proto__": {}}), id="__proto__"
        ),
        pytest.param(
            '{"text":"\u2028\u0085\ufeff\\u0000"}'.encode(),
            Order(text="\u2028\u0085\ufeff\0"),
            id="odd characters",
        ),
    ],
)
def test_clean_json_of_the_right_shape_is_taken(data: bytes, order: Order) -> None:
    assert parse(data, Order, max_depth=64) == order


def test_64_levels_are_taken() -> None:
    assert parse(nested(64), Order, max_depth=64).text == "x"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        pytest.param(b'{"text":1}', "text", id="a number for text"),
        pytest.param(b'{"text":"x","count":"1"}', "count", id="text for a number"),
        pytest.param(b'{"text":"x","more":1}', "more", id="an unknown member"),
        pytest.param(b"{}", "text", id="a missing member"),
        pytest.param(b"[]", "", id="no object"),
    ],
)
def test_another_shape_names_the_field(data: bytes, field: str) -> None:
    problem = refusal(data)

    assert (problem.status, problem.code, problem.field) == (422, "invalid", field)


def test_a_problem_does_not_repeat_what_stood_there() -> None:
    problem: dict[str, Any] = refusal(b'{"text":["my secret prompt"]}').body()

    assert "secret" not in str(problem)
