"""Settings of what is traced and measured, and where that goes."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field

from ekiden.shared.settings.values import as_words

__all__ = ["TracingBackend", "TracingEvent", "TracingSettings"]

TracingEvent = Literal["route", "llm", "tool", "handoff", "guardrail"]
TracingBackend = Literal["otlp", "console", "file", "langsmith", "none"]


def _as_backend(value: Any) -> Any:
    """Take the names of the sources, too."""
    return {"opentelemetry": "otlp"}.get(value, value) if isinstance(value, str) else value


class TracingSettings(BaseModel):
    """The part of the settings that is about traces and metrics."""

    tracing_enabled: bool = True
    """Whether jobs are traced where there is somewhere to send spans to."""
    tracing_events: Annotated[list[TracingEvent], BeforeValidator(as_words)] = Field(list(get_args(TracingEvent)))
    """Which kinds of spans are made below the legs; a list, or joined by commas."""
    tracing_backend: Annotated[TracingBackend | None, BeforeValidator(_as_backend)] = None
    """Where spans go; None: by ``OTEL_*``, that is to a collector if its address is set. ``OTEL_*`` comes first."""
    tracing_sample_rate: float = Field(1.0, ge=0, le=1)
    """The share of jobs that are traced, each as a whole."""
    metrics_port: int | None = Field(None, ge=0, le=65_535)
    """Where a pool offers its metrics to Prometheus, on loopback unless ``OTEL_EXPORTER_PROMETHEUS_HOST`` says else."""
