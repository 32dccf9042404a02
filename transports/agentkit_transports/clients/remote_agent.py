"""`connect_agent`: an agent on a server, with the names and the meaning that an `Agent` has here.

It holds no connection of its own and no state of a thread: any number of threads and loops may use it. Every start carries an
idempotency key, so that a request that was made again makes one run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, Self, TypeAlias
from urllib.parse import quote

import httpx2

from agentkit.content import Block, JsonValue, Message, plain
from agentkit.errors import ConfigurationError, RemoteError
from agentkit.history import RunRecord, ThreadRecord
from agentkit.run_spec import RunResult
from agentkit_transports.clients.access import Auth, Credentials
from agentkit_transports.clients.caller import all_pages, ask, objects, text_of
from agentkit_transports.clients.feed import Feed, Transport, check_transport
from agentkit_transports.clients.http import Door
from agentkit_transports.clients.place import Place, parse_agent
from agentkit_transports.clients.records import run_record, thread_record, visible_messages
from agentkit_transports.clients.remote_run import (
    RemoteRun,
    RemoteText,
    Watch,
    cancel_run,
    decide,
    new_key,
    path_of,
    steer_run,
)
from agentkit_transports.clients.settings import ClientSettings

Input: TypeAlias = str | Iterable[Block]
OnBusy: TypeAlias = Literal["queue", "reject"]
"""What a run does on a thread that has one: wait its turn, or raise `ThreadBusy`."""


def connect_agent(
    url: str,
    *,
    agent: str = "",
    auth: Auth = None,
    transport: Transport = "auto",
    settings: ClientSettings | None = None,
    client: httpx2.AsyncClient | None = None,
) -> "RemoteAgent":
    """Return an agent on a server. Nothing is connected yet.

        agent = connect_agent("https://agents.example.com/v1/agents/planner", auth=token)
        print(await agent.chat("Hello"))

    Args:
        url: the agent's address (`…/v1/agents/NAME`), or the server's: then `agent`, or the server's default one.
        agent: its name, where the address does not say it.
        auth: a token, or a function (sync or async) that gives one: asked again when the server refuses the last.
        transport: how runs are followed: `auto` and `sse` by Server-Sent Events, or `websocket` (asyncio only).
        settings: timeouts, delays, the size of an event. A run itself has no time limit.
        client: carries the requests in place of a client of our own; it stays yours.

    Raises:
        ConfigurationError: the address or token cannot be.
    """
    root, named = parse_agent(url)
    check_transport(transport)
    if named and agent and named != agent:
        raise ConfigurationError(f"the address names agent {named!r}, agent= {agent!r}")
    door = Door(root, Credentials(auth), settings or ClientSettings(), client)
    return RemoteAgent(door, named or agent, is_socket=transport == "websocket")


class RemoteAgent:
    """An agent on a server.

    Where it waits for an answer to a request it does so for `call_timeout` seconds, tries again meanwhile, and raises
    `RemoteConnectionError` then. What a server refuses is raised as the error that an `Agent` would raise, or a `RemoteError`.
    """

    def __init__(self, door: Door, name: str, *, is_socket: bool = False) -> None:
        self.name = name
        """"" until a first request where the server's default agent is meant."""
        self._door = door
        self._is_socket = is_socket

    async def __aenter__(self) -> Self:
        await self._named()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is held."""

    # saying something

    async def chat(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        reasoning: Mapping[str, JsonValue] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> str:
        """Say something and return the visible text of the answer, "" where the model refused.

        A caller that is cancelled cancels the run.

        Raises:
            AgentKitError: the run failed.
            ThreadBusy: the thread has a run, and `on_busy` is `reject`.
        """
        body = _body(message, on_busy, reasoning, metadata)
        return (await self._result(body, thread, whole=False)).text

    def stream(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        reasoning: Mapping[str, JsonValue] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RemoteText:
        """Say something and return an iterator over the visible text. Closing or dropping it stops the run.

        The iterator raises what the run ended with, after all text that came; `LostEventsError` where some of it cannot be had.
        """
        body = _body(message, on_busy, reasoning, metadata)
        return RemoteText(RemoteRun(self._ordered(body, thread)), owns=True)

    async def run(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        reasoning: Mapping[str, JsonValue] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RunResult:
        """Say something, wait for the end, and return all that came: as `chat`, with everything beside the text.

        The result's messages hold no signatures and no provider state, and it has no `steps` and no `output`: those stay on the server.
        """
        return await self._result(_body(message, on_busy, reasoning, metadata), thread, whole=True)

    async def start(
        self,
        message: Input,
        *,
        thread: str = "main",
        on_busy: OnBusy = "queue",
        reasoning: Mapping[str, JsonValue] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        idempotency_key: str = "",
    ) -> RemoteRun:
        """Start a run that goes on whoever watches, and return its handle. The same key on the same thread gives the same run.

        Raises:
            ThreadBusy: the thread has a run, and `on_busy` is `reject`.
        """
        await self._named()
        place = self._place(thread)
        body = _body(message, on_busy, reasoning, metadata)
        answer = await ask(
            self._door, "POST", f"{path_of(place)}/runs", body, key=idempotency_key or new_key()
        )
        return self.watch(text_of(answer, "run"), thread=thread)

    def watch(self, run: str, *, thread: str = "main") -> RemoteRun:
        """Return a handle on a run that exists: its events come from its first on."""
        place = replace(self._place(thread), run=run, after="earliest")
        return RemoteRun(self._watch(place, whole=True))

    # having a say in a run

    async def cancel(self, run: str, *, thread: str = "main", reason: str = "") -> None:
        """Ask a run to stop; nothing happens if it has ended.

        Raises:
            RemoteError: there is no such run.
        """
        await self._named()
        await cancel_run(self._door, self._place(thread, run), reason)

    async def steer(self, run: str, text: str, *, thread: str = "main") -> str:
        """Put a user's message into a run at its next step boundary, and return the message's id."""
        await self._named()
        return await steer_run(self._door, self._place(thread, run), text)

    async def approve(
        self, run: str, approval: str, *, approved: bool = True, reason: str = "", thread: str = "main"
    ) -> None:
        """Decide a call that waits for a person; the first decision stands. A suspended run goes on once all are decided."""
        await self._named()
        await decide(self._door, self._place(thread, run), approval, approved=approved, reason=reason)

    async def deny(self, run: str, approval: str, reason: str = "", *, thread: str = "main") -> None:
        """Refuse a call that waits for a person; the model is told the reason."""
        await self.approve(run, approval, approved=False, reason=reason, thread=thread)

    # threads

    def events(
        self,
        *,
        thread: str = "main",
        after: str = "now",
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        run: str = "",
        merge: bool = False,
    ) -> Feed:
        """Follow a thread; see `follow`."""
        place = self._place(thread).narrowed(after=after, run=run, types=types, kinds=kinds, merge=merge)
        return Feed(self._door, place, is_socket=self._is_socket, complete=self._complete)

    async def messages(self, *, thread: str = "main") -> list[Message]:
        """Return the thread's messages, [] for one that was never used: without signatures and provider state."""
        await self._named()
        return visible_messages(await ask(self._door, "GET", f"{path_of(self._place(thread))}/messages"))

    async def runs(self, *, thread: str = "main") -> list[RunRecord]:
        """Return the thread's runs, oldest first."""
        await self._named()
        found = await all_pages(self._door, f"{path_of(self._place(thread))}/runs", "runs")
        return [run_record(one) for one in found]

    async def get_run(self, run: str, *, thread: str = "main") -> RunRecord | None:
        """Return what is known of a run, or None."""
        await self._named()
        path = f"{path_of(self._place(thread))}/runs/{quote(run, safe='')}"
        try:
            return run_record(await ask(self._door, "GET", path))
        except RemoteError as error:
            if error.status != 404:
                raise
            return None

    async def threads(self, *, after: str = "", limit: int = 50) -> list[ThreadRecord]:
        """Return this agent's threads by name, those after `after`; fewer than `limit` where the server gives fewer."""
        await self._named()
        path = f"/v1/agents/{quote(self.name, safe='')}/threads?limit={limit}"
        path += f"&after={quote(after, safe='')}" if after else ""
        return [thread_record(one) for one in objects(await ask(self._door, "GET", path), "threads")]

    async def delete_thread(self, *, thread: str = "main") -> None:
        """Erase a thread: its runs are stopped, its messages, runs and log go; watchers' feeds end."""
        await self._named()
        await ask(self._door, "DELETE", path_of(self._place(thread)))

    # inside

    async def _named(self) -> None:
        """Know the agent's name: the server's default one where none was given."""
        if self.name:
            return
        agents = objects(await ask(self._door, "GET", "/v1/agents"), "agents")
        found = next((one for one in agents if one.get("default") is True), None)
        if found is None:
            raise RemoteError(f"the server at {self._door.root} has no default agent", status=404)
        self.name = text_of(found, "name")

    async def _complete(self, place: Place) -> Place:
        await self._named()
        return replace(place, agent=self.name)

    def _place(self, thread: str, run: str = "") -> Place:
        if not thread:
            raise ConfigurationError("a thread's name must not be empty")
        return Place(self._door.root, self.name, thread, run=run)

    def _ordered(self, body: Mapping[str, JsonValue], thread: str, *, whole: bool = False) -> Watch:
        watch = self._watch(self._place(thread), whole=whole)
        watch.order(body)
        return watch

    def _watch(self, place: Place, *, whole: bool) -> Watch:
        return Watch(self._door, place, self._complete, is_socket=self._is_socket, whole=whole)

    async def _result(self, body: Mapping[str, JsonValue], thread: str, *, whole: bool) -> RunResult:
        async with RemoteRun(self._ordered(body, thread, whole=whole)) as handle:
            return await handle.result()


def _body(
    message: Input,
    on_busy: OnBusy,
    reasoning: Mapping[str, JsonValue] | None,
    metadata: Mapping[str, JsonValue] | None,
) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = {
        "input": message if isinstance(message, str) else [plain(block) for block in message],
        "on_busy": on_busy,
    }
    body |= {"reasoning": dict(reasoning)} if reasoning is not None else {}
    body |= {"metadata": dict(metadata)} if metadata else {}
    return body
