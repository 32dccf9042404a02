"""Static keys: who sends one is known. Only their SHA-256 is kept: a key is 256 random bits, which nobody guesses from its hash.

A file is read again when it has changed: a line that is gone ends the key's requests at once, and its open streams at their next check.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection

from agentkit.errors import ConfigurationError, quote
from agentkit_server.auth import Auth, bearer
from agentkit_server.identity import EXPOSURES, Identity, checked_rights, owner_key
from agentkit_transports.backend import Action

logger = logging.getLogger("agentkit.server")

PREFIX: Final = "ak_"
"""What keys begin with: people and scanners recognise one that lies where it should not."""
NAME_OF_KEY: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}", re.ASCII)
LOOK_EVERY: Final = 1.0
"""Seconds between two looks at a file: a look costs some microseconds, every request asks for one."""


@dataclass(frozen=True, slots=True)
class APIKey:
    """One key, without the key."""

    digest: bytes
    """SHA-256 of the key."""
    identity: Identity


class APIKeys(Auth):
    """Keys that the operator has given out, sent as `Authorization: Bearer …`."""

    def __init__(self, keys: Sequence[APIKey]) -> None:
        """Take keys, as `parse_keys` reads them.

        Raises:
            ConfigurationError: two keys of one name, or one key twice.
        """
        self._keys = _checked(keys)
        self._names = {key.identity.subject: key.identity for key in self._keys}

    async def authenticate(self, request: HTTPConnection) -> Identity | None:
        """Return whose key it is."""
        token = bearer(request)
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found: Identity | None = None
        for key in self.keys():  # all of them, and whole: how long it takes tells nothing
            if hmac.compare_digest(key.digest, digest):
                found = key.identity
        return found

    async def authorize(self, identity: Identity, action: Action, agent: str, thread: str) -> bool:
        """Tell whether the key still exists and has the right: not another key of its name, which may be there because this one was stolen."""
        self.keys()
        current = self._names.get(identity.subject)
        if current is None or current.mark != identity.mark:
            return False
        return identity.may(action, agent, thread) and current.may(action, agent, thread)

    def keys(self) -> Sequence[APIKey]:
        """Return the keys as they are now."""
        return self._keys


class APIKeyFile(APIKeys):
    """The keys of a file, one a line."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file.

        Raises:
            ConfigurationError: it cannot be read, or a line of it.
        """
        self._path = path
        self._clock = clock
        self._looked = clock()
        try:
            self._stamp = _stamp(path)
            super().__init__(parse_keys(path.read_text(), str(path.name)))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"cannot read the keys in {str(path)!r}: {error}") from None

    def keys(self) -> Sequence[APIKey]:
        """Return the keys of the file as it is now. One that cannot be read any more lets nobody in."""
        if self._clock() - self._looked >= LOOK_EVERY:
            self._looked = self._clock()
            try:
                stamp = _stamp(self._path)
                if stamp != self._stamp:
                    APIKeys.__init__(self, parse_keys(self._path.read_text(), str(self._path.name)))
                    self._stamp = stamp
            except (OSError, UnicodeDecodeError, ConfigurationError) as error:
                logger.error("the keys cannot be read, so nobody is known: %s", error)
                self._keys, self._names, self._stamp = (), {}, (0, 0)
        return self._keys


def new_key(name: str) -> tuple[str, str]:
    """Return a new key for its owner, and its line for the server. The key is nowhere else."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def parse_keys(text: str, place: str = "keys") -> list[APIKey]:
    """Return the keys of a text, one in each line (or between two `;`); `#` begins a comment:

        NAME sha256:HEX [owner=…] [rights=read,run] [agents=a,b] [exposure=summary] [expires=2030-01-31]

    Raises:
        ConfigurationError: naming the line, never quoting it: somebody may have put a key there.
    """
    keys: list[APIKey] = []
    for number, line in enumerate(text.replace(";", "\n").splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                keys.append(_key(words))
            except (ConfigurationError, ValueError) as error:
                raise ConfigurationError(f"{place}, line {number}: {error}") from None
    return keys


def _key(words: Sequence[str]) -> APIKey:
    if len(words) < 2 or not words[1].startswith("sha256:") or len(words[1]) != 71:
        raise ConfigurationError(
            "expected NAME sha256:HEX (agentkit key NAME makes a key and this line), and options behind it"
        )
    if not NAME_OF_KEY.fullmatch(words[0]):
        raise ConfigurationError("a name is letters, digits and . _ @ - without a space")
    name, digest = words[0], bytes.fromhex(words[1].removeprefix("sha256:"))
    options: dict[str, str] = {}
    for word in words[2:]:
        option, equals, value = word.partition("=")
        if (
            not equals
            or option not in ("owner", "rights", "agents", "exposure", "expires")
            or option in options
        ):
            raise ConfigurationError(f"{quote(option)} is no option, or stands twice")
        options[option] = value
    exposure = next((one for one in EXPOSURES if one == options.get("exposure", "full")), None)
    if exposure is None:
        raise ConfigurationError(f"exposure is one of {', '.join(EXPOSURES)}")
    identity = Identity(name, owner_key(options.get("owner", name)), exposure=exposure)
    return APIKey(
        digest,
        Identity(
            name,
            identity.owner,
            checked_rights(options["rights"].split(",")) if "rights" in options else identity.rights,
            frozenset(options["agents"].split(",")) if "agents" in options else None,
            datetime.fromisoformat(options["expires"]).timestamp() if "expires" in options else None,
            exposure,
            mark=_mark(digest, identity.owner, options.get("expires", ""), exposure),
        ),
    )


def _mark(*parts: object) -> str:
    """Return what changes with the key and with what a session or an open stream has taken over from its line."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _checked(keys: Sequence[APIKey]) -> tuple[APIKey, ...]:
    names = [key.identity.subject for key in keys]
    if len(set(names)) < len(names) or len({key.digest for key in keys}) < len(keys):
        raise ConfigurationError("two keys have one name, or one key stands twice")
    return tuple(keys)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size
