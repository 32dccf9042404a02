"""A model over HTTP: a dialect, its framing, and the one HTTP client of the house.

Not pure: it connects. It knows no provider by name (see `providers`) and no dialect from inside. What it promises:
every wait is bounded by `Timeouts`; the connection is closed at once when the stream is left (see `answer`); a key goes to the base URL's
host and nowhere else, not into a message either.
"""

import json
import ssl
import weakref
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import httpx2

from agentkit.answer import AnswerStream, Broken, Plan, SecondTry
from agentkit.burst import BODY, Body, BurstReader
from agentkit.content import JsonValue, Origin, valid_text
from agentkit.dialects.base import Dialect, HTTPParts, Target, origin
from agentkit.endpoint import is_loopback, join_path, parse_base_url
from agentkit.errors import ConfigurationError, quote
from agentkit.fast import transport_for
from agentkit.faults import Faults, Key, check_header
from agentkit.loop_local import LoopLocal
from agentkit.model import ModelRequest
from agentkit.network import check_network
from agentkit.pace import RetryPolicy, Timeouts

if TYPE_CHECKING:
    from pydantic import SecretStr

TransportFactory: TypeAlias = Callable[[], httpx2.AsyncBaseTransport]

_BREAKS: Final = (httpx2.HTTPError, httpx2.StreamError, OSError)
"""What a connection that breaks raises."""


class _Connections:
    """The HTTP client of one address in one loop, and who uses it."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.users: weakref.WeakSet[StreamingClient] = weakref.WeakSet()
        self._open = 0
        self._is_left = False

    def begin(self, user: "StreamingClient") -> None:
        """Count an exchange."""
        self.users.add(user)
        self._open += 1

    async def end(self) -> None:
        """An exchange is over; the last one closes what was left meanwhile."""
        self._open -= 1
        if self._is_left and not self._open:
            await self.http.aclose()

    async def aclose(self) -> None:
        """Close it: at once, or behind the last exchange."""
        self._is_left = True
        if not self._open:
            await self.http.aclose()


_clients: LoopLocal[_Connections] = LoopLocal()


@cache
def _trust(*, loopback: bool) -> ssl.SSLContext:
    """Return the process's TLS context. Reading the trust store takes 30 ms, so once; for plain loopback an empty store does."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if loopback else httpx2.create_ssl_context()


