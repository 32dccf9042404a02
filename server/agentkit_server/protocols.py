"""uvicorn's own protocol classes, and what ASGI and uvicorn lack: an abort, bounds on heads, and time limits on what a peer sends.

`HTTPProtocol` and `WebSocketProtocol` work with plain uvicorn too (`uvicorn app:app --http agentkit_server.protocols:HTTPProtocol --ws
agentkit_server.protocols:WebSocketProtocol`); `serve` adds the listening socket and the drain. They do not touch the applications'
`send` and `receive`: the hub recognises uvicorn's own.
Grounds: research of uvicorn 0.54 under stress: 64 MiB of headers taken, 300 half-sent heads kept for ever, query strings of sockets in
the log whatever `access_log` says, closing connections that wait for ever for their peer to read.
"""

import asyncio
import json
import logging
import re
from http import HTTPStatus
from typing import Any, Literal

from httptools import HttpRequestParser
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame

from agentkit_server.ending import DRAIN, Drain
from agentkit_server.light import LightEvent, LightPipeline, LightQueue
from agentkit_server.settings import Settings
from agentkit_transports.asgi import ABORT, SETTLE
from agentkit_transports.problem import MEDIA_TYPE, Problem

logger = logging.getLogger("agentkit.server.connections")
PEERS_FAULTS = (
    "ASGI callable returned without completing handshake.",
    "Invalid UTF-8 sequence received from client.",
)
"""What uvicorn calls errors: a refused handshake, and a frame that is no text. Anybody can have them said, as often as he likes."""
logger.addFilter(lambda record: record.levelno >= logging.WARNING and record.msg not in PEERS_FAULTS)
"""uvicorn's protocols say at INFO which path was asked for, with its query; `websockets` says every header and frame at DEBUG."""

MAX_DISCARDED = 16 * 1024 * 1024
"""Bytes of a refused body that are read and dropped, so that the client gets to read its 413, before the connection is."""
MAX_UNREAD_PONGS = 256 * 1024
"""Bytes that may wait in front of a socket's peer when it pings: one that sends pings and reads no pongs is cut."""
MAX_AHEAD = 32
"""Requests that a connection may send before the answer to an earlier one. uvicorn keeps all that one read brings: ten thousand, 2 KiB each."""
MAX_FRAGMENTS = 1024
"""Frames of one fragmented message: the size limit does not count empty ones."""


_OFFER = re.compile(rb"\r\nupgrade[ \t]*:[ \t]*h2c[ \t]*(?=\r\n)", re.IGNORECASE)
"""What Java's client says in its first request without TLS. The parser takes all that follows for another protocol's, the body too."""


class ServerConfig(Config):
    """uvicorn's configuration, with ours."""

    def __init__(self, app: Any, settings: Settings, **options: Any) -> None:
        super().__init__(app, **options)
        self.settings = settings
        self.drain_extension: dict[object, object] = {"register": self.register}
        self.drains: dict[Drain, None] = {}
        """What applications want awaited before the server closes, each once."""

    def register(self, drain: Drain) -> None:
        """Take an application's drain."""
        self.drains[drain] = None


def _settings_of(config: Config) -> Settings:
    return config.settings if isinstance(config, ServerConfig) else Settings()


def _extensions(config: Config, transport: asyncio.Transport) -> dict[str, dict[object, object]]:
    """Return what a scope gets from us."""
    out: dict[str, dict[object, object]] = {ABORT: {"abort": transport.abort}}
    if isinstance(config, ServerConfig):
        out[DRAIN] = config.drain_extension
    return out


class _HeadTooLargeError(Exception):
    pass


class _TooManyAheadError(Exception):
    pass


