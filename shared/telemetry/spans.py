"""Hands ended spans to OpenTelemetry.

They are not made by a ``Tracer``: a job's root is begun in one process and told by another, and ids are derived. That
also costs a fraction of what a tracer's spans do. What other libraries trace while one of our spans is current becomes
its child.
"""

from contextvars import Token

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ekiden.shared.tracing.semconv import SCOPE
from ekiden.shared.tracing.spans import Link as SpanLink
from ekiden.shared.tracing.spans import Span
from ekiden.shared.version import VERSION

__all__ = ["Spans", "make_current", "take_back"]

_SCOPE = InstrumentationScope(SCOPE, VERSION)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status()
_KINDS = {1: SpanKind.INTERNAL, 3: SpanKind.CLIENT, 4: SpanKind.PRODUCER, 5: SpanKind.CONSUMER}


class Spans:
    """Where ended spans go."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource

    def write(self, span: Span) -> None:
        """Hand an ended span over."""
        parent = span.parent_id
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=_context(span, span.span_id),
                parent=None if parent is None else SpanContext(span.root.trace_id, parent, is_remote=False),
                resource=self._resource,
                attributes=span.attributes,
                events=[Event(happened.name, happened.attributes, happened.at_ns) for happened in span.events],
                links=[Link(_linked(span, link), {"ekiden.link": link.reason}) for link in span.links],
                kind=_KINDS[span.kind],
                status=_UNSET if span.error is None else Status(StatusCode.ERROR, span.error),
                start_time=span.began_ns,
                end_time=span.ended_ns,
                instrumentation_scope=_SCOPE,
            )
        )

    def close(self) -> None:
        """Send what is left."""
        self._processor.shutdown()


def make_current(span: Span) -> Token[Context]:
    """Make ``span`` the parent of what other libraries trace in this task from here on, until it is taken back."""
    return context.attach(trace.set_span_in_context(NonRecordingSpan(_context(span, span.span_id))))


def take_back(token: Token[Context]) -> None:
    """Let the span not be current any more; in the task that it was made current in."""
    context.detach(token)


def _linked(span: Span, link: SpanLink) -> SpanContext:
    trace_id = span.root.trace_id if link.trace_id is None else link.trace_id
    return SpanContext(trace_id, link.span_id, is_remote=True, trace_flags=_SAMPLED)


def _context(span: Span, span_id: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(span.root.trace_id, span_id, is_remote=is_remote, trace_flags=_SAMPLED)
