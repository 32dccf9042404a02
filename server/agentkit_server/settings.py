"""Every timer and bound of the server, each with its reason.

Values come from the constructor, then from the environment (`AGENTKIT_BODY_SIZE=2000000`). Times are seconds, sizes bytes.
"""

from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What an operator may set. All of it is optional."""

    model_config = SettingsConfigDict(
        env_prefix="AGENTKIT_", frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    # requests
    body_size: int = Field(default=1024 * 1024, gt=0)
    """Bytes of a request's body: some pages of text and a small picture. Over it: 413, before it is read to its end."""
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

    allowed_origins: tuple[str, ...] = ()
    """Sites whose pages may open sockets, beside our own page: `https://example.org`. Any page could, if browsers were asked."""

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

    @field_validator("retry_ms")
    @classmethod
    def _in_order(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= value[0] <= value[1]:
            raise ValueError("the first must not be above the second, nor below 0")
        return value
