"""Tickets and cookies for browsers, which cannot set headers on a feed or a socket.

Both are random words. The engine keeps their SHA-256 and who they stand for, so they are good on every server that shares it, and nothing
in the store opens anything. A ticket is good for one feed or one socket; its first use is noted in the engine, atomically. A feed that
was opened with one may be opened again for a while: by the cookie that the first use set (https), or by a reader that has a place in the
feed (`Last-Event-ID`) and comes from the same origin.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agentkit.content import JsonValue
from agentkit.engine import Engine
from agentkit.history import RunRecord
from agentkit.log import Topic
from agentkit_server.identity import EXPOSURES, RIGHTS, Grant, Identity
from agentkit_server.settings import Settings

TICKET: Final = "tk_"
SESSION: Final = "ss_"
COOKIE: Final = "__Host-agentkit"
"""Browsers take a cookie of this name over TLS only, for this host only, and from nobody else."""
OWNER: Final = "~server"
"""Of what is kept: no identity can have it (`identity.owner_key`)."""
SHELF: Final = "~tickets"
HOUR: Final = 3600.0
"""Seconds. What ends within the same hour is kept, and thrown away, together."""


@dataclass(frozen=True, slots=True)
class FeedUse:
    """How a browser asks for a feed with a ticket."""

    ticket: str
    origin: str
    """The Origin header, "" where there is none: a page of the server's own."""
    has_place: bool
    """It says what it has seen: it was here before."""
    cookies: Callable[[str], str]
    """Returns a cookie by its name, or ""."""
    is_secure: bool
    """Over TLS: cookies are safe."""


