"""Every timer and bound of the server, each with its reason.

Values come from the constructor, then from the environment (`AGENTKIT_BODY_SIZE=2000000`). Times are seconds, sizes bytes.
"""

import re
from typing import Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from agentkit.errors import ConfigurationError

_ORIGIN = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?", re.ASCII)
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|\[?[0-9a-fA-F:.]+\]?", re.ASCII)

_LISTS = {
    "AGENTKIT_ALLOWED_ORIGINS": '["https://app.example"]',
    "AGENTKIT_ALLOWED_HOSTS": '["agents.example"]',
    "AGENTKIT_RETRY_MS": "[1000, 5000]",
    "AGENTKIT_JWT_ALGORITHMS": '["RS256"]',
}


class Settings(BaseSettings):
    """What an operator may set. All of it is optional."""

    model_config = SettingsConfigDict(
        env_prefix="AGENTKIT_", frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    # requests
    body_size: int = Field(default=1024 * 1024, gt=0)
    """Bytes of a request's body: some pages of text and a small picture. Over it: 413, before it is read to its end."""
    history_size: int = Field(default=8 * 1024 * 1024, gt=0)
    """Bytes of a request in a protocol whose clients send the whole conversation each time, with its pictures."""
    body_timeout: float = Field(default=30.0, gt=0)
    """Seconds for a body to arrive: a client that sends a byte now and then holds a connection no longer."""
    head_size: int = Field(default=64 * 1024, gt=0)
    """Bytes of a request's line and headers. uvicorn itself would keep 64 MiB."""
    head_count: int = Field(default=100, gt=0)
    """Headers of a request."""
    head_timeout: float = Field(default=10.0, gt=0)
    """Seconds from the connection, or from the first byte of a later request, to the end of its headers."""
    keep_alive: int = Field(default=5, gt=0)
    """Seconds that an idle connection is kept after a response."""
    json_depth: int = Field(default=64, gt=0)
    """Levels of a JSON body: what comes in is sent on, and every JSON writer on its way has a limit of its own."""
    page_size: int = Field(default=100, gt=0)
    """Entries of one page of a list, at most."""
    chat_timeout: float = Field(default=60.0, gt=0)
    """Seconds that a chat request waits for its answer; then it gets the run's id. Proxies give up after about a minute."""
    wait_timeout: float = Field(default=30.0, gt=0)
    """Seconds that `?wait=` may ask for."""

    # browsers
    allowed_origins: tuple[str, ...] = ()
    """Sites whose pages may speak to the server, beside our own page: `["https://example.org"]`. Any page could, if browsers were asked."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of the server in URLs: `["agents.example.org", "*.example.net"]`. Without any, and without authentication, a server is for
    its own machine and goes by its names only: a page's own name may be pointed at 127.0.0.1."""
    cors_headers: tuple[str, ...] = ()
    """Headers that other sites' pages may send, beside what the protocol needs."""

    # who came with a ticket
    ticket_timeout: float = Field(default=30.0, gt=0, le=300.0)
    """Seconds in which a ticket has to be used: a page does so at once. It stands in a URL, which others may see."""
    session_timeout: float = Field(default=600.0, gt=0, le=86400.0)
    """Seconds after a ticket's first use in which its feed may be opened again. Then the page gets a new ticket."""
    cookie_timeout: float = Field(default=8 * 3600.0, gt=0, le=30 * 86400.0)
    """Seconds that a page stays signed in: a working day."""

    # bounds for each and for all, in this process; whoever is over one gets 429
    connections: int = Field(default=10_000, gt=0)
    """Feeds and sockets at once: at 20 KiB each, some 200 MB."""
    connections_each: int = Field(default=100, gt=0)
    """The same for one identity: tabs and devices of a person. A service that follows many threads does so over few sockets."""
    unknown_sockets: int = Field(default=500, gt=0)
    """Sockets at once that have not said who they are: who has a token never needs to wait behind who has none."""
    runs: int = Field(default=1_000, gt=0)
    """Runs at once, those that wait included: each holds a connection to a provider, and what it has said."""
    runs_each: int = Field(default=50, gt=0)
    """The same for one owner: one who starts too many costs the others nothing."""
    request_rate: float = Field(default=100.0, gt=0)
    """Requests a second of one identity, over time: people make a few, a service with fifty runs some tens. One that asks without a pause
    leaves most of a process's time, some thousand requests a second, to others. Over it: 429, with the time to wait."""
    request_burst: int = Field(default=1_000, gt=0)
    """Requests at once of one identity: all its tabs and followers come back together."""
    tickets_each: int = Field(default=600, gt=0)
    """Tickets and sessions of one identity in a minute: a page asks for some, and each is kept for a while. Without authentication, of all."""
    threads_each: int = Field(default=1_000, gt=0)
    """Threads of one owner with one agent: what a list can show, and a bound for what one can make the engine keep."""
    subscriptions: int = Field(default=32, gt=0)
    """Topics of one socket."""
    frame_rate: float = Field(default=20.0, gt=0)
    """Frames a second from one socket, over time: far more than people make. Over it: closed with 4006."""
    frame_burst: int = Field(default=40, gt=0)
    """Frames at once from one socket."""
    stream_age: float = Field(default=3600.0, gt=0)
    """Seconds, ± 10 %, after which a feed or socket is asked to come back with its cursor: it finds new servers, keys and rights."""
    recheck: float = Field(default=30.0, gt=0)
    """Seconds between two looks whether those who watch still may: a right that was taken away ends streams so late."""

    # protocols of others
    ai_sdk: int = Field(default=5, ge=5, le=7)
    """Major version of the AI SDK whose chunks may be sent: nothing tells a server who asks, and an older client breaks on a newer one's.
    From 6 on a call that needs a person's approval is asked for in the chat, and answered by its next request."""

    page: Literal["loopback", "everybody", "off"] = "loopback"
    """Who gets the page at `/`: whoever asks from this machine, by an address of this machine; everybody; nobody."""

    # readers
    exposure: Literal["full", "summary", "none"] = "full"
    """How much of the reasoning watchers get: all, the provider's summaries, or nothing."""
    heartbeat: float = Field(default=15.0, gt=0)
    """Seconds between signs of life of a stream, ± 20 %: proxies cut silent connections after 30 to 120 s."""
    send_timeout: float = Field(default=10.0, gt=0)
    """Seconds without progress after which a reader is cut. It comes back with its cursor and loses nothing."""
    send_buffer: int = Field(default=32 * 1024, gt=0)
    """Bytes that the kernel keeps for one reader. Its own choice, 4 MB, would hide a reader that is stuck."""
    lag_records: int = Field(default=10_000, gt=0)
    """A reader further behind than this, and not catching up for `lag_timeout`, is cut."""
    lag_timeout: float = Field(default=30.0, gt=0)
    """Seconds that a reader so far behind has to catch up."""
    retry_ms: tuple[int, int] = (1000, 4000)
    """Milliseconds between which each reader is told to wait before it comes back, by chance: not all at once."""
    ping_interval: float = Field(default=20.0, gt=0)
    """Seconds between the WebSocket protocol's own pings."""
    ping_timeout: float = Field(default=20.0, gt=0)
    """Seconds until an unanswered ping closes the socket."""
    hello_timeout: float = Field(default=5.0, gt=0)
    """Seconds that a socket has for its first word."""

    # the end
    drain_timeout: float = Field(default=10.0, ge=0)
    """Seconds that runs may go on after SIGTERM; then they are cancelled and say so."""
    farewell_timeout: float = Field(default=3.0, gt=0)
    """Seconds for watchers to take their farewell; then their connections are dropped."""

    @field_validator("allowed_origins")
    @classmethod
    def _plain_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Keep origins as browsers write them."""
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    "an origin is https://name or https://name:port, without a path; * would let every page in"
                )
        return tuple(origin.lower() for origin in value)

    @field_validator("allowed_hosts")
    @classmethod
    def _plain_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Keep hosts without ports."""
        for host in value:
            if not _HOST.fullmatch(host):
                raise ValueError(
                    "a host is a name or an address without a port; *.name stands for all below it"
                )
        return tuple(host.lower().removeprefix("[").removesuffix("]") for host in value)

    @field_validator("retry_ms")
    @classmethod
    def _in_order(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= value[0] <= value[1]:
            raise ValueError("the first must not be above the second, nor below 0")
        return value


def settings_from_environment() -> Settings:
    """Return the settings of the environment.

    Raises:
        ConfigurationError: a variable is not what it should be; it is named.
    """
    try:
        return Settings()
    except (ValidationError, SettingsError) as error:
        raise ConfigurationError(fault_of(error)) from None


def fault_of(error: ValidationError | SettingsError) -> str:
    """Return which variable is wrong, and what it should be; never what it is."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"AGENTKIT_{first['loc'][0]}".upper() + f": {first['msg']}"
    named = re.search(r'field "(\w+)"', str(error))
    name = f"AGENTKIT_{named[1]}".upper() if named else "a variable AGENTKIT_…"
    example = _LISTS.get(name, '["…"]')
    return f"{name}: expected a JSON list, such as {example}"
