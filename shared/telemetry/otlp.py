"""What sends to a collector: OpenTelemetry's exporters over OTLP/HTTP, with an encoding of our own for spans.

Imported only by processes that have a collector.
"""

from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from ekiden.shared.telemetry.collector_status import CollectorStatus
from ekiden.shared.telemetry.protobuf import encoded

__all__ = ["MetricsOverHttp", "SpansOverHttp"]


class SpansOverHttp(OTLPSpanExporter):
    """Sends spans as the SDK's exporter does (addresses, headers, TLS, retries), encoded at a fraction of the cost."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans."""
        client = getattr(self, "_client", None)
        if client is None:  # another version of the SDK, which keeps it elsewhere: let it encode them, too
            return super().export(spans)
        return SpanExportResult.SUCCESS if client.export(encoded(spans)).success else SpanExportResult.FAILURE


class MetricsOverHttp(OTLPMetricExporter):
    """Sends metrics; says once that the collector is away."""

    presence: CollectorStatus | None = None
    """Who says it; None: the spans' exporter does."""

    def export(self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any) -> Any:
        """Send the metrics."""
        result = super().export(metrics_data, timeout_millis, **kwargs)
        if self.presence is not None:
            self.presence.note(is_away=result is not MetricExportResult.SUCCESS)
        return result