class HTTPProtocol(HttpToolsProtocol):
    """One HTTP connection: uvicorn's, with bounds."""

    _answering: RequestResponseCycle | None = None
    """What is being answered while others wait behind it: uvicorn tells the latest only that the client has left."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = logger
        self.access_log = False
        self.pipeline = LightPipeline()  # type: ignore[assignment]  # no deque, but with the methods that are called
        self._settings = _settings_of(config)
        self._awaited: Literal["", "head", "body"] = ""
        """What has begun to arrive; "" between two requests."""
        self._messages = 0
        self._head_parsed = 0
        self._head_raw = 0
        self._head_count = 0
        self._discarded = 0
        self._refusal = 400
        self._timer: asyncio.TimerHandle | None = None
        """Runs from the connection on, and while a head or a body is awaited."""
        self.drained = 0
        """How often a full buffer has drained."""
        self._is_settled = False
        """True once a request was let go while its answer goes on, and with it the parser that will hardly be needed again."""

    @property
    def is_stuck(self) -> bool:
        """True while it waits for its peer to read: to close, or to send more."""
        return self.transport.is_closing() or self.flow.write_paused

    def resume_writing(self) -> None:
        """The buffer has drained."""
        self.drained += 1
        super().resume_writing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Give the peer its time for the first head."""
        super().connection_made(transport)
        self.flow._is_writable_event = LightEvent(is_set=True)  # type: ignore[assignment]  # as the pipeline
        self._timer = self.loop.call_later(self._settings.head_timeout, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go."""
        self._stop_timer()
        super().connection_lost(exc)
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Take bytes; refuse a head that grows too large, and give head and body their time."""
        messages = self._messages
        if self._is_settled and self.parser is None:
            self.parser = HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        if not self._awaited and b"h2c" in data:
            end = data.find(b"\r\n\r\n")
            head = data if end < 0 else data[: end + 2]
            data = _OFFER.sub(b"", head, count=1) + data[len(head) :]
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._awaited == "head" and self._messages == messages:
            self._head_raw += len(data)  # no callback sees one huge header before its end
            if self._head_raw > self._settings.head_size:
                self._refuse(431)
                return
        if self._awaited and self._timer is None:
            settings = self._settings
            seconds = settings.head_timeout if self._awaited == "head" else settings.body_timeout
            self._timer = self.loop.call_later(seconds, self._late)

    def on_message_begin(self) -> None:
        """Count from zero, and give the application its abort."""
        super().on_message_begin()
        self.scope["extensions"] = _extensions(self.config, self.transport)
        self.scope["extensions"][SETTLE] = {"settle": self._settle}
        self._awaited = "head"
        self._messages += 1
        self._head_parsed = self._head_raw = self._head_count = self._discarded = 0

    def on_url(self, url: bytes) -> None:
        """Count the line."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the header. One behind the body is dropped: it may be what a proxy takes out of heads (RFC 9110 section 6.5.1)."""
        if self._awaited == "head":
            super().on_header(name, value)
        self._head_count += 1
        self._count(len(name) + len(value) + 4)

    def on_headers_complete(self) -> None:
        """The head came in time."""
        self._awaited = "body"
        self._stop_timer()
        if self.parser.get_http_version() == "1.0":
            self.app = without_chunks(self.app)  # the last request here: uvicorn keeps no such connection
        before = self.cycle
        if len(self.pipeline) >= MAX_AHEAD:
            raise _TooManyAheadError
        super().on_headers_complete()
        if self.cycle is not before:  # whose task has not begun yet
            self.cycle.message_event = LightEvent()  # type: ignore[assignment]  # as the pipeline
        if len(self.pipeline) == 1:
            self._answering = self._answering or before

    def on_response_complete(self) -> None:
        """Go on with who waits."""
        self._answering = self.pipeline[-1][0] if len(self.pipeline) > 1 else None
        super().on_response_complete()

    def on_body(self, body: bytes) -> None:
        """Hand on a body; what comes after the answer is dropped, within bounds."""
        if self._is_answered():
            self._discarded += len(body)
            if self._discarded > MAX_DISCARDED:
                self.transport.abort()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body came in time."""
        self._stop_timer()
        self._awaited = ""
        if self._is_answered():
            self.cycle.more_body = False
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over; its time limits are the socket's from now on. Not in the middle of an answer."""
        self._stop_timer()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()
            return
        self._awaited = ""
        super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        """The server closes: who is still sending a body will not be answered later either."""
        if self._awaited == "body":
            self._refuse(503)
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words; ours are a problem document
        """Answer what cannot be parsed."""
        self._refuse(self._refusal)

    def _settle(self) -> None:
        """Let go of what only the request needed, once all of it has come and nothing follows it."""
        if self._awaited or self.pipeline or self.transport.is_closing():
            return
        self._is_settled = True
        self.scope["headers"] = self.headers = []
        self.scope["extensions"] = {}
        self.parser = None  # type: ignore[assignment]  # as uvicorn at its end

    def _is_answered(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and cycle.response_complete

    def _count(self, size: int) -> None:
        self._head_parsed += size
        if self._head_parsed > self._settings.head_size or self._head_count > self._settings.head_count:
            self._refusal = 431
            raise _HeadTooLargeError

    def _late(self) -> None:
        """A head or a body did not come in time."""
        self._timer = None
        if not self._awaited:
            self.transport.close()  # it never asked for anything
        else:
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        """Answer with a problem and close. Beside another answer there is only the abort."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing():
            return
        is_answering = cycle is not None and cycle.response_started and not cycle.response_complete
        is_answered = cycle is not None and cycle.response_complete and self._awaited == "body"
        if is_answering or is_answered or self.pipeline:
            self.transport.abort()
            return
        code = HTTPStatus(status).phrase.lower().replace(" ", "_")
        body = json.dumps(Problem(status, code).body(), separators=(",", ":")).encode()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, HTTPStatus(status).phrase.encode(), MEDIA_TYPE.encode(), len(body), body)
        )
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def without_chunks(app: Any) -> Any:
    """Return `app` for a client of HTTP/1.0, which knows no chunks (RFC 9112 section 6.1): what has no length ends with its connection."""

    async def for_old_clients(scope: Any, receive: Any, send: Any) -> None:
        cycle: RequestResponseCycle = send.__self__
        is_measured = False

        async def plainly(message: Any) -> None:
            nonlocal is_measured
            if message["type"] == "http.response.start":
                headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"connection"]
                is_measured = any(name.lower() == b"content-length" for name, _ in headers)
                if not is_measured:
                    cycle.chunked_encoding = False
                message = {**message, "headers": headers}
            elif not is_measured:
                cycle.expected_content_length = len(
                    message.get("body", b"")
                )  # uvicorn lets just this piece through
            await send(message)

        await app(scope, receive, plainly)

    return for_old_clients


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket: uvicorn's, with bounds."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = self.conn.logger = logger
        self.conn.debug = False  # it would log every frame
        self.queue = LightQueue()  # type: ignore[assignment]  # without bounds, as uvicorn's, and with the methods that are called
        self.writable = LightEvent(is_set=True)  # type: ignore[assignment]  # as the queue
        self.drained = 0
        """How often a full buffer has drained."""

    @property
    def is_stuck(self) -> bool:
        """True while it waits for its peer to read: to close, or to send more."""
        return self.transport.is_closing() or not self.writable.is_set()

    def resume_writing(self) -> None:
        """The buffer has drained."""
        self.drained += 1
        super().resume_writing()

    async def run_asgi(self) -> None:
        """Run the application, with an abort in its scope."""
        self.scope["extensions"].update(_extensions(self.config, self.transport))
        self.scope["extensions"][SETTLE] = {"settle": self._settle}
        await super().run_asgi()

    def _settle(self) -> None:
        """Let go of what only the handshake needed."""
        if self.handshake_complete and not self.close_sent:
            self.request.headers.clear()
            self.response.headers.clear()
            self.scope["headers"] = []

    def send_500_response(self) -> None:
        """Answer for an application that did not; the refusal of one is an answer."""
        if not self.initial_response and not self.handshake_complete:
            logger.error("an application did not answer a handshake")
        super().send_500_response()

    def data_received(self, data: bytes) -> None:
        """Take bytes; a handshake that `websockets` refuses to parse gets an answer."""
        super().data_received(data)
        if not self.handshake_initiated and not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()

    def handle_ping(self) -> None:
        """Answer a ping, unless the peer has stopped to read."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MAX_UNREAD_PONGS:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Add a fragment."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)
