"""HTTP to a server of agents: the client of each loop, one request with its answer's head, and what its breaking means.

Not pure: it connects. It repeats nothing: `feed` and `caller` do. A token goes to the server's own host and nowhere else.
"""

import ssl
import time
from collections.abc import Mapping
from functools import cache
from typing import Final

import anyio
import httpx2

from agentkit.burst import BurstReader
from agentkit.endpoint import is_loopback
from agentkit.errors import RemoteError, WireError
from agentkit.loop_local import LoopLocal
from agentkit.network import check_network
from agentkit_transports.clients.access import Credentials, bearer
from agentkit_transports.clients.refusal import MAX_PROBLEM, Cut, refusal
from agentkit_transports.clients.settings import ClientSettings

_BREAKS: Final = (httpx2.HTTPError, httpx2.StreamError, OSError)
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds that leaving a connection may take."""

_clients: LoopLocal[httpx2.AsyncClient] = LoopLocal()


@cache
def _trust(*, needed: bool) -> ssl.SSLContext:
    """Return the process's TLS context; an empty one where none is needed, for reading the trust store takes 30 ms."""
    return httpx2.create_ssl_context() if needed else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Door:
    """The way to one server: its root, who asks, and how patiently."""

    __slots__ = ("_client", "credentials", "root", "settings")

    def __init__(
        self,
        root: str,
        credentials: Credentials,
        settings: ClientSettings,
        client: httpx2.AsyncClient | None = None,
    ) -> None:
        self.root = root
        self.credentials = credentials
        self.settings = settings
        self._client = client

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        silence: float,
    ) -> "Answer":
        """Make one request and return its answer once the head is there.

        Args:
            method: GET, POST, …
            url: under the root.
            headers: beside the token's.
            content: the body.
            silence: seconds without a byte after which it counts as broken.

        Raises:
            Cut: it broke, or the server asks to come back.
            Refused: the token is refused.
            AgentKitError: the server refuses for good.
        """
        if self._client is None:
            check_network(url)
        http = self._client or await _clients.get((self.root, self.settings.tls), self._make)
        token = await self.credentials.token()
        connect = self.settings.connect_timeout
        request = http.build_request(
            method,
            url,
            content=content,
            headers={
                "accept-encoding": "identity",
                "user-agent": "agentkit",
                **bearer(token),
                **headers,
            },
            extensions={
                "timeout": {"connect": connect, "pool": connect, "write": connect, "read": silence},
            },
        )
        try:
            response = await http.send(request, stream=True, follow_redirects=False)
        except _BREAKS as error:
            raise _broken(error, silence) from error
        answer = Answer(response, silence)
        if response.status_code < 300:
            return answer
        try:
            with anyio.move_on_after(connect):
                body = await answer.read_all(MAX_PROBLEM)
                raise refusal(response.status_code, response.headers, body, time.time(), token=token)
        finally:
            await answer.aclose()
        raise refusal(response.status_code, response.headers, b"", time.time(), token=token)

    def _make(self) -> httpx2.AsyncClient:
        loopback = is_loopback(self.root)
        plain = loopback and self.root.startswith("http://")
        return httpx2.AsyncClient(
            verify=self.settings.tls or _trust(needed=not plain),
            trust_env=not loopback,  # a proxy has no way to this machine's own servers
            timeout=None,  # set for each request
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0),
        )


class Answer:
    """One answer, while it comes."""

    __slots__ = ("_reader", "_response", "_silence")

    def __init__(self, response: httpx2.Response, silence: float) -> None:
        self._response = response
        self._silence = silence
        # A response that was read already gives its content only so.
        parts = response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()
        self._reader = BurstReader(parts, response.extensions.get("network_stream"))

    @property
    def status(self) -> int:
        """The HTTP status: 2xx."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers."""
        return self._response.headers

    async def read(self) -> bytes:
        """Return some bytes, b"" at the end.

        Raises:
            Cut: it broke, or nothing came for too long.
        """
        try:
            return await self._reader.next()
        except _BREAKS as error:
            raise _broken(error, self._silence) from error

    async def read_all(self, most: int) -> bytes:
        """Return the whole body, or its first `most` bytes.

        Raises:
            Cut: it broke.
        """
        body = bytearray()
        while len(body) < most and (piece := await self.read()):
            body += piece
        return bytes(body[:most])

    async def aclose(self) -> None:
        """Leave it."""
        with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            try:
                await self._reader.aclose()
                await self._response.aclose()
            except (*_BREAKS, RuntimeError):
                pass  # it was to be closed; a generator that was cancelled in the middle says RuntimeError


def check_type(answer: Answer, wanted: str) -> None:
    """Raise unless an answer is of a media type, and not compressed.

    Raises:
        WireError: it is another.
    """
    content_type = answer.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != wanted:
        raise WireError(f"the server should answer with {wanted}, got {content_type[:100]!r}")
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise WireError(f"the server's answer should not be compressed, got {encoding[:100]!r}")


def _broken(error: Exception, silence: float) -> Exception:
    """Return what a broken connection is: nearly always something to come back from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return RemoteError(f"the server's certificate is not trusted: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return RemoteError(f"the request cannot be sent: {error}")
    if isinstance(error, httpx2.ReadTimeout):
        return Cut(f"nothing came for {silence:g} s")
    words = str(error) or type(error).__name__
    return Cut(words, unsent=isinstance(error, _UNSENT))
