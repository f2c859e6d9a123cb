"""Listens to the relay, and makes spans and metrics of what it hears."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ekiden.shared.ids import session_of
from ekiden.shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegSuspended,
    ModelReplied,
    Record,
    Retried,
    Summarised,
)
from ekiden.shared.stores.base import Claimed
from ekiden.shared.telemetry import names
from ekiden.shared.telemetry.base import LegObserver, QueueGauge, Telemetry
from ekiden.shared.telemetry.exporting import close_in_time
from ekiden.shared.telemetry.harmless import harmless
from ekiden.shared.telemetry.identity import Root, read_traceparent
from ekiden.shared.telemetry.shapes import sent, suspension
from ekiden.shared.telemetry.spans import Span
from ekiden.shared.telemetry.watching import LegRecorder, TelemetrySinks

__all__ = ["Recorder"]

_watch = harmless(LegRecorder)


class Recorder(Telemetry):
    """What is installed where there is somewhere to send spans or metrics to."""

    def __init__(self, outlets: TelemetrySinks, closing: Sequence[Callable[[], object]] = ()) -> None:
        self._to = outlets
        self._closing = closing
        self.wants_queues = outlets.meters is not None

    @harmless
    def submitted(self, job: str, traceparent: str, handoff_id: str, queue: str, began_ns: int) -> None:
        """See ``Telemetry``: the first send."""
        if (root := self._sampled(traceparent)) is None:
            return
        send = sent(root, queue, handoff_id, job, root.span_id)
        send.began_ns = began_ns
        self._write(send, time.time_ns())

    @contextmanager
    def leg(self, claimed: Claimed, queue: str) -> Iterator[LegObserver]:
        """See ``Telemetry``."""
        watch = _watch(self._to, claimed, queue)
        if watch is None:
            yield LegObserver()
            return
        error: BaseException | None = None
        try:
            yield watch
        except BaseException as raised:
            error = raised
            raise
        finally:
            watch.left(error)

    @harmless
    def ended(self, job: str, entries: Sequence[Entry], records: Sequence[Record]) -> None:
        """See ``Telemetry``: record the root, whoever ends the job."""
        first = entries[0].record if entries else None
        end = next((record for record in records if isinstance(record, Ended)), None)
        if not isinstance(first, JobRequested) or end is None:
            return  # a newer program wrote the journal
        now_ns = time.time_ns()
        retries = [entry.at_ms for entry in entries if isinstance(entry.record, Retried)]
        began_ms = retries[-1] if retries else entries[0].at_ms
        last = entries[-1]
        if self._to.meters:
            self._to.meters.job_ended(end.status, end.reason, max(0.0, now_ns / 1e9 - began_ms / 1e3))
        if (root := self._sampled(first.traceparent)) is None:
            return
        if isinstance(last.record, LegSuspended):
            self._write(suspension(root, job, last.record.leg, last.record.cause, last.at_ms), now_ns)
        span = self._root_span(job, root, entries, end, began_ms, len(retries))
        if span.parent_id is None and (above := read_traceparent(first.parent_traceparent)) is not None:
            span.parent_id = above.span_id  # a delegated job: one trace, and one real root
        self._write(span, now_ns)

    def _root_span(
        self, job: str, root: Root, entries: Sequence[Entry], end: Ended, began_ms: int, retries: int
    ) -> Span:
        """Return the root; of a job that was retried, a span below it that begins with the retry."""
        moves = [entry.record.context.to_agent for entry in entries if isinstance(entry.record, HandedOff)]
        name = moves[0] if moves else "ekiden"
        replies = [entry.record for entry in entries if isinstance(entry.record, ModelReplied | Summarised)]
        cost_usd = self._cost_usd(replies)
        attributes = {
            names.OPERATION: "invoke_workflow",
            names.WORKFLOW: name,
            names.CONVERSATION: session_of(job),
            names.JOB: job,
            names.STATUS: end.status,
            names.REASON: end.reason,
            names.CHAIN: tuple(moves),
            names.INPUT_TOKENS: sum(reply.usage.input_tokens for reply in replies),
            names.OUTPUT_TOKENS: sum(reply.usage.output_tokens for reply in replies),
            **({} if cost_usd is None else {names.COST: cost_usd}),
        }
        span = Span(root, f"invoke_workflow {name}", None, attributes, span_id=root.span_id)
        span.began_ns = began_ms * 1_000_000
        if retries:
            span.parent_id, span.span_id = root.span_id, root.derive("retry", retries)
            span.link(root.span_id, "retry")
        if end.status != "done":
            span.fail(end.reason if end.status != "dead" else "dead")
        return span

    def _cost_usd(self, replies: Iterable[ModelReplied | Summarised]) -> float | None:
        costs = [self._to.prices.cost_usd(reply.model, reply.usage) for reply in replies]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known else None

    @harmless
    def recovered(self, job: str) -> None:
        """See ``Telemetry``."""
        if self._to.meters:
            self._to.meters.count("messages.republished")

    @harmless
    def renewed_late(self, late_s: float) -> None:
        """See ``Telemetry``."""
        if self._to.meters:
            self._to.meters.renewed_late(late_s)

    @harmless
    def queues(self, gauges: Sequence[QueueGauge]) -> None:
        """See ``Telemetry``."""
        if self._to.meters:
            for gauge in gauges:
                self._to.meters.queue(gauge.agent, gauge.depth, gauge.age_s)

    @harmless
    def suspended(self, jobs: Mapping[str, int]) -> None:
        """See ``Telemetry``."""
        if self._to.meters:
            for cause, count in jobs.items():
                self._to.meters.suspended(cause, count)

    def close(self) -> None:
        """See ``Telemetry``."""
        close_in_time(self._closing)

    def _sampled(self, traceparent: str | None) -> Root | None:
        root = read_traceparent(traceparent)
        return root if root and root.sampled and self._to.spans else None

    def _write(self, span: Span, ended_ns: int) -> None:
        if self._to.spans is not None:
            self._to.spans.write(span, ended_ns)