class Tickets:
    """What opens a feed, a socket or a page, kept in the engine."""

    def __init__(self, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._swept = 0

    async def issue(self, identity: Identity) -> tuple[str, float]:
        """Return a ticket for an identity that was narrowed to what it is to open, and when it has to be used, in seconds since the epoch.

        Raises:
            EngineError: it cannot be kept.
        """
        until = self._clock() + self._settings.ticket_timeout
        if identity.expires is not None:
            until = min(until, identity.expires)
        return await self._keep(TICKET, identity, until, until + self._settings.session_timeout), until

    async def open_session(self, identity: Identity) -> tuple[str, float]:
        """Return a cookie's value that stands for an identity, and when it ends.

        Raises:
            EngineError: it cannot be kept.
        """
        until = self._clock() + self._settings.cookie_timeout
        if identity.expires is not None:
            until = min(until, identity.expires)
        return await self._keep(SESSION, identity, until, until), until

    async def close_session(self, word: str) -> str:
        """End a cookie's session, and return its name (`Identity.session`); one that is not there changes nothing, and has the name ""."""
        place = _place(word, SESSION)
        if place is None or await self._engine.threads.get_run(*place) is None:
            return ""
        await self._engine.threads.put_run(place[0], self._record(place[1], {}))
        return _name(place)

    async def is_open(self, session: str) -> bool:
        """Tell whether a session has not been closed, by the name that `Identity.session` has.

        Raises:
            EngineError: it cannot be looked up.
        """
        shelf, _, digest = session.partition("_")
        record = await self._engine.threads.get_run(Topic(OWNER, SHELF, shelf), digest)
        return record is not None and bool(record.metadata)

    async def session(self, word: str) -> Identity | None:
        """Return whom a cookie stands for, or None."""
        found = await self._find(word, SESSION)
        if found is None or self._clock() >= found[1]:
            return None
        place = _place(word, SESSION)
        assert place is not None  # it was found
        return replace(found[0], expires=found[1], session=_name(place))  # what it opens ends with it

    async def open_socket(self, word: str) -> Identity | None:
        """Return whom a ticket stands for, once."""
        found = await self._find(word, TICKET)
        if found is None or self._clock() >= found[1] or not await self._use(word, {"for": "socket"}):
            return None
        return found[0]

    async def open_feed(self, use: FeedUse) -> tuple[Identity, str] | None:
        """Return whom a ticket stands for, and the `Set-Cookie` of its first use (or ""); None for who may not come, or not again."""
        found = await self._find(use.ticket, TICKET)
        if found is None:
            return None
        identity, until = found
        cookie = f"{COOKIE}-{_digest(use.ticket)[:12]}"
        if self._clock() < until:
            secret = secrets.token_urlsafe(32)
            if await self._use(
                use.ticket,
                {"for": "feed", "origin": use.origin, "cookie": _digest(secret), "at": self._clock()},
            ):
                return identity, self._set_cookie(cookie, secret) if use.is_secure else ""
        before = await self._used(use.ticket)
        if before.get("for") != "feed":
            return None
        at = before.get("at")
        if not isinstance(at, float | int) or self._clock() >= at + self._settings.session_timeout:
            return None
        is_holder = hmac.compare_digest(_digest(use.cookies(cookie)), str(before.get("cookie")))
        is_back = use.has_place and use.origin == before.get("origin")
        return (identity, "") if is_holder or is_back else None

    def _set_cookie(self, name: str, value: str) -> str:
        return f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={int(self._settings.session_timeout)}"

    async def _keep(self, prefix: str, identity: Identity, until: float, end: float) -> str:
        """Keep an identity under a new word until `end`, and return the word."""
        hour = int(end // HOUR)
        word = f"{prefix}{hour:x}_{secrets.token_urlsafe(32)}"
        await self._engine.threads.put_run(
            _shelf(hour), self._record(_digest(word), _dump(identity) | {"until": until})
        )
        await self._sweep()
        return word

    async def _find(self, word: str, prefix: str) -> tuple[Identity, float] | None:
        """Return whom a word stands for, and until when; None where it is not known or who it is has ended."""
        place = _place(word, prefix)
        record = None if place is None else await self._engine.threads.get_run(*place)
        if record is None or not record.metadata:
            return None
        identity, until = _load(record.metadata), record.metadata["until"]
        assert isinstance(until, float | int)
        if identity.expires is not None and self._clock() >= identity.expires:
            return None
        if identity.session and not await self.is_open(identity.session):
            return None
        return identity, until

    async def _use(self, word: str, how: dict[str, JsonValue]) -> bool:
        """Note the first use of a ticket; False where it was used before. Whoever asks at the same time: one gets True."""
        topic, name = _known_place(word)
        run = f"use-{secrets.token_hex(16)}"
        return await self._engine.threads.claim(topic, name, self._record(run, how)) == run

    async def _used(self, word: str) -> dict[str, JsonValue]:
        """Return how a ticket was used first; {} where it was not."""
        topic, name = _known_place(word)
        run = await self._engine.threads.claimed(topic, name)
        record = None if run is None else await self._engine.threads.get_run(topic, run)
        return {} if record is None else dict(record.metadata)

    async def _sweep(self) -> None:
        """Throw away what has ended, once an hour."""
        hour = int(self._clock() // HOUR)
        if hour == self._swept:
            return
        self._swept = hour
        for record in await self._engine.threads.threads(OWNER, SHELF, limit=1000):
            if record.thread < _shelf(hour).thread:
                await self._engine.threads.delete(Topic(OWNER, SHELF, record.thread))

    def _record(self, run: str, metadata: dict[str, JsonValue]) -> RunRecord:
        now = self._clock()
        return RunRecord(run, "finished", now, now, metadata=metadata)


def _digest(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()


def _shelf(hour: int) -> Topic:
    return Topic(OWNER, SHELF, f"{hour:08x}")


def _place(word: str, prefix: str) -> tuple[Topic, str] | None:
    """Return where a word is kept; None for what is no word of this kind."""
    hour, _, rest = word.removeprefix(prefix).partition("_")
    if not word.startswith(prefix) or len(word) > 80 or not rest or not 0 < len(hour) <= 8:
        return None
    if set(hour) - set("0123456789abcdef"):
        return None
    return _shelf(int(hour, 16)), _digest(word)


def _name(place: tuple[Topic, str]) -> str:
    """Return a session's name: it opens nothing."""
    return f"{place[0].thread}_{place[1]}"


def _known_place(word: str) -> tuple[Topic, str]:
    place = _place(word, TICKET)
    assert place is not None  # it was found
    return place


def _dump(identity: Identity) -> dict[str, JsonValue]:
    grant = identity.grant
    return {
        "subject": identity.subject,
        "owner": identity.owner,
        "rights": [*sorted(identity.rights)],
        "agents": None if identity.agents is None else [*sorted(identity.agents)],
        "expires": identity.expires,
        "exposure": identity.exposure,
        "way": identity.way,
        "mark": identity.mark,
        "session": identity.session,
        "grant": None if grant is None else [grant.agent, grant.thread, grant.run],
    }


def _load(data: Mapping[str, JsonValue]) -> Identity:
    """Return an identity that `_dump` wrote."""
    agents, expires, way, grant = data["agents"], data["expires"], data["way"], data["grant"]
    rights = data["rights"]
    assert isinstance(rights, list)
    return Identity(
        str(data["subject"]),
        str(data["owner"]),
        frozenset(right for right in RIGHTS if right in rights),
        frozenset(map(str, agents)) if isinstance(agents, list) else None,
        float(expires) if isinstance(expires, int | float) else None,
        next(one for one in EXPOSURES if one == data["exposure"]),
        way if isinstance(way, int) else 0,
        str(data.get("mark", "")),
        Grant(*map(str, grant)) if isinstance(grant, list) else None,
        str(data.get("session", "")),
    )
