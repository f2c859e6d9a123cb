"""Journals as OTLP JSON: the spans that a collector has of the same job, made by the same mapping.

Source: the OTLP specification's JSON mapping (ids in hexadecimal, 64-bit integers as texts). Ids are the job's: a
second import adds nothing, and one into the collector that saw the job happen adds what it missed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry, Forked
from ekiden.shared.redaction import redact_all
from ekiden.shared.relay.message import queue_of_leg
from ekiden.shared.tracing import semconv
from ekiden.shared.tracing.content import Content
from ekiden.shared.tracing.mapping import JobSpans
from ekiden.shared.tracing.spans import Span
from ekiden.shared.version import VERSION

__all__ = ["job_spans", "otlp_trace"]

_ERROR = 2


def otlp_trace(
    journals: Mapping[str, Sequence[Entry]], now_ms: int, prices: Prices, *, content: bool
) -> dict[str, Any]:
    """Return the trace of a job and of those below it as OTLP/HTTP takes it.

    Args:
        journals: By job.
        now_ms: The server's clock: when what still goes on is taken to end.
        prices: For what nobody has recorded the cost of.
        content: Also what was asked, said and returned.
    """
    spans = [
        _span(span) for job, entries in journals.items() for span in job_spans(job, entries, now_ms, prices, content)
    ]
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "ekiden", "service.version": VERSION})},
                "scopeSpans": [{"scope": {"name": semconv.SCOPE, "version": VERSION}, "spans": spans}],
            }
        ]
    }


def job_spans(job: str, entries: Sequence[Entry], now_ms: int, prices: Prices, content: bool = False) -> Iterator[Span]:
    """Yield the spans of one job, the inner ones first."""
    mapping = JobSpans(job, queue_of_leg, prices, Content(redact_all) if content else None)
    forked = max((at for at, entry in enumerate(entries, 1) if isinstance(entry.record, Forked)), default=0)
    mapping.skip(entries[:forked])  # the steps of another job, whose spans they are
    for entry in entries[forked:]:
        yield from mapping.note(entry)
    yield from mapping.unfinished(now_ms)


def _span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.root.trace,
        "spanId": _hex(span.span_id),
        "parentSpanId": "" if span.parent_id is None else _hex(span.parent_id),
        "name": redact_all(span.name),
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.began_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _attributes(span.attributes),
        "events": [
            {"timeUnixNano": str(at_ns), "name": name, "attributes": _attributes(about)}
            for name, at_ns, about in span.events
        ],
        "links": [
            {
                "traceId": span.root.trace if link.trace_id is None else f"{link.trace_id:032x}",
                "spanId": _hex(link.span_id),
                "attributes": _attributes({"ekiden.link": link.reason}),
            }
            for link in span.links
        ],
        "status": {"code": _ERROR, "message": span.error} if span.error else {},
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in redact_all(dict(values)).items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case _:
            return {"stringValue": str(value)}


def _hex(span_id: int) -> str:
    return f"{span_id:016x}"