class StreamingClient:
    """A `Model` that speaks HTTP. It holds no connection and no state of a request: any number of runs, in any event loop."""

    def __init__(
        self,
        dialect: Dialect,
        target: Target,
        base_url: str,
        *,
        key: "str | SecretStr | Key | None" = None,
        key_hint: str = "",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        transport: TransportFactory | None = None,
        fast: bool | None = None,
        locate: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """Make a model; nothing is connected.

        Args:
            dialect: the wire format.
            target: provider and model.
            base_url: as `endpoint` says; the dialect's path is put behind it.
            key: sent in the dialect's own header, to this base URL only.
            key_hint: the variable to set, told in a 401 where there is no key.
            headers: sent with every request besides the dialect's own.
            timeouts: bounds of every wait.
            retry: how often a request is made again.
            transport: makes another `httpx2.AsyncBaseTransport`, one for each event loop; proxies are then its own matter. Pass the
                same function to share its connections.
            fast: the transport of our own carries the requests: True insists on it, False turns it off, None takes it where
                `agentkit-live[fast]` is installed and `AGENTKIT_FAST` is not "0". On trio, behind a proxy and with a `transport` it is
                not used.
            locate: awaited before each attempt for a base URL that stands in for `base_url` once: for a server that is started when it
                is needed. It bounds its own wait, and may raise `ModelConnectionError`.

        Raises:
            ConfigurationError: the base URL, the key or a header cannot be.
        """
        self.dialect = dialect
        self.target = target
        self.base_url = parse_base_url(base_url)
        self.timeouts = timeouts or Timeouts()
        self.retry = retry or RetryPolicy()
        self._headers = dict(headers or {})
        for name, value in self._headers.items():
            check_header(name, value)
        self._key = Key.of(key)
        self._transport = transport
        self._fast = fast
        self._locate = locate
        self.faults = Faults(dialect, target, self.base_url, self._key, key_hint)
        """Words for what goes wrong."""

    def __repr__(self) -> str:
        return f"StreamingClient({self.target.provider}:{self.target.model}, {self.dialect.name}, {self.base_url})"

    @property
    def origin(self) -> Origin:
        """Who the blocks are made by."""
        return origin(self.dialect.name, self.target)

    def stream(self, request: ModelRequest) -> AnswerStream:
        """Return the answer to `request`. Nothing is sent before its first `next`.

        Raises:
            ConfigurationError: the request cannot be said in the dialect, or not be sent.
        """
        return AnswerStream(self._plan(request, self.dialect.encode(request, self.target)))

    def preview(self, request: ModelRequest) -> dict[str, JsonValue]:
        """Return what `stream` would send, for people to look at: `{method, url, headers, body, notices}`. The key reads `[key]`.

        Raises:
            ConfigurationError: as `stream`.
        """
        parts = self.dialect.encode(request, self.target)
        return {
            "method": "POST",
            "url": str(httpx2.URL(join_path(self.base_url, parts.path))),
            "headers": {
                name: self.faults.mask(value)
                for name, value in self._all_headers(parts.headers, "[key]").items()
            },
            "body": json.loads(_encode_body(parts.body)),
            "notices": [{"code": notice.code, "message": notice.message} for notice in parts.notices],
        }

    def _plan(self, request: ModelRequest, parts: HTTPParts, *, is_second: bool = False) -> Plan:
        for name, value in (*request.trace.items(), *parts.headers.items()):
            check_header(name, value)
        url = join_path(self.base_url, parts.path)
        try:
            address = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise ConfigurationError(f"{quote(url)} is not a URL: {error}") from None
        body = _encode_body(parts.body)
        dialect = self.dialect

        async def send() -> HTTPExchange:
            there = httpx2.URL(join_path(await self._locate(), parts.path)) if self._locate else address
            return await self._send(there, body, {**request.trace, **parts.headers})

        def second(status: int, said: str) -> Plan | None:
            assert isinstance(dialect, SecondTry)
            other = dialect.second_try(request, self.target, status, said)
            return None if other is None else self._plan(request, other, is_second=True)

        may_try = isinstance(dialect, SecondTry) and not is_second
        settings = (dialect, self.target, self.timeouts, self.retry, self.faults)
        return Plan(*settings, send, parts.notices, second if may_try else None)

    async def _send(self, url: httpx2.URL, body: bytes, headers: Mapping[str, str]) -> "HTTPExchange":
        """Make one attempt and return it once the head of its answer is there.

        Raises:
            ModelConnectionError: no answer within the bounds.
            ConfigurationError: network calls are forbidden here, and this would be one.
        """
        if self._transport is None:
            check_network(str(url))
        kept = await _clients.get(self._address, lambda: _Connections(self._make_http()))
        kept.begin(self)
        try:
            return await self._exchange(kept, url, body, headers)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await kept.end()
            raise

    async def aclose(self) -> None:
        """Let this loop's connections go, unless another model has used them too; a later request connects again.

        An answer that is being made goes on to its end.
        """
        kept = _clients.find(self._address)
        if kept is None or self not in kept.users:
            return
        kept.users.discard(self)
        if not kept.users:
            _clients.take(self._address)
            await kept.aclose()

    @property
    def _address(self) -> Hashable:
        return self.base_url, self._transport, self._fast

    async def _exchange(
        self, kept: _Connections, url: httpx2.URL, body: bytes, headers: Mapping[str, str]
    ) -> "HTTPExchange":
        http, times = kept.http, self.timeouts
        with anyio.CancelScope(
            deadline=anyio.current_time() + times.connect + times.idle + times.first_byte
        ) as scope:

            async def trace(name: str, _: object) -> None:
                if name == "http11.receive_response_headers.started":
                    scope.deadline = anyio.current_time() + times.first_byte

            request = http.build_request(
                "POST",
                url,
                content=body,
                headers=self._all_headers(headers),
                extensions={
                    "timeout": {
                        "connect": times.connect,
                        "write": times.idle,
                        "read": times.idle,
                        "pool": times.connect,
                    },
                    "trace": trace,
                },
            )
            try:
                return HTTPExchange(await http.send(request, stream=True), times.idle, kept.end)
            except httpx2.ConnectTimeout as error:
                raise self.faults.connection(f"no connection within {times.connect:g} s") from error
            except _BREAKS as error:
                raise self.faults.connection(_reason(error), retryable=not _is_untrusted(error)) from error
        raise self.faults.connection(f"no answer within {times.first_byte:g} s")

    def _all_headers(self, of_request: Mapping[str, str], shown: str = "") -> dict[str, str]:
        """Return the headers of a request, the key among them: made for sending, not for keeping. `shown` stands for the key."""
        accept = "text/event-stream" if self.dialect.framing == "sse" else "application/x-ndjson"
        auth = self.dialect.auth_headers(shown or self._key.secret) if self._key else {}
        headers = {
            "accept": accept,
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "agentkit",
        }
        for more in (auth, of_request, self._headers):
            headers |= {name.lower(): value for name, value in more.items()}
        return headers

    def _make_http(self) -> httpx2.AsyncClient:
        loopback = is_loopback(self.base_url)
        trust = _trust(loopback=loopback and self.base_url.startswith("http://"))
        proxies = not loopback  # a proxy has no way to this machine's own servers
        transport = (
            self._transport() if self._transport else transport_for(self._fast, trust, proxies=proxies)
        )
        return httpx2.AsyncClient(
            transport=transport,
            verify=trust,
            trust_env=proxies,
            follow_redirects=False,  # the key is for this host
            timeout=None,  # set for each request
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0),
        )


