"""The hook that traces: what a leg's records end goes to the collector at once.

The spans are those of ``shared.tracing``; only what no record holds is added here: what a model was asked, when its
first piece came, calls that failed, and the span that is current while a tool runs.
"""

import time
from collections.abc import Callable, Sequence
from contextvars import Token
from typing import Any

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.hooks.base import Hook, LegHook
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry, FellBack, JobRequested, LegStarted
from ekiden.shared.settings.tracing import TracingEvent
from ekiden.shared.stores.base import Claimed
from ekiden.shared.telemetry.config import agent_tracing
from ekiden.shared.telemetry.spans import Spans, make_current, take_back
from ekiden.shared.tracing import semconv
from ekiden.shared.tracing.content import Content
from ekiden.shared.tracing.making import send
from ekiden.shared.tracing.mapping import JobSpans, QueueOf
from ekiden.shared.tracing.spans import Happened, Span
from ekiden.shared.tracing.trace_ids import draw_id, read_traceparent

__all__ = ["LegTracing", "Tracing"]


class Tracing(Hook):
    """Traces the jobs that are sampled."""

    def __init__(
        self,
        spans: Spans,
        events: frozenset[TracingEvent],
        prices: Prices,
        queue_of: QueueOf,
        content: Content | None = None,
        console: Callable[[], Spans] | None = None,
    ) -> None:
        """``content`` None: nobody asked for what was said. ``console``: makes where agents' files may send them."""
        self._spans = spans
        self._make_console, self._made_console = console, list[Spans]()
        self._events = events
        self._prices = prices
        self._queue_of = queue_of
        self._content = content

    def job_submitted(self, job: str, traceparent: str, queue: str, began_ns: int) -> None:
        """See ``Hook``: the first message."""
        if (root := read_traceparent(traceparent)) and root.sampled:
            self._spans.write(send(root, job, 0, queue, root.span_id, began_ns).ended(time.time_ns()))

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook | None:
        """See ``Hook``."""
        if not _is_sampled(claimed.context.metadata.traceparent):
            return None
        return LegTracing(self._fold(claimed.lease.job), self._spans, self._events, self._content, self._console)

    def _console(self) -> Spans:
        """Return where agents are told of whose files want people to read it here: it is made for the first."""
        if not self._made_console:
            self._made_console.append(self._spans if self._make_console is None else self._make_console())
        return self._made_console[0]

    def leg_buried(self, job: str, entries: Sequence[Entry], records: Sequence[Entry]) -> None:
        """See ``Hook``."""
        self._go_on(job, entries, records)

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        """See ``Hook``: what nobody worked on when the job ended, and its root."""
        if not in_leg:
            self._go_on(job, entries, records)

    def close(self) -> None:
        """See ``Hook``."""
        self._spans.close()
        for console in self._made_console:
            console.close()

    def _go_on(self, job: str, entries: Sequence[Entry], records: Sequence[Entry]) -> None:
        first = entries[0].record if entries else None
        if not isinstance(first, JobRequested) or not _is_sampled(first.traceparent):
            return
        fold = self._fold(job)
        fold.skip(entries)
        for span in (span for entry in records for span in fold.note(entry)):
            if span.event is None or span.event in self._events:
                self._spans.write(span)

    def _fold(self, job: str) -> JobSpans:
        return JobSpans(job, self._queue_of, self._prices, self._content)


