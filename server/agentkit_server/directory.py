"""Which agents a server has, and whether they can be used now.

An agent may be announced before it is there (a model that is still being fetched) and offered later. Nothing here runs anything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agentkit.agent import Agent
from agentkit.content import JsonValue
from agentkit.engine import Engine
from agentkit.errors import ConfigurationError, quote
from agentkit.observe import Observer
from agentkit.redaction import Redact


@dataclass(frozen=True, slots=True)
class Entry:
    """One agent of a server."""

    name: str
    description: str = ""
    agent: Agent | None = None
    """None while it is only announced."""
    note: str = ""
    """Why it cannot be used, or what a user should know."""

    @property
    def available(self) -> bool:
        """True where it can be used."""
        return self.agent is not None

    def body(self, *, default: bool) -> dict[str, JsonValue]:
        """Return what clients see of it."""
        out: dict[str, JsonValue] = {
            "name": self.name,
            "description": self.description,
            "model": self.agent.models[0].origin.model if self.agent else "",
            "provider": self.agent.models[0].origin.provider if self.agent else "",
            "default": default,
            "available": self.available,
        }
        if self.note:
            out["note"] = self.note
        return out


class AgentDirectory:
    """The agents of one server, in the order in which they were named. Fill it before or after the server was made of it."""

    def __init__(self, agents: Iterable[Agent] = (), *, default: str = "") -> None:
        """Make a directory.

        Args:
            agents: agents that can be used now.
            default: the name of the one that clients should begin with; "" for the first that is available.

        Raises:
            ConfigurationError: two agents of one name, or what is no collection of agents.
        """
        asked: object = agents  # no type checker may have looked
        given: list[Agent] = list(asked) if isinstance(asked, Iterable) else []
        if not isinstance(asked, Iterable) or not all(isinstance(agent, Agent) for agent in given):
            raise ConfigurationError(
                f"expected a list of agents, as in create_app([agent]), got {quote(asked)}"
            )
        self._entries: dict[str, Entry] = {}
        self._bind: Callable[[Agent], Agent] = lambda agent: agent
        self._looks: list[Callable[[], bool]] = []
        self.default = default
        for agent in given:
            if agent.name in self._entries:
                raise ConfigurationError(f"two agents are named {agent.name!r}")
            self.offer(agent)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def announce(self, name: str, *, description: str = "", note: str = "") -> None:
        """Name an agent that cannot be used yet, or no longer; `note` says why."""
        self._entries[name] = Entry(name, description, None, note)

    def offer(self, agent: Agent, *, note: str = "") -> None:
        """Let clients use an agent from now on. It replaces one of the same name, whose threads it takes over."""
        self._entries[agent.name] = Entry(agent.name, agent.description, self._bind(agent), note)

    def watch(self, look: Callable[[], bool]) -> None:
        """Have `look` called before agents are found or listed, until it returns True: it may offer one that has come meanwhile."""
        self._looks.append(look)

    def find(self, name: str) -> Entry | None:
        """Return an agent's entry, or None."""
        self._look()
        return self._entries.get(name)

    def bind(
        self, engine: Engine, *, observers: Sequence[Observer] = (), redact: Redact | None = None
    ) -> None:
        """Put copies of all agents, and of those that are offered later, on an engine. Called once, by the server.

        Args:
            engine: where their threads and logs live.
            observers: who sees their runs, beside their own.
            redact: asked of their events, after their own hook.
        """
        self._bind = lambda agent: agent.bind(engine, observers=observers, redact=redact)
        for name, entry in self._entries.items():
            if entry.agent is not None:
                self._entries[name] = replace(entry, agent=self._bind(entry.agent))

    def body(self, is_seen: Callable[[str], bool] = lambda _: True) -> dict[str, JsonValue]:
        """Return the list that clients see, or one sees who may see the agents for which `is_seen` is true."""
        self._look()
        entries = [entry for entry in self._entries.values() if is_seen(entry.name)]
        chosen = self._entries.get(self.default)
        if chosen is None or chosen not in entries or not chosen.available:
            chosen = next((entry for entry in entries if entry.available), None)
        return {"agents": [entry.body(default=entry is chosen) for entry in entries]}

    def _look(self) -> None:
        self._looks = [look for look in self._looks if not look()]
