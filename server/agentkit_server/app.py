"""`create_app`: the composition root. Agents, an engine, a hub and the routes become one ASGI application.

It can be mounted under any path of any ASGI application, whose lifespan may or may not reach it: nothing needs a start. How it ends
in order is told in `ending`; `drain` and `aclose` are there for an owner that wants it otherwise.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router, WebSocketRoute

from agentkit.agent import Agent
from agentkit.engine import Engine
from agentkit.engines.memory import MemoryEngine
from agentkit.engines.url import open_engine
from agentkit.errors import ConfigurationError
from agentkit.model import close_models
from agentkit.observe import Observer
from agentkit.redaction import Redact
from agentkit_server.auth import Auth
from agentkit_server.auth_settings import auth_from_environment
from agentkit_server.backend import SocketBackend
from agentkit_server.directory import AgentDirectory
from agentkit_server.ending import arrange
from agentkit_server.feed import LATER
from agentkit_server.measured import MeasuredEngine
from agentkit_server.metrics import Metrics
from agentkit_server.origin import PROBES, add_headers, check_host, check_origin, preflight
from agentkit_server.problems import response_of
from agentkit_server.queries import hide_queries
from agentkit_server.routes import ag_ui, ai_sdk, feeds, health, openai, page, runs, schemas, threads, tickets
from agentkit_server.routes import metrics as metrics_route
from agentkit_server.service import Service
from agentkit_server.settings import Settings
from agentkit_transports.asgi import Receive, Scope, Send
from agentkit_transports.hub import Hub, HubSettings
from agentkit_transports.problem import ProblemError
from agentkit_transports.session import SessionLimits
from agentkit_transports.websocket import WebSocketEndpoint

logger = logging.getLogger("agentkit.server")


class Application:
    """An ASGI application. It belongs to one event loop: the first that calls it."""

    def __init__(self, service: Service, metrics: Metrics, *, owns_engine: bool) -> None:
        self.service = service
        self.metrics = metrics
        self._owns_engine = owns_engine
        self._endings: list[Callable[[], Awaitable[None]]] = []
        self._is_arranged = False
        self._closed = False
        socket = WebSocketEndpoint(SocketBackend(service), limits=limits_of(service.settings))
        listed: list[Route | WebSocketRoute] = [
            *feeds.routes(service),
            *runs.routes(service),
            *threads.routes(service),
            *tickets.routes(service),
            *ag_ui.routes(service),
            *ai_sdk.routes(service),
            *openai.routes(service),
            *health.routes(service),
            *metrics_route.routes(service, metrics),
            *schemas.routes(lambda: self.routes),
            *page.routes(service),
            WebSocketRoute("/v1/ws", socket),
        ]
        self._router = Router(listed, redirect_slashes=False)

    @property
    def routes(self) -> list[BaseRoute]:
        """All that it answers."""
        return list(self._router.routes)

    @property
    def directory(self) -> AgentDirectory:
        """The agents; offer and announce others at any time."""
        return self.service.directory

    def on_close(self, ending: Callable[[], Awaitable[None]]) -> None:
        """Await `ending` in `aclose`, after the drain: for what an agent holds (a model's process). The latest goes first."""
        self._endings.append(ending)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, socket or lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if not self._is_arranged:
            self._is_arranged = True
            arrange(scope, self.drain)
        scope["app"] = self  # so that the router raises what it cannot route
        if scope["type"] == "websocket":
            with self.service.observing(scope):
                await self._router(scope, receive, send)
            return
        try:
            response = self._browsers_rules(scope)
            if response is None:
                scope[LATER] = None
                await self._router(scope, receive, send)
        except (HTTPException, ProblemError) as error:
            response = openai.not_here(error, scope) or response_of(error, scope)
            if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                response.headers["Allow"] = ", ".join(self._allowed(scope))
        if response is None:
            later = scope.pop(LATER)
            if later is not None:
                await later(scope, receive, send)
            return
        add_headers(scope, self.service.settings, response.raw_headers)
        await response(scope, receive, send)

    def _allowed(self, scope: Scope) -> list[str]:
        """Return the methods of all routes of a path: the router knows those of the first."""
        found = (
            route.methods or set()
            for route in self._router.routes
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE
        )
        return sorted(set[str]().union(*found))

    def _browsers_rules(self, scope: Scope) -> Response | None:
        """Let a request pass, or answer one that only asks what it may.

        Raises:
            ProblemError: it may not.
        """
        settings = self.service.settings
        if scope["path"].removeprefix(scope.get("root_path", "")) not in PROBES:
            check_host(scope, settings, is_open=self.service.auth.is_open)
        headers = preflight(scope, settings)
        check_origin(scope, settings)
        if headers is None:
            return None
        response = Response(status_code=204)
        response.raw_headers = list(headers)
        return response

    async def drain(self) -> None:
        """Take no new work, let runs end, say farewell to every watcher. Again changes nothing."""
        await self.service.drain()

    async def aclose(self) -> None:
        """Drain, close what `on_close` named, the models' connections, and the engine if `create_app` made it. Again changes nothing."""
        if self._closed:
            return
        self._closed = True
        await self.drain()
        for ending in reversed(self._endings):
            try:
                await ending()
            except Exception:
                logger.exception("something was not closed")
        for entry in self.directory:
            await close_models(entry.agent.models if entry.agent is not None else ())
        if self._owns_engine:
            await self.service.engine.aclose()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                try:
                    await self.aclose()
                except Exception:
                    logger.exception("the server did not end in order")
                    await send({"type": "lifespan.shutdown.failed", "message": "see the log"})
                else:
                    await send({"type": "lifespan.shutdown.complete"})
                return


def limits_of(settings: Settings) -> SessionLimits:
    """Return the bounds of a socket."""
    return SessionLimits(
        subscriptions=settings.subscriptions,
        rate=settings.frame_rate,
        burst=settings.frame_burst,
        hello_timeout=settings.hello_timeout,
    )


def _refuse_exposed(directory: AgentDirectory) -> None:
    """Let no agent write signatures and provider state where anybody may read them.

    Raises:
        ConfigurationError: one does.
    """
    for entry in directory:
        if entry.agent is not None and entry.agent.expose_provider_state:
            raise ConfigurationError(
                f"the agent {entry.name!r} has expose_provider_state, and nobody is asked who they are: give create_app an auth"
            )


def create_app(
    agents: Iterable[Agent] | AgentDirectory,
    *,
    engine: Engine | str | None = None,
    settings: Settings | None = None,
    auth: Auth | None = None,
    observers: Sequence[Observer] = (),
    redact: Redact | None = None,
) -> Application:
    """Return an ASGI application that serves agents.

    Args:
        agents: agents, the first is the default; or a directory. Copies of them live on `engine`.
        engine: where threads and logs live, an engine or its URL (`sqlite:///path`, `redis://…`); a memory engine by default.
        settings: timers and bounds; by default from the environment.
        auth: who may come and do what. By default what the environment says (see `auth_settings`); where it says nothing, anybody may do
            everything: such a server is for this machine only.
        observers: who sees every run, beside the agents' own: `agentkit.otel.OpenTelemetry()`, `RunLog()`.
        redact: asked of every event before the log and the watchers get it, after the agents' own (see `agentkit.redaction`).

    Raises:
        ConfigurationError: two agents of one name; a URL of no engine; impossible authentication in the environment; an agent that
            exposes provider state to anybody.
        EngineError: the engine's file cannot be used.
    """
    hide_queries()
    settings = settings or Settings()
    auth = auth or auth_from_environment()
    directory = agents if isinstance(agents, AgentDirectory) else AgentDirectory(agents)
    if auth.is_open:
        _refuse_exposed(directory)
    kept = open_engine(engine) if isinstance(engine, str) else engine or MemoryEngine()
    measured, metrics = MeasuredEngine(kept), Metrics()
    directory.bind(measured, observers=(*observers, metrics), redact=redact)
    hub = Hub(
        measured.log,
        settings=HubSettings(
            heartbeat=settings.heartbeat,
            send_timeout=settings.send_timeout,
            lag_records=settings.lag_records,
            lag_timeout=settings.lag_timeout,
            retry_ms=settings.retry_ms,
        ),
    )
    service = Service(
        directory,
        measured,
        hub,
        settings,
        auth=auth,
        observers=observers,
        redact=redact,
    )
    metrics.watch(service, measured.timings)
    return Application(service, metrics, owns_engine=kept is not engine)
