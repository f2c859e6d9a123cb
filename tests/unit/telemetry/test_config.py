"""What is sent where: OTEL_* first, then the settings."""

from typing import Any

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.settings.model import load_settings
from ekiden.shared.telemetry.config import EVENTS, TelemetryConfig, agent_tracing, telemetry_config


def config(env: dict[str, str] | None = None, **settings: Any) -> TelemetryConfig:
    return telemetry_config(load_settings(**settings), env or {})


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
BACKENDS: list[tuple[dict[str, str], dict[str, Any], str, str]] = [
    ({}, {}, "none", "none"),
    (ENDPOINT, {}, "otlp", "otlp"),
    ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, {}, "otlp", "otlp"),
    ({}, {"tracing_backend": "otlp"}, "otlp", "otlp"),
    ({}, {"tracing_backend": "opentelemetry"}, "otlp", "otlp"),
    ({}, {"tracing_backend": "console"}, "console", "none"),
    ({}, {"tracing_backend": "file"}, "file", "none"),
    (ENDPOINT, {"tracing_backend": "file"}, "file", "otlp"),
    (ENDPOINT, {"tracing_enabled": False}, "none", "otlp"),
    (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, {"tracing_backend": "console"}, "none", "otlp"),
    ({"OTEL_TRACES_EXPORTER": "console"}, {"tracing_enabled": False}, "console", "none"),
    (ENDPOINT | {"OTEL_METRICS_EXPORTER": "none"}, {}, "otlp", "none"),
    (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, {"metrics_port": 9464}, "none", "none"),
]


@pytest.mark.parametrize(("env", "settings", "traces", "metrics"), BACKENDS)
def test_chooses_backends(env: dict[str, str], settings: dict[str, Any], traces: str, metrics: str) -> None:
    found = config(env, **settings)
    assert (found.traces, found.metrics) == (traces, metrics)
    assert found.is_on == ((traces, metrics) != ("none", "none"))


def test_a_port_for_metrics_is_reason_enough() -> None:
    assert config(metrics_port=9464).is_on


@pytest.mark.parametrize(
    ("env", "rate"),
    [
        ({}, 0.5),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}, 0.1),
    ],
)
def test_the_standard_sampler_comes_first(env: dict[str, str], rate: float) -> None:
    assert config(env, tracing_sample_rate=0.5).sample_rate == rate


@pytest.mark.parametrize(("said", "on"), [("", False), ("false", False), ("true", True), ("SPAN_ONLY", True)])
def test_content_is_asked_for_by_the_conventions_variable(said: str, on: bool) -> None:
    assert config({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": said}).with_content is on


def test_says_what_cannot_be_had() -> None:
    with pytest.raises(ConfigurationError, match="OTEL_TRACES_EXPORTER is 'zipkin'"):
        config({"OTEL_TRACES_EXPORTER": "zipkin"})
    with pytest.raises(ConfigurationError, match="OTEL_TRACES_SAMPLER_ARG is '2'"):
        config({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"})


@pytest.mark.parametrize(
    ("tracing", "left"),
    [
        (None, EVENTS),
        ({"enabled": False}, frozenset()),
        ({"enabled": True}, EVENTS),
        ({"events": ["llm", "unheard of"]}, {"llm"}),
        ({"events": []}, frozenset()),
    ],
)
def test_an_agents_file_narrows_the_events(tracing: Any, left: Any) -> None:
    assert agent_tracing(tracing, EVENTS).events == left
    assert agent_tracing(tracing, frozenset({"tool"})).events == left & {"tool"}


@pytest.mark.parametrize(
    ("tracing", "events", "is_for_console"),
    [
        ({"backend": "none"}, frozenset(), False),
        ({"backend": "console", "events": ["llm"]}, frozenset({"llm"}), True),
        ({"backend": "langsmith"}, EVENTS, False),
        ({"sample_rate": 0.5}, EVENTS, False),
        ({"sample_rate": 0.4}, frozenset(), False),
        ({"sample_rate": "often"}, frozenset(), False),
        ({"sample_rate": 0}, frozenset(), False),
        ({"enabled": "no"}, frozenset(), False),
    ],
)
def test_an_agents_file_samples_and_may_only_have_itself_told_where_it_runs(
    tracing: Any, events: Any, is_for_console: bool
) -> None:
    found = agent_tracing(tracing, EVENTS, lambda rate: rate > 0.45)
    assert (found.events, found.is_for_console) == (events, is_for_console)


@pytest.mark.parametrize(
    ("env", "traces", "metrics", "says"),
    [
        ({}, "otlp", "otlp", ""),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "otlp", "otlp", ""),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "none", "none", "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "none", "none", "only http/protobuf is spoken"),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            "none",
            "otlp",
            "no traces are sent: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        ),
        (
            {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"},
            "otlp",
            "none",
            "no metrics are sent: OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            "otlp",
            "none",
            "no metrics",
        ),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SDK_DISABLED": "true"}, "none", "none", ""),
    ],
)
def test_a_protocol_that_is_not_spoken_is_told_and_nothing_is_sent(
    env: dict[str, str], traces: str, metrics: str, says: str
) -> None:
    found = config({**ENDPOINT, **env})
    assert (found.traces, found.metrics) == (traces, metrics)
    assert says in found.problem
    assert bool(says) == bool(found.problem)


def test_a_protocol_is_nobodys_business_where_nothing_is_to_be_sent() -> None:
    assert config({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}).problem == ""
