"""Puts the OpenTelemetry parts of a process together."""

import os
from collections.abc import Mapping
from dataclasses import replace

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider

from ekiden.shared.hooks.base import Hook
from ekiden.shared.prices import Prices
from ekiden.shared.redaction import Redactor
from ekiden.shared.telemetry.config import TelemetryConfig
from ekiden.shared.telemetry.counting import Counting
from ekiden.shared.telemetry.exporting import MAX_TEXT, processor_for, quiet_opentelemetry, resource_for
from ekiden.shared.telemetry.metrics import Meters
from ekiden.shared.telemetry.spans import Spans
from ekiden.shared.telemetry.tracing import Tracing
from ekiden.shared.tracing.content import Content
from ekiden.shared.tracing.mapping import QueueOf

__all__ = ["hooks_of"]


def hooks_of(
    service: str,
    config: TelemetryConfig,
    prices: Mapping[str, tuple[float, float]],
    redactor: Redactor,
    queue_of: QueueOf,
    *,
    is_host: bool,
) -> list[Hook]:
    """Return the hooks that send what ``config`` asks for. Call it after any fork: it starts threads."""
    quiet_opentelemetry()
    resource = resource_for(service, os.environ, redactor)
    hooks: list[Hook] = []
    if config.traces != "none":
        processor = processor_for(config, os.environ, redactor)
        if is_host:
            _offer(processor, resource)
        content = Content(redactor.redact_all) if config.with_content else None
        spans, told_here = Spans(processor, resource), replace(config, traces="console")

        def console() -> Spans:
            return Spans(processor_for(told_here, os.environ, redactor), resource)

        elsewhere = None if config.traces == "console" else console
        hooks.append(Tracing(spans, config.events, Prices(prices), queue_of, content, elsewhere))
    if config.metrics != "none" or config.metrics_port is not None:
        hooks.append(Counting(Meters(config, os.environ, resource, redactor.redact), Prices(prices)))
    return hooks


def _offer(processor: SpanProcessor, resource: Resource) -> None:
    """Let what other libraries trace (MCP's sessions, a tool's own spans) go the same way."""
    limits = SpanLimits(max_attribute_length=MAX_TEXT)
    provider = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
