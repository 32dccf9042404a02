"""Words for what goes wrong at a provider, and keys that do not show in them."""

import pytest
from pydantic import SecretStr
from toys import ToyDialect

from agentkit.dialects.base import Target
from agentkit.errors import ConfigurationError
from agentkit.faults import Faults, Key, check_header, is_no_stream

pytestmark = pytest.mark.pure


def faults(key: str | None = None) -> Faults:
    return Faults(ToyDialect(), Target("toys", "bear"), "https://toys.example", Key.of(key), "TOY_KEY")


@pytest.mark.parametrize(
    ("framing", "content_type", "head", "no_stream"),
    [
        pytest.param("sse", "text/event-stream", b"data: 1", False, id="stream"),
        pytest.param("sse", "text/event-stream", b"{", True, id="json-called-stream"),
        pytest.param("sse", "", b"[", True, id="list"),
        pytest.param("sse", "text/plain", b"<html>", True, id="html-called-text"),
        pytest.param("sse", "text/html; charset=utf-8", b": hi", False, id="comment-called-html"),
        pytest.param("sse", "text/HTML; charset=utf-8", b"Welcome", True, id="words-called-html"),
        pytest.param("sse", "application/json", b"null", True, id="null"),
        pytest.param("sse", "text/plain", b"Welcome", False, id="words"),
        pytest.param("ndjson", "application/json", b"{", False, id="json-lines"),
        pytest.param("ndjson", "application/x-ndjson", b"<", True, id="html-for-json-lines"),
    ],
)
def test_the_first_byte_tells_what_is_no_stream(
    framing: str, content_type: str, head: bytes, no_stream: bool
) -> None:
    assert is_no_stream(framing, content_type, head) == no_stream


def test_a_long_message_is_cut() -> None:
    error = faults().status(500, {}, "{" + '"error": {"message": "' + "word " * 400 + '"}}', 0)

    assert len(str(error)) < 600
    assert str(error).startswith("toys answered 500: word word")


def test_an_answer_without_words_is_told_by_its_status() -> None:
    assert str(faults().status(502, {}, "", 0)) == "toys answered 502: Bad Gateway"
    assert str(faults().status(599, {}, "", 0)) == "toys answered 599: no reason given"


def test_a_key_does_not_show() -> None:
    key = Key.of(SecretStr("key-secret"))

    assert key is not None
    assert "secret" not in repr(key).replace("secret=", "")
    assert faults("key-secret").mask("a key-secret b") == "a [key] b"


def test_a_placeholder_of_a_key_masks_nothing() -> None:
    assert faults("x").mask("axe") == "axe"


def test_a_blank_key_is_none() -> None:
    assert (Key.of(""), Key.of(None), Key.of(SecretStr(""))) == (None, None, None)


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "é", "\x00", " a", "a "], ids=repr)
def test_a_header_value_is_visible_ascii_in_one_line(value: str) -> None:
    with pytest.raises(ConfigurationError, match="header 'x'"):
        check_header("x", value)


@pytest.mark.parametrize("name", ["", "a b", "a:", "é", "a\n"], ids=repr)
def test_a_header_name_is_a_token(name: str) -> None:
    with pytest.raises(ConfigurationError, match="not a header name"):
        check_header(name, "x")


def test_an_empty_header_value_is_fine() -> None:
    check_header("x", "")
