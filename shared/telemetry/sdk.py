"""Puts the OpenTelemetry parts of a process together."""

import os
from collections.abc import Callable, Mapping

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider

from ekiden.shared.prices import Prices
from ekiden.shared.redaction import Redactor
from ekiden.shared.telemetry.config import TelemetryConfig
from ekiden.shared.telemetry.content import Content
from ekiden.shared.telemetry.exporting import MAX_TEXT, processor_for, quiet_opentelemetry, resource_for
from ekiden.shared.telemetry.metrics import Meters
from ekiden.shared.telemetry.recording import Recorder
from ekiden.shared.telemetry.spans import Spans
from ekiden.shared.telemetry.watching import TelemetrySinks

__all__ = ["recorder_for"]


def recorder_for(
    service: str,
    config: TelemetryConfig,
    prices: Mapping[str, tuple[float, float]],
    redactor: Redactor,
    *,
    is_host: bool,
) -> Recorder:
    """Return what listens to a process's relay. Call it after any fork: it starts threads."""
    quiet_opentelemetry()
    resource = resource_for(service, os.environ, redactor)
    closing: list[Callable[[], object]] = []
    spans = meters = None
    if config.traces != "none":
        processor = processor_for(config, os.environ, redactor)
        spans = Spans(processor, resource)
        closing.append(processor.shutdown)
        if is_host:
            _offer(processor, resource)
    if config.metrics != "none" or config.metrics_port is not None:
        meters = Meters(config, os.environ, resource, redactor.redact)
        closing.append(meters.close)
    content = Content(redactor) if config.with_content else None
    return Recorder(TelemetrySinks(config.events, Prices(prices), spans, meters, content), closing)


def _offer(processor: SpanProcessor, resource: Resource) -> None:
    """Let what other libraries trace (MCP's sessions, a tool's own spans) go the same way."""
    limits = SpanLimits(max_attribute_length=MAX_TEXT)
    provider = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
