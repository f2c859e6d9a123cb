"""Spans under ids of our own choosing, handed to OpenTelemetry when they have ended.

Not made by a ``Tracer``: a job's root is begun in one process and recorded in another, and ids are derived
(identity.py). That also costs a fraction of what a tracer's spans do. What other libraries trace while one of our spans
is current becomes its child.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ekiden.shared.telemetry.identity import Root, draw_id
from ekiden.shared.telemetry.names import ERROR, SCOPE
from ekiden.shared.version import VERSION

__all__ = ["Span", "SpanKind", "Spans"]

_SCOPE = InstrumentationScope(SCOPE, VERSION)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status()


@dataclass(slots=True)
class Span:
    """A span in the making."""

    root: Root
    name: str
    parent_id: int | None
    attributes: dict[str, Any]
    kind: SpanKind = SpanKind.INTERNAL
    span_id: int = field(default_factory=draw_id)
    began_ns: int = field(default_factory=time.time_ns)
    events: list[Event] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    status: Status = _UNSET

    @property
    def context(self) -> SpanContext:
        """The span's ids, as OpenTelemetry has them."""
        return SpanContext(self.root.trace_id, self.span_id, is_remote=False, trace_flags=_SAMPLED)

    def link(self, span_id: int, reason: str) -> None:
        """Point to another span of the trace."""
        context = SpanContext(self.root.trace_id, span_id, is_remote=True, trace_flags=_SAMPLED)
        self.links.append(Link(context, {"ekiden.link": reason}))

    def event(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Note that something happens now."""
        self.events.append(Event(name, attributes))

    def fail(self, kind: str) -> None:
        """Mark the span as failed; ``kind`` is a word of ours or a class's name, never a text of anybody's."""
        self.attributes[ERROR] = kind
        self.status = Status(StatusCode.ERROR, kind)

    def raised(self, error: BaseException) -> None:
        """Mark the span as failed by ``error``, whose text counts as content."""
        self.fail(type(error).__qualname__)
        self.event("exception", {"exception.type": type(error).__qualname__, "exception.message": str(error)})


class Spans:
    """Where ended spans go."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource

    def write(self, span: Span, ended_ns: int | None = None) -> None:
        """Hand an ended span over."""
        parent = span.parent_id
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=span.context,
                parent=None if parent is None else SpanContext(span.root.trace_id, parent, is_remote=False),
                resource=self._resource,
                attributes=span.attributes,
                events=span.events,
                links=span.links,
                kind=span.kind,
                status=span.status,
                start_time=span.began_ns,
                end_time=max(ended_ns or time.time_ns(), span.began_ns),
                instrumentation_scope=_SCOPE,
            )
        )

    @contextmanager
    def current(self, span: Span) -> Iterator[None]:
        """Make ``span`` the parent of what other libraries trace in the block."""
        with trace.use_span(NonRecordingSpan(span.context), record_exception=False, set_status_on_exception=False):
            yield
