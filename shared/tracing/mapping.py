"""The one mapping from a job's journal to its trace, for collectors while it runs and for exports afterwards.

Every span is ended by a record, and told by whoever writes that record. What a lost worker left open, and a pause, is
ended by who goes on: the start of the next attempt, or the end of the job. So a process that reads a journal and goes
on in it tells what an export of the whole journal tells there, and nobody tells anything twice.
"""

from collections.abc import Callable, Iterator, Sequence

from ekiden.shared.ids import parent_of, session_of
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    GRAPH,
    Delegated,
    Ended,
    Entry,
    Forked,
    Guarded,
    HandedOff,
    Hooked,
    JobRequested,
    LastTurn,
    LegStarted,
    LegSuspended,
    LimitNear,
    LoopDetected,
    ModelCall,
    NodeFinished,
    Noticed,
    Nudged,
    Recalled,
    Record,
    Refused,
    Retried,
    Routed,
    RoutingStage,
    StateChanged,
    ToolFinished,
    ToolStarted,
    Unrouted,
)
from ekiden.shared.told_calls import ToldCalls
from ekiden.shared.tracing import semconv
from ekiden.shared.tracing.attempts import Attempt, Ready, used_up
from ekiden.shared.tracing.content import Content, Words
from ekiden.shared.tracing.making import Caller, delivery, ns, send, suspension
from ekiden.shared.tracing.spans import Happened, Link, Span
from ekiden.shared.tracing.trace_ids import Root, read_traceparent, root_for

__all__ = ["JobSpans", "QueueOf"]

QueueOf = Callable[[int, str], str]
"""Names the queue of a leg, by its number and its agent."""


