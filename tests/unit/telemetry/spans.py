"""Spans for tests of how they leave."""

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from ekiden.shared.tracing.spans import Kind, Span
from ekiden.shared.tracing.trace_ids import Root, draw_id


class Kept(SpanProcessor):
    """Keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def span(root: Root, name: str, parent_id: int | None, attributes: dict[str, Any], kind: Kind = Kind.INTERNAL) -> Span:
    """A span that has ended."""
    return Span(root, draw_id(), parent_id, name, 1, attributes, kind=kind).ended(2)
