"""JSON from strangers: what is taken, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import WireError
from agentkit_transports.strict_json import parse_json

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="cut"),
        pytest.param("{} {}", id="two"),
        pytest.param("[" * 100_000, id="deep, open"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="deep"),
        pytest.param('{"a":' * 50_000 + "1" + "}" * 50_000, id="deep objects"),
        pytest.param("NaN", id="NaN"),
        pytest.param("[Infinity]", id="Infinity"),
        pytest.param("-Infinity", id="-Infinity"),
        pytest.param("1e999", id="an infinite number"),
        pytest.param("9" * 5000, id="5,000 digits"),
        pytest.param(str(2**63), id="past 64 bits"),
        pytest.param(str(-(2**63)), id="past 64 bits, negative"),
        pytest.param('{"a":1,"a":2}', id="a key twice"),
        pytest.param('[{"b":{"a":1,"a":1}}]', id="a key twice, inside"),
        pytest.param('{"a":1,"\\u0061":2}', id="a key twice, escaped"),
        pytest.param('"\\ud83d"', id="half a pair"),
        pytest.param('"\\ude00\\ud83d"', id="a pair turned round"),
        pytest.param('{"\\udfff":1}', id="half a pair as a key"),
        pytest.param(b'"\xff"', id="not UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', id="a surrogate in UTF-8"),
        pytest.param("\ufeff{}", id="a byte order mark"),
        pytest.param("{'a':1}", id="single quotes"),
        pytest.param("[1,]", id="a trailing comma"),
        pytest.param('"a\nb"', id="a bare line break"),
    ],
)
def test_what_would_bite_later_is_refused(text: str | bytes) -> None:
    with pytest.raises(WireError) as caught:
        parse_json(text)

    assert len(str(caught.value)) < 300


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_every_honest_value_is_taken(value: object, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_nothing_raises_anything_else(data: str | bytes) -> None:
    try:
        parse_json(data)
    except WireError:
        pass