class JobSpans:
    """Takes a job's entries in order, and gives the spans that each of them ends."""

    def __init__(self, job: str, queue_of: QueueOf, prices: Prices, content: Content | None = None) -> None:
        """``content``: also tells what was asked, said and returned."""
        self._job = job
        self._queue_of = queue_of
        self._prices = prices
        self._words = Words(content)
        self._root = root_for(job)
        parent = parent_of(job)
        self._above: Root | None = root_for(parent) if parent else None
        self._began_ms = self._last_ms = 0
        self._retries = 0
        self._is_over = False
        self._chain: list[str] = []
        self._usage = Usage()
        self._cost_usd: float | None = None
        self._forked: Forked | None = None
        """Where the job's own steps begin, if it did not begin by itself."""
        self._ready: Ready | None = None
        self._attempt: Attempt | None = None
        self._last_attempt: Span | None = None
        self._delegated: dict[str, tuple[Span, Delegated]] = {}
        self._told = ToldCalls()
        self._tools: dict[str, str] = {}
        """The names of calls that were started, also by workers that were lost."""

    @property
    def root(self) -> Root:
        """The job's root span and trace."""
        return self._root

    @property
    def holder(self) -> Span | None:
        """The span of who runs now."""
        return self._attempt.holder if self._attempt else None

    @property
    def caller(self) -> Caller | None:
        """Makes further spans below who runs now."""
        return self._attempt.caller if self._attempt else None

    def open_tool(self, call_id: str) -> Span | None:
        """Return the span of a tool that runs now."""
        return self._attempt.tools.get(call_id) if self._attempt else None

    def note(self, entry: Entry) -> list[Span]:
        """Take the next entry; return the spans that it ends, the inner ones first."""
        ended = list(self._ended_by(entry))
        self._passed(entry)
        return ended

    def skip(self, entries: Sequence[Entry]) -> None:
        """Go on behind ``entries``, whose spans somebody else tells: at a fraction of what it costs to make them."""
        moves = [at for at, entry in enumerate(entries) if isinstance(entry.record, HandedOff)]
        here = moves[-1] if moves else 0
        for entry in entries[:here]:  # of legs that are over
            self._sum_up(entry)
            self._passed(entry)
        for entry in entries[here:]:
            match entry.record:
                case ModelCall() as reply if self._attempt is not None:
                    self._used(self._attempt, reply)
                case ToolFinished(result=result) if self._attempt is not None:
                    self._answered(self._attempt, result.call_id)
                case _:
                    list(self._ended_by(entry))
            self._passed(entry)

    def _sum_up(self, entry: Entry) -> None:
        """Keep what the job's root says of a leg that is over."""
        match entry.record:
            case JobRequested() as request:
                self._begin(request, entry)
            case HandedOff(context=context):
                self._chain.append(context.to_agent)
            case ModelCall() as reply:
                self._used(None, reply)
            case Routed(stages=stages) | Unrouted(stages=stages):
                self._routed(stages)
            case Retried():
                self._retry(entry)
            case Forked() as forked:
                self._fork(forked, entry)

    def _passed(self, entry: Entry) -> None:
        self._words.note(entry.record)
        self._told.note(entry.record)
        self._last_ms = max(self._last_ms, entry.at_ms)

    def unfinished(self, now_ms: int) -> list[Span]:
        """Return what has not ended, as if it did at ``now_ms``: nothing of a job that is over."""
        if self._is_over:
            return []
        found = [span.ended(ns(now_ms)) for span, _ in self._delegated.values()]
        if self._ready is not None and self._ready.pause is not None:
            found.append(self._ready.pause.ended(ns(now_ms)))
        if (attempt := self._attempt) is not None:
            found += attempt.tools.values()
            attempt.tools = {}
            found += attempt.ended("running", ns(now_ms))
        return [*(span.ended(ns(now_ms)) for span in found), self._root_span("running", "").ended(ns(now_ms))]

    def _ended_by(self, entry: Entry) -> Iterator[Span]:
        match entry.record:
            case JobRequested() as request:
                yield from self._request(request, entry)
            case LegStarted() as started:
                yield from self._start(started, entry)
            case Retried():
                self._retry(entry)
            case Forked() as forked:
                self._fork(forked, entry)
            case HandedOff() as moved:
                yield from self._move(moved, entry)
            case LegSuspended() as paused:
                yield from self._pause(paused, entry)
            case Ended() as end:
                yield from self._end(end, entry)
            case record if self._attempt is not None:  # else noted before anybody had the leg
                yield from self._step(self._attempt, record, entry)

    def _request(self, request: JobRequested, entry: Entry) -> Iterator[Span]:
        self._begin(request, entry)
        if parent_of(self._job) is None:  # else its parent's delegation has told
            yield self._sent(0, "router", self._root.span_id, ns(entry.at_ms)).ended(ns(entry.at_ms))

    def _begin(self, request: JobRequested, entry: Entry) -> None:
        if (root := read_traceparent(request.traceparent)) is not None:
            self._root, self._above = root, read_traceparent(request.parent_traceparent)
        self._began_ms = entry.at_ms
        self._ready = Ready(entry.at_ms)

    def _retry(self, entry: Entry) -> None:
        self._retries += 1
        self._is_over = False
        self._began_ms = entry.at_ms
        self._ready = Ready(entry.at_ms)

    def _fork(self, forked: Forked, entry: Entry) -> None:
        """Begin here: what stands before is another job's, which has told of it, and paid for it."""
        self._forked, self._usage, self._cost_usd = forked, Usage(), None
        self._attempt, self._last_attempt = None, None
        self._began_ms, self._ready = entry.at_ms, Ready(entry.at_ms)

    def _routed(self, stages: Sequence[RoutingStage]) -> None:
        """Add up what a routing took; only a stage that asks a model takes anything."""
        asked = [stage for stage in stages if stage.model]
        self._usage = sum((stage.usage for stage in asked), self._usage)
        if costs := [stage.cost_usd for stage in asked if stage.cost_usd is not None]:
            self._cost_usd = sum(costs, self._cost_usd or 0.0)

    def _start(self, started: LegStarted, entry: Entry) -> Iterator[Span]:
        if (lost := self._attempt) is not None:
            yield from lost.ended("lost", ns(self._last_ms), "worker_lost")
        if self._ready is not None and self._ready.pause is not None:
            yield self._ready.pause.ended(ns(entry.at_ms))
        span = delivery(self._root, self._job, started, entry, self._queue_of(started.leg, started.agent))
        if self._last_attempt is not None:
            span.links.append(Link(self._last_attempt.span_id, "takeover" if lost else "resume"))
        if lost is not None:
            span.events.append(Happened("ekiden.takeover", ns(entry.at_ms), {semconv.ATTEMPT: started.attempt}))
        elif self._ready is not None and self._ready.at_ms is not None:
            span.attributes[semconv.QUEUE_WAIT_MS] = round(max(0.0, entry.at_ms - self._ready.at_ms))
        is_agent = started.leg > 0
        holder_id = self._root.step(entry.seq, "agent") if is_agent else span.span_id
        caller = Caller(self._root, self._job, started.agent, holder_id)
        agent = caller.invocation(entry.at_ms, span.span_id) if is_agent else None
        self._attempt, self._last_attempt, self._ready = Attempt(span, caller, agent), span, None

    def _step(self, attempt: Attempt, record: Record, entry: Entry) -> Iterator[Span]:
        match record:
            case ModelCall(model=model) if model != GRAPH:
                yield self._replied(attempt, record, entry)
            case ToolStarted(call_id=call_id):
                name = self._tools[call_id] = record.name if _may_leave(record) else semconv.OTHER
                attempt.tools[call_id] = attempt.caller.tool(call_id, name, entry)
            case ToolFinished():
                yield self._finished(attempt, record, entry)
            case NodeFinished():
                yield from self._node_finished(attempt, record, entry)
            case Delegated(call_id=call_id, child=child, agent=agent):
                self._delegated[call_id] = attempt.caller.delegation(record, entry), record
                yield self._sent(1, agent, attempt.holder.span_id, ns(self._last_ms), child).ended(ns(entry.at_ms))
            case Routed() | Unrouted():
                self._routed(record.stages)
                yield from attempt.caller.stages(record, entry, max(ns(self._last_ms), attempt.delivery.began_ns))
            case Refused():
                yield attempt.caller.refusal(record, entry, ns(self._last_ms))
            case Guarded():
                judged = attempt.caller.guarded(record, entry, ns(self._last_ms))
                judged.attributes |= self._words.of(record)
                yield judged
            case _:
                self._mention(attempt, record, entry)

    def _mention(self, attempt: Attempt, record: Record, entry: Entry) -> None:
        """Add what is no step of its own to the span of who runs."""
        match record:
            case Noticed() | Recalled() | Nudged() | LimitNear() | LoopDetected() | LastTurn() | Hooked():
                said = self._words.of(record)
                attempt.holder.events.append(Happened(f"ekiden.{record.type}", ns(entry.at_ms), said))
            case StateChanged(by=by):
                attempt.holder.events.append(
                    Happened("ekiden.state", ns(entry.at_ms), {semconv.TOOL: by} if by else {})
                )

    def _replied(self, attempt: Attempt, record: ModelCall, entry: Entry) -> Span:
        span = attempt.caller.model(record, entry, self._used(attempt, record))
        span.began_ns = max(span.began_ns, attempt.delivery.began_ns)
        span.attributes |= self._words.of(record)
        return span

    def _used(self, attempt: Attempt | None, record: ModelCall) -> float | None:
        """Add up what a model call took; return what it cost, if that is known."""
        cost_usd = record.cost_usd
        if cost_usd is None:
            cost_usd = self._prices.cost_usd(record.model, record.usage)
        if attempt is not None:
            attempt.used(record.usage, cost_usd)
        self._usage += record.usage
        if cost_usd is not None:
            self._cost_usd = (self._cost_usd or 0.0) + cost_usd
        return cost_usd

    def _answered(self, attempt: Attempt, call_id: str) -> tuple[Span | None, Delegated | None, str]:
        """Take out a call that has its answer: its span if it was begun, what was delegated, and its tool's name."""
        name, running = self._tools.pop(call_id, semconv.OTHER), attempt.tools.pop(call_id, None)
        span, delegated = self._delegated.pop(call_id, (running, None))
        return span, delegated, name

    def _finished(self, attempt: Attempt, record: ToolFinished, entry: Entry) -> Span:
        result = record.result
        begun, delegated, name = self._answered(attempt, result.call_id)
        span = begun or attempt.caller.tool(result.call_id, name, entry)
        if (
            span.attributes[semconv.TOOL] == semconv.OTHER and not result.is_error
        ):  # who has no such tool answers an error
            span.name, span.attributes[semconv.TOOL] = f"execute_tool {result.name}", result.name
        if result.is_error:
            span.fail("tool_error")
        if self._told.of(record):
            span.attributes[semconv.OUTCOME] = "told_not_run"
        span.attributes |= self._words.of(record, delegated)
        return span.ended(ns(entry.at_ms))

    def _node_finished(self, attempt: Attempt, record: NodeFinished, entry: Entry) -> Iterator[Span]:
        """Yield the span of the child job that did a node of a graph, where one did."""
        about = {semconv.NODE: record.node, semconv.GRAPH: record.graph}
        attempt.holder.events.append(Happened("ekiden.node_finished", ns(entry.at_ms), about))
        if record.call_id in self._delegated:
            span, _ = self._delegated.pop(record.call_id)
            if record.error:
                span.fail("node_failed")
            yield span.ended(ns(entry.at_ms))

    def _move(self, moved: HandedOff, entry: Entry) -> Iterator[Span]:
        context, at_ns = moved.context, ns(entry.at_ms)
        self._chain.append(context.to_agent)
        self._ready, self._last_attempt = Ready(entry.at_ms), None
        if (attempt := self._attempt) is None:  # a delegated job, which is not routed; or it was given up
            return
        parent_id = attempt.holder.span_id
        if moved.kind != "route":
            move = attempt.caller.move(moved, entry, ns(self._last_ms))
            move.attributes |= self._words.of(moved)
            parent_id = move.span_id
            yield move
        yield self._sent(moved.leg + 1, context.to_agent, parent_id, ns(self._last_ms)).ended(at_ns)
        outcome, error = "transfer", None
        if context.returned is not None:
            outcome, error = ("failed", "no_result") if context.returned.is_error else ("answer", None)
        self._attempt = None
        yield from attempt.ended(outcome, at_ns, error)

    def _pause(self, paused: LegSuspended, entry: Entry) -> Iterator[Span]:
        due_ms = None if paused.cause in ("children", "approval") else entry.at_ms + paused.delay_s * 1000
        self._ready = Ready(due_ms, suspension(self._root, self._job, paused, entry))
        if (attempt := self._attempt) is not None:
            about = {semconv.SUSPEND_CAUSE: paused.cause, semconv.PAUSE_S: paused.delay_s}
            attempt.holder.events.append(Happened("ekiden.suspended", ns(entry.at_ms), about))
            self._attempt = None
            yield from attempt.ended("suspended", ns(entry.at_ms))

    def _end(self, end: Ended, entry: Entry) -> Iterator[Span]:
        self._is_over, at_ns = True, ns(entry.at_ms)
        if (attempt := self._attempt) is not None:
            self._attempt = None
            ends_ns = ns(self._last_ms) if end.status == "dead" else at_ns
            error = {"failed": end.reason, "unfinished": end.reason, "dead": "worker_lost"}.get(end.status)
            yield from attempt.ended(_OUTCOMES[end.status], ends_ns, error)
        for span, _ in self._delegated.values():
            span.fail(end.reason)
            yield span.ended(at_ns)
        self._delegated = {}
        if self._ready is not None and self._ready.pause is not None:
            yield self._ready.pause.ended(at_ns)
        self._ready = None
        root = self._root_span(end.status, end.reason)
        if end.recovered:
            root.attributes[semconv.RECOVERED] = True
        if end.status != "done":
            root.fail("dead" if end.status == "dead" else end.reason)
        yield root.ended(at_ns)

    def _root_span(self, status: str, reason: str) -> Span:
        """Return the root; of a job that was retried, a span below it that begins with the retry."""
        name = self._chain[0] if self._chain else "ekiden"
        attributes = {
            semconv.OPERATION: "invoke_workflow",
            semconv.WORKFLOW: name,
            semconv.CONVERSATION: session_of(self._job),
            semconv.JOB: self._job,
            semconv.STATUS: status,
            semconv.REASON: reason,
            semconv.CHAIN: tuple(self._chain),
            **used_up(self._usage, self._cost_usd),
        }
        root, parent_id = self._root, self._above.span_id if self._above else None
        span = Span(root, root.span_id, parent_id, f"invoke_workflow {name}", ns(self._began_ms), attributes)
        if (forked := self._forked) is not None:
            span.attributes |= {semconv.FORKED_JOB: forked.job, semconv.FORKED_SEQ: forked.seq}
            if (origin := read_traceparent(forked.traceparent)) is not None:
                span.links.append(Link(origin.span_id, "fork", origin.trace_id))
        if self._retries:
            span.parent_id, span.span_id = root.span_id, root.derive("retry", self._retries)
            span.links.append(Link(root.span_id, "retry"))
        return span

    def _sent(self, leg: int, agent: str, parent_id: int, began_ns: int, child: str = "") -> Span:
        """Return the span of a message to ``agent``; ``child``: the delegated job that it begins."""
        root = self._root
        if child:
            root = Root(root.trace_id, root.child(child), root.sampled)
        return send(root, child or self._job, leg, self._queue_of(leg, agent), parent_id, began_ns)


_OUTCOMES = {"done": "answer", "unfinished": "unfinished", "failed": "failed", "cancelled": "cancelled", "dead": "lost"}


def _may_leave(started: ToolStarted) -> bool:
    """Tell whether a tool's name is one: what a model made up is its words."""
    return started.is_known or started.name.startswith("transfer_to_")
