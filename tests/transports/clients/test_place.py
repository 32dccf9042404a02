import pytest

from agentkit.errors import ConfigurationError
from agentkit_transports.clients.place import parse_agent, parse_feed, thread_url

pytestmark = pytest.mark.pure


def test_the_address_of_a_runs_feed_is_understood_whole() -> None:
    place = parse_feed("https://h:8/pre/v1/agents/a/threads/t%20x/events?run=run_1&after=earliest&types=text,image&types=run&merge=1&named=0")  # fmt: skip

    assert (place.root, place.agent, place.thread) == ("https://h:8/pre", "a", "t x")
    assert (place.run, place.after, place.types, place.merge) == ("run_1", "earliest", ("text", "image", "run"), True)  # fmt: skip
    assert place.topic == "agents/a/threads/t x"
    assert place.socket == "wss://h:8/pre/v1/ws"
    assert place.events("e-3") == "https://h:8/pre/v1/agents/a/threads/t%20x/events?after=e-3&types=text%2Cimage%2Crun&run=run_1&merge=1"  # fmt: skip


def test_what_a_caller_says_wins_over_the_address() -> None:
    place = parse_feed("ws://h/v1/agents/a/threads/t?after=earliest&run=r1").narrowed(
        after="now", run="r2", types=["text"], kinds=[], merge=False
    )

    assert (place.root, place.is_socket, place.after, place.run, place.types) == ("http://h", True, "now", "r2", ("text",))  # fmt: skip
    assert (place.is_filtered, place.is_local) == (True, False)


@pytest.mark.parametrize(
    ("url", "found"),
    [("http://h/v1/agents/a", ("http://h", "a")), ("http://h/x/v1/agents/a/", ("http://h/x", "a")), ("http://h", ("http://h", "")),
     ("http://h/v1/", ("http://h", "")), ("http://h/v1/agents", ("http://h", ""))],
)  # fmt: skip
def test_an_agents_address(url: str, found: tuple[str, str]) -> None:
    assert parse_agent(url) == found


@pytest.mark.parametrize("url", ["h", "http://h/v1/agents/a/threads/t?x=1", "ws://h", "file:///v1/agents/a"])
def test_an_address_of_something_else(url: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_agent(url) if "threads" not in url else parse_feed(url)


def test_names_are_quoted() -> None:
    assert thread_url("http://h", "a b", "x/y") == "http://h/v1/agents/a%20b/threads/x%2Fy"


def test_what_is_no_address_is_told_what_one_is() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^'foo' names no thread: it should be http://HOST/v1/agents/"
    ):
        parse_feed("foo")
