"""Histograms that cost little to add to.

The SDK's check, copy and sort the labels of every single value; these find their row in a table. A reader is given
them beside what the SDK collects. They are cumulative and have fixed buckets: where a standard variable asks for
another form, the SDK's own are used.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from opentelemetry import metrics
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData

__all__ = ["FixedHistogram", "Histogram", "Labels", "SdkHistogram", "TellsHistograms", "sdk_is_asked_for"]

Labels = tuple[tuple[str, str], ...]
"""Names and values, cleaned and always in the same order."""


def sdk_is_asked_for(env: Mapping[str, str]) -> bool:
    """Tell whether a variable asks for deltas, or for exponential buckets."""
    temporality = env.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative").strip().lower()
    buckets = env.get("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram")
    return temporality not in ("", "cumulative") or buckets.strip().lower() not in ("", "explicit_bucket_histogram")


class Histogram(Protocol):
    """Takes values one by one."""

    def record(self, value: float, labels: Labels = ()) -> None:
        """Add a value to the row of ``labels``."""
        ...


class SdkHistogram:
    """One that the SDK keeps."""

    def __init__(self, inner: metrics.Histogram) -> None:
        self._inner = inner

    def record(self, value: float, labels: Labels = ()) -> None:
        """See ``Histogram``."""
        self._inner.record(value, dict(labels))


@dataclass(slots=True)
class _Row:
    buckets: list[int]
    since_ns: int
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")


class FixedHistogram:
    """One of ours."""

    def __init__(self, name: str, unit: str, text: str, bounds: Sequence[float]) -> None:
        self._name, self._unit, self._text, self._bounds = name, unit, text, tuple(bounds)
        self._rows: dict[Labels, _Row] = {}
        self._adding = threading.Lock()

    def record(self, value: float, labels: Labels = ()) -> None:
        """See ``Histogram``."""
        bucket = bisect_left(self._bounds, value)
        with self._adding:
            row = self._rows.get(labels)
            if row is None:
                row = self._rows[labels] = _Row([0] * (len(self._bounds) + 1), time.time_ns())
            row.buckets[bucket] += 1
            row.total += value
            row.least = min(row.least, value)
            row.most = max(row.most, value)

    def metric(self, now_ns: int) -> Metric:
        """Return all rows as they stand."""
        with self._adding:
            points = [self._point(labels, row, now_ns) for labels, row in self._rows.items()]
        return Metric(self._name, self._text, self._unit, HistogramData(points, AggregationTemporality.CUMULATIVE))

    def _point(self, labels: Labels, row: _Row, now_ns: int) -> HistogramDataPoint:
        return HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=row.since_ns,
            time_unix_nano=now_ns,
            count=sum(row.buckets),
            sum=row.total,
            bucket_counts=tuple(row.buckets),
            explicit_bounds=self._bounds,
            min=row.least,
            max=row.most,
        )


class TellsHistograms(MetricReader):
    """A reader that passes on our histograms as well; the SDK lets subclasses in just where it does."""

    histograms: Sequence[FixedHistogram] = ()

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        now_ns = time.time_ns()
        made = [metric for one in self.histograms if (metric := one.metric(now_ns)).data.data_points]
        of_resource, *rest = metrics_data.resource_metrics
        scope, *others = of_resource.scope_metrics
        scopes = [replace(scope, metrics=[*scope.metrics, *made]), *others]
        whole = replace(metrics_data, resource_metrics=[replace(of_resource, scope_metrics=scopes), *rest])
        super()._receive_metrics(whole, timeout_millis, **kwargs)  # type: ignore[safe-super]  # a mixin
