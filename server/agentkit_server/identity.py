"""Who somebody is, and what it may do. Plain values: nothing here reads a request.

Threads belong to an owner, which is never shown: a tenant, or the person itself. Whoever has the owner has its threads, as far as its
rights go.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from agentkit.errors import ConfigurationError, quote
from agentkit_transports.backend import Action
from agentkit_transports.encoder import Exposure

RIGHTS: Final[frozenset[Action]] = frozenset({"read", "run", "cancel", "steer", "approve", "delete"})
"""All there is to do with a thread. `read` is its feed, its runs, its messages and its name in a list."""
METRICS: Final[Action] = "metrics"
"""To see the server's metrics: a right that nobody has who was not given it by name."""
EXPOSURES: Final[tuple[Exposure, ...]] = ("none", "summary", "full")
"""How much of the reasoning somebody gets, the least first."""

_OWNER = re.compile(r"[A-Za-z0-9@._|:+=/-]{1,128}", re.ASCII)

Owner: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Grant:
    """The part of somebody's threads that a ticket is good for."""

    agent: str
    thread: str
    run: str = ""
    """Only this run's feed; "" for the whole thread."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent a request, as an `Auth` found out."""

    subject: str
    """Whom limits count and logs may name. "" is anybody."""
    owner: Owner = ""
    """Whose threads: a tenant's, or where none is named the subject's own. Only anybody has the owner ""."""
    rights: frozenset[Action] = RIGHTS
    agents: frozenset[str] | None = None
    """The agents that it may see; None for all."""
    expires: float | None = None
    """Seconds since the epoch; its streams are closed then."""
    exposure: Exposure = "full"
    """The most of the reasoning that it gets; the server's own setting may allow less."""
    way: int = 0
    """Which of several ways found it; `AnyOf` asks that one what it may do."""
    mark: str = field(default="", compare=False)
    """What it was known by, if that can be taken back: a key that replaces a stolen one of the same name has another."""
    grant: Grant | None = None
    """For who came with a ticket: nothing but this."""
    session: str = field(default="", compare=False)
    """The session that it came with, or that its ticket was asked for in, as `Tickets` names it: what it opened ends with it."""

    def __post_init__(self) -> None:
        if not self.owner and self.subject:
            object.__setattr__(self, "owner", owner_key(self.subject))

    @property
    def is_anyone(self) -> bool:
        """True where nobody was asked who it is: no limit can be counted for one of many."""
        return not self.subject and not self.owner

    @property
    def key(self) -> tuple[str, str]:
        """Whom limits count."""
        return self.owner, self.subject

    def sees(self, agent: str) -> bool:
        """Tell whether an agent exists for it."""
        return (self.agents is None or agent in self.agents) and self.grant is None

    def may(self, action: Action, agent: str, thread: str) -> bool:
        """Tell whether it has the right to do `action` on a thread of its own; `thread` is "" for the list of threads."""
        if action not in self.rights or not (self.agents is None or agent in self.agents):
            return False
        return self.grant is None or (self.grant.agent, self.grant.thread) == (agent, thread)

    def narrowed(self, grant: Grant, rights: frozenset[Action]) -> "Identity":
        """Return what a ticket of it may do: never more than itself, and never longer."""
        return replace(self, grant=grant, rights=self.rights & rights)


ANYONE: Final = Identity("")
"""Whoever comes where there is no authentication."""


def owner_key(name: str) -> Owner:
    """Return an owner for a name from outside, of any length and in any script.

    Raises:
        ConfigurationError: the name is empty: that would be the owner of all that was made without authentication.
    """
    if not name:
        raise ConfigurationError("an owner needs a name")
    if _OWNER.fullmatch(name) and not name.startswith("sha256:"):
        return name
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def checked_rights(names: Iterable[str]) -> frozenset[Action]:
    """Return rights by their names.

    Raises:
        ConfigurationError: there is no such right.
    """
    found: set[Action] = set()
    for name in names:
        right = next((one for one in {*RIGHTS, METRICS} if one == name), None)
        if right is None:
            known = ", ".join(sorted({*RIGHTS, METRICS}))
            raise ConfigurationError(f"unknown right {quote(name)}; known: {known}")
        found.add(right)
    return frozenset(found)


def least(one: Exposure, other: Exposure) -> Exposure:
    """Return the smaller exposure."""
    return min(one, other, key=EXPOSURES.index)
