"""One attempt at a leg, as spans and metrics."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.transfer_names import delegation_tool_name
from ekiden.shared.ids import session_of
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.messages import ToolResult
from ekiden.shared.outcomes import Failed, Outcome, Suspended, Transfer
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    Delegated,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
    Refused,
    Retried,
    Routed,
    RoutingStage,
    Summarised,
    ToolFinished,
    Unrouted,
)
from ekiden.shared.settings import TracingEvent
from ekiden.shared.stores.base import Claimed, CommitVerdict, claims_in
from ekiden.shared.stores.submissions import ChildSubmission
from ekiden.shared.telemetry import names
from ekiden.shared.telemetry.base import LegObserver, RunsTools
from ekiden.shared.telemetry.calls import TracedModel, TracedToolRunner
from ekiden.shared.telemetry.config import events_of
from ekiden.shared.telemetry.content import Content
from ekiden.shared.telemetry.harmless import harmless
from ekiden.shared.telemetry.identity import Root, read_traceparent
from ekiden.shared.telemetry.metrics import Meters
from ekiden.shared.telemetry.shapes import agent_call, begun, messaging, sent, suspension
from ekiden.shared.telemetry.spans import Span, SpanKind, Spans

__all__ = ["LegRecorder", "TelemetrySinks"]

_READY = (JobRequested, HandedOff, LegSuspended, Retried)
"""After these a leg waits for a worker; after any other record its worker has died."""


@dataclass(frozen=True)
class TelemetrySinks:
    """Where what is seen goes to."""

    events: frozenset[TracingEvent]
    prices: Prices
    spans: Spans | None = None
    meters: Meters | None = None
    content: Content | None = None
    """None: nobody asked for what was said."""


class LegRecorder(LegObserver):
    """Tells of one leg.

    Two spans hold what the others say: the delivery, a child of the job's root wherever and how often the leg is
    delivered, and in it the agent. So a trace is five levels deep, whatever the number of hops.
    """

    def __init__(self, outlets: TelemetrySinks, claimed: Claimed, queue: str) -> None:
        context = claimed.context
        self._to = outlets
        self._claimed = claimed
        self._job, self._leg = claimed.lease.job, claimed.lease.leg
        self._agent = context.to_agent
        self._session = session_of(self._job)
        self._events = outlets.events
        self._tools: frozenset[str] = frozenset()
        self._delegated: dict[str, tuple[Delegated, int]] = {}
        self._input_tokens = self._output_tokens = 0
        self._cost_usd: float | None = None
        root = read_traceparent(context.metadata.traceparent)
        self._root: Root | None = root if root and root.sampled and outlets.spans else None
        self._delivery: Span | None = None
        self._holder: Span | None = None
        if self._root is not None:
            self._delivery = self._delivered(self._root, queue)
            self._holder = self._delivery if self._leg == 0 else self._invoked(self._root, self._delivery)
        self._stepped_ns = time.time_ns()
        if outlets.meters:
            outlets.meters.leg_begun(self._agent)

    def _delivered(self, root: Root, queue: str) -> Span:
        fence = self._claimed.lease.fence
        handoff_id = self._claimed.context.metadata.handoff_id
        attributes = {
            **messaging("process", queue, handoff_id, self._job),
            names.CONVERSATION: self._session,
            names.LEG: self._leg,
            names.ATTEMPT: self._claimed.attempt,
        }
        span = Span(
            root, f"process {queue}", root.span_id, attributes, SpanKind.CONSUMER, root.process(claims_in(fence))
        )
        span.link(root.send(handoff_id), "send")
        return span

    def _invoked(self, root: Root, delivery: Span) -> Span:
        attributes = {
            names.OPERATION: "invoke_agent",
            names.AGENT: self._agent,
            names.CONVERSATION: self._session,
        }
        return Span(root, f"invoke_agent {self._agent}", delivery.span_id, attributes)

    @harmless
    def opened(self, entries: Sequence[Entry]) -> None:
        """See ``LegObserver``: the journal tells how the leg came here, by the server's clock."""
        ours = next((i for i in range(len(entries) - 1, 0, -1) if isinstance(entries[i].record, LegStarted)), None)
        if ours is None:
            return
        start, before = entries[ours], entries[ours - 1]
        self._delegated = _open_delegations(entries, self._leg)
        paused = before.record if isinstance(before.record, LegSuspended) else None
        if isinstance(before.record, _READY):
            if paused is None or paused.cause != "children":  # whose ends, which wake the leg, are in other journals
                self._waited(start.at_ms - before.at_ms - (paused.delay_s * 1000 if paused else 0))
        else:
            self._took_over(before.record)
        if paused is not None:
            self._resumed(paused.cause, before.at_ms, start.at_ms)

    def _waited(self, wait_ms: float) -> None:
        if self._delivery is not None:
            self._delivery.attributes[names.QUEUE_WAIT_MS] = round(max(0.0, wait_ms))
        if self._to.meters:
            self._to.meters.waited(self._agent, max(0.0, wait_ms) / 1000)

    def _took_over(self, last: Record) -> None:
        """The attempt before this one left a record and no outcome: its worker is gone."""
        if self._delivery is not None and self._root is not None:
            self._delivery.link(self._root.process(claims_in(self._claimed.lease.fence) - 1), "takeover")
            self._delivery.event(
                "ekiden.takeover", {names.ATTEMPT: self._claimed.attempt, "ekiden.last_record": last.type}
            )
        if self._to.meters:
            self._to.meters.count("recoveries", agent=self._agent)

    def _resumed(self, cause: str, from_ms: int, to_ms: int) -> None:
        if self._root is not None and self._delivery is not None and self._to.spans is not None:
            self._delivery.link(self._root.process(claims_in(self._claimed.lease.fence) - 1), "resume")
            span = suspension(self._root, self._job, self._leg, cause, from_ms)
            self._to.spans.write(span, to_ms * 1_000_000)

    @harmless
    def equipped(self, definition: AgentDefinition, model_name: str) -> None:
        """See ``LegObserver``: the agent's file may narrow what is told of it."""
        self._events = events_of(definition.extra.get("tracing"), self._to.events)
        if self._holder is not None:
            self._holder.attributes |= {names.REQUEST_MODEL: model_name, names.PROVIDER: names.provider_of(model_name)}
            if definition.version:
                self._holder.attributes[names.AGENT_VERSION] = definition.version

    def model(self, model: ChatModel) -> ChatModel:
        """See ``LegObserver``."""
        return TracedModel(model, self, self._to.meters, self._to.content)

    def tool_runner(self, tool_runner: RunsTools, tools: Sequence[str]) -> RunsTools:
        """See ``LegObserver``."""
        self._tools = frozenset(tools)
        return (
            TracedToolRunner(tool_runner, self, self._to.spans, self._to.content)
            if self._wants("tool")
            else tool_runner
        )

    @harmless
    def recorded(self, records: Sequence[Record]) -> None:
        """See ``LegObserver``."""
        for record in records:
            match record:
                case ModelReplied() | Summarised():
                    self._replied(record)
                case ToolFinished():
                    self._finished(record)
                case Refused():
                    self._refused(record)
                case Routed() | Unrouted():
                    self._routed(record)
        self._stepped_ns = time.time_ns()

    def _replied(self, record: ModelReplied | Summarised) -> None:
        cost_usd = self._to.prices.cost_usd(record.model, record.usage)
        self._input_tokens += record.usage.input_tokens
        self._output_tokens += record.usage.output_tokens
        if cost_usd is not None:
            self._cost_usd = (self._cost_usd or 0.0) + cost_usd
        if self._to.meters:
            if isinstance(record, ModelReplied):
                self._to.meters.count("turns", agent=self._agent)
            self._to.meters.tokens_used(self._agent, record.model, record.usage, cost_usd)

    def _finished(self, record: ToolFinished) -> None:
        """Count a call. What was delegated ran elsewhere: its span is written here, where its result is."""
        result, delegated = record.result, self._delegated.pop(record.result.call_id, None)
        name = self.tool_name(result.name) if delegated is None else delegation_tool_name(delegated[0].agent)
        if self._to.meters:
            self._to.meters.tool_called(self._agent, name, "error" if result.is_error else "success")
        if delegated is not None:
            self._delegation_ended(name, *delegated, result)

    def _delegation_ended(self, tool: str, delegated: Delegated, began_ms: int, result: ToolResult) -> None:
        attributes = {**agent_call(tool, delegated.call_id), names.CHILD: delegated.child}
        if self._to.content:
            attributes |= self._to.content.delegation(delegated) | self._to.content.result(result)
        if (span := self.begin("tool", f"execute_tool {tool}", attributes)) is not None:
            span.began_ns = began_ms * 1_000_000
            span.link(span.root.child(delegated.child), "child")
            if result.is_error:
                span.fail("tool_error")
            self.write(span)

    def _routed(self, record: Routed | Unrouted) -> None:
        named = record.stages  # of what the user named there is no stage
        if isinstance(record, Routed) and not record.stages:
            named = (RoutingStage(stage=record.stage, agent=record.agent, confidence=record.confidence, decided=True),)
        if self._to.meters:
            self._to.meters.count("routes", stage=record.stage if isinstance(record, Routed) else "none")
        began_ns = self._stepped_ns
        for stage in named:
            attributes = {
                names.ROUTE_STAGE: stage.stage,
                names.ROUTE_SCORE: stage.score,
                names.ROUTE_CONFIDENCE: stage.confidence,
                names.ROUTE_DECIDED: stage.decided,
                **({names.TARGET: stage.agent} if stage.agent else {}),
                **({names.REQUEST_MODEL: stage.model} if stage.model else {}),
            }
            if (span := self.begin("route", f"route {stage.stage}", attributes)) is not None:
                span.began_ns = began_ns
                began_ns += round(stage.duration_ms * 1_000_000)
                self.write(span, began_ns if record.stages else None)

    def _refused(self, record: Refused) -> None:
        if self._to.meters:
            self._to.meters.count("handoffs.refused", agent=self._agent, code=record.code)
        tool = names.OTHER if record.code == "UNKNOWN_AGENT" else record.name
        attributes = {**agent_call(tool, record.call_id), names.CODE: record.code}
        if (span := self.begin("handoff", f"execute_tool {tool}", attributes)) is not None:
            span.began_ns = self._stepped_ns
            span.fail(record.code)
            self.write(span)

    @harmless
    def transferred(self, transfer: Transfer, queue: str) -> None:
        """See ``LegObserver``: the send is a child of the transfer's call."""
        context = transfer.context
        target, handoff_id = context.to_agent, context.metadata.handoff_id
        if self._leg and context.returned is None and self._to.meters:
            self._to.meters.count("handoffs", source=self._agent, target=target)
        if self._root is None or self._holder is None:
            return
        parent, now_ns = self._holder.span_id, time.time_ns()
        if transfer.call_id is not None:
            attributes = {
                **agent_call(transfer.tool_name, transfer.call_id),
                names.TRANSFER_MODE: "pass_control",
                names.TARGET: target,
                names.HANDOFF_ID: handoff_id,
                names.DEPTH: context.metadata.chain_depth,
            }
            if self._to.content:
                attributes |= self._to.content.handoff(context)
            if (span := self.begin("handoff", f"execute_tool {transfer.tool_name} {target}", attributes)) is not None:
                span.began_ns = self._stepped_ns
                parent = span.span_id
                self.write(span, now_ns)
        send = sent(self._root, queue, handoff_id, self._job, parent)
        send.began_ns = self._stepped_ns
        self.write(send, now_ns)

    @harmless
    def delegated(self, children: Sequence[ChildSubmission]) -> None:
        """See ``LegObserver``: each is a job of its own in this trace; its call's span comes with its result."""
        if self._holder is None:
            return
        for submission in children:
            if (send := begun(submission, self._holder.span_id)) is not None:
                send.began_ns = self._stepped_ns
                self.write(send)

    @harmless
    def committed(self, outcome: Outcome, verdict: CommitVerdict) -> None:
        """See ``LegObserver``."""
        if self._delivery is not None:
            self._delivery.attributes[names.OUTCOME] = type(outcome).__name__.lower() if verdict == "ok" else verdict
        if verdict != "ok":
            return
        if isinstance(outcome, Suspended):
            self._suspended(outcome)
        elif isinstance(outcome, Failed) and self._holder is not None:
            self._holder.fail(outcome.reason)

    def _suspended(self, outcome: Suspended) -> None:
        if self._holder is not None:
            about = {names.SUSPEND_CAUSE: outcome.cause, names.SUSPEND_S: outcome.delay_s}
            self._holder.event("ekiden.suspended", about)
        if self._to.meters:
            self._to.meters.count("legs.suspended", cause=outcome.cause)
            if outcome.cause == "retry" and outcome.delay_s > 0:
                self._to.meters.model_waited(self._agent, outcome.delay_s)

    @harmless
    def left(self, error: BaseException | None) -> None:
        """The leg does not run here any more: end its spans."""
        if self._to.meters:
            self._to.meters.leg_left(self._agent)
        if self._delivery is None or self._holder is None:
            return
        if names.OUTCOME not in self._delivery.attributes:  # else it is an interruption that gave the leg back
            self._delivery.attributes[names.OUTCOME] = "interrupted" if error else "lost"
            if error is not None:
                self._holder.raised(error)
        if self._holder is not self._delivery:
            self._holder.attributes |= {
                names.INPUT_TOKENS: self._input_tokens,
                names.OUTPUT_TOKENS: self._output_tokens,
            }
            if self._cost_usd is not None:
                self._holder.attributes[names.COST] = self._cost_usd
            self.write(self._holder)
        self.write(self._delivery)

    @harmless
    def begin(
        self, event: TracingEvent, name: str, attributes: dict[str, Any], kind: SpanKind = SpanKind.INTERNAL
    ) -> Span | None:
        """Begin a span below the agent's; None: nobody wants it."""
        if self._root is None or self._holder is None or not self._wants(event):
            return None
        attributes |= {names.CONVERSATION: self._session, names.AGENT: self._agent}
        return Span(self._root, name, self._holder.span_id, attributes, kind)

    @harmless
    def write(self, span: Span, ended_ns: int | None = None) -> None:
        """Hand over a span that has ended, or ends now."""
        if self._to.spans is not None:
            self._to.spans.write(span, ended_ns)

    def tool_name(self, name: str) -> str:
        """Return a tool's name; what a model made up is no name but its words."""
        return name if name in self._tools or name.startswith("transfer_to_") else names.OTHER

    @property
    def agent(self) -> str:
        """Who runs."""
        return self._agent

    def _wants(self, event: TracingEvent) -> bool:
        return event in self._events


def _open_delegations(entries: Sequence[Entry], leg: int) -> dict[str, tuple[Delegated, int]]:
    """Return the delegations of a leg whose results are still to come, by call id, and when they were begun."""
    found: dict[str, tuple[Delegated, int]] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Delegated) and record.leg == leg:
            found[record.call_id] = (record, entry.at_ms)
        elif found and isinstance(record, ToolFinished):
            found.pop(record.result.call_id, None)
    return found
