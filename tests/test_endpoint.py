"""Base URLs: what is taken, what is refused, and how paths are put behind them."""

import pytest

from agentkit.endpoint import is_loopback, join_path, parse_base_url, with_version
from agentkit.errors import ConfigurationError

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("https://api.example.com/", "https://api.example.com"),
        ("http://127.0.0.1:8080/v1//", "http://127.0.0.1:8080/v1"),
        ("HTTP://[::1]:8080", "HTTP://[::1]:8080"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_a_base_url_loses_its_last_slash_only(text: str, url: str) -> None:
    assert parse_base_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com",
        "localhost:8000",
        "ftp://host",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://host:99999",
        "http://host:0",
        "http://host:port",
        "http://[::1",
        "http://ho st",
        "http://host\n/x",
        "http://host\\x",
        "http://hößt",
        "http://host?key=1",
        "http://host?",
        "http://host#x",
    ],
)
def test_what_is_no_base_url_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        parse_base_url(text)


@pytest.mark.parametrize(
    "text", ["https://user:hunter2@host/v1", "https://hunter2@host", "ftp://hunter2@host"]
)
def test_credentials_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_base_url(text)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://h", "/v1/messages", "https://h/v1/messages"),
        ("https://h/v1", "/v1/messages", "https://h/v1/messages"),
        ("https://h/anthropic", "/v1/messages", "https://h/anthropic/v1/messages"),
        ("https://h/v1/x", "/v1/messages", "https://h/v1/x/v1/messages"),
        ("https://h/v1", "/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1beta", "/v1beta/models/g:stream?alt=sse", "https://h/v1beta/models/g:stream?alt=sse"),
        ("http://v1", "/v1/x", "http://v1/v1/x"),
        ("http://h/api", "/api?x=/api", "http://h/api?x=/api"),
    ],
)
def test_a_path_stands_behind_the_base_and_its_first_segment_once(base: str, path: str, url: str) -> None:
    assert join_path(base, path) == url


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://api.groq.com/openai", "https://api.groq.com/openai/v1"),
        ("https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4"),
        ("https://google/v1beta/openai", "https://google/v1beta/openai"),
        ("https://v1.example.com", "https://v1.example.com/v1"),
        ("https://h/vendor", "https://h/vendor/v1"),
    ],
)
def test_a_version_is_added_where_none_is_named(base: str, url: str) -> None:
    assert with_version(base, "v1") == url


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "127.9.9.9", "[::1]:8080", "box.localhost"])
def test_this_machine_is_known(host: str) -> None:
    assert is_loopback(f"http://{host}/v1")


@pytest.mark.parametrize("host", ["localhost.example.com", "10.0.0.1", "0.0.0.0", "example.com", "[::2]"])
def test_other_machines_are_not_this_one(host: str) -> None:
    assert not is_loopback(f"http://{host}/v1")