class LegTracing(LegHook):
    """Traces one attempt at a leg."""

    def __init__(
        self,
        fold: JobSpans,
        spans: Spans,
        events: frozenset[TracingEvent],
        content: Content | None = None,
        console: Callable[[], Spans] | None = None,
    ) -> None:
        self._console = console
        self._fold = fold
        self._spans = spans
        self._allowed = self._events = events
        self._content = content
        self._current: dict[str, Token[Any]] = {}
        self._call: Span | None = None
        """The model call that goes on, or whose record is to come."""

    def opened(self, entries: Sequence[Entry]) -> None:
        """See ``LegHook``: what our start has ended is told by nobody else."""
        ours = max((at for at, entry in enumerate(entries) if isinstance(entry.record, LegStarted)), default=0)
        self._fold.skip(entries[:ours])
        self.recorded(entries[ours:])

    def agent_started(self, definition: AgentDefinition, model: str, tools: Sequence[str]) -> None:
        """See ``LegHook``: the agent's file may narrow what is told of it."""
        said = definition.extra.get("tracing")
        found = agent_tracing(said, self._allowed, self._fold.root.is_below)
        self._events = found.events
        if found.is_for_console and self._console is not None:
            self._spans = self._console()
        if (holder := self._fold.holder) is not None:
            holder.attributes |= {semconv.REQUEST_MODEL: model, semconv.PROVIDER: semconv.provider_of(model)}
            if definition.version:
                holder.attributes[semconv.AGENT_VERSION] = definition.version

    def model_called(self, request: ModelRequest, *, is_stream: bool) -> None:
        """See ``LegHook``."""
        if (caller := self._fold.caller) is None:
            return
        self._call = span = caller.model_call(draw_id(), request.model, time.time_ns())
        if is_stream:
            span.attributes[semconv.STREAM] = True
        if request.temperature is not None:
            span.attributes[semconv.TEMPERATURE] = request.temperature
        if self._content:
            span.attributes |= self._content.request(request)

    def model_streamed(self, delta: Delta) -> None:
        """See ``LegHook``."""
        if (span := self._call) is None:
            return
        if delta.restart:
            span.events.append(Happened("ekiden.retry", time.time_ns(), {}))
        elif semconv.FIRST_CHUNK not in span.attributes:
            span.attributes[semconv.FIRST_CHUNK] = (time.time_ns() - span.began_ns) / 1e9

    def model_replied(self, request: ModelRequest, reply: ModelReply) -> None:
        """See ``LegHook``: the record that follows tells the rest."""
        if self._call is not None:
            self._call.ended(time.time_ns())

    def model_failed(self, request: ModelRequest, error: BaseException) -> None:
        """See ``LegHook``: no record holds such a call."""
        span, self._call = self._call, None
        if span is None:
            return
        if isinstance(error, ModelUnavailable) and error.retry_after_s is not None:
            span.attributes["ekiden.model.retry_after_s"] = error.retry_after_s
        _raised(span, error)
        self._write(span.ended(time.time_ns()))

    def tool_started(self, call: ToolCall) -> None:
        """See ``LegHook``: what other libraries trace in the tool hangs below it."""
        span = self._fold.open_tool(call.id)
        if span is not None and self._is_told(span):
            span.began_ns = time.time_ns()
            self._current[call.id] = make_current(span)

    def tool_finished(self, call: ToolCall, result: ToolResult) -> None:
        """See ``LegHook``."""
        if (token := self._current.pop(call.id, None)) is not None:
            take_back(token)

    def tool_interrupted(self, call: ToolCall, error: BaseException) -> None:
        """See ``LegHook``."""
        if (token := self._current.pop(call.id, None)) is not None:
            take_back(token)
        if (span := self._fold.open_tool(call.id)) is not None:
            _raised(span, error)

    def recorded(self, entries: Sequence[Entry]) -> None:
        """See ``LegHook``."""
        for entry in entries:
            spans = list(self._fold.note(entry))
            if isinstance(entry.record, FellBack) and self._call is None:
                continue  # it has failed, and is told of
            for span in spans:
                self._write(self._with_call(span) if span.event == "llm" else span)

    def _with_call(self, span: Span) -> Span:
        """Return the span of a model call with what its record does not hold, and by our own clock."""
        if (call := self._call) is not None:
            self._call = None
            span.began_ns, span.ended_ns, span.events = call.began_ns, call.ended_ns, call.events
            span.attributes |= call.attributes
        return span

    def _write(self, span: Span) -> None:
        if self._is_told(span):
            self._spans.write(span)

    def _is_told(self, span: Span) -> bool:
        return span.event is None or span.event in self._events


def _is_sampled(traceparent: str | None) -> bool:
    root = read_traceparent(traceparent)
    return root is not None and root.sampled


def _raised(span: Span, error: BaseException) -> None:
    """Mark a span as failed by ``error``, whose text counts as content."""
    kind = type(error).__qualname__
    span.fail(kind)
    about = {"exception.type": kind, "exception.message": str(error)}
    span.events.append(Happened("exception", time.time_ns(), about))