def _encode_body(body: dict[str, JsonValue]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"the request is not JSON: {quote(str(error))}") from None
    return valid_text(text).encode()


class HTTPExchange:
    """An `Exchange` of the HTTP client."""

    def __init__(
        self, response: httpx2.Response, idle: float, on_close: Callable[[], Awaitable[None]]
    ) -> None:
        self._response = response
        self._on_close: Callable[[], Awaitable[None]] | None = on_close
        self._idle = idle
        self._burst: BurstReader | None = None
        body = response.extensions.get(BODY)
        if isinstance(body, Body):
            self._next = body.read
            return
        # A response that a mock made is read already, and gives its content only so.
        parts = response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()
        self._burst = BurstReader(parts, response.extensions.get("network_stream"))
        self._next = self._burst.next

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers."""
        return self._response.headers

    async def read(self) -> bytes:
        """See `Exchange.read`."""
        try:
            return await self._next()
        except httpx2.TimeoutException as error:
            raise Broken(f"nothing came for {self._idle:g} s", timeout=True) from error
        except _BREAKS as error:
            raise Broken(_reason(error)) from error

    async def aclose(self) -> None:
        """See `Exchange.aclose`."""
        try:
            if self._burst is not None:
                await self._burst.aclose()
            await self._response.aclose()
        except _BREAKS:
            pass  # it was to be closed
        finally:
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                await on_close()


def _reason(error: BaseException) -> str:
    """Return what a broken connection says of itself; where it says nothing, what its cause says."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return str(cause) if cause is not None else type(error).__name__


def _is_untrusted(error: BaseException | None) -> bool:
    """Tell whether the peer's certificate was refused: asking again would not change that."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None
