"""Who a client is: a token, or somebody who can be asked for one.

It sends nothing and stores nothing but the token in use. A token never stands in a message, a repr or a URL.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from agentkit.errors import ConfigurationError

Auth: TypeAlias = str | Callable[[], str | Awaitable[str]] | None
"""A token; or a function, sync or async, that gives one: called when the first is needed, and again when a server refuses the last."""

_TOKEN: Final = re.compile(r"[!-~]{1,8192}")
"""Visible ASCII, as long as a socket's hello may carry."""


class Credentials:
    """The token in use. Feeds and requests of one agent share it."""

    __slots__ = ("_auth", "_token")

    def __init__(self, auth: Auth) -> None:
        """Begin.

        Raises:
            ConfigurationError: it is no token and cannot be called.
        """
        if auth is not None and not isinstance(auth, str) and not callable(auth):
            raise ConfigurationError(
                f"auth should be a token or a function that gives one, got {type(auth).__name__}"
            )
        self._auth = auth
        self._token = _checked(auth) if isinstance(auth, str) else ""

    async def token(self) -> str:
        """Return the token, "" for none. A function is called here; its waits are its own.

        Raises:
            ConfigurationError: what it gives is no token.
        """
        if not self._token and callable(self._auth):
            given = self._auth()
            self._token = _checked(await given if inspect.isawaitable(given) else given)
        return self._token

    def refuse(self, token: str) -> bool:
        """Forget a token that a server refused; False where there is nobody to ask for another."""
        if not callable(self._auth):
            return False
        if self._token == token:
            self._token = ""
        return True


def _checked(token: object) -> str:
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ConfigurationError("auth gave what is no token: visible ASCII characters, 1 to 8192 of them")
    return token


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a token; none for ""."""
    return {"authorization": f"Bearer {token}"} if token else {}
