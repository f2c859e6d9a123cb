"""What a collector is sent."""

from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from ekiden.shared.telemetry.otlp import SpansOverHttp
from ekiden.shared.telemetry.spans import Spans
from ekiden.shared.tracing.trace_ids import Root
from tests.doubles.otlp import OtlpReceiver
from tests.unit.telemetry.spans import Kept, span

ROOT = Root(5, 6, sampled=True)


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def spans() -> list[ReadableSpan]:
    kept = Kept()
    Spans(kept, Resource({"service.name": "test"})).write(span(ROOT, "chat m", 7, {"gen_ai.agent.name": "a"}))
    return kept.spans


def test_spans_go_the_way_of_the_sdks_exporter(receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    assert SpansOverHttp().export(spans()) is SpanExportResult.SUCCESS
    (seen,) = receiver.spans
    assert (seen.name, seen.attributes, seen.resource) == (
        "chat m",
        {"gen_ai.agent.name": "a"},
        {"service.name": "test"},
    )


def test_a_collector_that_refuses_is_a_failure(receiver: OtlpReceiver) -> None:
    receiver.mode = "refusing"
    exporter = SpansOverHttp(endpoint=f"{receiver.url}/v1/traces", timeout=0.2)
    assert exporter.export(spans()) is SpanExportResult.FAILURE


def test_an_sdk_that_keeps_its_client_elsewhere_encodes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = SpansOverHttp(endpoint="http://127.0.0.1:9/v1/traces")
    sent: list[ReadableSpan] = []
    monkeypatch.delattr(exporter, "_client")
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda _, spans: sent.extend(spans))
    exporter.export(spans())
    assert [span.name for span in sent] == ["chat m"]
