"""The address of a provider: base URLs, checked and joined.

Pure. Rules, exactly:
- A base URL is `http(s)://host[:port][/path]`: no user or password, no query, no fragment. A slash at its end says nothing.
- A dialect's path is put behind it; where the base URL ends with the path's first segment (`…/v1` and `/v1/messages`), that segment
  stands once. So a base URL may come with or without it.
- `with_version` adds a dialect's version to a base URL of which no segment looks like one (`v1`, `v1beta`, `v4`): people write
  `http://localhost:8000` and mean `http://localhost:8000/v1`.
"""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from agentkit.errors import ConfigurationError, quote

_VERSION: Final = re.compile(r"v\d+[a-z0-9]*", re.ASCII)
_SHOWN: Final = re.compile(r"(?<=//)[^/@]*@")
"""What stands before the host: never repeated in a message."""


def parse_base_url(text: str) -> str:
    """Return the base URL without a slash at its end.

    Raises:
        ConfigurationError: it is not `http(s)://host[:port][/path]`.
    """
    shown = quote(_SHOWN.sub("…@", text))
    if not (text.isascii() and text.isprintable()) or " " in text or "\\" in text:
        raise ConfigurationError(f"base URL {shown} holds a character that no URL has")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"base URL {shown} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ConfigurationError(f"base URL {shown} must begin with http:// or https://")
    if not parts.hostname or port == 0:
        raise ConfigurationError(f"base URL {shown} names no host")
    if "@" in parts.netloc:
        raise ConfigurationError(f"base URL {shown} must not hold a user or password: give the key as key=")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise ConfigurationError(f"base URL {shown} must not hold a query or fragment")
    return text.rstrip("/")


def is_loopback(base_url: str) -> bool:
    """Tell whether the host is this machine: `localhost`, `*.localhost`, 127.0.0.0/8, ::1."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def join_path(base_url: str, path: str) -> str:
    """Return the URL of `path` (which begins with `/` and may have a query) under a base URL."""
    first = path.split("?", 1)[0].split("/", 2)[1]
    if first and urlsplit(base_url).path.rsplit("/", 1)[-1] == first:
        path = path[len(first) + 1 :]
    return base_url + path


def with_version(base_url: str, version: str) -> str:
    """Return the base URL with `/version` added, unless a segment of its path looks like a version already.

    A version may be of several segments (`openai/v1`); the first stands once, as in `join_path`.
    """
    segments = urlsplit(base_url).path.split("/")
    if not version or any(_VERSION.fullmatch(segment) for segment in segments):
        return base_url
    return join_path(base_url, f"/{version}")
