"""Which transport carries the HTTP client's requests: our own, for those who installed `agentkit-live[fast]`, or the stock one.

Not pure: it asks for the running loop and the environment. Why: under the stock transport each chunk of an HTTP body walks through a parser
in Python and five async generators (8 µs and more); ours (`http_transport`) parses in C (httptools) and hands out all that a read of the
socket brought in one piece. Fallback: the stock transport, wherever `transport_for` returns None: httptools is not installed, another event
loop runs, the environment names a proxy (the stock client knows all their kinds), or it was turned off.
"""

import os
import ssl
import sys
from functools import cache
from typing import Final
from urllib.request import getproxies

import httpx2

from agentkit.errors import ConfigurationError

VARIABLE: Final = "AGENTKIT_FAST"
"""Set to "0", it turns our transport off for the whole process."""

_OLDEST: Final = (0, 7)
"""Of httptools: what the extra asks for. Before, a parser could not be told what to forgive."""


def transport_for(
    wanted: bool | None, trust: ssl.SSLContext, *, proxies: bool
) -> httpx2.AsyncBaseTransport | None:
    """Return the transport for the running event loop, or None where the stock one has to do.

    Args:
        wanted: False turns it off, None takes it where it can be had, True insists that httptools is installed.
        trust: the TLS context of its connections.
        proxies: a proxy that the environment names would be used.

    Raises:
        ConfigurationError: `wanted` is True and httptools is not installed.
    """
    if wanted is False or (wanted is None and os.environ.get(VARIABLE) == "0"):
        return None
    if not is_installed():
        if wanted:
            raise ConfigurationError(
                "fast=True needs httptools 0.7 or newer: pip install 'agentkit-live[fast]'"
            )
        return None
    if proxies and getproxies():
        return None
    asyncio = sys.modules.get("asyncio")
    try:
        if asyncio is None or asyncio.get_running_loop() is None:
            return None
    except RuntimeError:  # trio
        return None
    from agentkit.http_transport import FastTransport  # it imports what may not be installed

    return FastTransport(trust)


@cache
def is_installed() -> bool:
    """Tell whether httptools is installed in a version that will do: others bring it too, and `agentkit-live[fast]` alone asks for one."""
    from importlib import metadata

    try:
        version = metadata.version("httptools")
    except metadata.PackageNotFoundError:
        return False
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) >= _OLDEST
