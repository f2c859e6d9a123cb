"""Our encoding of spans is OpenTelemetry's, field by field."""

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState

from ekiden.shared.telemetry.identity import Root
from ekiden.shared.telemetry.protobuf import encoded
from ekiden.shared.telemetry.spans import Span, Spans
from tests.unit.telemetry.test_recording import Kept

ROOT = Root(2**127 + 5, 2**63 + 3, sampled=True)


def ours(*spans: Span, resource: Resource | None = None) -> list[ReadableSpan]:
    """The spans as they leave."""
    kept = Kept()
    writer = Spans(kept, resource or Resource({"service.name": "ekiden", "n": 3}, "https://schema"))
    for span in spans:
        writer.write(span)
    return kept.spans


def assert_same(spans: list[ReadableSpan]) -> None:
    assert ExportTraceServiceRequest.FromString(encoded(spans)) == encode_spans(spans)


@pytest.mark.parametrize(
    "value",
    [
        *("", "a", "x" * 63, "x" * 64, "x" * 65, "x" * 20_000, "駅伝 ☕"),
        *(0, 1, -1, 127, 128, 2**31, 2**63 - 1, -(2**63)),
        *(True, False, 0.0, 1.0, -0.0, 1.5, float("inf")),
        *((), ("a", "b"), (1, 2), (True,), (0.5,), b"\x00\xff"),
    ],
)
def test_every_kind_of_value_is_encoded_alike(value: Any) -> None:
    assert_same(ours(Span(ROOT, "chat", None, {"value": value, "again": value})))


def test_equal_values_of_different_kinds_are_told_apart() -> None:
    for _ in range(2):  # the second time they are remembered
        assert_same(ours(Span(ROOT, "chat", None, {"a": True, "b": 1, "c": 1.0, "d": 0, "e": False, "f": 0.0})))
        assert_same(ours(Span(ROOT, "chat", None, {"a": 1, "b": 1.0, "c": True, "d": False, "e": 0.0, "f": 0})))


@pytest.mark.parametrize("kind", list(SpanKind))
def test_events_links_errors_and_parents_are_encoded_alike(kind: SpanKind) -> None:
    whole = Span(ROOT, "process q", 2**63, {"a": 1}, kind)
    whole.link(7, "send")
    whole.event("ekiden.retry", {})
    whole.raised(ValueError("no"))
    assert_same(ours(whole, Span(ROOT, "", None, {}, kind), Span(ROOT, "again", 1, {}, kind)))


def test_spans_of_several_resources_and_scopes_are_grouped_alike() -> None:
    other = ours(Span(ROOT, "b", None, {}), resource=Resource({"service.name": "other"}))
    kept = Kept()
    provider = TracerProvider(resource=Resource({"service.name": "tool"}))
    provider.add_span_processor(kept)
    tracer = provider.get_tracer("mcp", "1.2", "https://schema", {"a": "b"})
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner", attributes={"n": 1}):
        pass
    assert_same([*ours(Span(ROOT, "a", None, {})), *other, *kept.spans])


def test_what_others_put_into_a_trace_is_encoded_alike() -> None:
    state = TraceState([("vendor", "1"), ("other", "2")])
    context = SpanContext(9, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    assert_same([ReadableSpan("x", context=context, parent=context, resource=Resource({}), start_time=1, end_time=2)])


def test_half_a_surrogate_pair_does_not_stop_the_batch() -> None:
    request = ExportTraceServiceRequest.FromString(encoded(ours(Span(ROOT, "chat", None, {"said": "half \ud83d"}))))
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert span.attributes[0].value.string_value == "half ?"
