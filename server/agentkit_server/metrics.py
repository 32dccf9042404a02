"""Metrics in Prometheus' words: counted where a run, a step and a call end, and looked up where they are asked for.

Nothing here is touched by a delta. Labels are names of the operator's (agents, models, tools) and never of a client's (threads, owners,
runs): their number stays small, and a scrape tells nothing of who asked what.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from agentkit.errors import AgentKitError
from agentkit.observe import CallSight, Observer, RunSight, StepSight
from agentkit_server.measured import BOUNDS, Timings
from agentkit_server.origin import is_rebound
from agentkit_server.service import Service
from agentkit_transports.asgi import Receive, Scope, Send
from agentkit_transports.hub import HubStats

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)
"""From a tool that looks something up to a model that thinks for minutes."""
_MODEL: Final = ("agent", "provider", "model")
_STATS: Final = {
    "encoded": ("agentkit_feed_records_encoded", "Records put into a protocol's bytes, once for each view."),
    "written": ("agentkit_feed_writes", "Batches handed to connections."),
    "tasks": ("agentkit_feed_reader_tasks", "Times that a reader had to be waited for."),
    "gaps": ("agentkit_feed_gaps", "Gaps told: records that a reader can have no more."),
    "cuts": ("agentkit_feed_cuts", "Readers cut because they did not keep up."),
    "replays": ("agentkit_feed_replays", "Readers that came back with a cursor and missed nothing."),
    "merged": ("agentkit_feed_records_merged", "Records merged into others for readers far behind."),
}


class Metrics(Observer):
    """One server's metrics. Its registry is its own: two servers in a process do not add up."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._runs = Counter(
            "agentkit_runs",
            "Runs that ended, by how; suspended ones come again.",
            ("agent", "end"),
            registry=registry,
        )
        self._run_seconds = Histogram(
            "agentkit_run_seconds",
            "From a run's start, waiting for its thread included, to its end.",
            ("agent",),
            buckets=SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "agentkit_tokens",
            "Tokens as providers count them; input holds the cached, output the reasoning.",
            (*_MODEL, "kind"),
            registry=registry,
        )
        self._first_reasoning = Histogram(
            "agentkit_first_reasoning_seconds",
            "From a model request to its first reasoning.",
            _MODEL,
            buckets=SECONDS,
            registry=registry,
        )
        self._first_text = Histogram(
            "agentkit_first_text_seconds",
            "From a model request to its first visible text.",
            _MODEL,
            buckets=SECONDS,
            registry=registry,
        )
        self._steps = Histogram(
            "agentkit_step_seconds",
            "Model requests, retries included.",
            (*_MODEL, "outcome"),
            buckets=SECONDS,
            registry=registry,
        )
        self._tools = Histogram(
            "agentkit_tool_seconds",
            "Tools at work.",
            ("agent", "tool", "status"),
            buckets=SECONDS,
            registry=registry,
        )

    def watch(self, service: Service, timings: Timings) -> None:
        """Look up a server's readers, runs and engine whenever somebody asks."""
        self.registry.register(_Lookup(service, timings))

    def text(self) -> bytes:
        """Return all of it in the text format, of `MEDIA_TYPE`. Asked in the loop that serves."""
        return generate_latest(self.registry)

    def run(self, sight: RunSight) -> AbstractContextManager[object]:
        """Count a run where it ends."""
        return self._run(sight)

    @contextmanager
    def _run(self, sight: RunSight) -> Iterator[None]:
        yield
        self._runs.labels(sight.agent, sight.end or "failed").inc()
        self._run_seconds.labels(sight.agent).observe(sight.ended - sight.began)

    def step(self, sight: StepSight) -> AbstractContextManager[object]:
        """Count a model request where it ends."""
        return self._step(sight)

    @contextmanager
    def _step(self, sight: StepSight) -> Iterator[None]:
        yield
        model = (sight.run.agent, sight.origin.provider, sight.origin.model)
        self._steps.labels(*model, _outcome(sight.error)).observe(sight.ended - sight.began)
        if sight.first_reasoning is not None:
            self._first_reasoning.labels(*model).observe(sight.first_reasoning - sight.began)
        if sight.first_text is not None:
            self._first_text.labels(*model).observe(sight.first_text - sight.began)
        usage = sight.usage
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ):
            if tokens > 0:
                self._tokens.labels(*model, kind).inc(tokens)

    def call(self, sight: CallSight) -> AbstractContextManager[object]:
        """Count a tool where it ends."""
        return self._call(sight)

    @contextmanager
    def _call(self, sight: CallSight) -> Iterator[None]:
        yield
        status = sight.result.status if sight.result is not None else "interrupted"
        self._tools.labels(sight.run.agent, sight.name, status).observe(sight.ended - sight.began)


