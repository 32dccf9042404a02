"""The switch that forbids real network calls, for tests.

Not pure: it is a switch of the process. Whoever is about to connect asks `check_network`; `agentkit.testing.no_network` turns it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from agentkit.endpoint import is_loopback
from agentkit.errors import ConfigurationError

VARIABLE = "AGENTKIT_NO_NETWORK"
"""Set to anything but "" or "0", it forbids real network calls for the whole process."""

_forbidding = 0


@contextmanager
def no_network() -> Iterator[None]:
    """Forbid real network calls while the body runs, in the whole process; it may be nested.

    A model that would connect to another machine raises `ConfigurationError` instead. Loopback addresses stay allowed: a test's own
    server is no stranger. So does a `transport` that was given to a model by hand: it is its giver's matter.
    """
    global _forbidding
    _forbidding += 1
    try:
        yield
    finally:
        _forbidding -= 1


def check_network(url: str) -> None:
    """Raise if `url` may not be asked now.

    Raises:
        ConfigurationError: real network calls are forbidden, and it is no loopback address.
    """
    if (_forbidding or os.environ.get(VARIABLE, "0") not in ("", "0")) and not is_loopback(url):
        raise ConfigurationError(
            f"a real call to {url} was refused: network calls are forbidden here (agentkit.testing.no_network or {VARIABLE}); "
            "give the agent a ScriptedModel or replay()"
        )
