"""Metrics, as Prometheus fetches them."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ekiden.shared.composition import hooks_for
from ekiden.shared.hooks.base import Hooks, QueueGauge
from ekiden.shared.messages import Usage
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.settings.model import load_settings
from ekiden.shared.telemetry.config import telemetry_config
from ekiden.shared.telemetry.exporting import resource_for
from ekiden.shared.telemetry.metrics import Meters


@pytest.fixture
def meters() -> Iterator[tuple[Meters, str]]:
    port = free_port()
    config = telemetry_config(load_settings(metrics_port=port), {})
    redactor = configure_redaction(["bad-name-[0-9]+"])
    made = Meters(config, {}, resource_for("test", {}, redactor), redactor.redact)
    yield made, f"http://127.0.0.1:{port}/metrics"
    made.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def fetched(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {without_scope(name): float(value) for name, value in samples}


def without_scope(sample: str) -> str:
    name, _, labels = sample.partition("{")
    kept = sorted(label for label in labels.rstrip("}").split(",") if label and not label.startswith("otel_scope"))
    return f"{name}{{{','.join(kept)}}}"


def test_prometheus_fetches_what_happened(meters: tuple[Meters, str]) -> None:
    made, url = meters
    made.count("handoffs", source="a", target="b")
    made.count("handoffs", source="a", target="b")
    made.leg_begun("a")
    made.leg_begun("a")
    made.leg_left("a")
    made.tokens_used("a", "gemini-2.5-flash", Usage(input_tokens=7, output_tokens=2), 0.25)
    made.tool_called("a", "look", "error")
    made.job_ended("dead", "ERROR", 3.0)
    made.queue("a", 4, 1.5)
    seen = fetched(url)
    assert seen['ekiden_handoffs_total{source="a",target="b"}'] == 2
    assert seen['ekiden_legs_in_flight{agent="a"}'] == 1
    assert seen['ekiden_tokens_total{agent="a",model="gemini-2.5-flash",type="input"}'] == 7
    assert seen['ekiden_cost_USD_total{agent="a",model="gemini-2.5-flash"}'] == 0.25
    assert seen['ekiden_tool_calls_total{agent="a",gen_ai_tool_name="look",outcome="error"}'] == 1
    assert seen['ekiden_jobs_ended_total{reason="ERROR",status="dead"}'] == 1
    assert seen['ekiden_queue_depth{agent="a"}'] == 4
    assert seen['ekiden_queue_age_seconds{agent="a"}'] == 1.5


def test_no_secret_is_a_label(meters: tuple[Meters, str]) -> None:
    made, url = meters
    made.tool_called("bad-name-1", "bad-name-2", "success")
    made.tool_called("bad-name-3", "bad-name-4", "success")
    seen = fetched(url)
    assert seen['ekiden_tool_calls_total{agent="[redacted]",gen_ai_tool_name="[redacted]",outcome="success"}'] == 2
    assert not [sample for sample in seen if "bad-name" in sample]


def test_a_process_offers_its_metrics_until_it_stops() -> None:
    port = free_port()
    hooks = Hooks(*hooks_for("ekiden-worker", load_settings(metrics_port=port)))
    try:
        assert hooks.hears("queues_seen")
        hooks.queues_seen([QueueGauge("a", 3, 0.0)])
        assert fetched(f"http://127.0.0.1:{port}/metrics")['ekiden_queue_depth{agent="a"}'] == 3
    finally:
        hooks.close()
    with pytest.raises(OSError):  # noqa: PT011  # nobody listens any more
        fetched(f"http://127.0.0.1:{port}/metrics")


def test_a_port_that_is_taken_stops_nobody() -> None:
    with socket.socket() as taken, capture_logs() as logs:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        Hooks(*hooks_for("ekiden-worker", load_settings(metrics_port=taken.getsockname()[1]))).close()
    assert [log["event"] for log in logs] == ["metrics_not_offered"]