def _outcome(error: BaseException | None) -> str:
    match error:
        case None:
            return "ok"
        case AgentKitError():
            return error.code
        case Exception():
            return "internal"
        case _:
            return "cancelled"


class _Lookup(Collector):
    """What is known anyhow, read at the moment of a scrape."""

    def __init__(self, service: Service, timings: Timings) -> None:
        self._service = service
        self._timings = timings

    def collect(self) -> Iterable[Metric]:
        service, hub = self._service, self._service.hub
        census = hub.census()
        yield GaugeMetricFamily("agentkit_runs_going", "Runs that go on in this process.", service.going)
        yield GaugeMetricFamily("agentkit_draining", "1 while the server stops.", int(service.draining))
        yield GaugeMetricFamily("agentkit_topics", "Threads that somebody watches here.", hub.topics)
        connections = GaugeMetricFamily(
            "agentkit_connections", "Open streams and sockets.", labels=("transport",)
        )
        for transport in ("sse", "websocket"):
            connections.add_metric((transport,), census.connections[transport])
        yield connections
        readers = GaugeMetricFamily(
            "agentkit_readers", "Feeds that are read: a socket may have several.", labels=("protocol",)
        )
        for protocol, count in sorted(census.readers.items()):
            readers.add_metric((protocol,), count)
        yield readers
        yield GaugeMetricFamily(
            "agentkit_readers_behind",
            "Feeds that have records to catch up with.",
            sum(map(bool, census.lags)),
        )
        yield GaugeMetricFamily(
            "agentkit_reader_lag_records", "Records between the last reader and its log's end.",
            max(census.lags, default=0),
        )  # fmt: skip
        yield from self._stats(hub.stats)
        yield from self._engine()

    def _stats(self, stats: HubStats) -> Iterator[Metric]:
        counted = asdict(stats)
        for name, (metric, said) in _STATS.items():
            yield CounterMetricFamily(metric, said, value=counted[name])

    def _engine(self) -> Iterator[Metric]:
        seconds = HistogramMetricFamily(
            "agentkit_engine_seconds", "What the engine was asked to do.", labels=("operation",)
        )
        errors = CounterMetricFamily(
            "agentkit_engine_errors", "What the engine did not do.", labels=("operation",)
        )
        for name, timing in sorted(self._timings.items()):
            sums = list(accumulate(timing.counts))
            bounds = [*map(str, BOUNDS), "+Inf"]
            seconds.add_metric((name,), list(zip(bounds, map(float, sums), strict=True)), timing.total)
            errors.add_metric((name,), timing.errors)
        yield seconds
        yield errors


class MetricsApp:
    """An ASGI application that answers `GET /metrics` to everybody: for a listener that only the right ones reach."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; none that a page sends whose name was pointed at this machine."""
        if [name for name, _ in scope["headers"]].count(b"host") > 1 or is_rebound(scope):
            response = Response("this listener has another name\n", 421, media_type="text/plain")
        elif scope["path"] == "/metrics" and scope["method"] in ("GET", "HEAD"):
            response = Response(self._metrics.text(), headers={"Content-Type": MEDIA_TYPE})
        else:
            response = Response("metrics are at /metrics\n", 404, media_type="text/plain")
        await response(scope, receive, send)
