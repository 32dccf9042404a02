import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.content import JsonValue
from agentkit.errors import WireError
from agentkit.ndjson import NDJSONDecoder, encode_line

pytestmark = pytest.mark.pure


def decode(reads: Iterable[bytes], limit: int = 1000) -> tuple[list[str], str]:
    """Return the lines, and the fault that ended the reading, if any."""
    decoder = NDJSONDecoder(limit)
    out: list[str] = []
    try:
        for read in reads:
            out += decoder.feed(read)
        out += decoder.close()
    except WireError as error:
        return out, str(error)
    return out, ""


BODIES = [
    pytest.param(b'{"a":1}\n{"a":2}\n', (['{"a":1}', '{"a":2}'], ""), id="lines"),
    pytest.param(b'{"a":1}\r\n[]\r\n', (['{"a":1}\r', "[]\r"], ""), id="crlf"),
    pytest.param(b"\n\n1\n \t\r\n2\n\n", (["1", "2"], ""), id="blank lines"),
    pytest.param('"🌍 \u2028\u0085"\n'.encode(), (['"🌍 \u2028\u0085"'], ""), id="utf-8 and other line ends"),
    pytest.param(b'"\xff\xf0\x9f"\n', (['"\ufffd\ufffd"'], ""), id="broken utf-8"),
    pytest.param(b'{"a":1}\n{"a":2}', (['{"a":1}', '{"a":2}'], ""), id="last line whole without its end"),
    pytest.param(b'{"a":1}\n  ', (['{"a":1}'], ""), id="white space at the end"),
    pytest.param(b'{"a":1}\n{"a":', (['{"a":1}'], "NDJSON body ended inside a line: '{\"a\":'"), id="cut"),
    pytest.param(b"", ([], ""), id="empty"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), BODIES)
def test_a_body_reads_the_same_at_every_cut(body: bytes, expected: tuple[list[str], str]) -> None:
    for cut in range(len(body) + 1):
        assert decode([body[:cut], body[cut:]]) == expected
    assert decode([body[at : at + 1] for at in range(len(body))]) == expected


@pytest.mark.parametrize("end", [b"\n", b"\n1\n", b""], ids=["whole", "followed", "unfinished"])
def test_an_oversized_line_raises_at_every_cut_after_what_came_before_it(end: bytes) -> None:
    body = b"[1]\n[2]\n" + b"x" * 9 + end

    for cut in range(len(body) + 1):
        lines, fault = decode([body[:cut], body[cut:]], limit=8)
        assert lines == ["[1]", "[2]"]
        assert fault == "NDJSON line grew to 9 bytes, limit is 8"


def test_a_line_of_just_the_limit_passes_at_every_cut() -> None:
    body = b'"123456"\n' * 2

    for cut in range(len(body) + 1):
        assert decode([body[:cut], body[cut:]], limit=8) == (['"123456"'] * 2, "")


def test_after_a_fault_nothing_is_read() -> None:
    decoder = NDJSONDecoder(3)

    for read in (b"[12]\n", b"[]\n"):
        with pytest.raises(WireError):
            decoder.feed(read)
    with pytest.raises(WireError):
        decoder.close()


WORDS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@given(st.lists(JSON, max_size=4), st.lists(st.integers(0, 200), max_size=6))
def test_what_is_encoded_is_decoded_in_any_pieces(values: list[JsonValue], places: list[int]) -> None:
    body = b"".join(encode_line(value) for value in values)
    cuts = [0, *sorted(min(place, len(body)) for place in places), len(body)]

    lines, fault = decode((body[a:b] for a, b in pairwise(cuts)), limit=10**6)

    assert ([json.loads(line) for line in lines], fault) == (values, "")


def test_a_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_line(float("nan"))
