"""Where things are on a server of agents: addresses, taken apart and put together.

Pure. An address may have a prefix (`https://host/agents/v1/…`): all that stands before `/v1` is kept.
Grounds: design.md §7 (paths).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from agentkit.endpoint import is_loopback, parse_base_url
from agentkit.errors import ConfigurationError, WireError
from agentkit.errors import quote as shown
from agentkit.log import Cursor

_THREAD: Final = re.compile(
    r"(?P<prefix>.*)/v1/agents/(?P<agent>[^/]+)/threads/(?P<thread>[^/]+)(?P<rest>/events)?/?"
)
_AGENT: Final = re.compile(r"(?P<prefix>.*)/v1/agents/(?P<agent>[^/]+)/?")
_HTTP: Final = {"ws": "http", "wss": "https"}


@dataclass(frozen=True, slots=True)
class Place:
    """A feed: which thread, from where on, and what of it."""

    root: str
    """`http(s)://host[:port][/prefix]`."""
    agent: str
    thread: str
    after: str = "now"
    run: str = ""
    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    merge: bool = False
    is_socket: bool = False
    """True where the address began with ws."""

    @property
    def topic(self) -> str:
        """Its name on the wire."""
        return f"agents/{self.agent}/threads/{self.thread}"

    @property
    def is_filtered(self) -> bool:
        """True where not every record is wanted."""
        return bool(self.run or self.types or self.kinds)

    @property
    def is_local(self) -> bool:
        """True for a server of this machine."""
        return is_loopback(self.root)

    @property
    def socket(self) -> str:
        """The address of the server's socket."""
        return f"ws{self.root.removeprefix('http')}/v1/ws"

    def events(self, after: str) -> str:
        """Return the address of the feed behind a cursor."""
        query: dict[str, str] = {"after": after}
        query |= {"types": ",".join(self.types)} if self.types else {}
        query |= {"kinds": ",".join(self.kinds)} if self.kinds else {}
        query |= {"run": self.run} if self.run else {}
        query |= {"merge": "1"} if self.merge else {}
        return f"{thread_url(self.root, self.agent, self.thread)}/events?{urlencode(query)}"

    def narrowed(
        self, *, after: str | None, run: str, types: Iterable[str], kinds: Iterable[str], merge: bool
    ) -> Self:
        """Return the same feed with what a caller says beside the address, which wins.

        Raises:
            ConfigurationError: the cursor is none.
        """
        place = replace(
            self,
            after=self.after if after is None else after,
            run=run or self.run,
            types=tuple(types) or self.types,
            kinds=tuple(kinds) or self.kinds,
            merge=merge or self.merge,
        )
        _check_cursor(place.after)
        return place


def parse_feed(url: str) -> Place:
    """Return the feed that an address names: a thread's (`…/v1/agents/A/threads/T`, with or without `/events?…`).

    Raises:
        ConfigurationError: it names none, or holds a user, password or token.
    """
    base, _, query = url.partition("?")
    scheme, named, rest = base.partition("://")
    if not named:
        raise ConfigurationError(
            f"{shown(base)} names no thread: it should be http://HOST/v1/agents/AGENT/threads/THREAD"
        )
    is_socket = scheme in _HTTP
    root, match = _match(f"{_HTTP.get(scheme, scheme)}://{rest}", _THREAD)
    if match is None:
        raise ConfigurationError(
            f"{shown(base)} names no thread: it should end with /v1/agents/AGENT/threads/THREAD"
        )
    place = Place(root, unquote(match["agent"]), unquote(match["thread"]), is_socket=is_socket)
    members = parse_qs(query)
    unknown = members.keys() - {"after", "run", "types", "kinds", "merge", "named"}
    if unknown:
        raise ConfigurationError(
            f"a feed's address cannot say {', '.join(sorted(unknown))}; give a token as auth="
        )
    return place.narrowed(
        after=_last(members, "after"),
        run=_last(members, "run") or "",
        types=_names(members, "types"),
        kinds=_names(members, "kinds"),
        merge=_last(members, "merge") == "1",
    )


def parse_agent(url: str) -> tuple[str, str]:
    """Return the root of a server and the name of an agent, "" where the address names none (its default).

    Raises:
        ConfigurationError: it is no address of a server or an agent.
    """
    root, match = _match(url, _AGENT)
    if match is not None:
        return root, unquote(match["agent"])
    return parse_base_url(url).removesuffix("/v1/agents").removesuffix("/v1"), ""


def thread_url(root: str, agent: str, thread: str) -> str:
    """Return the address of a thread."""
    return f"{root}/v1/agents/{quote(agent, safe='')}/threads/{quote(thread, safe='')}"


def _match(url: str, pattern: re.Pattern[str]) -> tuple[str, re.Match[str] | None]:
    base = parse_base_url(url)
    match = pattern.fullmatch(urlsplit(base).path)
    if match is None:
        return base, None
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}{match['prefix']}", match


def _last(members: Mapping[str, list[str]], name: str) -> str | None:
    return members[name][-1] if name in members else None


def _names(members: Mapping[str, list[str]], name: str) -> list[str]:
    return [one for value in members.get(name, ()) for one in value.split(",") if one]


def _check_cursor(text: str) -> None:
    try:
        Cursor.parse(text)
    except WireError as error:
        raise ConfigurationError(f"after: {error}") from None
