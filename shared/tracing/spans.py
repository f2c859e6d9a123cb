"""A span as the mapping makes it: whoever sends it translates it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from ekiden.shared.settings.tracing import TracingEvent
from ekiden.shared.tracing import semconv
from ekiden.shared.tracing.trace_ids import Root

__all__ = ["Happened", "Kind", "Link", "Span"]


class Kind(IntEnum):
    """Which part a span has in a call; the numbers are OTLP's."""

    INTERNAL = 1
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class Happened(NamedTuple):
    """Something at one moment of a span."""

    name: str
    at_ns: int
    attributes: Mapping[str, Any]


class Link(NamedTuple):
    """Points to another span."""

    span_id: int
    reason: str
    trace_id: int | None = None
    """None: of the same trace."""


@dataclass(slots=True)
class Span:
    """A span. ``event``: what an agent's ``tracing.events`` may leave out; None: it is always told. Times in ns."""

    root: Root
    span_id: int
    parent_id: int | None
    name: str
    began_ns: int
    attributes: dict[str, Any]
    event: TracingEvent | None = None
    kind: Kind = Kind.INTERNAL
    ended_ns: int = 0
    events: list[Happened] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """What went wrong, if anything did: a word of ours or a class's name, never a text of anybody's."""
        return self.attributes.get(semconv.ERROR)

    def fail(self, kind: str) -> None:
        """Mark the span as failed."""
        self.attributes[semconv.ERROR] = kind

    def ended(self, at_ns: int) -> "Span":
        """End the span, not before it has begun."""
        self.ended_ns = max(at_ns, self.began_ns)
        return self
