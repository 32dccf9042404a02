"""The parser of payloads: the quick one takes nothing that the stock one would read differently."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.dialects.base import parse_payload
from agentkit.errors import WireError
from agentkit.payload_json import REFUSALS, choose

pytest.importorskip("msgspec", reason="agentkit-live[fast] is not installed")

QUICK, STOCK = choose(fast=True), choose(fast=False)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ODD = [
    *("NaN", "-Infinity", "1e309", "-0", "-0.0", "1e-400", "01", "1.", "+1", "9" * 30, "9" * 5000, "5e-324"),
    *(r'"\ud800"', r'"\udc00"', r'"\ud800A"', r'"\ud83d\ude00"', r'"\u0000"', '"a\x01"', '"a\tb"', '"\u2028"', r'"\q"'),
    *("", " ", "nul", "True", "{} x", "[1,]", '{"a":1,}', '{"a":1,"a":2}', "\ufeff{}", "\xa01", "\x0b1", "/**/1", '"'),
    *("[" * depth + "]" * depth for depth in (100, 150, 300, 100_000)),
]  # fmt: skip


def tell(text: str) -> str:
    """Return what a reader of payloads makes of `text`: its value, spelt so that -0.0, NaN and 1 of 1.0 are told apart."""
    try:
        return repr(parse_payload("toy", text))
    except WireError:
        return "refused"


def through(parser: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("agentkit.dialects.base.parser", lambda: parser)
    return tell(text)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.booleans())
def test_both_read_what_is_json_alike(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    if not escaped:
        text = text.encode(errors="replace").decode()  # a body's text is what UTF-8 can say
    try:
        quick = QUICK(text)
    except REFUSALS:
        return  # half a surrogate pair
    assert repr(quick) == repr(STOCK(text))


@settings(max_examples=300, deadline=None)
@given(VALUES, st.data())
def test_a_broken_payload_that_the_quick_one_takes_is_read_alike(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode(errors="replace").decode()
    place = data.draw(st.integers(0, len(text)))
    broken = text[:place] + data.draw(st.sampled_from(list('{}[]",:\\u0e+-. \x01\x7f'))) + text[place + 1 :]
    try:
        quick = QUICK(broken)
    except REFUSALS:
        return
    assert repr(quick) == repr(STOCK(broken))


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:20]))
def test_what_is_odd_reads_alike_behind_both(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert through(QUICK, text, monkeypatch) == through(STOCK, text, monkeypatch)


def test_without_msgspec_the_stock_parser_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec.json", None)

    assert choose(fast=True) is STOCK
    assert STOCK('{"n":1}') == {"n": 1}
