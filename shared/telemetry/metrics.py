"""Metrics: over OTLP, and for Prometheus to fetch. The one place that names them."""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from socket import SHUT_RDWR
from typing import Any

from opentelemetry.metrics import Histogram, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource

from ekiden.shared.late_logger import LateLogger
from ekiden.shared.messages import Usage
from ekiden.shared.telemetry.collector_status import CollectorStatus
from ekiden.shared.telemetry.config import TelemetryConfig
from ekiden.shared.telemetry.exporting import timeout_s
from ekiden.shared.tracing.semconv import (
    AGENT,
    ERROR,
    OPERATION,
    PROVIDER,
    REQUEST_MODEL,
    SCOPE,
    TOKEN_TYPE,
    TOOL,
    operation_of,
    provider_of,
)
from ekiden.shared.version import VERSION

__all__ = ["Meters"]

EXPORT_EVERY_MS = 10_000.0
_DURATIONS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Buckets that the GenAI conventions ask for."""

Labels = tuple[tuple[str, str], ...]
"""Names and values, always in the same order."""

log = LateLogger(__name__)


class Meters:
    """The instruments; each method is one thing that happened. Labels are names, never texts."""

    def __init__(
        self, config: TelemetryConfig, env: Mapping[str, str], resource: Resource, clean: Callable[[str], str]
    ):
        self._cleaned = lru_cache(maxsize=4_096)(_cleaning(clean))
        self._server: Any = None
        self._adding = threading.Lock()
        self._provider = MeterProvider(self._readers(config, env), resource, shutdown_on_exit=False)
        meter = self._provider.get_meter(SCOPE, VERSION)

        def histogram(name: str, unit: str, text: str, bounds: Sequence[float] = _DURATIONS_S) -> Histogram:
            return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        self._durations = histogram("gen_ai.client.operation.duration", "s", "Model calls.")
        self._usage = histogram("gen_ai.client.token.usage", "{token}", "Tokens of a model call.", _TOKENS)
        self._waits = histogram("ekiden.queue.wait", "s", "From a leg's readiness to its claim.")
        self._lives = histogram("ekiden.job.duration", "s", "From submit to end.")
        self._depth = meter.create_gauge("ekiden.queue.depth", "{leg}", "Legs that wait for a worker.")
        self._age = meter.create_gauge("ekiden.queue.age", "s", "How long the oldest of them has waited.")
        self._suspended = meter.create_gauge("ekiden.jobs.suspended", "{job}", "Jobs that wait without a worker.")
        self._circuits = meter.create_gauge("ekiden.model.circuit", "{circuit}", "1: nobody asks the model now.")
        self._seen_open: set[str] = set()
        self._late = histogram("ekiden.leases.renewed_late", "s", "By how much renewals came too late.")
        self._model_waits = histogram(
            "ekiden.model.waits", "s", "Pauses of legs because a model is away or limits the rate."
        )
        self._totals: dict[str, dict[Labels, float]] = {}
        for name, (unit, text) in _TOTALS.items():
            totals = self._totals[name] = {}
            make = meter.create_observable_up_down_counter if name in _UP_AND_DOWN else meter.create_observable_counter
            make(f"ekiden.{name}", [_observer(totals)], unit, text)

    def count(self, what: str, by: float = 1, /, **labels: str) -> None:
        """Add to one of ``_TOTALS``: kept here until somebody asks, at a tenth of what a counter's ``add`` costs."""
        totals = self._totals[what]
        key = self._cleaned(tuple(labels.items()))
        with self._adding:
            totals[key] = totals.get(key, 0) + by

    def model_called(self, agent: str, asked: str, took_s: float, error: str | None) -> None:
        """Take note of a model call."""
        failed = ((ERROR, error),) if error else ()
        self._durations.record(took_s, self._labels(*_model_labels(asked), (AGENT, agent), *failed))

    def tokens_used(self, agent: str, model: str, usage: Usage, cost_usd: float | None) -> None:
        """Take note of what a reply took."""
        labels = _model_labels(model)
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self._usage.record(tokens, self._labels(*labels, (TOKEN_TYPE, kind)))
            self.count("tokens", tokens, agent=agent, model=model, type=kind)
        if cost_usd is not None:
            self.count("cost", cost_usd, agent=agent, model=model)

    def tool_called(self, agent: str, tool: str, outcome: str) -> None:
        """Take note of a tool call: ``success`` or ``error``."""
        self.count("tool.calls", agent=agent, outcome=outcome, **{TOOL: tool})

    def leg_begun(self, agent: str) -> None:
        """Take note of a claim."""
        self.count("legs.in_flight", 1, agent=agent)

    def leg_left(self, agent: str) -> None:
        """Take note that a leg does not run any more."""
        self.count("legs.in_flight", -1, agent=agent)

    def waited(self, agent: str, wait_s: float) -> None:
        """Take note of how long a leg waited for a worker."""
        self._waits.record(wait_s, self._labels(("agent", agent)))

    def model_waited(self, agent: str, delay_s: float) -> None:
        """Take note of a pause that a model asked for."""
        self._model_waits.record(delay_s, self._labels(("agent", agent)))

    def job_ended(self, status: str, reason: str, took_s: float) -> None:
        """Take note of the end of a job."""
        self.count("jobs.ended", status=status, reason=reason)
        self._lives.record(took_s, {"status": status})

    def renewed_late(self, late_s: float) -> None:
        """Take note of leases that were renewed late."""
        self._late.record(late_s)

    def queue(self, agent: str, depth: int, age_s: float) -> None:
        """Take note of a queue's state."""
        labels = self._labels(("agent", agent))
        self._depth.set(depth, labels)
        self._age.set(age_s, labels)

    def suspended(self, cause: str, jobs: int) -> None:
        """Take note of how many jobs are suspended for ``cause``."""
        self._suspended.set(jobs, {"cause": cause})

    def circuits(self, models: Sequence[str]) -> None:
        """Take note of the models that nobody asks for a while."""
        self._seen_open |= set(models)
        for model in self._seen_open:
            self._circuits.set(int(model in models), self._labels(*_model_labels(model)))

    def close(self) -> None:
        """Send what is left, and stop offering it."""
        self._provider.shutdown()
        if self._server is not None:
            with suppress(OSError):  # it is not of every system
                self._server.socket.shutdown(SHUT_RDWR)  # else its thread looks up after half a second only
            self._server.shutdown()
            self._server.server_close()

    def _labels(self, *labels: tuple[str, str]) -> dict[str, str]:
        return dict(self._cleaned(labels))

    def _readers(self, config: TelemetryConfig, env: Mapping[str, str]) -> list[MetricReader]:
        readers: list[MetricReader] = []
        if config.metrics in ("otlp", "console"):
            every_ms = None if "OTEL_METRIC_EXPORT_INTERVAL" in env else EXPORT_EVERY_MS
            readers.append(PeriodicExportingMetricReader(_exporter(config, env), every_ms))
        if config.metrics_port is not None:
            readers += self._prometheus(config.metrics_port, env)
        return readers

    def _prometheus(self, port: int, env: Mapping[str, str]) -> list[MetricReader]:
        """Offer the metrics at ``port``; where it is taken, say so and go on: no job is worth less for it."""
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        host = env.get("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
        try:
            self._server, _ = start_http_server(port, host, registry)
        except OSError as error:
            hint = "give each pool of this machine a port of its own"
            log.error("metrics_not_offered", host=host, port=port, problem=error.strerror, hint=hint)
            return []
        log.info("metrics_offered", host=host, port=self._server.server_port)
        return [PrometheusMetricReader(registry=registry)]


_TOTALS: dict[str, tuple[str, str]] = {
    "tokens": ("{token}", "Tokens by model and agent."),
    "cost": ("USD", "What the tokens cost, as far as prices are known."),
    "legs.in_flight": ("{leg}", "Legs that run now."),
    "jobs.ended": ("{job}", "Ends of jobs by status and reason; dead letters have the status dead."),
    "turns": ("{turn}", "Model replies."),
    "handoffs": ("{handoff}", "Handoffs from agent to agent."),
    "graph.edges": ("{edge}", "Edges of graphs that were taken, from node to node."),
    "handoffs.refused": ("{handoff}", "Handoffs that were refused, by code."),
    "routes": ("{job}", "Choices of the first agent, by stage."),
    "tool.calls": ("{call}", "Tool calls by outcome."),
    "legs.suspended": ("{leg}", "Legs that gave up their worker, by cause."),
    "legs.last_turns": ("{leg}", "Last turns of legs that reached a limit, by agent and reason."),
    "legs.recovered": ("{leg}", "Legs that gave a result in their last turn, by agent and reason."),
    "guardrails": ("{check}", "What guardrails have said, by agent, guardrail, place and status."),
    "recoveries": ("{leg}", "Legs that were taken over from a worker that died."),
    "messages.republished": ("{message}", "Wake-ups that had to be pushed again."),
}

_UP_AND_DOWN = {"legs.in_flight"}


@lru_cache
def _model_labels(model: str) -> Labels:
    return (OPERATION, operation_of(model)), (PROVIDER, provider_of(model)), (REQUEST_MODEL, model)


def _cleaning(clean: Callable[[str], str]) -> Callable[[Labels], Labels]:
    return lambda labels: tuple((name, clean(value)) for name, value in labels)


def _observer(totals: Mapping[Labels, float]) -> Callable[[Any], Iterable[Observation]]:
    return lambda _: [Observation(value, dict(labels)) for labels, value in list(totals.items())]


def _exporter(config: TelemetryConfig, env: Mapping[str, str]) -> MetricExporter:
    if config.metrics == "console":
        return ConsoleMetricExporter(sys.stderr, formatter=lambda data: data.to_json(indent=None) + os.linesep)
    from ekiden.shared.telemetry.otlp import MetricsOverHttp

    exporter = MetricsOverHttp(endpoint=config.address("metrics"), timeout=timeout_s(env, "METRICS"))
    if config.traces not in ("otlp", "langsmith"):
        exporter.presence = CollectorStatus("metrics come late")
    return exporter
