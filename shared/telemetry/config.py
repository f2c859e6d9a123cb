"""What is asked for: the standard ``OTEL_*`` variables first, then the settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.settings.model import Settings
from ekiden.shared.settings.tracing import TracingBackend, TracingEvent

__all__ = ["EVENTS", "AgentTracing", "TelemetryConfig", "agent_tracing", "telemetry_config"]

EVENTS: frozenset[TracingEvent] = frozenset(get_args(TracingEvent))
LANGSMITH = "https://api.smith.langchain.com/otel"
_SPOKEN = "http/protobuf"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True)
class TelemetryConfig:
    """What a process sends where."""

    traces: TracingBackend
    metrics: TracingBackend
    """``otlp``, ``console`` or ``none``."""
    sample_rate: float
    events: frozenset[TracingEvent]
    with_content: bool
    """Whether prompts, replies, arguments and results go along."""
    metrics_port: int | None
    traces_file: Path
    problem: str = ""
    """What was asked for and is not sent, and what to do; empty: nothing."""

    @property
    def is_on(self) -> bool:
        """Whether there is anything to do at all."""
        return self.traces != "none" or self.metrics != "none" or self.metrics_port is not None

    def address(self, signal: str) -> str | None:
        """Return where to send a ``signal`` (``traces``, ``metrics``); None: where the exporter's variables say."""
        return f"{LANGSMITH}/v1/{signal}" if self.traces == "langsmith" else None


def telemetry_config(settings: Settings, env: Mapping[str, str]) -> TelemetryConfig:
    """Return what ``env`` and ``settings`` ask for. Raises ``ConfigurationError`` for what cannot be had."""
    is_off = env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    traces = "none" if is_off else _traces(settings, env)
    metrics = "none" if is_off else _metrics(traces, env)
    problem = ""
    if traces == "otlp" and (why := _unspoken("TRACES", env)):
        traces, problem = "none", f"no traces are sent: {why}"
    if metrics == "otlp" and (why := _unspoken("METRICS", env)):
        metrics, problem = "none", problem or f"no metrics are sent: {why}"
    return TelemetryConfig(
        traces=traces,
        metrics=metrics,
        sample_rate=_sample_rate(settings, env),
        events=frozenset(settings.tracing_events),
        with_content=_is_true(env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")),
        metrics_port=None if is_off else settings.metrics_port,
        traces_file=settings.data_dir / "traces.jsonl",
        problem=problem,
    )


@dataclass(frozen=True)
class AgentTracing:
    """What an agent's front matter (``tracing: {enabled, events, backend, sample_rate}``) says of its tracing."""

    events: frozenset[TracingEvent]
    """What is told of it: none of what the process does not tell."""
    is_for_console: bool = False
    """Whether people are to read it where the worker runs. Nothing else of where spans go is a file's to say."""


def agent_tracing(
    tracing: Any, allowed: frozenset[TracingEvent], is_below: Callable[[float], bool] = lambda rate: rate > 0
) -> AgentTracing:
    """Return what a file leaves of ``allowed``. What cannot be read tells nothing.

    ``is_below``: whether the job is among the share of jobs that it is asked for.
    """
    said = tracing if isinstance(tracing, dict) else {"enabled": tracing is not False}
    rate, backend = said.get("sample_rate", 1.0), str(said.get("backend", "")).lower()
    is_rate = isinstance(rate, int | float) and not isinstance(rate, bool)
    if said.get("enabled", True) is not True or backend == "none" or not is_rate or not (rate >= 1 or is_below(rate)):
        return AgentTracing(frozenset())
    events = said.get("events")
    told = allowed & frozenset(events) if isinstance(events, list) else allowed
    return AgentTracing(told, backend == "console")


def _traces(settings: Settings, env: Mapping[str, str]) -> TracingBackend:
    if said := env.get("OTEL_TRACES_EXPORTER", "").strip().lower():
        return _known("OTEL_TRACES_EXPORTER", said)
    if not settings.tracing_enabled:
        return "none"
    if settings.tracing_backend is not None:
        return settings.tracing_backend
    return "otlp" if env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or env.get(_ENDPOINT) else "none"


def _metrics(traces: TracingBackend, env: Mapping[str, str]) -> TracingBackend:
    if said := env.get("OTEL_METRICS_EXPORTER", "").strip().lower():
        return "none" if said == "prometheus" else _known("OTEL_METRICS_EXPORTER", said)  # that is --metrics-port
    if env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") or env.get(_ENDPOINT):
        return "otlp"
    return "otlp" if traces == "otlp" else "none"


def _unspoken(signal: str, env: Mapping[str, str]) -> str:
    """Say which protocol is asked for that we do not speak; it may be meant for other programs, so it stops nobody."""
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if said := env.get(variable, "").strip():
            return (
                ""
                if said.lower() == _SPOKEN
                else f"{variable} is {said!r}, and only {_SPOKEN} is spoken here: set it to that, and the address to "
                "the collector's port for it, usually 4318"
            )
    return ""


def _known(variable: str, said: str) -> TracingBackend:
    if said not in ("otlp", "console", "none"):
        raise ConfigurationError(f"{variable} is {said!r}: expected 'otlp', 'console' or 'none'")
    return cast(TracingBackend, said)


def _sample_rate(settings: Settings, env: Mapping[str, str]) -> float:
    sampler = env.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    if sampler == "traceidratio":
        return _rate(env.get("OTEL_TRACES_SAMPLER_ARG", "1"))
    named = {"always_on": 1.0, "always_off": 0.0}
    return named.get(sampler, settings.tracing_sample_rate if settings.tracing_enabled else 0.0)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise ConfigurationError(f"OTEL_TRACES_SAMPLER_ARG is {text!r}: expected a number from 0 to 1")
    return rate


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("true", "1", "span_only", "span_and_event")
